package model

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sluice/internal/clock"
)

// Why a step of a Group ended with no tokens. A *StepError wraps one of them.
var (
	ErrDiffers = errors.New("model: ranks brought different batches")
	ErrMissing = errors.New("model: a rank did not come in time")
	ErrClosed  = errors.New("model: group is closed")
	ErrLate    = errors.New("model: the step has ended without this rank")
)

// StepError is a step that ended with no tokens, the same for every rank that had come to it.
type StepError struct {
	Step   uint64
	Field  string   // ErrDiffers: "step", "digest" or "items"
	Ranks  []int    // ErrDiffers: the ranks compared; ErrMissing: those that did not come
	Values []uint64 // ErrDiffers: what each of Ranks brought
	Err    error
}

// Error names the step, the field, the ranks and their values.
func (e *StepError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d: %v", e.Step, e.Err)
	for i, r := range e.Ranks {
		if i < len(e.Values) {
			fmt.Fprintf(&b, "; rank %d: %s %#x", r, e.Field, e.Values[i])
			continue
		}
		fmt.Fprintf(&b, "; rank %d", r)
	}
	return b.String()
}

// Unwrap is the kind of the failure.
func (e *StepError) Unwrap() error { return e.Err }

// Group is the model's own reduction between ranks that run at the same time, each on a goroutine
// of its own. In virtual time the driver calls the function Join instead.
//
// A step ends with tokens on all ranks, or with an error on all that came: no rank waits past its
// deadline, whatever the others do.
type Group struct {
	clock clock.Clock
	vocab int

	mu     sync.Mutex
	seats  []seat
	seated int    // ranks in the open step
	step   uint64 // the open step
	ended  uint64 // no step up to this one opens again
	begun  bool   // some step has ended
	closed bool
	sums   [][]uint64 // by rank, while a step is joined
}

// seat is one rank's place. Its fields are guarded by Group.mu, but what the rank brought is its
// own until it sits down and again once it is told.
type seat struct {
	taken   bool
	digest  uint64
	partial []uint64
	dst     []uint32
	err     error
	told    chan struct{} // one token when the step has ended
	timer   clock.Timer
}

// NewGroup makes the reduction of ranks ranks, 1 or more. vocab is as in Join.
func NewGroup(ranks, vocab int, c clock.Clock) (*Group, error) {
	if ranks < 1 || vocab < 0 || vocab > 0 && vocab <= firstPrintable {
		return nil, fmt.Errorf("%w: a group of %d ranks and a vocabulary of %d; wanted at least one rank and a vocabulary over %d", ErrStep, ranks, vocab, firstPrintable)
	}
	g := &Group{clock: c, vocab: vocab, seats: make([]seat, ranks), sums: make([][]uint64, ranks)}
	for i := range g.seats {
		t := c.NewTimer(time.Hour)
		t.Stop()
		g.seats[i].told, g.seats[i].timer = make(chan struct{}, 1), t
	}
	return g, nil
}

// Join brings rank's sums for a step and waits, at most for timeout, for the tokens, which it puts
// into dst, as long as partial. step rises from call to call and is the same on all ranks, as is
// digest, which stands for the batch. One goroutine at a time calls Join for a rank.
//
// A *StepError says why there are no tokens: ErrDiffers, ErrMissing, ErrLate, ErrClosed. It
// allocates nothing but errors.
func (g *Group) Join(rank int, step, digest uint64, partial []uint64, dst []uint32, timeout time.Duration) error {
	if rank < 0 || rank >= len(g.seats) || len(dst) != len(partial) {
		return fmt.Errorf("%w: rank %d of %d with %d sums and room for %d tokens", ErrStep, rank, len(g.seats), len(partial), len(dst))
	}
	s := &g.seats[rank]
	if wait, err := g.sit(s, rank, step, digest, partial, dst); !wait {
		return err
	}
	s.timer.Reset(timeout)
	select {
	case <-s.told:
	case <-s.timer.C():
		g.expire(s)
		<-s.told
	}
	s.timer.Stop()
	return s.err
}

// Close ends the open step and every later one with ErrClosed.
func (g *Group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.seated > 0 {
		g.end(&StepError{Step: g.step, Err: ErrClosed})
	}
}

// sit takes the rank's seat in a step and, where it is the last to come, ends the step. It reports
// whether the rank has a step's end to wait for.
func (g *Group) sit(s *seat, rank int, step, digest uint64, partial []uint64, dst []uint32) (wait bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return false, &StepError{Step: step, Err: ErrClosed}
	case s.taken:
		return false, fmt.Errorf("%w: rank %d is in a step already", ErrStep, rank)
	case g.begun && step <= g.ended:
		return false, &StepError{Step: step, Ranks: []int{rank}, Err: ErrLate}
	case g.seated > 0 && step != g.step:
		return false, g.splitStep(rank, step)
	}
	g.step = step
	s.taken, s.digest, s.partial, s.dst, s.err = true, digest, partial, dst, nil
	g.seated++
	if g.seated == len(g.seats) {
		g.finish()
	}
	return true, nil
}

// splitStep ends the open step because rank came for another one. Neither of the two opens again.
func (g *Group) splitStep(rank int, step uint64) error {
	e := &StepError{Step: g.step, Field: "step", Err: ErrDiffers}
	for i := range g.seats {
		if g.seats[i].taken {
			e.Ranks, e.Values = append(e.Ranks, i), append(e.Values, g.step)
		}
	}
	e.Ranks, e.Values = append(e.Ranks, rank), append(e.Values, step)
	g.end(e)
	g.ended = max(g.ended, step)
	return e
}

// finish ends a step that all ranks have come to.
func (g *Group) finish() {
	first := &g.seats[0]
	for i := range g.seats {
		s := &g.seats[i]
		switch {
		case s.digest != first.digest:
			g.end(g.differs("digest", func(s *seat) uint64 { return s.digest }))
			return
		case len(s.partial) != len(first.partial):
			g.end(g.differs("items", func(s *seat) uint64 { return uint64(len(s.partial)) }))
			return
		}
		g.sums[i] = s.partial
	}
	err := Join(g.sums, first.dst, g.vocab)
	for i := range g.seats[1:] {
		copy(g.seats[i+1].dst, first.dst)
	}
	clear(g.sums)
	g.end(err)
}

func (g *Group) differs(field string, value func(*seat) uint64) error {
	e := &StepError{Step: g.step, Field: field, Err: ErrDiffers}
	for i := range g.seats {
		e.Ranks, e.Values = append(e.Ranks, i), append(e.Values, value(&g.seats[i]))
	}
	return e
}

// expire ends the step that s sits in, unless that has happened meanwhile.
func (g *Group) expire(s *seat) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !s.taken {
		return
	}
	e := &StepError{Step: g.step, Err: ErrMissing}
	for i := range g.seats {
		if !g.seats[i].taken {
			e.Ranks = append(e.Ranks, i)
		}
	}
	g.end(e)
}

// end closes the open step and tells everyone in it. The caller holds mu.
func (g *Group) end(err error) {
	for i := range g.seats {
		s := &g.seats[i]
		if !s.taken {
			continue
		}
		s.taken, s.partial, s.dst, s.err = false, nil, nil, err
		s.told <- struct{}{}
	}
	g.seated, g.begun = 0, true
	g.ended = max(g.ended, g.step)
}
