// The gate restore-gated in AssemblyScript: a finished transfer counts as ready only once this rank's restore is. A pending
// restore holds it back, a failed one fails it.
import { openGate, Poll, Reason, RestoreStatus, Status } from "../../../abi/assemblyscript";

export { sluice_abi_1, sluice_arena, sluice_configure } from "../../../abi/assemblyscript";

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
