package inproc

import (
	"context"
	"runtime"

	"sluice/collective"
)

// yieldEvery is how many looks of a spinning rank pass between two yields of its processor.
const yieldEvery = 512

// Rank is one rank's end of a Group, valid for the epoch it was taken in. One goroutine uses it.
type Rank struct {
	group *Group
	rank  int
	epoch uint64
}

var _ collective.Exchange = (*Rank)(nil)

// Min brings v to the next exchange and waits for the others. See collective.Exchange. It allocates
// only to report an error.
func (r *Rank) Min(ctx context.Context, v *collective.Vector) error {
	g := r.group
	if r.rank < 0 || r.rank >= len(g.members) {
		return &collective.RankError{Rank: r.rank, Ranks: len(g.members), What: "there is no such rank"}
	}
	if v == nil {
		return &collective.RankError{Rank: r.rank, Ranks: len(g.members), What: "came to an exchange without a vector"}
	}
	m := g.members[r.rank]
	before, complete, err := r.arrive(ctx, m, v)
	if err != nil || complete {
		return err
	}
	for i := range g.spins {
		if m.done.Load() != before {
			return m.err
		}
		if i%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
	}
	return r.park(ctx, m, before)
}

// arrive takes v in. The rank that comes last reduces for all and is complete; the others wait
// until their count of ended exchanges is no longer before.
func (r *Rank) arrive(ctx context.Context, m *member, v *collective.Vector) (before uint64, complete bool, err error) {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return 0, false, collective.ErrClosed
	case r.epoch != g.epoch:
		return 0, false, collective.ErrReformed
	case g.broken != nil:
		return 0, false, g.broken
	case g.vectors[r.rank] != nil:
		return 0, false, &collective.RankError{Rank: r.rank, Ranks: len(g.members), What: "came twice to one exchange; one goroutine drives a rank"}
	}
	m.exchanges.Add(1)
	m.bytes.Add(uint64(v.Shape().Bytes()))
	before = m.done.Load()
	g.vectors[r.rank] = v
	g.arrived++
	if cause := ctx.Err(); cause != nil {
		return 0, true, r.leave(cause)
	}
	if g.arrived < len(g.vectors) {
		return before, false, nil
	}
	err = collective.Reduce(g.vectors)
	g.finish(err)
	return 0, true, err
}

// park waits without a processor until the exchange ends, the deadline passes or ctx ends. The
// group's mutex decides between them: whoever takes it first while the exchange is open wins.
func (r *Rank) park(ctx context.Context, m *member, before uint64) error {
	g := r.group
	g.mu.Lock()
	if m.done.Load() != before {
		g.mu.Unlock()
		return m.err
	}
	m.parked = true
	m.timer.Reset(g.deadline)
	g.mu.Unlock()

	var cause error
	select {
	case <-m.wake:
		m.timer.Stop()
		return m.err
	case <-m.timer.C():
	case <-ctx.Done():
		cause = ctx.Err()
		m.timer.Stop()
	}

	g.mu.Lock()
	if m.done.Load() == before {
		if cause != nil {
			_ = r.leave(cause)
		} else {
			g.breakWith(&collective.TimeoutError{Epoch: g.epoch, Exchange: g.exchange, Missing: g.missing(), Deadline: g.deadline})
		}
	}
	g.mu.Unlock()
	<-m.wake // the end of the exchange, ours or the one that raced us, has left its token
	return m.err
}

// leave breaks the group because this rank's context ended, and returns the error that all ranks
// get. The caller holds the group's mutex.
func (r *Rank) leave(cause error) error {
	g := r.group
	err := &collective.LeaveError{Epoch: g.epoch, Exchange: g.exchange, Rank: r.rank, Err: cause}
	g.breakWith(err)
	return err
}

// Counters is what this rank has done over all epochs of its group.
func (r *Rank) Counters() collective.Counters {
	if r.rank < 0 || r.rank >= len(r.group.members) {
		return collective.Counters{}
	}
	m := r.group.members[r.rank]
	return collective.Counters{Exchanges: m.exchanges.Load(), Bytes: m.bytes.Load()}
}
