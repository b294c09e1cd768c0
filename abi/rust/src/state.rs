//! The policy's state, handed to a successor: `policy!(state(bytes, save, load); ...)`.
//!
//! ```ignore
//! fn save(dst: &mut [u8]) -> Option<usize> {
//!     dst.get_mut(..8)?.copy_from_slice(&SEEN.load(Relaxed).to_le_bytes());
//!     Some(8)
//! }
//!
//! fn load(src: &[u8], schema: u32) -> Status {
//!     let (1, Ok(seen)) = (schema, src.try_into()) else { return Status::DECLINED };
//!     SEEN.store(u64::from_le_bytes(seen), Relaxed);
//!     Status::OK
//! }
//! ```
//!
//! save writes the state and says how many bytes it has, None if they do not fit; it changes nothing of the policy. load
//! returns DECLINED for a schema or a size that it does not know, and then changes nothing. The layout of the bytes is the
//! schema, a number that the module's manifest names. Natively a test calls both themselves.

use crate::{Area, Status};

/// Kind of the arena; used by policy.
#[doc(hidden)]
pub const KIND: u32 = crate::Arena::STATE.0 as u32;

/// The STATE arena of at most N bytes; used by policy.
#[doc(hidden)]
pub struct Place<const N: usize>(Area<N>);

impl<const N: usize> Place<N> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Place(Area::new())
    }

    pub fn arena(&self, bytes: u32) -> *mut u8 {
        if bytes as usize <= N { self.0.at() } else { core::ptr::null_mut() }
    }

    pub fn save(&self, cap: u32, f: fn(&mut [u8]) -> Option<usize>) -> u64 {
        let most = N.min(cap as usize);
        // SAFETY: a module instance has one thread, and an entry point holds the only reference for the length of its call.
        let dst = unsafe { core::slice::from_raw_parts_mut(self.0.at(), most) };
        match f(dst) {
            Some(n) if n <= most => n as u64,
            _ => (Status::NO_CAPACITY.0 as u32 as u64) << 32,
        }
    }

    pub fn load(&self, bytes: u32, schema: u32, f: fn(&[u8], u32) -> Status) -> Status {
        if bytes as usize > N {
            return Status::NO_CAPACITY;
        }
        // SAFETY: as above.
        f(unsafe { core::slice::from_raw_parts(self.0.at(), bytes as usize) }, schema)
    }
}
