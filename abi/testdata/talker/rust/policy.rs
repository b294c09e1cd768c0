//! A gate that talks, in Rust: restore-gated, with a log, counters and state.
#![no_std]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sluice::{counters, log, GateBatch, LogLevel, Poll, Reason, RestoreStatus, Status};

sluice::policy!(log, counters, state(16, save, load); gate = gate);

const RECORDS: u32 = 0;
const READY: u32 = 1;

/// Records, the state.
static SEEN: AtomicU64 = AtomicU64::new(0);

fn gate(b: &GateBatch) -> Status {
    let mut ready = 0;
    for i in 0..b.len() {
        let r = b.at(i);
        match (r.raw_poll(), r.restore()) {
            (Poll::SUCCESS, RestoreStatus::PENDING) => b.set_vote(i, Poll::TRANSFERRING),
            (Poll::SUCCESS, RestoreStatus::FAILED) => b.fail(i, Reason::RESTORE_FAILED),
            (poll, _) => {
                ready += (poll == Poll::SUCCESS) as u64;
                b.set_vote(i, poll)
            }
        }
    }
    let seen = SEEN.load(Relaxed) + b.len() as u64;
    SEEN.store(seen, Relaxed);
    counters::add(RECORDS, b.len() as u64);
    counters::add(READY, ready);
    if !b.is_empty() {
        say(b.len(), ready, seen);
    }
    Status::OK
}

fn say(n: u32, ready: u64, seen: u64) {
    log::line(LogLevel(n as u8 % 4)).text("gate of ").uint(n as u64).text(" records, ready against all: ").int(ready as i64 - n as i64).end();
    if n >= 8 {
        let long = "a long line is cut at the end of its entry, wherever that is; what lies before it stays as it is. Records up to now: ";
        log::line(LogLevel::DEBUG).text(long).uint(seen).text("\u{e9}\u{e9}").end();
    }
}

fn save(dst: &mut [u8]) -> Option<usize> {
    dst.get_mut(..8)?.copy_from_slice(&SEEN.load(Relaxed).to_le_bytes());
    Some(8)
}

fn load(src: &[u8], schema: u32) -> Status {
    let seen = match (schema, src.len()) {
        (1, 8) | (2, 16) => src.first_chunk::<8>(),
        _ => None,
    };
    let Some(seen) = seen else {
        log::warn("this state is of no use here");
        return Status::DECLINED;
    };
    SEEN.store(u64::from_le_bytes(*seen), Relaxed);
    log::info("state taken over, \u{20ac} and \u{1f30a} whole");
    Status::OK
}
