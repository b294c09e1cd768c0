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
		text         string
		want         abi.Status
		small, ghost uint64
	}{
		{`{}`, abi.StatusOK, defaultSmall, defaultGhost},
		{`{"ghost_percent":0,"small_percent":99}`, abi.StatusOK, 99, 0},
		{`{"ghost_percent":1001}`, abi.StatusBadConfig, defaultSmall, defaultGhost},
		{`{"small_percent":0}`, abi.StatusBadConfig, defaultSmall, defaultGhost},
		{`{"small_percent":100}`, abi.StatusBadConfig, defaultSmall, defaultGhost},
		{`{"ghost":1}`, abi.StatusBadConfig, defaultSmall, defaultGhost},
	} {
		p := new(policy)
		if got := p.configure(abi.HostInfo{}, []byte(c.text)); got != int32(c.want) || p.smallPercent != c.small || p.ghostPercent != c.ghost {
			t.Errorf("%s: status %d, small queue %d%%, ghost %d%%; want %d, %d%% and %d%%", c.text, got, p.smallPercent, p.ghostPercent, c.want, c.small, c.ghost)
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

// TestGhostDecides: a node of the print of one that went enters the main queue and goes last, unless there is no ghost.
func TestGhostDecides(t *testing.T) {
	for _, c := range []struct {
		text string
		want []uint64
	}{
		{`{}`, []uint64{1, 3, 2}},                  // 1 and 3 leave at 10+100 and 30+100, 2 at 20+900
		{`{"ghost_percent":0}`, []uint64{1, 2, 3}}, // 2 enters at 20 and leaves at 120
	} {
		p := configured(t, c.text)
		var cache nodestest.Cache
		cache.Show(t, p.score, 1000, abi.ScoreRecord{NodeKey: 1, LastUse: 1, Tokens: 10, Class: abi.ScoreAwaiting})
		cache.Show(t, p.score, 1000,
			abi.ScoreRecord{NodeKey: 1, LastUse: 2, Tokens: 10, DepthTokens: 5, Class: abi.ScoreAwaiting},
			abi.ScoreRecord{NodeKey: 2, LastUse: 3, Tokens: 10, Class: abi.ScoreAwaiting},
			abi.ScoreRecord{NodeKey: 3, LastUse: 4, Tokens: 10, DepthTokens: 7, Class: abi.ScoreAwaiting})
		if got := cache.Order(); !slices.Equal(got, c.want) {
			t.Errorf("%s: they go in the order %d, want %d", c.text, got, c.want)
		}
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
