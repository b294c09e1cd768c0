package replay

import (
	"context"
	"fmt"
	"testing"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/plugins/kit/kittest"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// TestAdmitFaultsBesideScore has an admit that traps in every fifth call of an instance, and a score that remembers how
// often it was asked: once as one module, whose one instance answers both, once as two. The ranks make successors at
// different ticks. Where the instance is shared score loses it too, on all ranks in the same tick, and starts over; where
// it is not nothing happens to score. No fault is held against it either way, and its answers never differ.
func TestAdmitFaultsBesideScore(t *testing.T) {
	const ranks = 3
	ctx := context.Background()
	engine := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	admit := kittest.Export{Name: abi.Admit.Export(), Body: kittest.EveryCall(5, kittest.Unreachable(), kittest.Admits(kittest.Const(0)))}
	score := kittest.Remembers(abi.Score.Export(), 1)
	for _, shared := range []bool{true, false} {
		for _, slow := range []uint64{1, 9} {
			t.Run(fmt.Sprintf("one instance %v, successors every %d ticks", shared, slow), func(t *testing.T) {
				admits, scores := kittest.Module(admit), kittest.Module(score...)
				if shared {
					admits = kittest.Module(append([]kittest.Export{admit}, score...)...)
					scores = admits
				}
				var sets []*plugins.Set
				cfg := simConfig(ranks, 4, 64, 128)
				cfg.Schedule.Score = true
				cfg.Schedule.Quarantine = schedule.QuarantineAll(1000, 1000)
				var policies []*rank.Policies
				cfg.Hooks = func(int) (rank.Hooks, error) {
					set, err := engine.NewSet(ctx, []plugins.Spec{{Hook: abi.Admit, Module: admits}, {Hook: abi.Score, Module: scores}}, abi.HostInfo{})
					if err != nil {
						return rank.Hooks{}, err
					}
					t.Cleanup(func() {
						if err := set.Close(ctx); err != nil {
							t.Error(err)
						}
					})
					sets = append(sets, set)
					policies = append(policies, rank.NewPolicies(set, nil))
					return policies[len(policies)-1].Hooks(), nil
				}
				cfg.Refresh = func(r int, tick uint64) error {
					if tick%slow != uint64(r)%slow {
						return nil
					}
					return policies[r].Refresh(ctx)
				}
				cfg.Delay = func(k int) host.Delay { return func(host.Op, int) uint64 { return uint64(1 + k) } }
				cfg.Script = transfer.Pace{Total: 2 * tick}.Script()
				w, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := w.Close(); err != nil {
						t.Error(err)
					}
				}()
				for w.Ticks() < 600 {
					if w.Ticks()%3 == 0 {
						w.Submit(Request{Namespace: "n", Tokens: counting(int(w.Ticks())%7*100, 12), Limit: 3})
					}
					if err := w.Tick(); err != nil {
						t.Fatal(err)
					}
				}
				for r := range ranks {
					a, s, sched := sets[r].Admit.Stats(), sets[r].Score.Stats(), w.Rank(r).Schedule()
					if n := a.Faults[plugins.FaultTrap]; n < 5 || a.FaultTotal() != n || sched.Faults(abi.Admit) != n {
						t.Errorf("rank %d: admit %+v, %d faults counted; want traps alone", r, a.Faults, sched.Faults(abi.Admit))
					}
					if s.FaultTotal() != 0 || sched.Faults(abi.Score) != 0 || s.Calls == 0 || !shared && s.Native != 0 {
						t.Errorf("rank %d: score %+v, %d faults counted, %d of %d answers native", r, s.Faults, sched.Faults(abi.Score), s.Native, s.Calls)
					}
					if h := sched.Health(abi.Score); (h.Generation > 1) != shared {
						t.Errorf("rank %d: the score instance is of generation %d; shared with admit: %v", r, h.Generation, shared)
					}
				}
			})
		}
	}
}
