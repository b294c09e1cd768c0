package replay

import (
	"context"
	"testing"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
	"sluice/runtime/rank"
	"sluice/runtime/transfer"
)

// TestStateIsCarriedOnAllRanks changes a replicated policy that remembers how often it was asked, while the ranks are
// ready at different ticks. Its successor goes on from the same number on every rank, so no answers differ; so does the
// same policy after a change of another hook, and after a rollback.
func TestStateIsCarriedOnAllRanks(t *testing.T) {
	const ranks = 3
	ctx := context.Background()
	engine := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	module := func(step int32, loads ...uint32) []byte {
		m := manifest.Manifest{State: manifest.State{Schema: uint32(step), Loads: loads}}
		wasm, err := manifest.Write(kittest.Module(kittest.Remembers(abi.Score.Export(), step)...), m)
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
	old, next := module(1), module(2, 1)
	var generations [][]*rank.Policies
	policies := func(score []byte, gate string) []*rank.Policies {
		var out []*rank.Policies
		for range ranks {
			set, err := engine.NewSet(ctx, []plugins.Spec{{Hook: abi.Score, Module: score}, {Hook: abi.Gate, Builtin: gate, Native: true}}, abi.HostInfo{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := set.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			out = append(out, rank.NewPolicies(set, nil))
		}
		generations = append(generations, out)
		return out
	}
	first, second, third := policies(old, "restore-gated"), policies(next, "restore-gated"), policies(next, "pending-only")
	cfg := simConfig(ranks, 4, 64, 128)
	cfg.Schedule.Score = true
	cfg.Hooks = func(k int) (rank.Hooks, error) { return first[k].Hooks(), nil }
	cfg.Delay = func(k int) host.Delay { return func(host.Op, int) uint64 { return uint64(1 + k) } }
	cfg.Script = transfer.Pace{Total: 3 * tick}.Script()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	for k := range ranks {
		w.StageAt(k, 100+uint64(3*k), 1, second[k].Hooks())
		w.StageAt(k, 200+uint64(3*k), 2, third[k].Hooks())
		w.StageAt(k, 300+uint64(3*k), 3, second[k].Hooks())
	}
	for w.Ticks() < 400 {
		if w.Ticks()%9 == 0 {
			w.Submit(Request{Namespace: "n", Tokens: counting(int(w.Ticks())%5*100, 12), Limit: 4})
		}
		if err := w.Tick(); err != nil {
			t.Fatal(err)
		}
		if n := w.Ticks(); n == 150 || n == 250 || n == 350 {
			want := map[uint64]plugins.Carriage{150: plugins.CarriedState, 250: plugins.CarriedInstance, 350: plugins.CarriedInstance}[n]
			for k := range ranks {
				in := map[uint64]*rank.Policies{150: second[k], 250: third[k], 350: second[k]}[n]
				if c := in.Carried(); len(c) != 1 || c[0].Hook != abi.Score || c[0].What != want {
					t.Errorf("tick %d, rank %d: carried %+v, want the %s", n, k, c, want)
				}
			}
		}
	}
	if n := len(w.Flips()); n != 3*ranks {
		t.Fatalf("%d switches, want %d", n, 3*ranks)
	}
	for k := range ranks {
		sum := uint64(0)
		for i, g := range generations {
			n := g[k].Set().Score.Stats()
			if n.Calls == 0 || n.FaultTotal() > 0 || n.Native > 0 {
				t.Errorf("policies %d on rank %d: %+v; want every answer from the policy itself", i, k, n)
			}
			sum += n.Calls * min(uint64(i)+1, 2)
		}
		a, err := second[k].Set().Score.Run(1, 1, 1, 1, func(abi.Batch) {})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := abi.GetScoreOut(a.Batch.Out).Key, (sum+2)%256; got != want {
			t.Errorf("rank %d remembers %d, want %d", k, got, want)
		}
	}
}
