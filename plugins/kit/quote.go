package kit

import "strconv"

// mostQuoted is how many runes of an author's input an error quotes.
const mostQuoted = 60

// quote is an author's input as errors show it: a Go string literal, and of a text of more than mostQuoted runes the first
// of them with "…" behind the quotes.
func quote(s string) string {
	n := 0
	for i := range s {
		if n == mostQuoted {
			return strconv.Quote(s[:i]) + "…"
		}
		n++
	}
	return strconv.Quote(s)
}
