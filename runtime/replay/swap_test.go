package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/abi"
	"sluice/collective"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// TestSwapsUnderLoad changes the policies at random ticks of a run with requests of every kind, native and in WebAssembly,
// among them back to their predecessors, warm. Every rank switches in the tick in which the last one has the new ones
// ready; no tick is lost, no rank differs, and every token is the right one. A seed alone repeats a run.
func TestSwapsUnderLoad(t *testing.T) {
	ctx := context.Background()
	engine := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, ranks := range []int{2, 3} {
		for _, native := range []bool{true, false} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprintf("%d ranks, native %v, seed %d", ranks, native, seed), func(t *testing.T) {
					run := &swapRun{t: t, r: rand.New(rand.NewPCG(seed, uint64(ranks))), native: native, host: engine}
					run.run(ranks)
				})
			}
		}
	}
}

// swapRun is one run of TestSwapsUnderLoad.
type swapRun struct {
	t      *testing.T
	r      *rand.Rand
	native bool
	host   *plugins.Host

	sets [][]*plugins.Set // those made, by swap and rank
}

// policies makes every rank's policies of one choice.
func (s *swapRun) policies(ranks int) (out []rank.Hooks) {
	names := map[abi.Hook]string{
		abi.Gate:    []string{"restore-gated", "pending-only"}[s.r.IntN(2)],
		abi.Reserve: []string{"until-retired", "pending-only", "none"}[s.r.IntN(3)],
		abi.Admit:   []string{"greedy", "fifo-headroom"}[s.r.IntN(2)],
	}
	var sets []*plugins.Set
	for range ranks {
		var specs []plugins.Spec
		for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
			specs = append(specs, plugins.Spec{Hook: h, Builtin: names[h], Native: s.native})
		}
		set, err := s.host.NewSet(context.Background(), specs, abi.HostInfo{})
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() {
			if err := set.Close(context.Background()); err != nil {
				s.t.Error(err)
			}
		})
		sets = append(sets, set)
		out = append(out, rank.NewPolicies(set, nil).Hooks())
	}
	s.sets = append(s.sets, sets)
	return out
}

func (s *swapRun) run(ranks int) {
	t, r := s.t, s.r
	cfg := simConfig(ranks, 4, 64, 128)
	first := s.policies(ranks)
	cfg.Hooks = func(k int) (rank.Hooks, error) { return first[k], nil }
	cfg.Delay = func(k int) host.Delay { return func(host.Op, int) uint64 { return uint64(1 + k) } }
	cfg.Script = transfer.Pace{Total: 3 * tick}.Script()
	cfg.TransferTicks, cfg.DrainTicks = 500, 100
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	history := [][]rank.Hooks{first}
	var want []Flip // by rank, in the order of the ticks
	epoch, due := uint64(0), uint64(0)
	var ids []uint64
	for w.Ticks() < 400 {
		if r.IntN(4) == 0 && w.Live() < 24 {
			ids = append(ids, w.Submit(Request{Namespace: "n", Tokens: counting(r.IntN(3)*1000, 4+r.IntN(40)), Limit: 1 + r.IntN(10), Priority: uint16(r.IntN(3))}))
		}
		if w.Ticks() >= due && r.IntN(8) == 0 {
			epoch += 1 + uint64(r.IntN(2))
			next := history[max(0, len(history)-2)] // the predecessor, as it was left
			if r.IntN(3) > 0 {
				next = s.policies(ranks)
			}
			history = append(history, next)
			for k := range ranks {
				at := w.Ticks() + 1 + uint64(r.IntN(6))
				due = max(due, at)
				w.StageAt(k, at, epoch, next[k])
			}
			for k := range ranks {
				want = append(want, Flip{k, due, epoch, uint64(len(history))})
			}
		}
		if err := w.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := w.Run(3000, func() bool { return w.Live() == 0 && w.Idle() }); err != nil || !ok {
		t.Fatalf("not over: %v", err)
	}
	if len(history) < 8 {
		t.Errorf("%d swaps only", len(history)-1)
	}
	if fmt.Sprint(w.Flips()) != fmt.Sprint(want) {
		t.Errorf("switched %v\nwant %v", w.Flips(), want)
	}
	for k := range ranks {
		q := w.Rank(k).Schedule()
		if q.Tick() != w.Ticks()+1 || q.Digest() != w.Rank(0).Schedule().Digest() || q.Checksum() != w.Rank(0).Schedule().Checksum() {
			t.Errorf("rank %d is at tick %d of %d, or differs from rank 0", k, q.Tick(), w.Ticks())
		}
	}
	for _, id := range ids {
		if o := w.Outcome(id); o.Ends[0].Kind != schedule.FinishLength || o.Wrong > 0 {
			t.Errorf("request %d: %+v, %d wrong tokens", id, o.Ends[0], o.Wrong)
		}
	}
	calls := uint64(0)
	for _, sets := range s.sets {
		for _, set := range sets {
			for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
				n := set.Runner(h).Stats()
				calls += n.Calls
				if n.FaultTotal() > 0 || n.Native > 0 {
					t.Errorf("%s: %+v; want every answer from the policy itself", h, n)
				}
			}
		}
	}
	if calls == 0 || len(ids) == 0 || w.Resyncs != 0 || w.FreedUnderWriter != 0 {
		t.Errorf("%d calls for %d requests, %d resyncs, %d pages freed under a writer", calls, len(ids), w.Resyncs, w.FreedUnderWriter)
	}
}

// TestSwapThatPartsTheRanks alters one rank's copy of a ballot, so that it alone switches. The next exchange finds it, and
// the resync brings the other to the same policies.
func TestSwapThatPartsTheRanks(t *testing.T) {
	const readyField, firstNewTick = 7, 40
	done := false
	cfg := simConfig(2, 4, 64, 128)
	cfg.Resync, cfg.Verify = true, false // the exchange is to find it
	cfg.Edit = func(r *rank.Rank, own, v *collective.Vector) {
		// Rank 1 has its policies ready and rank 0 has not: its own lane is what it takes for the lowest.
		if s := r.Schedule(); !done && s.Tick() >= firstNewTick && r.Ready() > s.PolicyEpoch() && v.U64[readyField*2] < v.U64[readyField*2+1] {
			v.U64[readyField*2] = v.U64[readyField*2+1]
			done = true
		}
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	hooks := [2]rank.Hooks{}
	for k := range hooks {
		if hooks[k], err = natives("pending-only", "none", "fifo-headroom")(k); err != nil {
			t.Fatal(err)
		}
	}
	// Rank 0 gets there in the tick in which rank 1's switch is found out.
	w.StageAt(1, firstNewTick, 1, hooks[1])
	w.StageAt(0, firstNewTick+1, 1, hooks[0])
	for i := range 60 {
		w.Submit(Request{Namespace: "n", Tokens: counting(i%3*1000, 10+i%7), Limit: 5})
		if err := w.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := w.Run(2000, func() bool { return w.Live() == 0 && w.Idle() }); err != nil || !ok {
		t.Fatalf("not over: %v", err)
	}
	if !done || w.Resyncs != 1 {
		t.Errorf("altered: %v, %d resyncs; want one", done, w.Resyncs)
	}
	for k := range 2 {
		s := w.Rank(k).Schedule()
		if s.PolicyEpoch() != 1 || s.Digest() != w.Rank(0).Schedule().Digest() || !s.PolicyAnswers(abi.Admit) || w.Rank(k).Counts().EffectErrors != 0 {
			t.Errorf("rank %d: epoch %d, admit answers %v, %d effect errors", k, s.PolicyEpoch(), s.PolicyAnswers(abi.Admit), w.Rank(k).Counts().EffectErrors)
		}
	}
	if f := w.Flips(); len(f) != 2 || f[0].Rank != 1 || f[0].Tick != firstNewTick || f[1].Rank != 0 || f[1].Tick != firstNewTick+1 {
		t.Errorf("switches %v; want rank 1's, and rank 0's with the resync", f)
	}
}
