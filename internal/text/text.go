// Package text makes fit for a terminal, a log and an error what somebody else wrote: a client, a policy module, its
// manifest, a recording. What does not print is escaped as Go would, so that it can neither move a cursor nor begin a line
// of its own, and what is long is cut.
//
//	text.Quote("a\x1b[2J") // "a\x1b[2J" in quotes, at most MaxQuoted runes of it
//	text.Line(name, 80)    // without quotes, at most 80 bytes
package text

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxQuoted is how many runes Quote shows.
const MaxQuoted = 60

// more stands for what was cut off.
const more = "…"

// Escape is s with what is no UTF-8 and what does not print, line breaks and tabs too, escaped as Go would, without
// quotes. It is at most ten times as long as s; escaping twice changes nothing.
func Escape(s string) string { return escape(s, "") }

// Lines is Escape for text of several lines: line breaks and tabs stay.
func Lines(s string) string { return escape(s, "\n\t") }

func escape(s, kept string) string {
	shows := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(kept, r) }
	clean := true
	for i, r := range s {
		if !shows(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var room [16]byte
	out := make([]byte, 0, len(s)+16)
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\x`...)
			out = append(out, "0123456789abcdef"[s[0]>>4], "0123456789abcdef"[s[0]&15])
		case shows(r):
			out = append(out, s[:size]...)
		default:
			quoted := strconv.AppendQuoteRune(room[:0], r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		s = s[size:]
	}
	return string(out)
}

// Clip is s, or its first most bytes or fewer, whole runes, with "…" behind them.
func Clip(s string, most int) string {
	if head := head(s, most); len(head) < len(s) {
		return head + more
	}
	return s
}

// Line is Escape, cut as Clip does. It looks at no more of s than it may show.
func Line(s string, most int) string {
	from := head(s, most)
	escaped := Escape(from)
	out := head(escaped, most)
	if len(from) < len(s) || len(out) < len(escaped) {
		return out + more
	}
	return out
}

// head is at most most bytes of s, without a rune that they cut.
func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	at := max(most, 0)
	for at > 0 && at > most-utf8.UTFMax && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at]
}

// Quote is s as a Go string literal, and of a text of more than MaxQuoted runes the first of them with "…" behind the
// quotes.
func Quote(s string) string {
	n := 0
	for i := range s {
		if n == MaxQuoted {
			return strconv.Quote(s[:i]) + more
		}
		n++
	}
	return strconv.Quote(s)
}

// List joins at most most names, each of at most 64 bytes, and says how many more there are; "none" of none.
func List(names []string, most int) string {
	if len(names) == 0 {
		return "none"
	}
	shown := make([]string, min(len(names), max(most, 1)))
	for i := range shown {
		shown[i] = Line(names[i], 64)
	}
	out := strings.Join(shown, ", ")
	if rest := len(names) - len(shown); rest > 0 {
		out += fmt.Sprintf(" and %d more", rest)
	}
	return out
}

// JSON is JSON whose strings are escaped further, so that a terminal can show it; it means the same. Line breaks stay.
func JSON(b []byte) []byte {
	if !bytes.ContainsFunc(b, hidden) {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for _, r := range string(b) {
		switch {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case r < 1<<16:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
	}
	return out
}

func hidden(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
