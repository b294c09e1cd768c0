package decode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice/abi"
	"sluice/internal/text"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// PolicyOptions let an instance make its policies itself, and change them while it runs.
type PolicyOptions struct {
	Host  *plugins.Host
	Info  abi.HostInfo   // the same on all ranks
	Specs []plugins.Spec // at the start; who answers after a fault is as the schedule's HoldOnFault says
	// Deadline is how long the ranks may take to switch, on the instance's clock. 0: 10 s.
	Deadline time.Duration
	// Recorder is what takes down the answers of a rank's policies, the same for all sets that the rank has one after the
	// other. nil: nothing is recorded.
	Recorder func(rank int) rank.Recorder
	// ShadowTicks are those of SetShadowTicks at the start; a hook that is not there has 0.
	ShadowTicks map[abi.Hook]int
	// SlowCall is how long a call of a policy may take on the instance's clock before that raises an alarm: a counter and
	// a line of log, and nothing else. 0: calls are not timed.
	SlowCall time.Duration
}

// Bounds of what is kept beside the policies in use and their predecessors.
const (
	maxStaged      = 4 // one more drops the oldest
	maxGone        = 8 // refused and dropped ones that are remembered
	switchDeadline = 10 * time.Second
)

// policies are an instance's policies: those in use, their predecessors, and those staged. One change is made at a time,
// by the goroutine that holds turn; mu guards what ranks and readers see, and is held for a few assignments only. A set's
// instances are touched by the ranks between the tick that put it in use and the one that ended that, else by the
// goroutine that holds turn, and by form while no rank runs.
type policies struct {
	in   *Instance
	o    PolicyOptions
	turn chan struct{} // holds a token while nobody changes anything

	closing  chan struct{}  // closed when shut begins
	shadows  sync.WaitGroup // goroutines of shadow runs
	taps     []*tap         // by rank
	shadowed [abi.Score + 1]shadowTally
	slow     *slowCalls // nil: calls are not timed

	mu        sync.Mutex
	closed    bool
	formation uint64 // groups formed
	lastID    uint64
	lastEpoch uint64 // ever announced to the ranks
	epoch     uint64 // in force
	active    *policySet
	previous  *policySet
	staged    []*policySet       // oldest first
	gone      []server.PolicySet // refused or dropped, oldest first
	running   *group             // whom changes are announced to
	change    *change            // under way
	dead      []*policySet       // to be closed by who holds turn
	swaps     uint64
	refusals  uint64
	past      pastCounts // of sets that are gone

	shadowTicks [abi.Score + 1]int // by hook, where who stages does not say
}

// policySet is one choice of policies with its instances, one plugins.Set a rank.
type policySet struct {
	id      uint64
	epoch   uint64         // under which it came into use
	base    uint64         // id of the set in use when it was built; hooks it does not change are as there
	changes []plugins.Spec // the hooks it was staged for
	bound   bool           // the changes bring their own pins and limits; else those in force hold for them
	specs   []plugins.Spec // all
	shadow  *shadow        // its shadow run, under way or over; nil: it has none

	reason    string // why its last activation did not happen
	ranks     []*rank.Policies
	infos     []plugins.Info
	formation uint64 // of the last group that ran it; 0: none
	stale     bool   // its replicated instances may differ between ranks, once it has been left
	carried   [numHooks]plugins.Stats
	state     [][]plugins.Carried       // by rank: what it took over when it came into use last
	last      [][numHooks]plugins.Stats // by rank: what its instances counted before the ranks left them
}

func newPolicies(in *Instance) *policies {
	p := &policies{in: in, o: *in.o.Policies, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	if p.o.Deadline <= 0 {
		p.o.Deadline = switchDeadline
	}
	p.slow = newSlowCalls(in.o.Clock, p.o.SlowCall)
	for r := range in.o.Schedule.Ranks {
		var to rank.Recorder
		if p.o.Recorder != nil {
			to = p.o.Recorder(r)
		}
		p.taps = append(p.taps, newTap(to, p.slow, in.o.Logger.With("rank", r)))
	}
	for h, n := range p.o.ShadowTicks {
		p.shadowTicks[h] = n
	}
	p.turn <- struct{}{}
	p.lastID = 1
	p.active = &policySet{id: 1, specs: slices.Clone(p.o.Specs)}
	return p
}

// take waits for the turn to change something; give ends it.
func (p *policies) take(ctx context.Context) error {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return fmt.Errorf("another change of policies is under way: %w", ctx.Err())
	case <-p.in.ctx.Done():
		return server.ErrStopping
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		p.turn <- struct{}{}
		return server.ErrStopping
	}
	return nil
}

// give closes what the change has put out of use, and ends the turn.
func (p *policies) give() {
	p.bury()
	p.rest()
	p.turn <- struct{}{}
}

// rest closes the spares of the policies that were left: of instances, what is kept for a rollback is the one that was in
// use. Staged ones have none, since they are not asked.
func (p *policies) rest() {
	p.mu.Lock()
	var left []*rank.Policies
	if s := p.previous; s != nil && (p.change == nil || p.change.set != s) {
		left = s.ranks
	}
	p.mu.Unlock()
	for r, k := range left {
		if err := k.Rest(context.WithoutCancel(p.in.ctx)); err != nil {
			p.in.o.Logger.Warn("closing spare policy instances", "rank", r, "error", err)
		}
	}
}

func (p *policies) bury() {
	p.mu.Lock()
	dead := p.dead
	p.dead = nil
	p.remember(dead)
	p.mu.Unlock()
	for _, s := range dead {
		p.free(s.ranks)
	}
}

// free closes instances that no rank uses.
func (p *policies) free(ranks []*rank.Policies) {
	for r, k := range ranks {
		if err := k.Set().Close(context.WithoutCancel(p.in.ctx)); err != nil {
			p.in.o.Logger.Warn("closing policy instances", "rank", r, "error", err)
		}
	}
}

// build makes the instances of a choice of policies, one set a rank. It takes as long as compiling does.
func (p *policies) build(ctx context.Context, specs []plugins.Spec) ([]*rank.Policies, []plugins.Info, error) {
	var ranks []*rank.Policies
	specs = slices.Clone(specs)
	for i := range specs {
		// Fixed when the group forms, as part of what the ranks compare; nobody who stages a policy can change it.
		specs[i].OnFault = plugins.OnFaultNative
		if p.in.o.Schedule.HoldOnFault[schedule.Lane(specs[i].Hook)] {
			specs[i].OnFault = plugins.OnFaultHold
		}
	}
	for r := range p.in.o.Schedule.Ranks {
		set, err := p.o.Host.NewSet(ctx, specs, p.o.Info)
		if err != nil {
			p.free(ranks)
			return nil, nil, err
		}
		k := rank.NewPolicies(set, p.in.o.Logger.With("rank", r))
		k.Record(p.taps[r])
		ranks = append(ranks, k)
	}
	return ranks, ranks[0].Set().Infos(), nil
}

// form makes fresh instances of the active policies for a group that is about to run. No rank runs.
func (p *policies) form(ctx context.Context) ([]*rank.Policies, error) {
	p.mu.Lock()
	s := p.active
	p.mu.Unlock()
	ranks, infos, err := p.build(ctx, s.specs)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	old := s.ranks
	s.retire()
	p.formation++
	s.ranks, s.infos, s.formation, s.stale = ranks, infos, p.formation, false
	for _, k := range p.staged {
		k.shadow.renew()
	}
	p.mu.Unlock()
	p.free(old)
	return ranks, nil
}

// retire moves what the instances of a set have counted to the set. The caller holds mu.
func (s *policySet) retire() {
	for i := range s.last {
		for h := range s.last[i] {
			addStats(&s.carried[h], &s.last[i][h])
		}
	}
	s.last = nil
}

// leave notes what a rank's instances have counted when it leaves them. The caller holds mu, and is that rank's
// goroutine or runs after it.
func (s *policySet) leave(rank, ranks int, n [numHooks]plugins.Stats) {
	if s.last == nil {
		s.last = make([][numHooks]plugins.Stats, ranks)
	}
	s.last[rank] = n
}

// over settles what the end of a group leaves open. Its ranks have ended.
func (p *policies) over(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = nil
	for _, m := range g.members {
		if n := m.read(); slices.Contains(p.active.ranks, n.inUse) {
			p.active.leave(m.rank, len(g.members), n.policy)
		}
	}
	c := p.change
	if c == nil || c.g != g {
		return
	}
	if slices.Contains(c.flipped, true) {
		p.commit(c)
		return
	}
	p.settle(c, fmt.Errorf("%w: the group of epoch %d has ended meanwhile; activate again when it has formed again", server.ErrPolicyConflict, g.epoch))
}

// shut closes everything. No rank runs any more, and none will.
func (p *policies) shut() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.closing)
	<-p.turn
	p.mu.Lock()
	for _, s := range p.staged {
		s.shadow.end(server.ShadowCut, "the server is stopping")
	}
	p.mu.Unlock()
	p.shadows.Wait()
	p.mu.Lock()
	p.dead = append(append(p.dead, p.active), p.staged...)
	if p.previous != nil {
		p.dead = append(p.dead, p.previous)
	}
	p.staged, p.previous = nil, nil
	p.mu.Unlock()
	p.give()
}

// Stage implements server.PolicyEngine.
func (in *Instance) Stage(ctx context.Context, q server.StageRequest) (server.PolicySet, error) {
	return in.StageAll(ctx, []server.StageRequest{q})
}

// StageAll is Stage for several hooks at once: one set that changes them all, or nothing. The pins and limits of the
// policies in use hold for the new ones too: a hook whose modules must be signed takes no unsigned one from here. A
// rollback brings its predecessors' pins and limits back with them.
func (in *Instance) StageAll(ctx context.Context, qs []server.StageRequest) (server.PolicySet, error) {
	ticks := make([]*int, len(qs))
	for i := range qs {
		ticks[i] = qs[i].ShadowTicks
	}
	return in.stage(ctx, hooksOf(qs), false, ticks, func(i int) (plugins.Spec, error) { return specOf(&qs[i]) })
}

// StageSpecs stages the policies that spec gives for some hooks, with the pins and limits that they bring. An error of
// spec's is a refusal, as one of StageAll's is. Who calls logs what is refused, here, in the shadow run, or by
// ActivateSpecs, and whose configuration that was; it is not logged here.
func (in *Instance) StageSpecs(ctx context.Context, changed []abi.Hook, spec func(abi.Hook) (plugins.Spec, error)) (server.PolicySet, error) {
	names := make([]string, len(changed))
	for i, h := range changed {
		names[i] = h.String()
	}
	return in.stage(ctx, names, true, nil, func(i int) (plugins.Spec, error) { return spec(changed[i]) })
}

// stage makes a set that changes some hooks, and begins its shadow run. ticks are what is asked for that, by hook; see
// shadowFor.
func (in *Instance) stage(ctx context.Context, names []string, bound bool, ticks []*int, spec func(i int) (plugins.Spec, error)) (server.PolicySet, error) {
	p := in.policies
	if p == nil {
		return server.PolicySet{}, errFixed
	}
	if err := p.take(ctx); err != nil {
		return server.PolicySet{}, err
	}
	defer p.give()
	refuse := func(hooks []string, err error) error {
		err = p.refuse(hooks, err)
		if !bound {
			in.o.Logger.Warn("policies refused; what runs keeps running", "changes", hooks, "error", err)
		}
		return err
	}
	var changes []plugins.Spec
	for i := range names {
		s, err := spec(i)
		if err == nil && s.Hook == abi.Score && !in.o.Schedule.Score && s.Builtin != standard.DefaultScore {
			err = errors.New("score: this instance was started with plain LRU eviction and asks no score policy; name one in [policy.score] and start again")
		}
		if err == nil && slices.ContainsFunc(changes, func(c plugins.Spec) bool { return c.Hook == s.Hook }) {
			err = fmt.Errorf("two policies are given for %s; give one", s.Hook)
		}
		if err != nil {
			return server.PolicySet{}, refuse(names, err)
		}
		changes = append(changes, s)
	}
	if len(changes) == 0 {
		return server.PolicySet{}, refuse(nil, errors.New("no hook is named; give one"))
	}
	p.mu.Lock()
	base := p.active
	p.mu.Unlock()
	s := &policySet{base: base.id, changes: changes, bound: bound, specs: merge(base.specs, changes, bound)}
	of, err := p.shadowFor(changes, ticks)
	if err == nil {
		s.ranks, s.infos, err = p.build(in.ctx, s.specs)
	}
	if err != nil {
		return server.PolicySet{}, refuse(names, err)
	}
	var first *watch
	if s.shadow, first, err = p.newShadow(in.ctx, s, of); err != nil {
		p.free(s.ranks)
		return server.PolicySet{}, refuse(names, fmt.Errorf("the instances of its shadow run: %w", err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	s.id = p.lastID
	if len(p.staged) == maxStaged {
		i := 0
		if p.change != nil && p.change.set == p.staged[i] {
			i++ // some rank holds it
		}
		p.drop(i, fmt.Sprintf("%d newer ones were staged, and no more are kept; stage it again", maxStaged))
	}
	p.staged = append(p.staged, s)
	p.observe(s, first)
	in.o.Logger.Info("policies staged", "id", s.name(), "changes", names, "shadow_ticks", of)
	return p.show(s, server.PolicyStaged), nil
}

// errFixed is for instances whose seats bring their policies.
var errFixed = fmt.Errorf("%w: this instance's policies cannot be changed while it runs; restart it with others", server.ErrPolicyConflict)

// refuse counts and remembers a refusal, and is its error, of which no more is told than is remembered. hooks are as they
// were asked for, and the callee's.
func (p *policies) refuse(hooks []string, err error) error {
	if !errors.Is(err, server.ErrPolicyRefused) {
		err = fmt.Errorf("%w: %w", server.ErrPolicyRefused, err)
	}
	err = shownError{kept(err.Error()), err}
	for i := range hooks {
		hooks[i] = text.Line(hooks[i], maxHookText)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	p.refusals++
	p.note(server.PolicySet{ID: strconv.FormatUint(p.lastID, 10), State: server.PolicyRefused, Changes: hooks}, err.Error())
	return err
}

// drop lets the staged set at i go. The caller holds mu and the turn.
func (p *policies) drop(i int, reason string) {
	s := p.staged[i]
	s.shadow.end(server.ShadowCut, "the set was dropped")
	p.dead = append(p.dead, s)
	p.staged = slices.Delete(p.staged, i, i+1)
	p.note(p.show(s, server.PolicyDropped), reason)
	p.in.o.Logger.Info("staged policies dropped", "id", s.name(), "reason", kept(reason))
}

// note remembers a set that is not to be used. The caller holds mu.
func (p *policies) note(s server.PolicySet, reason string) {
	s.Reason = kept(reason)
	if len(p.gone) == maxGone {
		p.gone = slices.Delete(p.gone, 0, 1)
	}
	p.gone = append(p.gone, s)
}

func (s *policySet) name() string { return strconv.FormatUint(s.id, 10) }

// merge replaces the specs of the hooks that changes names. Changes that are not bound get the pins and limits of what
// they replace.
func merge(specs, changes []plugins.Spec, bound bool) []plugins.Spec {
	changes = slices.Clone(changes)
	for i := range changes {
		c := &changes[i]
		if at := slices.IndexFunc(specs, func(s plugins.Spec) bool { return s.Hook == c.Hook }); at >= 0 && !bound {
			c.Pin, c.Fuel, c.MemoryPages = specs[at].Pin, specs[at].Fuel, specs[at].MemoryPages
		}
	}
	out := slices.DeleteFunc(slices.Clone(specs), func(s plugins.Spec) bool {
		return slices.ContainsFunc(changes, func(c plugins.Spec) bool { return c.Hook == s.Hook })
	})
	return append(out, changes...)
}
