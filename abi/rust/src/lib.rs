//! The Sluice policy ABI for Rust: `no_std`, no dependency, no allocation.
//!
//! A policy is a crate of type `cdylib` with one function a hook; `policy!` makes the exports.
//!
//! ```ignore
//! #![no_std]
//! use sluice::{GateBatch, Status};
//!
//! sluice::policy!(gate = vote_raw);
//!
//! fn vote_raw(b: &GateBatch) -> Status {
//!     for i in 0..b.len() {
//!         b.set_vote(i, b.at(i).raw_poll());
//!     }
//!     Status::OK
//! }
//! ```
//!
//! A view points into the batch that the host wrote and lives for one call. An index out of range panics, which in a
//! module is a trap: the host then answers natively. Natively, a test opens a batch over a buffer of its own.
//!
//! A policy that has something to say names what it uses in front of its hooks; a module offers no arena without:
//!
//! ```ignore
//! sluice::policy!(log, counters, state(16, save, load); gate = gate);
//!
//! sluice::log::info("no page is free");
//! sluice::log::line(LogLevel::WARN).text("held ").uint(ticks).text(" ticks").end();
//! sluice::counters::add(HELD, 1);
//! ```
//!
//! The host reads lines and counters after each call, and moves the state to the policy that takes this one's place. Natively
//! each thread has lines and counters of its own, which a test reads back with `log::entry` and `counters::get`.

#![no_std]

// A test's threads each have arenas of their own; a module has one thread and no std.
#[cfg(not(target_arch = "wasm32"))]
extern crate std;

/// Makes place, the address of memory for an arena: static in a module, and a test's thread's own natively.
macro_rules! area {
    ($bytes:expr) => {
        #[cfg(target_arch = "wasm32")]
        fn place() -> *mut u8 {
            static AREA: $crate::Area<{ $bytes }> = $crate::Area::new();
            AREA.at()
        }

        #[cfg(not(target_arch = "wasm32"))]
        fn place() -> *mut u8 {
            std::thread_local! {
                static AREA: $crate::Area<{ $bytes }> = const { $crate::Area::new() };
            }
            AREA.with($crate::Area::at)
        }
    };
}
use area;

pub mod counters;
mod layout;
pub mod log;
mod raw;
pub mod state;

pub use layout::*;

use core::cell::UnsafeCell;

/// Bytes of the IN arena: an admit batch of 7,000 records, a gate batch of 13,000. A request for more is refused.
pub const IN_BYTES: usize = 512 << 10;
/// Bytes of the CONFIG arena.
pub const CONFIG_BYTES: usize = 16 << 10;
/// Bytes of the HOSTINFO arena, with room for the records of newer minor versions.
pub const HOST_INFO_BYTES: usize = 256;

/// Makes the exports of a module: `policy!(gate = f, reserve = g, admit = h, score = k)` with the hooks that the policy answers, and
/// `configure = c` in front for one that takes settings. What the policy uses of `log`, `counters` and
/// `state(bytes, save, load)` stands before a semicolon in front of it all.
#[macro_export]
macro_rules! policy {
    (configure = $configure:path, $($hook:ident = $policy:path),+ $(,)?) => {
        $crate::__module!($configure;);
        $($crate::__hook!($hook, $policy);)+
    };
    ($($part:ident $(($($arg:tt)*))?),+; configure = $configure:path, $($hook:ident = $policy:path),+ $(,)?) => {
        $($crate::__part!($part $($($arg)*)?);)+
        $crate::__module!($configure; $($part)+);
        $($crate::__hook!($hook, $policy);)+
    };
    ($($part:ident $(($($arg:tt)*))?),+; $($hook:ident = $policy:path),+ $(,)?) => {
        $crate::policy!($($part $(($($arg)*))?),+; configure = $crate::no_config, $($hook = $policy),+);
    };
    ($($hook:ident = $policy:path),+ $(,)?) => {
        $crate::policy!(configure = $crate::no_config, $($hook = $policy),+);
    };
}

/// What a part of a policy needs beside its arena; used by policy.
#[doc(hidden)]
#[macro_export]
macro_rules! __part {
    (log) => {};
    (counters) => {};
    (state $bytes:expr, $save:path, $load:path) => {
        static __SLUICE_STATE: $crate::state::Place<{ $bytes }> = $crate::state::Place::new();

        #[unsafe(no_mangle)]
        pub extern "C" fn sluice_state_save(cap: u32) -> u64 {
            __SLUICE_STATE.save(cap, $save)
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn sluice_state_load(bytes: u32, schema: u32) -> i32 {
            __SLUICE_STATE.load(bytes, schema, $load).0
        }
    };
}

/// The address of the arena of a part of a policy; used by policy.
#[doc(hidden)]
#[macro_export]
macro_rules! __part_arena {
    (state, $bytes:expr) => {
        __SLUICE_STATE.arena($bytes)
    };
    ($part:ident, $bytes:expr) => {
        $crate::$part::arena($bytes)
    };
}

/// The configuration function of a policy that takes no settings: it refuses every table that is not empty.
pub fn no_config(_: HostInfo, config: &[u8]) -> Status {
    if config.is_empty() || config == b"{}" {
        Status::OK
    } else {
        Status::BAD_CONFIG
    }
}

impl GateBatch<'_> {
    /// Answers record i with a vote and no reason.
    #[inline]
    pub fn set_vote(&self, i: u32, vote: Poll) {
        self.answer(i).set_vote(vote)
    }

    /// Answers record i with a vote of Failed and the reason for it.
    #[inline]
    pub fn fail(&self, i: u32, why: Reason) {
        let a = self.answer(i);
        a.set_vote(Poll::FAILED);
        a.set_reason(why);
    }

    /// Ends the request of record i on all ranks, whatever its transfer does; vote is the vote beside it.
    #[inline]
    pub fn give_up(&self, i: u32, vote: Poll, why: Reason) {
        let a = self.answer(i);
        a.set_vote(vote);
        a.set_reason(why);
        a.set_flags(GATE_OUT_GIVE_UP);
    }
}

impl ReserveBatch<'_> {
    /// Answers with the tokens to hold back.
    #[inline]
    pub fn hold(&self, tokens: u64) {
        self.answer().set_held_tokens(tokens)
    }
}

impl AdmitBatch<'_> {
    /// Answers candidate i with a verdict and its position in the walk; all positions together are a permutation.
    #[inline]
    pub fn set(&self, i: u32, verdict: Verdict, order: u32) {
        let a = self.answer(i);
        a.set_verdict(verdict);
        a.set_order(order);
    }
}

impl ScoreBatch<'_> {
    /// Gives node i its key; the smallest is evicted first.
    #[inline]
    pub fn set(&self, i: u32, key: i64) {
        self.answer(i).set_key(key as u64)
    }
}

/// An arena: static memory that the host fills between calls.
#[repr(C, align(16))]
struct Area<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: a module instance has one thread; the host writes between calls and never during one.
unsafe impl<const N: usize> Sync for Area<N> {}

impl<const N: usize> Area<N> {
    const fn new() -> Self {
        Area(UnsafeCell::new([0; N]))
    }

    fn at(&self) -> *mut u8 {
        self.0.get() as *mut u8
    }
}

static CONFIG: Area<CONFIG_BYTES> = Area::new();
static IN: Area<IN_BYTES> = Area::new();
static HOST_INFO: Area<HOST_INFO_BYTES> = Area::new();

/// The address of an arena, null for a kind or size that is refused; used by policy.
#[doc(hidden)]
pub fn arena(kind: u32, bytes: u32) -> *mut u8 {
    let is = |k: Arena, size: usize| kind == k.0 as u32 && bytes as usize <= size;
    if is(Arena::CONFIG, CONFIG_BYTES) {
        CONFIG.0.get() as *mut u8
    } else if is(Arena::IN, IN_BYTES) {
        IN.0.get() as *mut u8
    } else if is(Arena::HOST_INFO, HOST_INFO_BYTES) {
        HOST_INFO.0.get() as *mut u8
    } else {
        core::ptr::null_mut()
    }
}

/// The IN arena if at is its address; used by policy.
#[doc(hidden)]
pub fn batch(at: *mut u8) -> Option<&'static mut [u8]> {
    if at != IN.0.get() as *mut u8 {
        return None;
    }
    // SAFETY: the arena is static, and an entry point holds the only reference for the length of its call.
    Some(unsafe { core::slice::from_raw_parts_mut(IN.0.get() as *mut u8, IN_BYTES) })
}

/// Reads the host's record and calls the policy's function; used by policy.
#[doc(hidden)]
pub fn configure(info: *const u8, f: fn(HostInfo, &[u8]) -> Status) -> Status {
    if info != HOST_INFO.0.get() as *const u8 {
        return Status::BAD_CONFIG;
    }
    // SAFETY: both arenas are static, and the host does not write during the call.
    let (record, config) = unsafe { (&*HOST_INFO.0.get(), &*CONFIG.0.get()) };
    let h = HostInfo(raw::In::new(record));
    if h.major() != MAJOR {
        return Status::UNSUPPORTED_MINOR;
    }
    match config.get(..h.config_bytes() as usize) {
        Some(text) => f(h, text),
        None => Status::BAD_CONFIG,
    }
}
