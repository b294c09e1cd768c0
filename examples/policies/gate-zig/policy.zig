//! The gate restore-gated in Zig: a finished transfer counts as ready only once this rank's restore is. A pending restore
//! holds it back, a failed one fails it.
const sluice = @import("sluice");

comptime {
    sluice.policy(.{ .gate = restoreGated });
}

fn restoreGated(b: sluice.GateBatch) sluice.Status {
    for (0..b.len()) |i| {
        const r = b.at(i);
        const vote = r.rawPoll();
        if (vote == .success and r.restore() == .failed) {
            b.fail(i, .restore_failed);
        } else if (vote == .success and r.restore() == .pending) {
            b.setVote(i, .transferring);
        } else {
            b.setVote(i, vote);
        }
    }
    return .ok;
}
