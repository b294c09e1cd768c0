//! The bytes under the views: what is checked once when a batch is opened, and what every access relies on.

use crate::{Header, HEADER_SIZE, MAGIC, MAJOR, MAX_RECORDS};
use core::marker::PhantomData;

/// Where a record lies, for reading. The bytes of its version's size are readable for 'a.
#[derive(Clone, Copy)]
pub(crate) struct In<'a>(*const u8, PhantomData<&'a [u8]>);

/// Where an output record lies, for writing. The bytes of its version's size are writable for 'a.
#[derive(Clone, Copy)]
pub(crate) struct Out<'a>(*mut u8, PhantomData<&'a [u8]>);

macro_rules! access {
    ($($get:ident $put:ident $t:ty),+) => {
        impl<'a> In<'a> {
            /// The start of b, which is as long as the record that is read through it.
            pub(crate) fn new(b: &'a [u8]) -> Self {
                In(b.as_ptr(), PhantomData)
            }
            $(#[inline]
            pub(crate) fn $get(self, off: usize) -> $t {
                // SAFETY: off and width lie within the record, by the description that the callers are generated from.
                <$t>::from_le(unsafe { (self.0.add(off) as *const $t).read_unaligned() })
            })+
        }
        impl<'a> Out<'a> {
            /// The record of a log at the address, which is writable for 'a as far as it is written through this.
            pub(crate) fn new(at: *mut u8) -> Self {
                Out(at, PhantomData)
            }

            /// The same place, for reading.
            #[inline]
            pub(crate) fn reader(self) -> In<'a> {
                In(self.0, PhantomData)
            }

            /// The address of the byte at off, which lies within the record.
            #[inline]
            pub(crate) fn at(self, off: usize) -> *mut u8 {
                self.0.wrapping_add(off)
            }

            $(#[inline]
            pub(crate) fn $put(self, off: usize, x: $t) {
                // SAFETY: as above; inputs and outputs are raw places, so no reference is written through.
                unsafe { (self.0.add(off) as *mut $t).write_unaligned(x.to_le()) }
            })+
        }
    };
}

access!(get8 put8 u8, get16 put16 u16, get32 put32 u32, get64 put64 u64);

/// What every batch view holds: places and strides that were checked against the buffer.
pub(crate) struct Batch<'a> {
    at: *mut u8,
    size: usize,
    globals: *const u8,
    input: *const u8,
    output: *mut u8,
    n: u32,
    outs: u32,
    in_stride: u32,
    out_stride: u32,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Batch<'a> {
    /// Checks the header at the start of buf and finds globals and inputs. Strides and sizes may be larger than this
    /// version's, never smaller.
    #[inline]
    pub(crate) fn open(buf: &'a mut [u8], kind: u32, globals_size: u32, in_stride: u32, out_stride: u32) -> Option<Self> {
        let size = buf.len();
        if size < HEADER_SIZE as usize {
            return None;
        }
        let at = buf.as_mut_ptr();
        let h = Header(In(at, PhantomData));
        if h.magic() != MAGIC || h.header_size() < HEADER_SIZE || h.major() != MAJOR || h.kind() != kind {
            return None;
        }
        let n = h.n();
        if n > MAX_RECORDS || h.globals_size() < globals_size || h.in_stride() < in_stride || h.out_stride() < out_stride {
            return None;
        }
        let globals = place(at, size, h.globals_off(), 1, h.globals_size())?;
        let input = place(at, size, h.in_off(), n, h.in_stride())?;
        Some(Batch { at, size, globals, input, output: at, n, outs: 0, in_stride: h.in_stride(), out_stride: h.out_stride(), life: PhantomData })
    }

    /// Finds the outs output records.
    #[inline]
    pub(crate) fn outputs(self, outs: u32) -> Option<Self> {
        let output = place(self.at, self.size, self.header().out_off(), outs, self.out_stride)?;
        Some(Batch { output, outs, ..self })
    }

    fn header(&self) -> Header<'_> {
        Header(In(self.at, PhantomData))
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.n
    }

    #[inline]
    pub(crate) fn outs(&self) -> u32 {
        self.outs
    }

    #[inline]
    pub(crate) fn tick(&self) -> u64 {
        self.header().tick()
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.header().epoch()
    }

    #[inline]
    pub(crate) fn globals(&self) -> In<'_> {
        In(self.globals, PhantomData)
    }

    #[inline]
    pub(crate) fn at(&self, i: u32) -> In<'_> {
        if i >= self.n {
            out_of_range();
        }
        // SAFETY: open checked that n records lie in the buffer.
        In(unsafe { self.input.add(i as usize * self.in_stride as usize) }, PhantomData)
    }

    #[inline]
    pub(crate) fn answer(&self, i: u32) -> Out<'_> {
        if i >= self.outs {
            out_of_range();
        }
        // SAFETY: outputs checked that outs records lie in the buffer.
        Out(unsafe { self.output.add(i as usize * self.out_stride as usize) }, PhantomData)
    }
}

/// The address of count records of that stride from off on, if they lie within size bytes.
#[inline]
fn place(at: *mut u8, size: usize, off: u32, count: u32, stride: u32) -> Option<*mut u8> {
    if off as u64 + count as u64 * stride as u64 > size as u64 {
        return None;
    }
    Some(at.wrapping_add(off as usize))
}

#[cold]
#[inline(never)]
fn out_of_range() -> ! {
    panic!("record index out of range")
}
