package decode

import "sluice/internal/text"

// Bounds of what is kept of others' text, in bytes: a client's and a module's words stay in the log and in what every
// reader of the policies is shown, long after who wrote them.
const (
	maxReason   = 1 << 10
	maxHookText = 64 // what was asked for as a hook
)

// kept is a reason as one printable line of at most maxReason bytes and "…".
func kept(reason string) string { return text.Line(reason, maxReason) }

// shownError is an error with another text.
type shownError struct {
	text string
	err  error
}

func (e shownError) Error() string { return e.text }
func (e shownError) Unwrap() error { return e.err }
