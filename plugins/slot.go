package plugins

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sluice/abi"
)

// Slot holds one rank's instance of one policy for one class, and its successor.
//
// The tick loop owns the instance. Refresh, which may run beside it, makes a successor where there is neither an instance
// nor a successor. A local successor takes over at the next call. A replicated one waits for Install, which the
// scheduler calls on the tick in which every rank has one ready, so that all ranks change on the same tick.
type Slot struct {
	class  abi.Class
	of     policyKey
	build  func(ctx context.Context) (Caller, error)
	active Caller

	journal journal

	mu     sync.Mutex
	next   Caller
	wanted bool // a successor is to be made
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

// NewSlot makes a slot with its first instance, which build returns, as it does every later one.
func NewSlot(ctx context.Context, class abi.Class, build func(ctx context.Context) (Caller, error)) (*Slot, error) {
	first, err := build(ctx)
	if err != nil {
		return nil, err
	}
	return &Slot{class: class, build: build, active: first, journal: newJournal(LogLimit{})}, nil
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
	return s.active != nil || s.next != nil
}

// Install puts the successor in use, if one is ready and nothing is; it says whether an instance is in use now.
func (s *Slot) Install() bool {
	if s.active != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active, s.next = s.next, nil
	return s.active != nil
}

// Discard drops the instance in use; Refresh makes its successor.
func (s *Slot) Discard(ctx context.Context) error {
	if s.active == nil {
		return nil
	}
	err := s.active.Close(ctx)
	s.active = nil
	s.mu.Lock()
	s.wanted = true
	s.mu.Unlock()
	return err
}

// Wanted says whether a call of Refresh would make an instance.
func (s *Slot) Wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted && s.next == nil && !s.closed
}

// Refresh makes the successor of a discarded instance, if that is still to be done. It takes milliseconds and is called
// off the tick, from one goroutine at a time. Errors are those of making an instance, and may be tried again.
func (s *Slot) Refresh(ctx context.Context) error {
	if !s.Wanted() {
		return nil
	}
	c, err := s.build(ctx)
	if err != nil {
		return fmt.Errorf("make a fresh instance: %w", err)
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.next, s.wanted = c, false
	}
	s.mu.Unlock()
	if closed {
		return c.Close(ctx)
	}
	return nil
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
