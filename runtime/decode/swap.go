package decode

import (
	"context"
	"fmt"
	"slices"

	"sluice/internal/clock"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/server"
)

// A change of policies, as the ranks see it. Each rank takes the new hooks in at the start of a tick, and reports them
// in its ballot; the group switches in the first tick in which all do, so a switch takes one exchange. Where a rank does
// not take them in time, the change is withdrawn: a rank that has not looked yet never gets to see it, one that has
// stops reporting at the start of its next tick. Until every rank has, no other epoch is announced, since the lowest
// epoch ready could else be the withdrawn one. All fields are guarded by policies.mu.
type change struct {
	g         *group
	set       *policySet
	epoch     uint64
	taken     []bool // by rank: it holds the set as staged
	flipped   []bool // by rank: it uses the set
	withdrawn error  // why; nil while it stands
	decided   bool
	err       error         // the outcome, once decided
	done      chan struct{} // closed when it is decided
	settled   chan struct{} // closed when no rank holds the epoch as staged any more
}

// begin lets changes be announced to a group.
func (p *policies) begin(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = g
}

// Activate implements server.PolicyEngine.
func (in *Instance) Activate(ctx context.Context, id string) (server.PolicySet, error) {
	return in.activate(ctx, id, false, true)
}

// ActivateNow implements server.PolicyEngine.
func (in *Instance) ActivateNow(ctx context.Context, id string) (server.PolicySet, error) {
	return in.activate(ctx, id, true, true)
}

// ActivateSpecs is Activate for a set of StageSpecs, whose caller logs why it was not put in use.
func (in *Instance) ActivateSpecs(ctx context.Context, id string) (server.PolicySet, error) {
	return in.activate(ctx, id, false, false)
}

func (in *Instance) activate(ctx context.Context, id string, now, logged bool) (server.PolicySet, error) {
	p := in.policies
	if p == nil {
		return server.PolicySet{}, errFixed
	}
	if err := p.take(ctx); err != nil {
		return server.PolicySet{}, err
	}
	defer p.give()
	s, cut, err := p.find(id, now)
	if err != nil {
		return server.PolicySet{}, err
	}
	out, err := p.put(ctx, s, logged)
	if err != nil && cut {
		p.resume(s)
	}
	return out, err
}

// find is the staged set of an id, where its shadow run lets it be activated; see pass. cut says that this has ended the
// run.
func (p *policies) find(id string, now bool) (s *policySet, cut bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, err = p.lookup(id); err == nil {
		cut, err = p.pass(s, now)
	}
	return s, cut, err
}

// lookup is the staged set of an id. The caller holds mu.
func (p *policies) lookup(id string) (*policySet, error) {
	for _, s := range p.staged {
		if s.name() == id {
			return s, nil
		}
	}
	switch {
	case p.active.name() == id:
		return nil, fmt.Errorf("%w: %s is active already", server.ErrPolicyConflict, id)
	case p.previous != nil && p.previous.name() == id:
		return nil, fmt.Errorf("%w: %s is the previous set; roll back to it", server.ErrPolicyConflict, id)
	}
	for i := range p.gone {
		if g := &p.gone[i]; g.ID == id {
			return nil, fmt.Errorf("%w: %s was %s: %s", server.ErrPolicyConflict, id, g.State, g.Reason)
		}
	}
	return nil, fmt.Errorf("%w: nothing is staged as %q; /policies lists what is", server.ErrPolicyUnknown, id)
}

// Rollback implements server.PolicyEngine. The predecessor's instances were kept: they answer with the state they had
// when they were left.
func (in *Instance) Rollback(ctx context.Context) (server.PolicySet, error) {
	p := in.policies
	if p == nil {
		return server.PolicySet{}, errFixed
	}
	if err := p.take(ctx); err != nil {
		return server.PolicySet{}, err
	}
	defer p.give()
	p.mu.Lock()
	s := p.previous
	p.mu.Unlock()
	if s == nil {
		return server.PolicySet{}, fmt.Errorf("%w: there is nothing to roll back to; no other policies have been active", server.ErrPolicyConflict)
	}
	return p.put(ctx, s, true)
}

// put has the ranks switch to a set, and shows it; logged says whether a failure is to be logged. The caller holds the turn.
func (p *policies) put(ctx context.Context, s *policySet, logged bool) (server.PolicySet, error) {
	timer := p.in.o.Clock.NewTimer(p.o.Deadline)
	defer timer.Stop()
	if err := p.switchTo(ctx, timer, s); err != nil {
		if logged {
			p.in.o.Logger.Warn("policies not switched; what runs keeps running", "id", s.name(), "error", err)
		}
		return server.PolicySet{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in.o.Logger.Info("policies active on all ranks", "id", s.name(), "policy_epoch", s.epoch)
	return p.show(s, server.PolicyActive), nil
}

func (p *policies) switchTo(ctx context.Context, timer clock.Timer, s *policySet) error {
	c, err := p.announce(ctx, timer, s)
	if err != nil {
		return err
	}
	why := ""
	select {
	case <-c.done:
		return c.err
	case <-timer.C():
		why = fmt.Sprintf("within %v", p.o.Deadline)
	case <-ctx.Done():
		why = "before the caller gave up"
	}
	p.withdraw(c, why)
	// Where every rank has taken the set in, the exchange under way or the next decides, or the group ends.
	timer.Reset(2 * p.in.o.Deadline)
	select {
	case <-c.done:
		return c.err
	case <-timer.C():
		return fmt.Errorf("%w: the ranks neither switch nor end; /policies shows what becomes of it", server.ErrPolicyConflict)
	}
}

// announce makes the set ready and offers it to the ranks.
func (p *policies) announce(ctx context.Context, timer clock.Timer, s *policySet) (*change, error) {
	for {
		if err := p.prepare(s); err != nil {
			return nil, err
		}
		p.mu.Lock()
		last, g := p.change, p.running
		switch {
		case g == nil:
			p.mu.Unlock()
			return nil, fmt.Errorf("%w: no group runs; try again once it has formed", server.ErrPolicyConflict)
		case last == nil && p.fresh(s):
			c := p.offer(g, s)
			p.mu.Unlock()
			return c, nil
		case last == nil:
			p.mu.Unlock() // the group has formed again meanwhile
			continue
		}
		lag := last.lag()
		p.mu.Unlock()
		select {
		case <-last.settled:
		case <-timer.C():
			return nil, fmt.Errorf("%w: rank %v has not let go of an earlier change; try again", server.ErrPolicyConflict, lag)
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: rank %v has not let go of an earlier change: %w", server.ErrPolicyConflict, lag, ctx.Err())
		}
	}
}

// fresh says whether a set's instances can be put in use: built beside the policies in use, and not left in an unknown
// state by the end of a group or by a resync. The caller holds mu.
func (p *policies) fresh(s *policySet) bool {
	return (s == p.previous || s.base == p.active.id) && (s.formation == 0 || s.formation == p.formation) && !s.stale
}

// resynced is called by a rank once it is equal to its peers again, with fresh replicated instances of the set in use.
// The one before may have been left in the tick that parted the ranks, by some of them a batch later than by others, and
// so may the one in use where a switch is under way: neither comes back with the instances that it has.
func (p *policies) resynced() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.previous != nil {
		p.previous.stale = true
	}
	if p.change != nil {
		p.active.stale = true
	}
}

// prepare brings a set's instances up to date where they are not: what is staged changes its own hooks only, so the
// others follow what is active by now.
func (p *policies) prepare(s *policySet) error {
	p.mu.Lock()
	fresh, base, previous := p.fresh(s), p.active, s == p.previous
	specs := s.specs
	p.mu.Unlock()
	if fresh {
		for r, k := range s.ranks {
			if err := k.Refresh(p.in.ctx); err != nil {
				return fmt.Errorf("%w: rank %d: %w", server.ErrPolicyConflict, r, err)
			}
		}
		return nil
	}
	if !previous {
		specs = merge(base.specs, s.changes, s.bound)
	}
	ranks, infos, err := p.build(p.in.ctx, specs)
	if err != nil {
		p.mu.Lock()
		p.refusals++
		p.mu.Unlock()
		return fmt.Errorf("%w: %w", server.ErrPolicyRefused, err)
	}
	p.mu.Lock()
	old := s.ranks
	s.retire()
	s.ranks, s.infos, s.specs, s.formation, s.stale = ranks, infos, specs, 0, false
	if !previous {
		s.base = base.id
	}
	p.mu.Unlock()
	p.free(old)
	return nil
}

// offer tells every rank of a set. The caller holds mu.
func (p *policies) offer(g *group, s *policySet) *change {
	n := len(g.members)
	p.lastEpoch++
	s.reason = ""
	p.change = &change{g: g, set: s, epoch: p.lastEpoch, taken: make([]bool, n), flipped: make([]bool, n),
		done: make(chan struct{}), settled: make(chan struct{})}
	g.call()
	return p.change
}

// call has every rank look at the change before its next tick, and an idle group tick until it is settled.
func (g *group) call() {
	g.changing.Store(true)
	for _, m := range g.members {
		m.called.Store(true)
	}
	signal(g.nudge)
}

// withdraw takes a change back that has not happened in time.
func (p *policies) withdraw(c *change, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.decided {
		return
	}
	p.retract(c, fmt.Errorf("%w: not all ranks were ready %s, rank %v lags; the change is withdrawn on all ranks, activate again when they move", server.ErrPolicyConflict, why, c.lag()))
}

// retract marks a change as withdrawn. A rank that has not taken it in never will, and without it no group switches.
// The caller holds mu.
func (p *policies) retract(c *change, why error) {
	c.withdrawn = why
	c.g.call()
	if slices.Contains(c.taken, false) {
		p.decide(c, why)
	}
	if !slices.Contains(c.taken, true) {
		p.settle(c, why)
	}
}

// lag lists the ranks that a change waits for: of those that have not come as far as the others, the ones that are not
// themselves waiting in the exchange. The caller holds mu.
func (c *change) lag() []int {
	var behind, stuck []int
	for r, m := range c.g.members {
		if c.withdrawn == nil && c.taken[r] && slices.Contains(c.taken, false) || c.withdrawn != nil && !c.taken[r] {
			continue
		}
		behind = append(behind, r)
		if !m.exchanging.Load() {
			stuck = append(stuck, r)
		}
	}
	if len(stuck) > 0 {
		return stuck
	}
	return behind
}

// serve is a rank's look at the change under way, between two of its ticks.
func (p *policies) serve(g *group, m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.change
	if c == nil || c.g != g {
		return
	}
	if c.withdrawn == nil {
		if c.taken[m.rank] {
			return
		}
		if err := m.r.Stage(c.epoch, c.set.ranks[m.rank].Hooks()); err != nil {
			p.retract(c, fmt.Errorf("%w: %w", server.ErrPolicyConflict, err))
			return
		}
		c.taken[m.rank] = true
		return
	}
	// Where the rank cannot take it back, the group has switched, and flipped is about to hear of it.
	if c.taken[m.rank] && m.r.Withdraw(c.epoch) {
		c.taken[m.rank] = false
		p.decide(c, c.withdrawn)
		if !slices.Contains(c.taken, true) {
			p.settle(c, c.withdrawn)
		}
	}
}

// noteFlip is called by a rank after each tick.
func (g *group) noteFlip(m *member) {
	e := m.r.Schedule().PolicyEpoch()
	if e == m.policyEpoch {
		return
	}
	m.policyEpoch = e
	m.retired = m.r.TakeRetired(m.retired[:0]) // policies knows the sets itself
	p := g.in.policies
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.change
	if c == nil || c.g != g || c.epoch != e {
		return
	}
	p.active.leave(m.rank, len(g.members), m.stats())
	m.policies.Store(c.set.ranks[m.rank])
	if c.set.state == nil {
		c.set.state = make([][]plugins.Carried, len(g.members))
	}
	c.set.state[m.rank] = c.set.ranks[m.rank].Carried()
	c.flipped[m.rank] = true
	if !slices.Contains(c.flipped, false) {
		p.commit(c)
	}
}

// commit makes a set that the ranks have switched to the active one. The caller holds mu.
func (p *policies) commit(c *change) {
	if p.previous != nil && p.previous != c.set {
		p.dead = append(p.dead, p.previous)
	}
	p.staged = slices.DeleteFunc(p.staged, func(s *policySet) bool { return s == c.set })
	p.renewShadows(p.active, c.set)
	p.previous, p.active = p.active, c.set
	p.epoch, c.set.epoch, c.set.formation, c.set.stale = c.epoch, c.epoch, p.formation, false
	p.swaps++
	p.settle(c, nil)
}

// decide makes the outcome known. The caller holds mu.
func (p *policies) decide(c *change, err error) {
	if c.decided {
		return
	}
	c.decided, c.err = true, err
	if err != nil {
		p.refusals++
		c.set.reason = kept(err.Error())
	}
	close(c.done)
}

// settle ends a change. The caller holds mu.
func (p *policies) settle(c *change, err error) {
	p.decide(c, err)
	if p.change == c {
		p.change = nil
		c.g.changing.Store(false)
		close(c.settled)
	}
}

// stats are the counters of the rank's policies in use. Its goroutine alone calls it.
func (m *member) stats() (out [numHooks]plugins.Stats) {
	set := m.policies.Load().Set()
	for i, h := range hooks() {
		out[i] = set.Runner(h).Stats()
	}
	return out
}

// inUse are the rank's policies; any goroutine may ask.
func (m *member) inUse() *rank.Policies { return m.policies.Load() }
