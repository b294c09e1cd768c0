package wasmbin

import (
	"fmt"
	"unicode/utf8"
)

// reader walks a part of a module. Its first error sticks: everything read after it is zero, so a caller may read a whole
// structure and look at err once. Loops over counts must look at err themselves.
type reader struct {
	buf      []byte
	pos      int
	base     int // offset of buf[0] in the module
	section  string
	function int // as in Error
	err      *Error
}

func (r *reader) fail(rule, format string, args ...any) {
	r.failAt(r.pos, rule, format, args...)
}

func (r *reader) failAt(pos int, rule, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Rule: rule, Section: r.section, Offset: r.base + pos, Function: r.function, Detail: fmt.Sprintf(format, args...)}
	}
	r.pos = len(r.buf)
}

func (r *reader) done() bool { return r.pos >= len(r.buf) }

func (r *reader) byte() byte {
	if r.pos >= len(r.buf) {
		r.fail(RuleMalformed, "ends in the middle; the file is truncated")
		return 0
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

// take is the next n bytes, not copied.
func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.buf)-r.pos) {
		r.fail(RuleMalformed, "%d bytes are announced, %d are left; the file is truncated", n, len(r.buf)-r.pos)
		return nil
	}
	b := r.buf[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// u32 is an unsigned LEB128 of up to five bytes; shorter values may be written longer than needed.
func (r *reader) u32() uint32 {
	if r.pos < len(r.buf) && r.buf[r.pos] < 0x80 {
		r.pos++
		return uint32(r.buf[r.pos-1])
	}
	var v uint32
	start := r.pos
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		if shift == 28 && b > 0x0F {
			break
		}
		v |= uint32(b&0x7F) << shift
		if b < 0x80 {
			return v
		}
	}
	r.failAt(start, RuleMalformed, "a number does not fit 32 bits")
	return 0
}

// signed skips a signed LEB128 of the given width, which may be longer than needed, and returns its value.
func (r *reader) signed(bits int) int64 {
	var v int64
	start := r.pos
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		v |= int64(b&0x7F) << shift
		if left := bits - shift; left < 7 {
			// The bits beyond the width must repeat the sign.
			if rest := int8(b<<1) >> left; b >= 0x80 || (rest != 0 && rest != -1) {
				break
			}
		}
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.failAt(start, RuleMalformed, "a number does not fit %d bits", bits)
	return 0
}

// count is the length of a vector whose items have at least one byte each, so that no short file can announce a long one.
func (r *reader) count() int {
	n := r.u32()
	if r.err == nil && uint64(n) > uint64(len(r.buf)-r.pos) {
		r.fail(RuleMalformed, "%d items are announced in %d bytes; the file is truncated", n, len(r.buf)-r.pos)
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	start := r.pos
	b := r.take(r.u32())
	if !utf8.Valid(b) {
		r.failAt(start, RuleMalformed, "a name is not UTF-8")
		return ""
	}
	return string(b)
}

// appendUint appends v as an unsigned LEB128.
func appendUint(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// appendInt appends v as a signed LEB128.
func appendInt(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7F)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
