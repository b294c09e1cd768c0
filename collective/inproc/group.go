package inproc

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/collective"
	"sluice/internal/clock"
)

// MaxRanks bounds the size of a group; it is far above any attention-TP group of one process.
const MaxRanks = 1024

// Group is n ranks that meet in one exchange after another. Its methods may be called from any
// goroutine. mu guards everything but what Rank and member say of themselves.
type Group struct {
	deadline time.Duration
	spins    int

	mu       sync.Mutex
	epoch    uint64
	exchange uint64 // number of the exchange that is being gathered, within the epoch
	broken   error  // set: no exchange runs until Reset
	closed   bool
	arrived  int
	vectors  []*collective.Vector // by rank; nil = not come yet
	members  []*member
}

// member is the seat of one rank. It outlives epochs, so that its timer and channel are made once.
type member struct {
	// done counts the exchanges that ended for this rank, whatever their outcome. The rank spins on
	// it; only the goroutine that ends an exchange adds to it, after it has written err.
	done atomic.Uint64
	_    [56]byte // a rank spins here: keep the line to itself

	err    error         // outcome of the exchange that ended last; written before done rises
	parked bool          // guarded by Group.mu; true: whoever ends the exchange sends on wake
	wake   chan struct{} // holds one token
	timer  clock.Timer   // armed only while parked

	exchanges atomic.Uint64
	bytes     atomic.Uint64
}

// New makes a group of n ranks, 1 to MaxRanks, in epoch 0. deadline is how long a rank waits for
// the others before the group is broken; it must be positive and is measured on clk.
func New(n int, deadline time.Duration, clk clock.Clock) (*Group, error) {
	if n < 1 || n > MaxRanks {
		return nil, fmt.Errorf("collective/inproc: a group has 1 to %d ranks, not %d", MaxRanks, n)
	}
	if deadline <= 0 {
		return nil, fmt.Errorf("collective/inproc: the exchange deadline must be positive, not %v", deadline)
	}
	if clk == nil {
		return nil, fmt.Errorf("collective/inproc: no clock was given; pass clock.NewReal() to run live")
	}
	g := &Group{
		deadline: deadline,
		spins:    spinLimit(n, runtime.GOMAXPROCS(0)),
		vectors:  make([]*collective.Vector, n),
		members:  make([]*member, n),
	}
	for r := range g.members {
		m := &member{wake: make(chan struct{}, 1), timer: clk.NewTimer(deadline)}
		m.timer.Stop()
		g.members[r] = m
	}
	return g, nil
}

// spinLimit is how often a waiting rank looks before it parks. Spinning pays only while every rank
// has a processor of its own; otherwise it keeps the rank that is awaited from running.
func spinLimit(ranks, procs int) int {
	if ranks > procs {
		return 0
	}
	return 4096
}

// Ranks is the number of ranks in the group.
func (g *Group) Ranks() int { return len(g.members) }

// Epoch is the epoch the group is in.
func (g *Group) Epoch() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch
}

// Rank is rank r's end of the group in its present epoch. It never fails: where r is not 0 to
// Ranks()-1, every Min of what it returns gives a *collective.RankError.
func (g *Group) Rank(r int) *Rank { return &Rank{group: g, rank: r, epoch: g.Epoch()} }

// Reset re-forms the group under a later epoch: exchanges start at 0 again and no rank is awaited.
// Ranks that are inside Min get collective.ErrReformed, and so does every Rank taken before. An
// epoch that is not above the present one, or a closed group, is an error.
func (g *Group) Reset(epoch uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return collective.ErrClosed
	}
	if epoch <= g.epoch {
		return fmt.Errorf("collective/inproc: a group in epoch %d cannot re-form as epoch %d: epochs only rise", g.epoch, epoch)
	}
	g.finish(collective.ErrReformed)
	g.epoch, g.exchange, g.broken = epoch, 0, nil
	return nil
}

// Close ends the group. Ranks inside Min, and all later calls, get collective.ErrClosed. A second
// Close does nothing.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed, g.broken = true, collective.ErrClosed
		g.finish(collective.ErrClosed)
	}
	return nil
}

// breakWith ends the exchange in progress for everyone who has come and refuses all later ones.
// The caller holds mu.
func (g *Group) breakWith(err error) {
	g.broken = err
	g.finish(err)
}

// finish gives err to every rank that has come, and starts the next exchange. The caller holds mu.
func (g *Group) finish(err error) {
	for r, v := range g.vectors {
		if v == nil {
			continue
		}
		g.vectors[r] = nil
		m := g.members[r]
		m.err = err
		m.done.Add(1)
		if m.parked {
			m.parked = false
			m.wake <- struct{}{} // never blocks: one token a park
		}
	}
	g.arrived = 0
	g.exchange++
}

// missing lists the ranks that have not come, ascending. The caller holds mu.
func (g *Group) missing() []int {
	var out []int
	for r, v := range g.vectors {
		if v == nil {
			out = append(out, r)
		}
	}
	return out
}
