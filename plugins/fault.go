package plugins

import (
	"errors"
	"fmt"

	"sluice/abi"
	"sluice/internal/text"
)

// FaultClass is how a policy failed: the label of the fault counters.
type FaultClass uint8

// The fault classes.
const (
	FaultTrap          FaultClass = iota // the guest trapped, exited or panicked
	FaultBadStatus                       // it returned a negative status other than declined, or one above 255
	FaultIllegalAnswer                   // its answer is not well-formed
	FaultMemoryGrowth                    // its memory grew past what an instance may keep
	FaultLoadRejected                    // the module or its configuration was refused before it answered anything
	FaultOutOfFuel                       // it did more than its fuel allows: a loop without end, say
	FaultStackDepth                      // its calls nested too deep
	FaultDivergence                      // a replicated hook's answers, each of them valid, were not the same on all ranks
	faultClasses
)

// NumFaultClasses is how many classes there are.
const NumFaultClasses = int(faultClasses)

// FaultClasses lists every class, in the order of Stats.Faults.
func FaultClasses() []FaultClass {
	all := make([]FaultClass, faultClasses)
	for i := range all {
		all[i] = FaultClass(i)
	}
	return all
}

// String is the class as metrics and logs show it.
func (c FaultClass) String() string {
	switch c {
	case FaultTrap:
		return "trap"
	case FaultBadStatus:
		return "bad_status"
	case FaultIllegalAnswer:
		return "illegal_answer"
	case FaultMemoryGrowth:
		return "memory_growth"
	case FaultLoadRejected:
		return "load_rejected"
	case FaultOutOfFuel:
		return "out_of_fuel"
	case FaultStackDepth:
		return "stack_depth"
	case FaultDivergence:
		return "divergence"
	}
	return fmt.Sprintf("fault class %d", uint8(c))
}

// ErrRejected is what every refusal to load a module or its configuration wraps.
var ErrRejected = errors.New("policy module refused")

// Fault is one failure of one policy. Kind is the trap's kind ("unreachable", "exit 0", "panic") or the load rule that
// the module breaks ("import", "marker", ...); Detail says what happened in words, and for a refusal what to do.
type Fault struct {
	Class  FaultClass
	Hook   abi.Hook // 0 for a refusal that concerns no single hook
	Policy string
	Kind   string
	Detail string
}

// Error is one line: policy, hook, class, kind, detail.
func (f *Fault) Error() string {
	s := fmt.Sprintf("policy %q: ", f.Policy)
	if f.Hook != 0 {
		s += f.Hook.String() + ": "
	}
	s += f.Class.String()
	if f.Kind != "" {
		s += "{" + f.Kind + "}"
	}
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}

// Unwrap lets errors.Is find ErrRejected in a refusal and abi.ErrIllegalAnswer in a malformed answer.
func (f *Fault) Unwrap() error {
	switch f.Class {
	case FaultLoadRejected:
		return ErrRejected
	case FaultIllegalAnswer:
		return abi.ErrIllegalAnswer
	}
	return nil
}

// maxDetail is how many bytes of a refusal's detail are kept: it may tell of names and numbers of the module's.
const maxDetail = 1 << 10

// reject is a refusal to load. Its detail is one printable line.
func reject(rule, format string, args ...any) *Fault {
	return &Fault{Class: FaultLoadRejected, Kind: rule, Detail: text.Line(fmt.Sprintf(format, args...), maxDetail)}
}
