// The policy's state, handed to a successor. The policy owns the bytes, memory.data(BYTES, 16), and exports two functions:
//
//     const state: usize = memory.data(16, 16);
//
//     export function sluice_state_save(limit: u32): u64 {
//       store<u64>(state, seen);
//       return saved(8, limit);
//     }
//
//     export function sluice_state_load(bytes: u32, schema: u32): i32 {
//       if (schema != 1 || bytes != 8) return Status.DECLINED;
//       seen = load<u64>(state);
//       return Status.OK;
//     }
//
// save changes nothing of the policy, and neither does a load that declines. The layout of the bytes is the schema, a number
// that the module's manifest names.

import { Arena, Status } from "./layout";

/** The address of the STATE arena of size bytes at the address; 0 for another kind, or more bytes than it has. */
export function stateArena(kind: u32, bytes: u32, at: usize, size: u32): usize {
  return kind == Arena.STATE && bytes <= size ? at : 0;
}

/** What sluice_state_save returns of that many bytes, which the policy has written: it is refused where the host takes fewer. */
export function saved(bytes: u32, limit: u32): u64 {
  return bytes <= limit ? <u64>bytes : (<u64>(<u32>Status.NO_CAPACITY)) << 32;
}
