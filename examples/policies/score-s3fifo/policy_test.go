package main

import (
	"math"
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
		text    string
		want    abi.Status
		percent uint64
	}{
		{`{}`, abi.StatusOK, defaultSmall},
		{`{"small_percent":99}`, abi.StatusOK, 99},
		{`{"small_percent":0}`, abi.StatusBadConfig, defaultSmall},
		{`{"small_percent":100}`, abi.StatusBadConfig, defaultSmall},
		{`{"ghost":1}`, abi.StatusBadConfig, defaultSmall},
	} {
		p := new(policy)
		if got := p.configure(abi.HostInfo{}, []byte(c.text)); got != int32(c.want) || p.percent != c.percent {
			t.Errorf("%s: status %d, small queue %d%%; want %d and %d%%", c.text, got, p.percent, c.want, c.percent)
		}
	}
}

// TestOrder lets a scan pass a node that was used twice. The cache has 1000 tokens, so the small queue is 100 long and the
// main one 900. Node 1 enters at 0 and is used twice: it leaves at 0+100+900 = 1000. Then nodes of 50 tokens come, node n at
// 50(n-1), and leave at 50(n-1)+100. Those up to node 19 go before node 1, at 1000 at the latest; with node 20, which leaves
// at 1050, S3-FIFO too has brought node 1 to the end of its main queue.
func TestOrder(t *testing.T) {
	p := configured(t, `{}`)
	var c nodestest.Cache
	c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 1, Tokens: 50, Class: abi.ScoreAwaiting})
	c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 2, Hits: 2, Tokens: 50, Class: abi.ScoreKeyed})
	want := []uint64{}
	for n := uint64(2); n <= 20; n++ {
		c.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: n, LastUse: n + 1, Tokens: 50, DepthTokens: uint32(n), Class: abi.ScoreAwaiting})
		if n < 20 {
			want = append(want, n)
		}
	}
	// Node 1 and node 19 both leave at 1000; node 1 was used before it and goes first of the two.
	want = append(slices.Insert(want, len(want)-1, 1), 20)
	if got := c.Order(); !slices.Equal(got, want) {
		t.Errorf("they go in the order %d, want %d", got, want)
	}
}

// TestGhostForgets: a print is good for the length of the main queue, and once.
func TestGhostForgets(t *testing.T) {
	for _, c := range []struct {
		name       string
		now, print uint64
		want       bool
	}{
		{"at once", 10, 77, true},
		{"as long as the main queue", 910, 77, true},
		{"longer", 911, 77, false},
		{"another print in its place", 10, 77 + 16, false},
	} {
		g := newGhost(16)
		g.add(77, 10)
		if got := g.take(c.print, c.now, 900); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.want && g.take(c.print, c.now, math.MaxUint64) {
			t.Errorf("%s: taken twice", c.name)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	p := configured(t, `{}`)
	buf := nodestest.Batch(t, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 10, Tokens: 8}, abi.ScoreRecord{NodeKey: 2, LastUse: 10, Tokens: 8})
	if n := testing.AllocsPerRun(100, func() { guest.RunScore(p.score, buf) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
