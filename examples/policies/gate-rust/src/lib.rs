//! The gate restore-gated in Rust: a finished transfer counts as ready only once this rank's restore is. A pending restore
//! holds it back, a failed one fails it.
#![no_std]

use sluice::{GateBatch, Poll, Reason, RestoreStatus, Status};

sluice::policy!(gate = restore_gated);

fn restore_gated(b: &GateBatch) -> Status {
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
