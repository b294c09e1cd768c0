package plugins_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/abi"
	"sluice/plugins"
)

// eachBuild runs a test for the native and the WebAssembly build of one shipped policy. The runner it gets fails the test
// if anything but the policy itself answered.
func eachBuild(t *testing.T, hook abi.Hook, builtin string, f func(t *testing.T, r *plugins.Runner)) {
	for _, native := range []bool{true, false} {
		engine := map[bool]string{true: "native", false: "wasm"}[native]
		t.Run(builtin+"/"+engine, func(t *testing.T) {
			set, err := sharedHost().NewSet(context.Background(), []plugins.Spec{{Hook: hook, Builtin: builtin, Native: native}}, abi.HostInfo{})
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, set.Close)
			for _, info := range set.Infos() {
				if info.Hook == hook && (info.Engine.String() != engine || info.Name != builtin || (info.SHA256 == "") != native) {
					t.Errorf("info %+v", info)
				}
			}
			r := set.Runner(hook)
			f(t, r)
			if s := r.Stats(); s.Calls == 0 || s.Native != 0 || s.FaultTotal() != 0 || s.Declined != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// TestGateTruthTable is table 5.2 of the decode semantics: raw poll against restore status, whether the restore's pages
// are set aside or not.
func TestGateTruthTable(t *testing.T) {
	const p, r, f = abi.RestorePending, abi.RestoreReady, abi.RestoreFailed
	for _, tc := range []struct {
		policy string
		want   map[abi.RestoreStatus][5]abi.Poll
	}{
		{"restore-gated", map[abi.RestoreStatus][5]abi.Poll{p: {0, 1, 2, 3, 3}, r: {0, 1, 2, 3, 4}, f: {0, 1, 2, 3, 0}}},
		{"pending-only", map[abi.RestoreStatus][5]abi.Poll{p: {0, 1, 2, 3, 3}, r: {0, 1, 2, 3, 4}, f: {0, 1, 2, 3, 4}}},
		{"ungated", map[abi.RestoreStatus][5]abi.Poll{p: {0, 1, 2, 3, 4}, r: {0, 1, 2, 3, 4}, f: {0, 1, 2, 3, 4}}},
	} {
		eachBuild(t, abi.Gate, tc.policy, func(t *testing.T, runner *plugins.Runner) {
			var in []abi.GateRecord
			for _, allocated := range []uint8{0, abi.GateFlagSetAside} {
				for _, status := range []abi.RestoreStatus{p, r, f} {
					for raw := abi.PollFailed; raw <= abi.PollSuccess; raw++ {
						in = append(in, abi.GateRecord{ReqKey: uint64(len(in)), RawPoll: raw, Restore: status, Flags: allocated, RestoreTokens: 128})
					}
				}
			}
			a := runGate(t, runner, in)
			for i, rec := range in {
				got, want := a.Batch.GateOut(i), tc.want[rec.Restore][rec.RawPoll]
				if got.Vote != want {
					t.Errorf("raw %s, restore %s, flags %d: vote %s, want %s", rec.RawPoll, rec.Restore, rec.Flags, got.Vote, want)
				}
				reason := abi.ReasonNone
				if want == abi.PollFailed && rec.RawPoll == abi.PollSuccess {
					reason = abi.ReasonRestoreFailed
				}
				if got.Reason != reason || got.Flags != 0 || got.Aux != 0 {
					t.Errorf("raw %s, restore %s: answer %+v, want reason %d", rec.RawPoll, rec.Restore, got, reason)
				}
			}
		})
	}
}

func runGate(t *testing.T, r *plugins.Runner, in []abi.GateRecord) plugins.Answer {
	t.Helper()
	a, err := r.Run(1, 1, len(in), len(in), func(b abi.Batch) {
		for i := range in {
			b.PutGate(i, &in[i])
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestReservationRule is table 5.4 of the decode semantics, with 3,000 tokens to restore.
func TestReservationRule(t *testing.T) {
	const tokens = 3000
	type entry struct {
		name          string
		rec           abi.ReserveRecord
		after, before uint64
	}
	entries := []entry{
		{name: "no prefix match", rec: abi.ReserveRecord{Restore: abi.RestoreReady}},
		{name: "pending, not allocated", rec: abi.ReserveRecord{Restore: abi.RestorePending, RestoreTokens: tokens, OwedTokens: tokens}, after: tokens, before: tokens},
		{name: "pending, allocated", rec: abi.ReserveRecord{Restore: abi.RestorePending, SetAside: 1, RestoreTokens: tokens}},
		{name: "ready, nothing to restore", rec: abi.ReserveRecord{Restore: abi.RestoreReady}},
		{name: "ready, restored", rec: abi.ReserveRecord{Restore: abi.RestoreReady, SetAside: 1, RestoreTokens: tokens}},
		{name: "failed, never allocated", rec: abi.ReserveRecord{Restore: abi.RestoreFailed, RestoreTokens: tokens, OwedTokens: tokens}, after: tokens},
		{name: "failed, set aside", rec: abi.ReserveRecord{Restore: abi.RestoreFailed, SetAside: 1, RestoreTokens: tokens}},
	}
	for _, policy := range []string{"until-retired", "pending-only", "none"} {
		want := func(e entry) uint64 {
			return map[string]uint64{"until-retired": e.after, "pending-only": e.before, "none": 0}[policy]
		}
		eachBuild(t, abi.Reserve, policy, func(t *testing.T, r *plugins.Runner) {
			var all []abi.ReserveRecord
			var sum uint64
			for _, e := range entries {
				if got := runReserve(t, r, e.rec); got != want(e) {
					t.Errorf("%s: %d tokens, want %d", e.name, got, want(e))
				}
				all = append(all, e.rec)
				sum += want(e)
			}
			if got := runReserve(t, r, all...); got != sum {
				t.Errorf("all together: %d tokens, want %d", got, sum)
			}
			if got := runReserve(t, r); got != 0 {
				t.Errorf("an empty queue: %d tokens", got)
			}
		})
	}
}

func runReserve(t *testing.T, r *plugins.Runner, in ...abi.ReserveRecord) uint64 {
	t.Helper()
	a, err := r.Run(1, 1, len(in), 1, func(b abi.Batch) {
		b.PutReserveGlobals(&abi.ReserveGlobals{PageSize: 1, TotalTokens: 24000, FreeTokens: 4000, EvictableTokens: 6000})
		for i := range in {
			b.PutReserve(i, &in[i])
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.Batch.ReserveOut().HeldTokens
}

// TestBothBuildsAgreeOnRandomBatches feeds the same random bytes to both builds of every shipped policy.
func TestBothBuildsAgreeOnRandomBatches(t *testing.T) {
	const seed = 20260427
	ctx := context.Background()
	for _, names := range [][3]string{
		{"restore-gated", "until-retired", "fifo-headroom"}, {"pending-only", "pending-only", "greedy"}, {"ungated", "none", "fifo-headroom"},
	} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			var sets [2]*plugins.Set
			for i := range sets {
				var specs []plugins.Spec
				for k, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
					specs = append(specs, plugins.Spec{Hook: h, Builtin: names[k], Native: i == 1})
				}
				set, err := sharedHost().NewSet(ctx, specs, abi.HostInfo{})
				if err != nil {
					t.Fatal(err)
				}
				defer closing(t, set.Close)
				sets[i] = set
			}
			for run := range 300 {
				hook := []abi.Hook{abi.Gate, abi.Reserve, abi.Admit}[run%3]
				n := rng.IntN(600)
				c := rng.IntN(n + 1)
				noise := rand.New(rand.NewPCG(seed, uint64(run)))
				encode := randomInputs(noise, hook, n, c)
				var answers [2]plugins.Answer
				for i, set := range sets {
					a, err := set.Runner(hook).Run(uint64(run), 1, n, abi.Outs(hook, n, c), encode)
					if err != nil || a.Fault != nil || a.Native {
						t.Fatalf("seed %d, run %d: %v, %v", seed, run, err, a.Fault)
					}
					answers[i] = a
				}
				if !bytes.Equal(answers[0].Batch.Out, answers[1].Batch.Out) {
					t.Fatalf("seed %d, run %d: %s: WebAssembly gives %x, native gives %x", seed, run, hook, answers[0].Batch.Out, answers[1].Batch.Out)
				}
			}
		})
	}
}

// randomInputs draws a batch once and returns a function that writes it any number of times. Raw polls stay legal.
func randomInputs(rng *rand.Rand, hook abi.Hook, n, candidates int) func(abi.Batch) {
	size := abi.BatchSize(hook, n, n)
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
		if rng.IntN(3) > 0 {
			noise[i] = 0
		}
	}
	return func(b abi.Batch) {
		copy(b.In, noise)
		copy(b.Globals, noise[len(b.In):])
		if hook == abi.Gate {
			for i := range n {
				r := b.GateIn(i)
				r.RawPoll %= 5
				r.Restore %= 3
				b.PutGate(i, &r)
			}
		}
		if hook == abi.Admit {
			g := b.AdmitGlobals()
			g.Candidates = uint32(candidates)
			b.PutAdmitGlobals(&g)
		}
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	const n = 256
	for _, hook := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
		builtin := map[abi.Hook]string{abi.Gate: "restore-gated", abi.Reserve: "until-retired", abi.Admit: "fifo-headroom"}[hook]
		eachBuild(t, hook, builtin, func(t *testing.T, r *plugins.Runner) {
			encode := randomInputs(rand.New(rand.NewPCG(1, 1)), hook, n, n)
			tick := uint64(0)
			got := testing.AllocsPerRun(100, func() {
				tick++
				if _, err := r.Run(tick, 1, n, abi.Outs(hook, n, n), encode); err != nil {
					t.Fatal(err)
				}
			})
			if got != 0 {
				t.Errorf("%v allocations a call", got)
			}
		})
	}
}

func TestScorePolicies(t *testing.T) {
	const most = 1<<63 - 1
	for _, tc := range []struct {
		policy  string
		records []abi.ScoreRecord
		want    []int64
	}{
		{"lru", []abi.ScoreRecord{{LastUse: 9, Hits: 5}, {LastUse: 3, Hits: 7}, {}, {LastUse: 1<<64 - 1}}, []int64{9, 3, 0, most}},
		{"lfu", []abi.ScoreRecord{{LastUse: 9, Hits: 5}, {LastUse: 3, Hits: 7}, {LastUse: 2, Hits: 5}, {LastUse: 1<<64 - 1, Hits: 1<<32 - 1}},
			[]int64{5<<40 | 9, 7<<40 | 3, 5<<40 | 2, most}},
	} {
		eachBuild(t, abi.Score, tc.policy, func(t *testing.T, r *plugins.Runner) {
			n := len(tc.records)
			a, err := r.Run(1, 1, n, n, func(b abi.Batch) {
				for i := range tc.records {
					b.PutScore(i, &tc.records[i])
				}
			})
			if err != nil || a.Fault != nil || a.Native {
				t.Fatalf("%+v, %v", a, err)
			}
			for i, want := range tc.want {
				if got := a.Batch.ScoreKey(i); got != want {
					t.Errorf("node %d: key %#x, want %#x", i, got, want)
				}
			}
		})
	}
}
