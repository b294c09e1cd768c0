package wasmbin

import "fmt"

// RuleMalformed is the rule of an Error for bytes that are no WebAssembly module at all, or a broken one.
const RuleMalformed = "malformed"

// RuleFeature is the rule of an Error for a module that needs a WebAssembly feature outside the supported set.
const RuleFeature = "feature"

// Error is why a module is refused. Its text is one line: where, what was found, what is allowed, what to do.
type Error struct {
	Rule     string // a stable name of what was broken: RuleMalformed, RuleFeature, or one of Verify's
	Section  string // name of the section, empty where none is at fault
	Offset   int    // in the module's bytes, -1 where no single place is at fault
	Function int    // index in the function index space (imports first), -1 outside code
	Detail   string
}

// Error implements error.
func (e *Error) Error() string {
	s := ""
	if e.Section != "" {
		s = e.Section + " section"
	}
	if e.Function >= 0 {
		s += fmt.Sprintf(", function %d", e.Function)
	}
	if e.Offset >= 0 {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("offset %#x", e.Offset)
	}
	if s != "" {
		s += ": "
	}
	return s + e.Detail
}

// refuse is an Error that no single byte is to blame for.
func refuse(rule, section, format string, args ...any) *Error {
	return &Error{Rule: rule, Section: section, Offset: -1, Function: -1, Detail: fmt.Sprintf(format, args...)}
}
