package standard

import (
	"sluice/abi"
	"sluice/abi/guest"
)

// Names of the policies that answer where no policy is named and where a module that is not the shipped one faults.
const (
	DefaultGate    = "restore-gated"
	DefaultReserve = "until-retired"
	DefaultAdmit   = "fifo-headroom"
	DefaultScore   = "lru"
)

// Gate is the shipped gate of that name; false where there is none.
func Gate(name string) (guest.GateFunc, bool) {
	switch name {
	case "restore-gated":
		return restoreGated, true
	case "pending-only":
		return pendingOnlyGate, true
	case "ungated":
		return ungated, true
	}
	return nil, false
}

// Reserve is the shipped reserve of that name; false where there is none.
func Reserve(name string) (guest.ReserveFunc, bool) {
	switch name {
	case "until-retired":
		return untilRetired, true
	case "pending-only":
		return pendingOnlyReserve, true
	case "none":
		return holdNone, true
	}
	return nil, false
}

// Admit is the shipped admit of that name; false where there is none.
func Admit(name string) (guest.AdmitFunc, bool) {
	switch name {
	case "fifo-headroom":
		return fifoHeadroom, true
	case "greedy":
		return greedy, true
	}
	return nil, false
}

// Score is the shipped score of that name; false where there is none.
func Score(name string) (guest.ScoreFunc, bool) {
	switch name {
	case "lru":
		return lru, true
	case "lfu":
		return lfu, true
	}
	return nil, false
}

// Names lists the shipped policies of a hook, the default first; nil for a number that is no hook. The slice is the
// caller's.
func Names(hook abi.Hook) []string {
	switch hook {
	case abi.Gate:
		return []string{DefaultGate, "pending-only", "ungated"}
	case abi.Reserve:
		return []string{DefaultReserve, "pending-only", "none"}
	case abi.Admit:
		return []string{DefaultAdmit, "greedy"}
	case abi.Score:
		return []string{DefaultScore, "lfu"}
	}
	return nil
}

// Default is the name of the hook's default policy, empty for a number that is no hook.
func Default(hook abi.Hook) string {
	if n := Names(hook); len(n) > 0 {
		return n[0]
	}
	return ""
}

// Known says whether the hook has a shipped policy of that name.
func Known(hook abi.Hook, name string) bool {
	var ok bool
	switch hook {
	case abi.Gate:
		_, ok = Gate(name)
	case abi.Reserve:
		_, ok = Reserve(name)
	case abi.Admit:
		_, ok = Admit(name)
	case abi.Score:
		_, ok = Score(name)
	}
	return ok
}
