package decode

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// shadow is the shadow run of a staged set: instances of its own, one set a rank, answer the batches that the ranks'
// policies in use answer, and what they would have changed is counted. Nobody acts on the answers. The ranks put copies
// of the batches into lanes; one goroutine does the rest, and it alone touches the instances, which it closes at the end.
//
// The run begins anew, with fresh instances and counts, where its comparison would mix two things: when the group has
// formed again, whose policies are fresh then, and when other policies come into use for a hook that it watches.
type shadow struct {
	p     *policies
	set   *policySet
	of    int            // ticks
	hooks []abi.Hook     // watched: those that the set changes, in the order in which they run
	specs []plugins.Spec // of these
	wake  chan struct{}
	over  chan struct{} // closed when state is no longer running

	attempt atomic.Uint64 // grows when the run is to begin anew

	// policies.mu guards these.
	state  string
	reason string // why it was refused or cut short
	lanes  []*lane

	mu       sync.Mutex // held for a copy, or for one batch; taken last
	restarts int
	ticks    []int // by rank, those that are over
	count    [abi.Score + 1]hookCount
	skipped  [abi.Score + 1]uint64 // batches; of feeding aside
	feeding  []*lane               // of the attempt under way
}

// watch is one attempt of a shadow run. The run's goroutine owns it.
type watch struct {
	attempt uint64
	sets    []*plugins.Set // by rank
	lanes   []*lane        // by rank
}

// newShadow makes what a shadow run of a set over a number of ticks needs. It returns nil where none is to be: for 0 ticks,
// or where no hook that the set changes is ever asked.
func (p *policies) newShadow(ctx context.Context, set *policySet, of int) (*shadow, *watch, error) {
	s := &shadow{p: p, set: set, of: of, wake: make(chan struct{}, 1), over: make(chan struct{}), state: server.ShadowRunning}
	for _, h := range hooks() {
		changes := slices.ContainsFunc(set.changes, func(c plugins.Spec) bool { return c.Hook == h })
		if !changes || h == abi.Score && !p.in.o.Schedule.Score {
			continue
		}
		s.hooks = append(s.hooks, h)
		s.specs = append(s.specs, set.specs[slices.IndexFunc(set.specs, func(c plugins.Spec) bool { return c.Hook == h })])
	}
	if of == 0 || len(s.hooks) == 0 {
		return nil, nil, nil
	}
	w, err := s.build(ctx)
	return s, w, err
}

// build makes the instances and lanes of an attempt. It takes as long as instantiating does.
func (s *shadow) build(ctx context.Context) (*watch, error) {
	w := &watch{attempt: s.attempt.Load()}
	for r := range s.p.in.o.Schedule.Ranks {
		set, err := s.p.o.Host.NewSet(ctx, s.specs, s.p.o.Info)
		if err != nil {
			s.close(w)
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		w.sets = append(w.sets, set)
		w.lanes = append(w.lanes, newLane(s.hooks, s.wake))
	}
	return w, nil
}

func (s *shadow) close(w *watch) {
	for r, set := range w.sets {
		if err := set.Close(context.WithoutCancel(s.p.in.ctx)); err != nil {
			s.p.in.o.Logger.Warn("closing shadow instances", "rank", r, "error", err)
		}
	}
}

// attach has the ranks' batches copied for an attempt, whose counts start at 0. The caller holds policies.mu.
func (s *shadow) attach(w *watch) {
	s.lanes = w.lanes
	for r, l := range w.lanes {
		s.p.taps[r].attach(l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticks, s.count, s.skipped = make([]int, len(w.lanes)), [abi.Score + 1]hookCount{}, [abi.Score + 1]uint64{}
	s.feeding = w.lanes
}

// detach ends the copying. The caller holds policies.mu.
func (s *shadow) detach() {
	for r, l := range s.lanes {
		s.p.taps[r].detach(l)
	}
	s.lanes = nil
}

// renew has the run begin anew. The caller holds policies.mu.
func (s *shadow) renew() {
	if s == nil || s.state != server.ShadowRunning {
		return
	}
	s.detach()
	s.attempt.Add(1)
	signal(s.wake)
}

// end ends a run, once. The caller holds policies.mu.
func (s *shadow) end(state, reason string) {
	if s == nil || s.state != server.ShadowRunning {
		return
	}
	s.detach()
	s.state, s.reason = state, reason
	close(s.over)
}

// run is the goroutine of a run.
func (s *shadow) run(w *watch) {
	for w != nil {
		again := s.follow(w)
		s.close(w)
		if w = nil; again {
			w = s.again()
		}
	}
	// What is left of the run is its report.
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.feeding {
		for h := range s.skipped {
			s.skipped[h] += l.skipped[h].Load()
		}
	}
	s.feeding = nil
}

// again begins a further attempt; nil where the run has ended.
func (s *shadow) again() *watch {
	for {
		w, err := s.build(s.p.in.ctx)
		if err != nil {
			if s.p.in.ctx.Err() == nil {
				s.refuse("its shadow run could not begin anew: " + err.Error())
			}
			return nil
		}
		s.p.mu.Lock()
		going, fresh := s.state == server.ShadowRunning, w.attempt == s.attempt.Load()
		if going && fresh {
			s.attach(w)
			s.mu.Lock()
			s.restarts++
			s.mu.Unlock()
		}
		s.p.mu.Unlock()
		if going && fresh {
			s.p.in.o.Logger.Info("a shadow run begins anew: the group has formed again, or other policies are in use", "id", s.set.name())
			return w
		}
		s.close(w)
		if !going {
			return nil
		}
	}
}

// follow answers an attempt's batches until the run ends. It says whether it is to begin anew.
func (s *shadow) follow(w *watch) (again bool) {
	a := asker{s: s}
	a.fill = a.input
	for {
		select {
		case <-s.over:
			return false
		case <-s.wake:
		}
		for busy := true; busy; {
			busy = false
			for r, l := range w.lanes {
				if s.attempt.Load() != w.attempt {
					return true
				}
				c := l.next()
				if c == nil {
					continue
				}
				busy = true
				if l.begin(c, s.of) {
					if why := a.ask(w, r, c); why != "" {
						if s.p.in.ctx.Err() == nil {
							s.refuse(why)
						}
						return false
					}
					l.settle(c, s.of)
				}
				l.taken()
				if s.note(r, l.ticks) {
					s.finish()
					return false
				}
			}
			select {
			case <-s.over:
				return false
			default:
			}
		}
	}
}

// note shows how many ticks a rank has seen, and says whether all ranks have seen all.
func (s *shadow) note(rank, ticks int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticks[rank] = ticks
	return slices.Min(s.ticks) == s.of
}

// asker runs the shadow's runners over copied batches.
type asker struct {
	s    *shadow
	c    *copied
	fill func(abi.Batch)
}

func (a *asker) input(b abi.Batch) {
	copy(b.Globals, a.c.globals())
	copy(b.In, a.c.records())
}

// ask has a rank's shadow answer a batch and compares. It returns why the set is to be refused, empty where it is not.
func (a *asker) ask(w *watch, rank int, c *copied) string {
	s := a.s
	r := w.sets[rank].Runner(c.hook)
	if r.Wanted() {
		if err := r.Refresh(s.p.in.ctx); err != nil {
			return fmt.Sprintf("its shadow run has no fresh instance after a fault: %v", err)
		}
	}
	r.Install()
	a.c = c
	answer, err := r.Run(c.tick, c.epoch, c.n, c.nOut, a.fill)
	if err != nil {
		return fmt.Sprintf("its shadow run could not answer a batch: %v", err)
	}
	s.mu.Lock()
	h := &s.count[c.hook]
	records, differed := h.add(rank, c, &answer)
	limit := s.p.in.o.Schedule.Quarantine[schedule.Lane(c.hook)]
	tooMany, first := answer.Fault != nil && h.faulted(c.tick, limit), h.firstFault
	s.mu.Unlock()
	t := &s.p.shadowed[c.hook]
	t.records.Add(records)
	t.differed.Add(differed)
	if tooMany {
		return fmt.Sprintf("its shadow run faulted %d times within %d ticks, which would quarantine it, first: %s", limit.Faults, limit.Window, first)
	}
	return ""
}

// finish ends a run that has seen all its ticks.
func (s *shadow) finish() {
	s.p.mu.Lock()
	s.end(server.ShadowDone, "")
	report := s.show()
	s.p.mu.Unlock()
	s.p.in.o.Logger.Info("a shadow run is done", append([]any{"id", s.set.name(), "ticks", s.of}, verdicts(s.hooks, report)...)...)
}

// verdicts are the log's attributes of a run, one a hook.
func verdicts(hooks []abi.Hook, run *server.ShadowRun) []any {
	var out []any
	for _, h := range hooks {
		k := run.Hooks[h.String()]
		text := fmt.Sprintf("would have differed on %d of %d records", k.Differed, k.Records)
		if d := k.FirstDifference; d != nil {
			text += ", first in " + d.String()
		}
		if k.Skipped > 0 {
			text += fmt.Sprintf("; %d batches skipped", k.Skipped)
		}
		out = append(out, slog.String(h.String(), text))
	}
	return out
}

// refuse ends a run and its set: what would fail in use is not put in use. The set's instances are closed by who next
// changes something, at the latest by this goroutine.
func (s *shadow) refuse(why string) {
	p := s.p
	p.mu.Lock()
	if s.state != server.ShadowRunning {
		p.mu.Unlock()
		return
	}
	s.end(server.ShadowRefused, why)
	p.staged = slices.DeleteFunc(p.staged, func(k *policySet) bool { return k == s.set })
	p.dead = append(p.dead, s.set)
	p.refusals++
	p.note(p.show(s.set, server.PolicyRefused), why)
	p.mu.Unlock()
	if !s.set.bound {
		p.in.o.Logger.Warn("staged policies refused; what runs keeps running", "id", s.set.name(), "reason", why)
	}
	select {
	case <-p.turn:
		p.give()
	case <-p.closing: // shut closes them
	}
}

// show is the run's report. The caller holds policies.mu.
func (s *shadow) show() *server.ShadowRun {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &server.ShadowRun{State: s.state, Ticks: slices.Min(s.ticks), Of: s.of, Restarts: s.restarts, Hooks: map[string]server.ShadowHook{}}
	for _, h := range s.hooks {
		skipped := s.skipped[h]
		for _, l := range s.feeding {
			skipped += l.skipped[h].Load()
		}
		out.Hooks[h.String()] = s.count[h].show(skipped)
	}
	return out
}

// observe starts the goroutine of a staged set's run, if it has one. The caller holds mu.
func (p *policies) observe(s *policySet, first *watch) {
	if run := s.shadow; run != nil {
		run.attach(first)
		p.shadows.Go(func() { run.run(first) })
	}
}

// resume gives a staged set, whose run was cut short for an activation that has not happened, a run of as many ticks anew.
// The caller holds the turn.
func (p *policies) resume(s *policySet) {
	run, first, err := p.newShadow(p.in.ctx, s, s.shadow.of)
	if err != nil {
		p.in.o.Logger.Warn("no new shadow run of staged policies; their first one was cut short", "id", s.name(), "error", err)
		return
	}
	if run == nil {
		return
	}
	p.mu.Lock()
	resumed := !p.closed && slices.Contains(p.staged, s)
	if resumed {
		s.shadow = run
		p.observe(s, first)
	}
	p.mu.Unlock()
	if !resumed {
		run.close(first)
	}
}

// pass lets a set be activated that has had its shadow run, or needs none any more: now cuts it short, as cut says. The
// caller holds mu; once it has passed, the set is not refused any more.
func (p *policies) pass(s *policySet, now bool) (cut bool, err error) {
	if s.shadow == nil || s.shadow.state != server.ShadowRunning {
		return false, nil
	}
	if !now {
		run := s.shadow.show()
		return false, fmt.Errorf(`%w: its shadow run has seen %d of %d ticks; wait for it, or send {"id": %q, "now": true}`, server.ErrPolicyConflict, run.Ticks, run.Of, s.name())
	}
	s.shadow.end(server.ShadowCut, "cut short by an activation")
	return true, nil
}

// renewShadows has the runs begin anew that watch a hook in which two sets may differ, of which one takes the other's
// place. The caller holds mu.
func (p *policies) renewShadows(a, b *policySet) {
	for _, s := range p.staged {
		if s.shadow == nil {
			continue
		}
		watched := func(c plugins.Spec) bool { return slices.Contains(s.shadow.hooks, c.Hook) }
		if slices.ContainsFunc(a.changes, watched) || slices.ContainsFunc(b.changes, watched) {
			s.shadow.renew()
		}
	}
}

// WaitShadow waits for the end of a staged set's shadow run, if there is one. The error wraps server.ErrPolicyRefused
// where the set was refused for it, server.ErrPolicyConflict where the set was dropped meanwhile, and ctx's where that ended.
func (in *Instance) WaitShadow(ctx context.Context, id string) error {
	p := in.policies
	if p == nil {
		return errFixed
	}
	p.mu.Lock()
	s, err := p.lookup(id)
	p.mu.Unlock()
	if err != nil || s.shadow == nil {
		return err
	}
	select {
	case <-s.shadow.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch run := s.shadow; run.state {
	case server.ShadowRefused:
		return fmt.Errorf("%w: %s", server.ErrPolicyRefused, run.reason)
	case server.ShadowCut:
		if _, err := p.lookup(id); err != nil && s != p.active && s != p.previous {
			return err
		}
	}
	return nil
}

// Drop lets a staged set go that is not to be used.
func (in *Instance) Drop(ctx context.Context, id, reason string) error {
	p := in.policies
	if p == nil {
		return errFixed
	}
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.give()
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.lookup(id)
	if err != nil {
		return err
	}
	if p.change != nil && p.change.set == s {
		return fmt.Errorf("%w: some rank holds %s; it is dropped when newer ones are staged", server.ErrPolicyConflict, id)
	}
	p.drop(slices.Index(p.staged, s), reason)
	return nil
}

// SetShadowTicks sets for how many ticks policies of a hook run in the shadow before they may be activated, where those
// who stage them do not say. 0: none.
func (in *Instance) SetShadowTicks(h abi.Hook, ticks int) {
	p := in.policies
	if p == nil || int(h) >= len(p.shadowTicks) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shadowTicks[h] = ticks
}

// shadowFor is how many ticks the shadow run of some changes has: the most that is asked for one of them. asked are what
// those who stage them want, by change; nil where they do not say.
func (p *policies) shadowFor(changes []plugins.Spec, asked []*int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := 0
	for i, c := range changes {
		n := p.shadowTicks[c.Hook]
		if i < len(asked) && asked[i] != nil {
			n = *asked[i]
		}
		if n < 0 || n > server.MaxShadowTicks {
			return 0, fmt.Errorf("%s: shadow_ticks is %d, allowed is 0 to %d", c.Hook, n, server.MaxShadowTicks)
		}
		most = max(most, n)
	}
	return most, nil
}

// shadowTally counts the records of a hook that shadow runs have compared.
type shadowTally struct{ records, differed atomic.Uint64 }
