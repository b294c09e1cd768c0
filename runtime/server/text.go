package server

import "unicode/utf8"

// Text is tokenised by bytes: ids 0..255 are bytes, and no other id has text.

// encodeText returns one token a byte.
func encodeText(s string) []uint32 {
	out := make([]uint32, len(s))
	for i := range len(s) {
		out[i] = uint32(s[i])
	}
	return out
}

const hexDigits = "0123456789abcdef"

// jsonText grows the inside of a JSON string out of output tokens. What was
// written never changes, so each frame's text is a prefix of the next one's: a
// character whose bytes are not all there yet waits in tail. Bytes that can be
// no character become U+FFFD, one each.
type jsonText struct {
	out  []byte
	tail [utf8.UTFMax]byte
	n    int // bytes in tail
}

func (t *jsonText) add(token uint32) {
	if token > 255 {
		return
	}
	t.tail[t.n] = byte(token)
	t.n++
	for t.n > 0 && utf8.FullRune(t.tail[:t.n]) {
		t.take()
	}
}

// finish writes what waits: no more bytes come.
func (t *jsonText) finish() {
	for t.n > 0 {
		t.take()
	}
}

func (t *jsonText) take() {
	r, size := utf8.DecodeRune(t.tail[:t.n])
	t.out = appendEscaped(t.out, r)
	t.n = copy(t.tail[:], t.tail[size:t.n])
}

// appendEscaped appends r as it stands inside a JSON string.
func appendEscaped(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\n':
		return append(dst, '\\', 'n')
	case r < 0x20:
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// appendJSONString appends s quoted. Invalid UTF-8 becomes U+FFFD.
func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		dst = appendEscaped(dst, r)
	}
	return append(dst, '"')
}
