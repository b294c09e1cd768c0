//! Every hook in Rust: restore-gated, until-retired, greedy, lfu.
#![no_std]

use sluice::{AdmitBatch, AdmitKind, GateBatch, Poll, Reason, ReserveBatch, RestoreStatus, ScoreBatch, Status, Verdict, ADMIT_FLAG_READY};

sluice::policy!(gate = gate, reserve = reserve, admit = admit, score = score);

fn gate(b: &GateBatch) -> Status {
    for i in 0..b.len() {
        let r = b.at(i);
        match (r.raw_poll(), r.restore()) {
            (Poll::SUCCESS, RestoreStatus::PENDING) => b.set_vote(i, Poll::TRANSFERRING),
            (Poll::SUCCESS, RestoreStatus::FAILED) => b.fail(i, Reason::RESTORE_FAILED),
            (poll, _) => b.set_vote(i, poll),
        }
    }
    Status::OK
}

fn reserve(b: &ReserveBatch) -> Status {
    b.hold((0..b.len()).map(|i| b.at(i)).filter(|r| r.set_aside() == 0).map(|r| r.restore_tokens() as u64).sum());
    Status::OK
}

fn admit(b: &AdmitBatch) -> Status {
    for i in 0..b.candidates() {
        let r = b.at(i);
        let ready = r.kind() == AdmitKind::RESUME || r.flags() & ADMIT_FLAG_READY != 0;
        b.set(i, if ready { Verdict::ADMIT } else { Verdict::DEFER }, i);
    }
    Status::OK
}

fn score(b: &ScoreBatch) -> Status {
    for i in 0..b.len() {
        let r = b.at(i);
        let hits = (r.hits() as i64).min((1 << 23) - 1);
        b.set(i, hits << 40 | r.last_use().min((1 << 40) - 1) as i64);
    }
    Status::OK
}
