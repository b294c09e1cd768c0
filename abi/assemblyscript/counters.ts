// The policy's counters: COUNTERS numbers that only rise, which the host reads after each call and shows as metrics. What each
// counts is the policy's own; give the numbers names by constants.

import { Arena, COUNTERS } from "./layout";

// Made on first use, so that a policy without counters has none.
@lazy
const countersAt: usize = memory.data(512, 16);

/** Bytes of the COUNTERS arena. */
export const COUNTERS_BYTES: u32 = COUNTERS * 8;

/** The address of the COUNTERS arena; 0 for another kind, or more bytes than it has. */
export function countersArena(kind: u32, bytes: u32): usize {
  return kind == Arena.COUNTERS && bytes <= COUNTERS_BYTES ? countersAt : 0;
}

/** Raises counter i by n. It wraps after 2^64; an i that is not below COUNTERS traps. */
export function count(i: u32, n: u64): void {
  if (i >= COUNTERS) unreachable();
  const at = countersAt + i * 8;
  store<u64>(at, load<u64>(at) + n);
}
