package rank

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/schedule"
)

// Policies are the hooks of one rank over its plugin set.
type Policies struct {
	set   *plugins.Set
	log   *slog.Logger
	hooks [4]runner // score has none where the set has none

	carried []plugins.Carried // what they took over when they came into use

	refresh sync.Mutex // held by Refresh, which the keepers of a set in use and of its predecessor may both call
}

// NewPolicies wraps a set; log gets its faults and what its policies log. The tick loop owns the result, but for Wanted and Refresh.
func NewPolicies(set *plugins.Set, log *slog.Logger) *Policies {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Policies{set: set, log: log}
	for i, h := range []*plugins.Runner{set.Gate, set.Reserve, set.Admit, set.Score} {
		p.hooks[i] = runner{r: h, log: log, generation: 1}
		if h != nil {
			h.LogTo(log)
		}
	}
	return p
}

// Recorder runs a rank's runners and takes down what they are shown and answer. The goroutine of the rank uses it; it must
// wait for nothing.
type Recorder interface {
	// Run is the runner's Run.
	Run(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error)
}

// Record has every answer from here on taken down; nil: none. The owner of the policies calls it.
func (p *Policies) Record(to Recorder) {
	for i := range p.hooks {
		p.hooks[i].to = to
	}
}

// Hooks are the hooks for Options.
func (p *Policies) Hooks() Hooks {
	h := Hooks{Gate: &p.hooks[0], Reserve: &p.hooks[1], Admit: &p.hooks[2], of: p}
	if p.hooks[3].r != nil {
		h.Score = &p.hooks[3]
	}
	return h
}

// ReasonText is why a request ended, in words, as the policies of a set mean it: a refusal's reason is admit's, any other
// end's is gate's. It is for display on the way out, and no part of what ranks agree on.
func ReasonText(set *plugins.Set, kind schedule.FinishKind, r abi.Reason) string {
	if kind == schedule.FinishRefused {
		return set.ReasonText(abi.Admit, r)
	}
	return set.ReasonText(abi.Gate, r)
}

// Set is the wrapped set.
func (p *Policies) Set() *plugins.Set { return p.set }

// takeOver has the policies go on with what those in use before had collected.
func (p *Policies) takeOver(from *Policies) {
	p.carried = p.set.Carry(from.set)
	for _, c := range p.carried {
		if c.What != plugins.CarriedNothing || c.Reason != "" {
			attrs := []any{"hook", c.Hook.String(), "carried", c.What.String()}
			if c.Bytes > 0 {
				attrs = append(attrs, "bytes", c.Bytes)
			}
			if c.Reason != "" {
				attrs = append(attrs, "reason", c.Reason)
			}
			p.log.Info("policy state at the switch", attrs...)
		}
	}
}

// Carried is what became of the state of the predecessors when these policies came into use last. The goroutine of the
// rank calls it, or one that runs after it.
func (p *Policies) Carried() []plugins.Carried { return p.carried }

// Wanted says whether some discarded instance has no successor yet, or some hook that is asked has no spare.
func (p *Policies) Wanted() bool {
	for i := range p.hooks {
		if r := p.hooks[i].r; r != nil && r.Wanted() {
			return true
		}
	}
	return false
}

// Refresh makes the successors of discarded instances and the spares. It takes milliseconds and is called off the tick.
func (p *Policies) Refresh(ctx context.Context) error {
	p.refresh.Lock()
	defer p.refresh.Unlock()
	var errs []error
	for i := range p.hooks {
		if r := p.hooks[i].r; r != nil {
			errs = append(errs, r.Refresh(ctx))
		}
	}
	return errors.Join(errs...)
}

// Rest closes the spares of policies that no rank uses for now; see plugins.Set.Rest.
func (p *Policies) Rest(ctx context.Context) error {
	p.refresh.Lock()
	defer p.refresh.Unlock()
	return p.set.Rest(ctx)
}

// runner adapts a plugins.Runner to Hook.
type runner struct {
	r          *plugins.Runner
	log        *slog.Logger
	to         Recorder // nil: nothing is recorded
	generation uint64   // in use, or wanted while none is
	down       bool     // the ranks have discarded the instance; its successor is not in use yet
}

func (h *runner) Ask(tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (abi.Batch, bool) {
	// The scheduler asks a replicated hook that was down only from the tick on in which every rank has its successor
	// ready, so all ranks put it in use here in the same tick. An instance that has stopped in this very tick, for another
	// hook that it answers, gets no successor yet: the ranks have not agreed on that.
	if h.down {
		h.down = !h.r.Install()
	}
	var a plugins.Answer
	var err error
	if h.to == nil {
		a, err = h.r.Run(tick, epoch, n, nOut, encode)
	} else {
		a, err = h.to.Run(h.r, tick, epoch, n, nOut, encode)
	}
	if err != nil {
		h.log.Error("a policy batch could not be answered", "hook", h.r.Hook().String(), "tick", tick, "error", err)
		return abi.Batch{}, false
	}
	if a.Fault != nil {
		who := "policy fault, the native policy answered"
		if a.Held {
			who = "policy fault, nothing is decided until its successor answers"
		}
		h.log.Warn(who, "tick", tick, "fault", a.Fault.Error())
	}
	return a.Batch, a.Fault == nil
}

func (h *runner) Generation() uint64 {
	// A spare counts only once the ranks have agreed that the instance is gone: until then it is in use nowhere.
	if h.down && h.r.Ready() || !h.down && h.r.Active() {
		return h.generation
	}
	return h.generation - 1
}

func (h *runner) Discard(g uint64, diverged bool) {
	h.generation, h.down = g, true
	if diverged {
		h.r.Diverged()
		h.log.Warn("policy fault, the native rule decided", "policy", h.r.Policy(), "hook", h.r.Hook().String(), "class", plugins.FaultDivergence.String(),
			"error", "the ranks' answers differ: the policy depends on more than its batches")
	}
	if err := h.r.Discard(context.Background()); err != nil {
		h.log.Warn("closing a discarded policy instance", "hook", h.r.Hook().String(), "error", err)
	}
}

func (h *runner) Disable() { h.r.Disable() }

func (h *runner) Start(g uint64) {
	h.generation = g
	h.r.Enable()
	h.down = !h.r.Install()
}
