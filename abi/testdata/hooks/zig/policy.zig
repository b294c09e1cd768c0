//! Every hook in Zig: restore-gated, until-retired, greedy, lfu.
const sluice = @import("sluice");

comptime {
    sluice.policy(.{ .gate = gate, .reserve = reserve, .admit = admit, .score = score });
}

fn gate(b: sluice.GateBatch) sluice.Status {
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

fn reserve(b: sluice.ReserveBatch) sluice.Status {
    var held: u64 = 0;
    for (0..b.len()) |i| {
        const r = b.at(i);
        if (r.setAside() == 0) held += r.restoreTokens();
    }
    b.hold(held);
    return .ok;
}

fn admit(b: sluice.AdmitBatch) sluice.Status {
    for (0..b.candidates()) |i| {
        const r = b.at(i);
        const ready = r.kind() == .@"resume" or r.flags() & sluice.admit_flag_ready != 0;
        b.set(i, if (ready) .admit else .@"defer", @intCast(i));
    }
    return .ok;
}

fn score(b: sluice.ScoreBatch) sluice.Status {
    for (0..b.len()) |i| {
        const r = b.at(i);
        const hits: u64 = @min(r.hits(), (1 << 23) - 1);
        b.set(i, @intCast(hits << 40 | @min(r.lastUse(), (1 << 40) - 1)));
    }
    return .ok;
}
