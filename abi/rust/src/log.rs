//! The policy's log: lines of at most LOG_TEXT_BYTES bytes, the last LOG_ENTRIES of which the host finds after each call, one
//! that trapped included. More lines than that in one call lose the first ones.

use crate::raw::Out;
use crate::{LogEntry, LogLevel, LogRing, LOG_ENTRIES, LOG_ENTRY_SIZE, LOG_RING_SIZE, LOG_TEXT_BYTES};

/// Kind of the arena; used by policy.
#[doc(hidden)]
pub const KIND: u32 = crate::Arena::LOG.0 as u32;

const BYTES: usize = (LOG_RING_SIZE + LOG_ENTRIES * LOG_ENTRY_SIZE) as usize;
/// Where the text of an entry begins.
const TEXT: usize = (LOG_ENTRY_SIZE - LOG_TEXT_BYTES) as usize;

crate::area!(BYTES);

/// The address of the arena, null for more bytes than it has; used by policy.
#[doc(hidden)]
pub fn arena(bytes: u32) -> *mut u8 {
    if bytes as usize <= BYTES { place() } else { core::ptr::null_mut() }
}

fn ring() -> LogRing<'static> {
    LogRing(Out::new(place()))
}

fn at(k: u32) -> LogEntry<'static> {
    let off = LOG_RING_SIZE + k % LOG_ENTRIES * LOG_ENTRY_SIZE;
    LogEntry(Out::new(place().wrapping_add(off as usize)))
}

/// Writes one line.
pub fn write(level: LogLevel, text: &str) {
    line(level).text(text).end()
}

/// Writes a line of use to the policy's author.
pub fn debug(text: &str) {
    write(LogLevel::DEBUG, text)
}

/// Writes a line of use to the operator.
pub fn info(text: &str) {
    write(LogLevel::INFO, text)
}

/// Writes a line that says that something is not as it should be.
pub fn warn(text: &str) {
    write(LogLevel::WARN, text)
}

/// Writes a line that says that the policy could not do what it is for.
pub fn error(text: &str) {
    write(LogLevel::ERROR, text)
}

/// Begins a line that is put together of texts and numbers; end writes it. It is ended before another one begins.
pub fn line(level: LogLevel) -> Line {
    let e = at(written());
    e.set_level(level);
    e.set_length(0);
    Line(e)
}

/// A line under way. It is built where the host will read it. What is past LOG_TEXT_BYTES bytes is cut.
#[must_use = "end writes the line"]
pub struct Line(LogEntry<'static>);

impl Line {
    /// Appends a text.
    pub fn text(self, s: &str) -> Self {
        s.bytes().for_each(|c| self.put(c));
        self
    }

    /// Appends x in decimal.
    pub fn uint(self, x: u64) -> Self {
        let mut unit: u64 = 1;
        while x / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.put(b'0' + (x / unit % 10) as u8);
            unit /= 10;
        }
        self
    }

    /// Appends x in decimal, with a minus sign where it is negative.
    pub fn int(self, x: i64) -> Self {
        if x < 0 {
            self.put(b'-');
        }
        self.uint(x.unsigned_abs())
    }

    fn put(&self, c: u8) {
        let n = self.0.length();
        if (n as u32) < LOG_TEXT_BYTES {
            // SAFETY: the byte lies within the entry, which is this thread's.
            unsafe { self.0 .0.at(TEXT + n as usize).write(c) }
            self.0.set_length(n + 1);
        }
    }

    /// Writes the line: from now on the host sees it.
    pub fn end(self) {
        ring().set_written(written().wrapping_add(1))
    }
}

/// How many lines were ever written; it wraps after 2^32.
pub fn written() -> u32 {
    ring().written()
}

/// Line number k, counted from 0, of which the last LOG_ENTRIES are there: its level, its bytes of text, and how many of them
/// are the line's. It is for tests.
pub fn entry(k: u32) -> (LogLevel, [u8; LOG_TEXT_BYTES as usize], usize) {
    let e = at(k);
    // SAFETY: the text lies within the entry, which is this thread's.
    let text = unsafe { (e.0.at(TEXT) as *const [u8; LOG_TEXT_BYTES as usize]).read() };
    (e.level(), text, (e.length() as usize).min(text.len()))
}
