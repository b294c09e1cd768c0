// Every hook in AssemblyScript: restore-gated, until-retired, greedy, lfu.
import { ADMIT_FLAG_READY, AdmitKind, openAdmit, openGate, openReserve, openScore, Poll, Reason, RestoreStatus, Status, Verdict } from "../../../assemblyscript";

export { sluice_abi_1, sluice_arena, sluice_configure } from "../../../assemblyscript";

export function sluice_gate_v1(batch: usize): i32 {
  const b = openGate(batch);
  if (b == null) return Status.BAD_BATCH;
  for (let i: u32 = 0; i < b.length; i++) {
    const r = b.at(i);
    const vote = r.rawPoll;
    if (vote == Poll.SUCCESS && r.restore == RestoreStatus.FAILED) {
      b.fail(i, Reason.RESTORE_FAILED);
    } else if (vote == Poll.SUCCESS && r.restore == RestoreStatus.PENDING) {
      b.setVote(i, Poll.TRANSFERRING);
    } else {
      b.setVote(i, vote);
    }
  }
  return Status.OK;
}

export function sluice_reserve_v1(batch: usize): i32 {
  const b = openReserve(batch);
  if (b == null) return Status.BAD_BATCH;
  let held: u64 = 0;
  for (let i: u32 = 0; i < b.length; i++) {
    const r = b.at(i);
    if (r.setAside == 0) held += r.restoreTokens;
  }
  b.hold(held);
  return Status.OK;
}

export function sluice_admit_v1(batch: usize): i32 {
  const b = openAdmit(batch);
  if (b == null) return Status.BAD_BATCH;
  for (let i: u32 = 0; i < b.candidates; i++) {
    const r = b.at(i);
    const ready = r.kind == AdmitKind.RESUME || (r.flags & ADMIT_FLAG_READY) != 0;
    b.set(i, ready ? Verdict.ADMIT : Verdict.DEFER, i);
  }
  return Status.OK;
}

export function sluice_score_v1(batch: usize): i32 {
  const b = openScore(batch);
  if (b == null) return Status.BAD_BATCH;
  for (let i: u32 = 0; i < b.length; i++) {
    const r = b.at(i);
    const hits = min<u64>(r.hits, (1 << 23) - 1);
    b.set(i, <i64>((hits << 40) | min<u64>(r.lastUse, (<u64>1 << 40) - 1)));
  }
  return Status.OK;
}
