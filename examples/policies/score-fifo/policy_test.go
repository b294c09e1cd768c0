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
	if status := new(policy).configure(abi.HostInfo{}, []byte(`{"a":1}`)); status != int32(abi.StatusBadConfig) {
		t.Errorf("a key that it does not know: status %d", status)
	}
}

// TestOrder uses the first of three nodes: by last use it would go last, by arrival it still goes first. Then it goes, and its
// name comes back with a new node, which is the last to go.
func TestOrder(t *testing.T) {
	p := configured(t, `{}`)
	var c nodestest.Cache
	c.Show(t, p.score, 1000,
		abi.ScoreRecord{NodeKey: 1, LastUse: 10, Tokens: 8, Class: abi.ScoreAwaiting},
		abi.ScoreRecord{NodeKey: 2, LastUse: 20, Tokens: 8, Class: abi.ScoreAwaiting},
		abi.ScoreRecord{NodeKey: 3, LastUse: 30, Tokens: 8, Class: abi.ScoreAwaiting})
	c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 40, Hits: 1, Tokens: 8, Class: abi.ScoreKeyed})
	if got := c.Order(); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("they go in the order %d, want 1 2 3", got)
	}
	c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 50, Tokens: 8, Class: abi.ScoreAwaiting})
	if got := c.Order(); !slices.Equal(got, []uint64{2, 3, 1}) {
		t.Errorf("they go in the order %d, want 2 3 1", got)
	}
}

func TestAllocatesNothing(t *testing.T) {
	p := configured(t, `{}`)
	buf := nodestest.Batch(t, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 10, Tokens: 8}, abi.ScoreRecord{NodeKey: 2, LastUse: 10, Tokens: 8})
	if n := testing.AllocsPerRun(100, func() { guest.RunScore(p.score, buf) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
