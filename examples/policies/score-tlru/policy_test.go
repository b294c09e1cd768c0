package main

import (
	"slices"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/examples/policies/conformance"
	"sluice/examples/policies/nodes/nodestest"
	"sluice/plugins"
)

func TestVectors(t *testing.T) {
	vs, err := conformance.Read("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.Run(plugins.NewNative(plugins.NativePolicy{Score: configured(t, `{}`).score}), vs, ""); err != nil {
		t.Error(err)
	}
}

func configured(t testing.TB, text string) *policy {
	t.Helper()
	p := new(policy)
	if status := p.configure(abi.HostInfo{}, []byte(text)); status != int32(abi.StatusOK) {
		t.Fatalf("configure %s: status %d", text, status)
	}
	return p
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		text            string
		want            abi.Status
		threshold, turn uint64
	}{
		{`{}`, abi.StatusOK, defaultThreshold, defaultTurn},
		{`{"expected_turn_tokens":0,"threshold_tokens":9}`, abi.StatusOK, 9, 0},
		{`{"threshold_tokens":4294967296}`, abi.StatusBadConfig, 1 << 32, defaultTurn},
		{`{"turn":1}`, abi.StatusBadConfig, defaultThreshold, defaultTurn},
	} {
		p := new(policy)
		if got := p.configure(abi.HostInfo{}, []byte(c.text)); got != int32(c.want) || p.threshold != c.threshold || p.turn != c.turn {
			t.Errorf("%s: status %d, threshold %d, turn %d; want %d, %d and %d", c.text, got, p.threshold, p.turn, c.want, c.threshold, c.turn)
		}
	}
}

// TestOrder has a threshold of 100 tokens and expects turns of 20, so a conversation may lose its last 80 tokens for free.
//
//   - Conversation A, used at 10, is 300 tokens in nodes 1 (200), 2 (50), 3 (50). Losing 3 costs 50+20, losing 2 as well
//     100+20: only 3 is free.
//   - Conversation B, used at 20, is 80 tokens in node 4: losing all of it costs 80+20, not more than 100. It is free.
//   - Conversation C, used at 30, is 81 tokens in node 5, which is one too many.
//
// What is free goes first, by last use: 3, 4. Then the rest: of A, used first, 1 and 2, in an order that leaf-first eviction
// turns round, then 5.
func TestOrder(t *testing.T) {
	p := configured(t, `{"expected_turn_tokens":20,"threshold_tokens":100}`)
	var c nodestest.Cache
	c.Show(t, p.score, 1000,
		abi.ScoreRecord{NodeKey: 1, LastUse: 10, Tokens: 200},
		abi.ScoreRecord{NodeKey: 2, LastUse: 10, Tokens: 50, DepthTokens: 200},
		abi.ScoreRecord{NodeKey: 3, LastUse: 10, Tokens: 50, DepthTokens: 250},
		abi.ScoreRecord{NodeKey: 4, LastUse: 20, Tokens: 80},
		abi.ScoreRecord{NodeKey: 5, LastUse: 30, Tokens: 81})
	if got := c.Order(); !slices.Equal(got, []uint64{3, 4, 1, 2, 5}) {
		t.Errorf("they go in the order %d, want 3 4 1 2 5", got)
	}
	// Another 100 tokens to A, as node 6: the use shows its whole path, and its end is now at 400. 3 has 150 behind its start.
	c.Show(t, p.score, 1000,
		abi.ScoreRecord{NodeKey: 1, LastUse: 40, Hits: 1, Tokens: 200, Class: abi.ScoreKeyed},
		abi.ScoreRecord{NodeKey: 2, LastUse: 40, Hits: 1, Tokens: 50, DepthTokens: 200, Class: abi.ScoreKeyed},
		abi.ScoreRecord{NodeKey: 3, LastUse: 40, Hits: 1, Tokens: 50, DepthTokens: 250, Class: abi.ScoreKeyed},
		abi.ScoreRecord{NodeKey: 6, LastUse: 40, Tokens: 100, DepthTokens: 300, Class: abi.ScoreAwaiting})
	if got := c.Order(); !slices.Equal(got, []uint64{4, 5, 1, 2, 3, 6}) {
		t.Errorf("they go in the order %d, want 4 5 1 2 3 6", got)
	}
}

func TestAllocatesNothing(t *testing.T) {
	p := configured(t, `{}`)
	buf := nodestest.Batch(t, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 10, Tokens: 8}, abi.ScoreRecord{NodeKey: 2, LastUse: 11, Tokens: 8})
	if n := testing.AllocsPerRun(100, func() { guest.RunScore(p.score, buf) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
