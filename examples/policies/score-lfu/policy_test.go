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

// TestShippedVectors: without ageing the answers are those of the shipped lfu, byte for byte.
func TestShippedVectors(t *testing.T) {
	vs, err := conformance.Read("../../../abi/testdata/vectors/score.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := configured(t, `{"age_uses":0}`)
	if err := conformance.Run(plugins.NewNative(plugins.NativePolicy{Score: p.score}), vs, "lfu"); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		text string
		want abi.Status
		age  uint64
	}{
		{`{}`, abi.StatusOK, defaultAge},
		{`{"age_uses":0}`, abi.StatusOK, 0},
		{`{"age_uses":4294967295}`, abi.StatusOK, 1<<32 - 1},
		{`{"age_uses":4294967296}`, abi.StatusBadConfig, defaultAge},
		{`{"hits":1}`, abi.StatusBadConfig, defaultAge},
	} {
		p := new(policy)
		if got := p.configure(abi.HostInfo{}, []byte(c.text)); got != int32(c.want) || p.age != c.age {
			t.Errorf("%s: status %d, age %d; want %d and %d", c.text, got, p.age, c.want, c.age)
		}
	}
}

// TestOrder ages a node with 3 hits. A hit is worth 100 uses, so its key is 10+300 = 310; that of a node without hits is the
// clock of its use.
func TestOrder(t *testing.T) {
	p := configured(t, `{"age_uses":100}`)
	var c nodestest.Cache
	c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 10, Hits: 3, Tokens: 8})
	c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 2, LastUse: 309, Tokens: 8})
	if got := c.Order(); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("299 uses later they go in the order %d, want 2 1", got)
	}
	c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 3, LastUse: 311, Tokens: 8})
	if got := c.Order(); !slices.Equal(got, []uint64{2, 1, 3}) {
		t.Errorf("301 uses later they go in the order %d, want 2 1 3", got)
	}
}

func TestAllocatesNothing(t *testing.T) {
	p := configured(t, `{}`)
	buf := nodestest.Batch(t, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 10, Tokens: 8}, abi.ScoreRecord{NodeKey: 2, LastUse: 10, Tokens: 8})
	if n := testing.AllocsPerRun(100, func() { guest.RunScore(p.score, buf) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
