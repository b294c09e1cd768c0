package main

import (
	"os"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/examples/policies/conformance"
	"sluice/examples/policies/nodes/nodestest"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/rank"
	"sluice/runtime/replay"
)

// TestVectors runs its own vectors, and those of the shipped lru.
func TestVectors(t *testing.T) {
	for _, c := range []struct{ file, policy string }{
		{"testdata/vectors.txt", ""},
		{"../../../abi/testdata/vectors/score.txt", "lru"},
	} {
		vs, err := conformance.Read(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if err := conformance.Run(plugins.NewNative(plugins.NativePolicy{Score: policy}), vs, c.policy); err != nil {
			t.Error(err)
		}
	}
}

// TestReplay runs a trace through a cache that is too small for it: with this policy, with the shipped lru behind the score
// hook, and with the plain LRU of a group that asks nobody. The first two make the same decisions; the third has no keys in
// its state, so its digest differs, and it evicts and serves the same.
func TestReplay(t *testing.T) {
	file, err := os.Open("../../../runtime/replay/testdata/synthetic.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	trace, err := replay.ReadTrace(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	run := func(score guest.ScoreFunc) *replay.Result {
		o := replay.DefaultRunOptions()
		o.L1Tokens, o.L2Ratio, o.Score = 16384, 2, score != nil
		o.Hooks = func(int) (rank.Hooks, error) {
			set, err := plugins.NewNativeSet(standard.Config{Gate: "restore-gated", Reserve: "until-retired", Admit: "fifo-headroom"})
			if err == nil && score != nil {
				set.Score, err = plugins.NewRunner(abi.Score, "lru", nil, plugins.NewNative(plugins.NativePolicy{Score: score}))
			}
			if err != nil {
				return rank.Hooks{}, err
			}
			return rank.NewPolicies(set, nil).Hooks(), nil
		}
		res, err := replay.Run(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	shipped, ok := standard.Score("lru")
	if !ok {
		t.Fatal("no lru is shipped")
	}
	mine, theirs, plain := run(policy), run(shipped), run(nil)
	if mine.Evicted.L1 == 0 || mine.Evicted.L2 == 0 || mine.HitTokens.L2 == 0 {
		t.Fatalf("the cache is too large: %+v", mine)
	}
	if mine.Digest != theirs.Digest {
		t.Errorf("digest %s, that of the shipped lru is %s", mine.Digest, theirs.Digest)
	}
	if mine.Evicted != plain.Evicted || mine.HitTokens != plain.HitTokens || mine.Restores != plain.Restores || mine.Uncached != plain.Uncached || mine.Ticks != plain.Ticks {
		t.Errorf("%+v\nplain LRU:\n%+v", mine, plain)
	}
	if other, _ := standard.Score("lfu"); run(other).Evicted == mine.Evicted {
		t.Error("lfu evicts the same, so the trace tells nothing apart")
	}
}

func TestAllocatesNothing(t *testing.T) {
	buf := nodestest.Batch(t, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 10, Tokens: 8}, abi.ScoreRecord{NodeKey: 2, LastUse: 10, Tokens: 8})
	if n := testing.AllocsPerRun(100, func() { guest.RunScore(policy, buf) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
