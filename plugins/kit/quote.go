package kit

import "sluice/internal/text"

// quote is an author's input as errors show it.
func quote(s string) string { return text.Quote(s) }
