package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/abi"
)

// Carriage is what became of the state that a policy had collected when another one took over from it.
type Carriage uint8

// The outcomes.
const (
	// CarriedNothing: the successor starts without a state. Its instance is new, or it is the one that was left when it
	// was last in use.
	CarriedNothing Carriage = iota
	// CarriedInstance: the policy is the same one, so the very instance goes on.
	CarriedInstance
	// CarriedState: the successor has loaded the state that the predecessor saved.
	CarriedState
)

// String is the outcome as reports show it.
func (c Carriage) String() string {
	switch c {
	case CarriedNothing:
		return "none"
	case CarriedInstance:
		return "instance"
	case CarriedState:
		return "state"
	}
	return fmt.Sprintf("carriage %d", uint8(c))
}

// Carried says what became of the state behind one hook.
type Carried struct {
	Hook   abi.Hook
	What   Carriage
	Bytes  int    // of a saved state
	Reason string // why there is none, or why it was lost; empty where there was nothing to carry
}

// Carry hands the state of the policies that were in use until now on to the set that takes over, between two ticks. An
// instance that answers several hooks gets the state of the first of them, in the order in which the hooks run.
//
// A policy that stays the same (module, configuration, limits and hooks) keeps its instance: the sets exchange theirs. Any
// other is offered the saved state if its manifest names the schema and the set has not been in use yet; one that comes
// back goes on with the state that it was left with. What the sets do depends on the policies and on
// their instances' states alone, so that ranks whose replicated instances are equal have equal ones afterwards. Where a
// state cannot be saved, or the successor declines it, the successor starts without; where loading it stops the successor,
// that one's first call is a fault.
func (s *Set) Carry(from *Set) []Carried {
	var out []Carried
	done := map[*Slot]Carried{}
	defer func() { s.served, from.served = true, true }()
	for _, hook := range hooks() {
		to, old := s.Runner(hook).slot, from.Runner(hook).slot
		if to == nil {
			continue // a native policy keeps no state
		}
		c, ok := done[to]
		if !ok {
			c = to.carry(old, s.served)
			done[to] = c
		}
		c.Hook = hook
		out = append(out, c)
	}
	return out
}

// carry takes over from another slot, nil for a native policy. again says that the slot's policy was in use before.
func (s *Slot) carry(from *Slot, again bool) Carried {
	if from == nil {
		return Carried{}
	}
	s.Install() // one that stopped in its last tick has a successor by now
	if s.of == from.of {
		return s.exchange(from)
	}
	to, isInstance := s.active.(*Instance)
	if !isInstance || s.of.module == nil || from.of.module == nil {
		return Carried{}
	}
	schema, _, saves := from.of.module.StateSchema()
	_, loads, takes := s.of.module.StateSchema()
	saves, takes = saves && from.of.module.handsOn, takes && s.of.module.handsOn
	switch {
	case !saves && !takes:
		return Carried{}
	case again:
		return Carried{Reason: "the policy goes on with the state that it was left with"}
	case !saves:
		return Carried{Reason: "the predecessor saves no state"}
	case !takes:
		return Carried{Reason: "the successor loads no state"}
	case !slices.Contains(loads, schema):
		return Carried{Reason: fmt.Sprintf("the predecessor's state is of schema %d, the successor loads %d", schema, loads)}
	}
	old, isInstance := from.active.(*Instance)
	if !isInstance {
		return Carried{Reason: "the predecessor had stopped, so its state was lost"}
	}
	state, err := old.SaveState()
	if err != nil {
		c := Carried{Reason: fmt.Sprintf("the predecessor's state was not saved: %v", err)}
		if !errors.Is(err, errStateRefused) {
			// It stopped within the save: what it left behind is in no known state, also for a rollback.
			if err := from.Discard(context.Background()); err != nil {
				c.Reason += fmt.Sprintf(" (and closing the instance: %v)", err)
			}
		}
		return c
	}
	switch err := to.LoadState(state, schema); {
	case errors.Is(err, errStateRefused):
		return Carried{Bytes: len(state), Reason: fmt.Sprintf("the successor begins without: %v", err)}
	case err != nil:
		s.active = broken{to, loadFault(err)}
		return Carried{Bytes: len(state), Reason: fmt.Sprintf("the state was not loaded: %v", err)}
	}
	return Carried{What: CarriedState, Bytes: len(state)}
}

// exchange gives the slot the instance of a slot of the same policy, and that one the slot's, if it has any. Where the
// other has none its instance was discarded, and the slot's own goes on.
func (s *Slot) exchange(from *Slot) Carried {
	if from.active == nil {
		return Carried{Reason: "the predecessor had stopped, so its state was lost"}
	}
	s.active, from.active = from.active, s.active
	for _, x := range []*Slot{s, from} {
		x.mu.Lock()
		x.gone = x.active == nil
		x.mu.Unlock()
	}
	return Carried{What: CarriedInstance}
}

func loadFault(err error) *Fault {
	var f *Fault
	if !errors.As(err, &f) {
		f = &Fault{Class: FaultTrap, Kind: "state", Detail: err.Error()}
	}
	return f
}

// broken is an instance that a failed load has left in an unknown state: the next call is a fault, and has it discarded
// on every rank as any other fault has.
type broken struct {
	*Instance
	fault *Fault
}

// Begin implements Caller.
func (b broken) Begin(hook abi.Hook, _, _ uint64, _, _ int) (abi.Batch, error) {
	f := *b.fault
	f.Hook = hook
	return abi.Batch{}, &f
}
