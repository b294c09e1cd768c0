package decode

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/abi"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// Instance is a decode group that lives: it forms, ticks, and forms again after it has ended. It is the
// server.Engine of its rank 0. Made by New, ended by Close; all methods may be called from any goroutine.
type Instance struct {
	o      Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when no goroutine of the instance is left

	tickSeconds prometheus.Histogram
	transfers   [256]atomic.Uint64 // failed transfers by reason

	policies *policies // nil where the seats bring theirs

	mu       sync.Mutex
	group    *group // nil while none runs
	down     *DownError
	stopping bool
	byID     map[uint64]*request
	byRID    map[string]*request
	rooms    map[uint64]*request
	waiting  int // of byID: not admitted yet
	lastID   uint64
	lastRoom uint64
	flushes  []*flush
	base     tally      // what the groups before this one have counted
	past     pastCounts // the same of the policies that their seats have brought

	policyEnds map[policyEnd]uint64 // requests that policies have ended for reasons of their own; guarded by mu
}

var _ server.Engine = (*Instance)(nil)

// firstRoom is above what clients choose, so that rooms given out here seldom meet theirs.
const firstRoom = 1 << 62

// New forms the first group and starts it. The error is that of the options or of Form.
func New(o Options) (*Instance, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	in := &Instance{o: o, done: make(chan struct{}), byID: make(map[uint64]*request), byRID: make(map[string]*request),
		rooms: make(map[uint64]*request), lastRoom: firstRoom, base: newTally(o.Schedule.Ranks), policyEnds: make(map[policyEnd]uint64)}
	in.ctx, in.cancel = context.WithCancel(context.Background())
	in.tickSeconds = o.Registry.NewHistogram("tick_seconds",
		"Time from the start of a tick to its end on rank 0, without the wait before it.", tickBounds())
	if o.Policies != nil {
		in.policies = newPolicies(in)
	}
	o.Registry.Register("decode", newCollector(in))
	if err := o.Registry.Err(); err != nil {
		in.cancel()
		return nil, err
	}
	g, err := in.form(1)
	if err != nil {
		in.cancel()
		if in.policies != nil {
			in.policies.shut()
		}
		return nil, err
	}
	in.group = g
	go in.run(g)
	return in, nil
}

// tickBounds are the upper bounds of sluice_tick_seconds: 10 microseconds to a second.
func tickBounds() []float64 {
	return []float64{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 1}
}

// run drives one group after another until Close.
func (in *Instance) run(g *group) {
	defer close(in.done)
	if in.policies != nil {
		defer in.policies.shut()
	}
	var ends []time.Duration
	for {
		cause := g.run(in.ctx)
		in.retire(g)
		if err := g.close(); err != nil {
			in.o.Logger.Error("the ended group was not freed", "epoch", g.epoch, "error", err)
		}
		if in.ctx.Err() != nil {
			return
		}
		now := in.o.Clock.Now()
		kept := ends[:0]
		for _, at := range ends {
			if now-at < in.o.ReformWindow {
				kept = append(kept, at)
			}
		}
		ends = append(kept, now)
		if len(ends) > in.o.Reforms {
			in.final(g.epoch, fmt.Errorf("%d ends within %v, the last: %w", len(ends), in.o.ReformWindow, cause))
			return
		}
		next, err := in.form(g.epoch + 1)
		if err != nil {
			in.final(g.epoch, fmt.Errorf("it could not form again: %w", err))
			return
		}
		in.o.Logger.Info("the group has formed again", "epoch", next.epoch)
		g = next
		in.mu.Lock()
		in.group, in.down = g, nil
		in.mu.Unlock()
	}
}

// final leaves the instance down for good.
func (in *Instance) final(epoch uint64, err error) {
	e := &DownError{Epoch: epoch, Final: true, Err: err}
	in.o.Logger.Error("decode stays down", "error", e)
	in.mu.Lock()
	in.down = e
	in.mu.Unlock()
}

// lost is called when the first rank of a group has ended: nobody is served from here on until the next group.
func (in *Instance) lost(g *group, cause error) {
	reason := abi.ReasonResync
	if in.ctx.Err() != nil {
		reason = abi.ReasonShutdown
	} else if diverged(cause) {
		in.o.Logger.Error("the ranks have diverged", "epoch", g.epoch, "error", cause)
	} else {
		in.o.Logger.Error("the group has ended", "epoch", g.epoch, "error", cause)
	}
	in.mu.Lock()
	in.down = &DownError{Epoch: g.epoch, Err: cause}
	in.mu.Unlock()
	in.failAll(reason, cause)
}

// retire takes a group's counts over once its ranks have ended.
func (in *Instance) retire(g *group) {
	if in.policies != nil {
		in.policies.over(g)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	g.count(&in.base)
	if in.policies == nil {
		in.rememberFixed(g)
	}
	in.group = nil
}

// failAll ends every live request for its client.
func (in *Instance) failAll(reason abi.Reason, cause error) {
	in.mu.Lock()
	live := make([]*request, 0, len(in.byID))
	for _, r := range in.byID {
		live = append(live, r)
	}
	for _, r := range live {
		in.forget(r)
	}
	flushes := in.flushes
	in.flushes = nil
	in.mu.Unlock()
	message := abi.ReasonText(reason) + "; send the request again"
	if cause != nil && reason != abi.ReasonShutdown {
		message = fmt.Sprintf("%s: %v; send the request again", abi.ReasonText(reason), cause)
	}
	for _, r := range live {
		r.queue.Push(server.Event{Cached: r.cached, Finish: &server.Finish{Type: server.FinishAbort, Message: message,
			Status: status(schedule.FinishFailed, reason), ErrType: errType(reason)}})
	}
	for _, f := range flushes {
		f.end(fmt.Errorf("the cache was not flushed: %s", message))
	}
}

// forget frees a request's number, id and room. The caller holds mu.
func (in *Instance) forget(r *request) {
	delete(in.byID, r.id)
	delete(in.rooms, r.room)
	in.freeRID(r)
	if !r.admitted {
		in.waiting--
	}
}

func (in *Instance) freeRID(r *request) {
	if in.byRID[r.rid] == r {
		delete(in.byRID, r.rid)
	}
}

// Close takes no more work, fails what is live with 503, stops the ranks and waits for them, at most until ctx
// ends. A rank that is stuck in its device or model keeps Close waiting; the error says so.
func (in *Instance) Close(ctx context.Context) error {
	in.mu.Lock()
	in.stopping = true
	in.mu.Unlock()
	in.failAll(abi.ReasonShutdown, nil)
	in.cancel()
	select {
	case <-in.done:
		return nil
	case <-ctx.Done():
	}
	in.mu.Lock()
	g := in.group
	in.mu.Unlock()
	if g == nil {
		return fmt.Errorf("decode: not stopped yet: %w", ctx.Err())
	}
	return fmt.Errorf("decode: ranks %v have not stopped: %w", g.running(), ctx.Err())
}

// WaitReady waits until every rank has completed a tick, or the group has ended, and returns what Ready says then.
func (in *Instance) WaitReady(ctx context.Context) error {
	in.mu.Lock()
	g, down := in.group, in.down
	in.mu.Unlock()
	if g == nil {
		return down
	}
	for _, m := range g.members {
		select {
		case <-m.first:
		case <-g.ended:
			return in.Ready()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return in.Ready()
}

// Ready implements server.Engine: nil only while every rank has completed a tick within the last 5 s.
func (in *Instance) Ready() error {
	in.mu.Lock()
	g, down, stopping := in.group, in.down, in.stopping
	in.mu.Unlock()
	switch {
	case stopping:
		return server.ErrStopping
	case down != nil:
		return down
	}
	now := in.o.Clock.Now()
	for _, m := range g.members {
		at, tick := m.lastTick()
		if tick == 0 || now-at >= staleAfter {
			return &StaleError{Rank: m.rank, Tick: tick}
		}
	}
	return nil
}
