package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/plugins/kit/kittest"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// TestAdmitCannotLearnALocalFact has a module keep each gate batch of its rank in its memory and answer the other hooks
// with what lies there, while one rank's restore fails and the other's does not. Reserve, which is answered by the same
// instance as gate, shows that the trick works; admit and score find nothing: the instance that answers them has never
// seen a gate batch.
func TestAdmitCannotLearnALocalFact(t *testing.T) {
	const kept = 4096
	// The restore status of the first record of the gate batch: 0 pending, 1 ready, 2 failed.
	status := kittest.ByteAt(kept + abi.HeaderSize + abi.GateGlobalsSize + 9)
	wasm := kittest.Module(
		kittest.Export{Name: abi.Gate.Export(), Body: slices.Concat(kittest.KeepBatch(kept, 256), echo())},
		kittest.Export{Name: abi.Reserve.Export(), Body: kittest.Votes(status)},
		kittest.Export{Name: abi.Admit.Export(), Body: kittest.Admits(status)},
		kittest.Export{Name: abi.Score.Export(), Body: kittest.Votes(status)})
	ctx := context.Background()
	engine := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	spies := make([]spy, 2)
	cfg := simConfig(2, 4, 24, 96)
	cfg.Schedule.Score = true
	cfg.Hooks = func(r int) (rank.Hooks, error) {
		set, err := engine.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: wasm}, {Hook: abi.Reserve, Module: wasm}, {Hook: abi.Admit, Module: wasm}, {Hook: abi.Score, Module: wasm}}, abi.HostInfo{})
		if err != nil {
			return rank.Hooks{}, err
		}
		t.Cleanup(func() {
			if err := set.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		spies[r].set, spies[r].seen = set, map[string]int{}
		p := rank.NewPolicies(set, nil)
		p.Record(&spies[r])
		return p.Hooks(), nil
	}
	s := newSim(t, cfg)
	s.warm(0, 32)
	s.demote()
	s.inject(1, host.Fault{Kind: host.Load, Err: errCopy, DelayTicks: 6})
	a := s.add(0, 33, 2)
	s.until("it in transfer", s.in(schedule.QueueTransfer, a))
	for i := range 6 { // asked about while the restore is under way, and after it has failed on one rank
		s.add(1000+100*i, 8, 2)
		s.steps(2)
	}
	s.until("the end", s.done(a))
	s.wantEnd(a, schedule.FinishFailed, abi.ReasonRestoreFailed)
	s.untilIdle()
	for r := range spies {
		k := &spies[r]
		for what, n := range k.seen {
			if strings.HasPrefix(what, "admit ") && what != "admit 0" || strings.HasPrefix(what, "score ") && what != "score 0" {
				t.Errorf("rank %d: %d answers of %s, want zeroes only: a local fact has crossed", r, n, what)
			}
		}
		if k.seen["admit 0"] < 6 || k.seen["score 0"] == 0 {
			t.Errorf("rank %d: answers %v; admit and score were hardly asked", r, k.seen)
		}
		for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
			if n := k.set.Runner(h).Stats(); n.FaultTotal() != 0 || n.Native != 0 || s.ranks[r].Schedule().Faults(h) != 0 {
				t.Errorf("rank %d, %s: %+v, %d faults", r, h, n, s.ranks[r].Schedule().Faults(h))
			}
		}
	}
	if n, m := spies[0].seen["reserve 2"], spies[1].seen["reserve 2"]; n != 0 || m == 0 {
		t.Errorf("reserve knew of a failed restore %d times on rank 0 and %d times on rank 1; want it on rank 1 alone", n, m)
	}
}

// spy looks at what a rank's policies are shown and answer.
type spy struct {
	set  *plugins.Set
	seen map[string]int // answers
}

func (k *spy) Run(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	a, err := r.Run(tick, epoch, n, nOut, encode)
	for i := range nOut {
		switch r.Hook() {
		case abi.Reserve:
			k.seen[fmt.Sprintf("reserve %d", a.Batch.ReserveOut().HeldTokens)]++
		case abi.Admit:
			k.seen[fmt.Sprintf("admit %d", abi.GetAdmitOut(a.Batch.Out[i*abi.AdmitOutStride:]).Reason)]++
		case abi.Score:
			k.seen[fmt.Sprintf("score %d", abi.GetScoreOut(a.Batch.Out[i*abi.ScoreOutStride:]).Key)]++
		}
	}
	return a, err
}
