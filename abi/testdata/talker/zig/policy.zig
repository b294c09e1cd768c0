//! A gate that talks, in Zig: restore-gated, with a log, counters and state.
const std = @import("std");
const sluice = @import("sluice");

comptime {
    sluice.policy(.{ .gate = gate, .log = true, .counters = true, .state = .{ .bytes = 16, .save = save, .load = load } });
}

const records = 0;
const ready_votes = 1;

/// Records, the state.
var seen: u64 = 0;

fn gate(b: sluice.GateBatch) sluice.Status {
    var ready: u64 = 0;
    for (0..b.len()) |i| {
        const r = b.at(i);
        const vote = r.rawPoll();
        if (vote == .success and r.restore() == .failed) {
            b.fail(i, .restore_failed);
        } else if (vote == .success and r.restore() == .pending) {
            b.setVote(i, .transferring);
        } else {
            if (vote == .success) ready += 1;
            b.setVote(i, vote);
        }
    }
    seen += b.len();
    sluice.counter.add(records, b.len());
    sluice.counter.add(ready_votes, ready);
    if (b.len() > 0) say(b.len(), ready);
    return .ok;
}

fn say(n: u64, ready: u64) void {
    sluice.log.line(@enumFromInt(n % 4)).text("gate of ").uint(n).text(" records, ready against all: ")
        .int(@as(i64, @intCast(ready)) - @as(i64, @intCast(n))).end();
    if (n < 8) return;
    sluice.log.line(.debug).text("a long line is cut at the end of its entry, wherever that is; what lies before it stays as it is. Records up to now: ")
        .uint(seen).text("\u{e9}\u{e9}").end();
}

fn save(dst: []u8) ?usize {
    if (dst.len < 8) return null;
    std.mem.writeInt(u64, dst[0..8], seen, .little);
    return 8;
}

fn load(src: []const u8, schema: u32) sluice.Status {
    if (!(schema == 1 and src.len == 8) and !(schema == 2 and src.len == 16)) {
        sluice.log.warn("this state is of no use here");
        return .declined;
    }
    seen = std.mem.readInt(u64, src[0..8], .little);
    sluice.log.info("state taken over, \u{20ac} and \u{1f30a} whole");
    return .ok;
}
