package decode

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"sluice/collective/inproc"
	"sluice/internal/clock"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// group is one epoch of an instance: n rank goroutines and what they share.
type group struct {
	in       *Instance
	epoch    uint64
	f        *Formation
	exchange *inproc.Group
	model    *model.Group
	leader   *rank.Leader
	members  []*member
	peer     uint32 // whom requests come from
	ended    chan struct{}

	timer    clock.Timer   // rank 0's, for pacing
	nudge    chan struct{} // wakes an idle rank 0 beside its leader's stream
	changing atomic.Bool   // a change of policies waits for ticks
	started  time.Duration // rank 0: start of the last tick

	refresh chan struct{} // some rank wants a policy instance
	fenced  chan Peer     // peers the group has cut off
	dirty   []*request    // rank 0: requests with something to push after this tick
}

// member is one rank with what its goroutine alone uses, and the snapshot that others read.
type member struct {
	rank   int
	r      *rank.Rank
	seat   *Seat
	ex     *inproc.Rank
	tokens []uint32
	first  chan struct{} // closed after the first tick

	policies    atomic.Pointer[rank.Policies] // in use; the rank's goroutine stores it
	policyEpoch uint64                        // under which they are
	retired     []uint64
	called      atomic.Bool // a change of policies waits to be looked at
	exchanging  atomic.Bool // it waits for the other ranks

	turns uint64   // ticks begun, the same on all ranks
	heals []uint64 // turns in which the ranks were made equal again

	failing   time.Duration // since when the model has made no tokens; 0: it makes them
	failingIs error

	mu   sync.Mutex
	snap snapshot
	out  bool // its goroutine has ended
}

// form builds the group of an epoch; on an error nothing is left of it.
func (in *Instance) form(epoch uint64) (*group, error) {
	f, err := in.o.Form(in.ctx, epoch)
	if err != nil {
		return nil, fmt.Errorf("decode: form the group of epoch %d: %w", epoch, err)
	}
	var policies []*rank.Policies
	if in.policies != nil {
		policies, err = in.policies.form(in.ctx)
	}
	var g *group
	if err == nil {
		g, err = in.assemble(epoch, f, policies)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("decode: form the group of epoch %d: %w", epoch, err), f.Close())
	}
	return g, nil
}

// assemble builds the ranks on their seats. policies are each rank's, none where the seats bring them.
func (in *Instance) assemble(epoch uint64, f *Formation, policies []*rank.Policies) (*group, error) {
	n := in.o.Schedule.Ranks
	if len(f.Seats) != n {
		return nil, fmt.Errorf("%d seats for %d ranks", len(f.Seats), n)
	}
	if len(f.Peers) == 0 {
		return nil, errors.New("no prefill peer: nothing could ever be transferred")
	}
	g := &group{in: in, epoch: epoch, f: f, leader: rank.NewLeaderOf(in.o.StreamBytes), peer: f.Peers[0].ID, ended: make(chan struct{}),
		nudge: make(chan struct{}, 1), refresh: make(chan struct{}, 1), fenced: make(chan Peer, 64)}
	var err error
	if g.exchange, err = inproc.New(n, in.o.Deadline, in.o.Clock); err != nil {
		return nil, err
	}
	if err := g.exchange.Reset(epoch); err != nil {
		return nil, err
	}
	if g.model, err = model.NewGroup(n, in.o.VocabSize, in.o.Clock); err != nil {
		return nil, err
	}
	for i := range n {
		s := &f.Seats[i]
		if policies != nil {
			s.Policies = policies[i]
		}
		if s.Policies == nil {
			return nil, fmt.Errorf("rank %d has no policies", i)
		}
		o := rank.Options{Rank: i, Schedule: in.o.Schedule, Epoch: epoch, Device: s.Device, L1: s.L1, L2: s.L2, Store: s.Store,
			Transport: s.Transport, Model: s.Model, Hooks: s.Policies.Hooks(), Logger: in.o.Logger,
			TransferTicks: in.o.TransferTicks, DrainTicks: in.o.DrainTicks}
		if i == 0 {
			o.Leader = g.leader
		}
		if in.o.tamper != nil {
			in.o.tamper(&o)
		}
		r, err := rank.New(o)
		if err != nil {
			return nil, err
		}
		m := &member{rank: i, r: r, seat: s, ex: g.exchange.Rank(i), first: make(chan struct{})}
		m.policies.Store(s.Policies)
		g.members = append(g.members, m)
	}
	for _, p := range f.Peers {
		g.leader.Add(schedule.AppendPeer(nil, p.ID, p.Incarnation))
	}
	g.timer = in.o.Clock.NewTimer(time.Hour)
	g.timer.Stop()
	return g, nil
}

// run drives every rank until one ends, tells the clients, and waits for the others.
func (g *group) run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	if g.in.policies != nil {
		g.in.policies.begin(g)
	}
	var helpers sync.WaitGroup
	helpers.Go(func() { g.refreshPolicies(ctx) })
	helpers.Go(func() { g.rejoinPeers(ctx) })
	ends := make(chan error, len(g.members))
	for _, m := range g.members {
		go func() {
			err := g.drive(ctx, m)
			m.mu.Lock()
			m.out = true
			m.mu.Unlock()
			ends <- err
		}()
	}
	cause := <-ends
	g.in.lost(g, cause)
	close(g.ended)
	cancel()
	g.model.Close()
	for range len(g.members) - 1 {
		<-ends
	}
	helpers.Wait()
	g.timer.Stop()
	return cause
}

func (g *group) close() error { return errors.Join(g.exchange.Close(), g.f.Close()) }

// running lists the ranks whose goroutine has not ended.
func (g *group) running() []int {
	var out []int
	for _, m := range g.members {
		m.mu.Lock()
		if !m.out {
			out = append(out, m.rank)
		}
		m.mu.Unlock()
	}
	return out
}

// drive repeats a rank's tick until it fails or ctx ends. A panic of the tick ends the group, not the process.
func (g *group) drive(ctx context.Context, m *member) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &PanicError{Rank: m.rank, Tick: m.r.Schedule().Tick(), Value: fmt.Sprint(v), Stack: string(debug.Stack())}
			g.in.o.Logger.Error("a rank panicked", "rank", p.Rank, "tick", p.Tick, "panic", p.Value, "stack", p.Stack)
			err = p
		}
	}()
	for first := true; ; first = false {
		if m.rank == 0 && !first {
			if err := g.pace(ctx, m); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if f := g.in.o.BeforeTick; f != nil {
			f(m.rank, m.r.Schedule().Tick())
		}
		if m.called.Load() {
			m.called.Store(false)
			g.in.policies.serve(g, m)
		}
		if err := g.tick(ctx, m); err != nil {
			return err
		}
		g.noteFlip(m)
		if first {
			close(m.first)
		}
	}
}

// tick is one tick of one rank.
func (g *group) tick(ctx context.Context, m *member) error {
	start := g.in.o.Clock.Now()
	if m.rank == 0 {
		g.started = start
	}
	v, err := m.r.Prepare(start)
	if err != nil {
		return err
	}
	m.turns++
	m.exchanging.Store(true)
	err = m.ex.Min(ctx, v)
	m.exchanging.Store(false)
	if err != nil {
		return g.heal(ctx, m, err)
	}
	if err := m.r.Commit(); err != nil {
		return g.heal(ctx, m, err)
	}
	if m.rank == 0 {
		g.deliver(m)
	}
	if err := g.step(m); err != nil {
		return err
	}
	if m.inUse().Wanted() {
		signal(g.refresh)
	}
	end := g.in.o.Clock.Now()
	m.publish(end)
	if m.rank == 0 {
		g.in.tickSeconds.Observe((end - start).Seconds())
	}
	return nil
}

// step makes the tokens of the running batch. A step that fails makes none and the requests go on with the
// next; an engine that makes none for longer than the exchange's deadline ends the group.
func (g *group) step(m *member) error {
	s := m.r.Schedule()
	n := s.NumStep()
	if n == 0 {
		return nil
	}
	digest := m.r.StepDigest()
	partial, err := m.r.StepModel()
	if err != nil {
		// Bringing another batch ends the step on all ranks at once, where staying away would let them wait.
		digest, partial = ^digest, partial[:0]
	}
	for len(m.tokens) < len(partial) {
		m.tokens = append(m.tokens, 0)
	}
	tokens := m.tokens[:len(partial)]
	joined := g.model.Join(m.rank, s.Tick(), digest, partial, tokens, g.in.o.Deadline)
	if err == nil && joined == nil {
		m.failing = 0
		m.r.SetTokens(tokens)
		return nil
	}
	m.r.SetTokens(nil)
	now := g.in.o.Clock.Now()
	if m.failing == 0 {
		m.failing, m.failingIs = now+1, errors.Join(err, joined)
		g.in.o.Logger.Warn("a model step made no tokens", "rank", m.rank, "tick", s.Tick(), "error", m.failingIs)
	}
	if now-m.failing > 2*g.in.o.Deadline {
		return fmt.Errorf("decode: rank %d: the model has made no tokens for %v: %w", m.rank, 2*g.in.o.Deadline, m.failingIs)
	}
	return nil
}

// pace waits until rank 0 starts the next tick. The others wait for it in the exchange.
func (g *group) pace(ctx context.Context, m *member) error {
	if !m.r.Schedule().Busy() && !g.leader.Pending() && !g.changing.Load() {
		g.timer.Reset(g.in.o.IdleTick)
		select {
		case <-g.timer.C():
		case <-g.leader.Wake():
		case <-g.nudge:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	rest := g.in.o.Pace - (g.in.o.Clock.Now() - g.started)
	if rest <= 0 {
		return nil
	}
	g.timer.Reset(rest)
	select {
	case <-g.timer.C():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// refreshPolicies makes the spares and successors of policy instances, beside the ticks.
func (g *group) refreshPolicies(ctx context.Context) {
	for {
		select {
		case <-g.refresh:
		case <-ctx.Done():
			return
		}
		for _, m := range g.members {
			if err := m.inUse().Refresh(ctx); err != nil && ctx.Err() == nil {
				g.in.o.Logger.Warn("no fresh policy instance; the native policy answers", "rank", m.rank, "error", err)
				// The next tick asks again, so a module that cannot start is tried once an interval.
				_ = clock.Sleep(ctx, g.in.o.Clock, refreshRetry)
			}
		}
	}
}

// rejoinPeers brings fenced peers back under a new incarnation, beside the ticks.
func (g *group) rejoinPeers(ctx context.Context) {
	for {
		var p Peer
		select {
		case p = <-g.fenced:
		case <-ctx.Done():
			return
		}
		if g.f.Rejoin == nil {
			g.in.o.Logger.Error("a prefill peer is fenced and cannot come back; its requests are refused", "peer", p.ID)
			continue
		}
		for ctx.Err() == nil {
			back, err := g.f.Rejoin(ctx, p)
			if err == nil {
				g.leader.Add(schedule.AppendPeer(nil, back.ID, back.Incarnation))
				g.in.o.Logger.Info("prefill peer is back", "peer", back.ID, "incarnation", back.Incarnation)
				break
			}
			g.in.o.Logger.Warn("prefill peer is not back yet", "peer", p.ID, "error", err)
			_ = clock.Sleep(ctx, g.in.o.Clock, refreshRetry)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
