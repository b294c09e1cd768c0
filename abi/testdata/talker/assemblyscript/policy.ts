// A gate that talks, in AssemblyScript: restore-gated, with a log, counters and state.
import {
  arena, count, countersArena, log, logArena, LogLevel, logLine, openGate, Poll, Reason, RestoreStatus, saved, stateArena, Status,
} from "../../../assemblyscript";

export { sluice_abi_1, sluice_configure } from "../../../assemblyscript";

const RECORDS: u32 = 0;
const READY: u32 = 1;

const state: usize = memory.data(16, 16);
let seen: u64 = 0; // records, the state

export function sluice_arena(kind: u32, bytes: u32): usize {
  return arena(kind, bytes) | logArena(kind, bytes) | countersArena(kind, bytes) | stateArena(kind, bytes, state, 16);
}

export function sluice_gate_v1(batch: usize): i32 {
  const b = openGate(batch);
  if (b == null) return Status.BAD_BATCH;
  let ready: u64 = 0;
  for (let i: u32 = 0; i < b.length; i++) {
    const r = b.at(i);
    const vote = r.rawPoll;
    if (vote == Poll.SUCCESS && r.restore == RestoreStatus.FAILED) {
      b.fail(i, Reason.RESTORE_FAILED);
    } else if (vote == Poll.SUCCESS && r.restore == RestoreStatus.PENDING) {
      b.setVote(i, Poll.TRANSFERRING);
    } else {
      if (vote == Poll.SUCCESS) ready++;
      b.setVote(i, vote);
    }
  }
  seen += b.length;
  count(RECORDS, b.length);
  count(READY, ready);
  if (b.length > 0) say(b.length, ready);
  return Status.OK;
}

function say(n: u32, ready: u64): void {
  logLine(<u8>(n % 4)).text("gate of ").uint(n).text(" records, ready against all: ").int(<i64>ready - <i64>n).end();
  if (n < 8) return;
  logLine(LogLevel.DEBUG)
    .text("a long line is cut at the end of its entry, wherever that is; what lies before it stays as it is. Records up to now: ")
    .uint(seen).text("\u00e9\u00e9").end();
}

export function sluice_state_save(limit: u32): u64 {
  store<u64>(state, seen);
  return saved(8, limit);
}

export function sluice_state_load(bytes: u32, schema: u32): i32 {
  if (!(schema == 1 && bytes == 8) && !(schema == 2 && bytes == 16)) {
    log(LogLevel.WARN, "this state is of no use here");
    return Status.DECLINED;
  }
  seen = load<u64>(state);
  log(LogLevel.INFO, "state taken over, \u20ac and \u{1f30a} whole");
  return Status.OK;
}
