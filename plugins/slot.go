package plugins

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/abi"
)

// Slot holds one rank's instance of one policy for one class, and its successor: two instances at most.
//
// The tick loop owns the instance in use. Refresh, which may run beside it, makes the successor: while the slot is being
// called it keeps one ready as a spare, so that a fault costs the policy the tick in which it happens and no more; a slot
// that was never called, or rests, has a successor only in the place of a discarded instance. A local successor takes over
// at the next call. A replicated one waits for Install, which the scheduler calls on the tick in which every rank has one
// ready, so that all ranks change on the same tick.
type Slot struct {
	class   abi.Class
	of      policyKey
	build   func(ctx context.Context) (Caller, error)
	active  Caller // the tick loop's
	journal journal
	called  atomic.Bool // a spare is to be kept

	mu     sync.Mutex
	gone   bool // no instance is in use
	next   Caller
	closed bool
}

// policyKey is what makes two slots hold the same policy: the module, its configuration, the hooks that it answers, and
// what each of their calls may spend.
type policyKey struct {
	module *Module
	config string
	hooks  [abi.Score + 1]bool
	fuel   [abi.Score + 1]Fuel
}

func (k *policyKey) add(h abi.Hook, f Fuel) { k.hooks[h], k.fuel[h] = true, f }

// NewSlot makes a slot with its first instance, which build returns, as it does every later one. The spare comes with the
// first Refresh after the first call, so that a start does not wait for it.
func NewSlot(ctx context.Context, class abi.Class, build func(ctx context.Context) (Caller, error)) (*Slot, error) {
	first, err := build(ctx)
	if err != nil {
		return nil, err
	}
	return &Slot{class: class, build: build, active: first, journal: newJournal(LogLimit{})}, nil
}

// use is caller for a call, from which on a spare is wanted.
func (s *Slot) use() Caller {
	if !s.called.Load() {
		s.called.Store(true)
	}
	return s.caller()
}

// caller is the instance in use, nil where there is none.
func (s *Slot) caller() Caller {
	if s.active == nil && s.class == abi.ClassLocal {
		s.Install()
	}
	return s.active
}

// Active says whether an instance is in use.
func (s *Slot) Active() bool { return s.active != nil }

// Ready says whether an instance is in use, or a successor could be from now on.
func (s *Slot) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.gone || s.next != nil
}

// Install puts the successor in use, if one is ready and nothing is; it says whether an instance is in use now.
func (s *Slot) Install() bool {
	if s.active != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active, s.next = s.next, nil
	s.gone = s.active == nil
	return s.active != nil
}

// Discard drops the instance in use; its successor is the spare, or comes with Refresh.
func (s *Slot) Discard(ctx context.Context) error {
	if s.active == nil {
		return nil
	}
	err := s.active.Close(ctx)
	s.active = nil
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	return err
}

// Wanted says whether a call of Refresh would make an instance.
func (s *Slot) Wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted()
}

// wanted is Wanted for a caller that holds mu.
func (s *Slot) wanted() bool { return s.next == nil && !s.closed && (s.gone || s.called.Load()) }

// Refresh makes the successor of a discarded instance or the spare, if that is still to be done. It takes milliseconds and
// is called off the tick, from one goroutine at a time. Errors are those of making an instance, and may be tried again.
func (s *Slot) Refresh(ctx context.Context) error {
	if !s.Wanted() {
		return nil
	}
	c, err := s.build(ctx)
	if err != nil {
		return fmt.Errorf("make a fresh instance: %w", err)
	}
	s.mu.Lock()
	wanted := s.wanted()
	if wanted {
		s.next = c
	}
	s.mu.Unlock()
	if !wanted {
		return c.Close(ctx)
	}
	return nil
}

// Rest closes the spare until the slot is called again. A successor of a discarded instance stays.
func (s *Slot) Rest(ctx context.Context) error {
	s.called.Store(false)
	s.mu.Lock()
	var spare Caller
	if !s.gone {
		spare, s.next = s.next, nil
	}
	s.mu.Unlock()
	if spare == nil {
		return nil
	}
	return spare.Close(ctx)
}

// Close frees the instance and its successor.
func (s *Slot) Close(ctx context.Context) error {
	err := s.Discard(ctx)
	s.mu.Lock()
	next := s.next
	s.next, s.closed = nil, true
	s.mu.Unlock()
	if next != nil {
		err = errors.Join(err, next.Close(ctx))
	}
	return err
}
