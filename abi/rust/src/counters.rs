//! The policy's counters: COUNTERS numbers that only rise, which the host reads after each call and shows as metrics. What each
//! counts is the policy's own; give the numbers names by constants.

use crate::COUNTERS;

/// Kind of the arena; used by policy.
#[doc(hidden)]
pub const KIND: u32 = crate::Arena::COUNTERS.0 as u32;

const BYTES: usize = COUNTERS as usize * 8;

crate::area!(BYTES);

/// The address of the arena, null for more bytes than it has; used by policy.
#[doc(hidden)]
pub fn arena(bytes: u32) -> *mut u8 {
    if bytes as usize <= BYTES { place() } else { core::ptr::null_mut() }
}

fn at(i: u32) -> *mut u64 {
    assert!(i < COUNTERS, "counter out of range");
    place().wrapping_add(i as usize * 8) as *mut u64
}

/// Raises counter i, below COUNTERS, by n. It wraps after 2^64.
pub fn add(i: u32, n: u64) {
    let (p, x) = (at(i), get(i));
    // SAFETY: the counter lies within the arena, which is this thread's and is aligned.
    unsafe { p.write(x.wrapping_add(n).to_le()) }
}

/// Reads counter i, below COUNTERS.
pub fn get(i: u32) -> u64 {
    // SAFETY: as above.
    u64::from_le(unsafe { at(i).read() })
}
