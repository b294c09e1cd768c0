package rank_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/rank"
)

// spied is a hook that notes what the rank does with it.
type spied struct {
	rank.Hook
	name  string
	notes *[]string
}

func (s spied) Ask(tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (abi.Batch, bool) {
	*s.notes = append(*s.notes, fmt.Sprintf("%s asked in epoch %d", s.name, epoch))
	return s.Hook.Ask(tick, epoch, n, nOut, encode)
}

func (s spied) Start(g uint64) {
	*s.notes = append(*s.notes, fmt.Sprintf("%s starts as %d", s.name, g))
	s.Hook.Start(g)
}

func nativeHooks(tb testing.TB) rank.Hooks {
	tb.Helper()
	set, err := plugins.NewNativeSet(standard.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return rank.NewPolicies(set, nil).Hooks()
}

// gateSpy is a set whose gate is watched.
func gateSpy(tb testing.TB, name string, notes *[]string) rank.Hooks {
	h := nativeHooks(tb)
	h.Gate = spied{h.Gate, name, notes}
	return h
}

// The group switches to what all ranks have staged, at once, and the predecessor comes back to who staged it.
func TestSwap(t *testing.T) {
	var notes [2][]string
	b := newBed(t, benchConfig(2), func(r int) rank.Hooks { return gateSpy(t, "old", &notes[r]) })
	busy(t, b, 4, 4, 0)
	stage := func(r int, epoch uint64, name string) {
		t.Helper()
		if err := b.ranks[r].Stage(epoch, gateSpy(t, name, &notes[r])); err != nil {
			t.Fatal(err)
		}
	}
	last := func(r int) string { return notes[r][len(notes[r])-1] }
	stage(0, 1, "new")
	b.step(t)
	b.step(t)
	if got := b.ranks[0].Schedule().PolicyEpoch(); got != 0 || last(0) != "old asked in epoch 0" || b.ranks[0].Ready() != 1 || b.ranks[1].Ready() != 0 {
		t.Fatalf("epoch %d, %q, ready %d and %d, with rank 1 lagging", got, last(0), b.ranks[0].Ready(), b.ranks[1].Ready())
	}
	stage(1, 1, "new")
	b.step(t)
	for r := range 2 {
		if want := []string{"old asked in epoch 0", "new starts as 2"}; !slices.Equal(notes[r][len(notes[r])-2:], want) {
			t.Errorf("rank %d in the tick of the switch: %q, want %q", r, notes[r], want)
		}
		if got := b.ranks[r].TakeRetired(nil); !slices.Equal(got, []uint64{0}) {
			t.Errorf("rank %d gives epochs %v back, want 0", r, got)
		}
	}
	b.step(t)
	for r := range 2 {
		if last(r) != "new asked in epoch 1" || len(b.ranks[r].TakeRetired(nil)) != 0 {
			t.Errorf("rank %d after it: %q", r, last(r))
		}
	}
	// One is passed over: both ranks hold 2 and 3, and go to 3.
	for r := range 2 {
		stage(r, 2, "skipped")
		stage(r, 3, "newest")
	}
	b.step(t)
	if got := b.ranks[1].TakeRetired(nil); !slices.Equal(got, []uint64{2, 1}) || last(1) != "newest starts as 3" {
		t.Errorf("epochs %v come back, and %q; want 2 and 1", got, last(1))
	}
}

func TestStageAndWithdraw(t *testing.T) {
	b := newBed(t, benchConfig(2), func(int) rank.Hooks { return nativeHooks(t) })
	k := b.ranks[0]
	if err := k.Stage(1, rank.Hooks{}); err == nil || !strings.Contains(err.Error(), "all needed") {
		t.Errorf("no hooks: %v", err)
	}
	for _, epoch := range []uint64{2, 5} {
		if err := k.Stage(epoch, nativeHooks(t)); err != nil {
			t.Fatal(err)
		}
	}
	for _, epoch := range []uint64{0, 2, 5} {
		if err := k.Stage(epoch, nativeHooks(t)); err == nil || !strings.Contains(err.Error(), "above 5") {
			t.Errorf("epoch %d again: %v", epoch, err)
		}
	}
	if k.Withdraw(3) || k.Ready() != 5 {
		t.Errorf("an epoch that was never staged is withdrawn; ready %d", k.Ready())
	}
	if !k.Withdraw(2) || k.Ready() != 0 {
		t.Errorf("withdrawn with what is above it, ready is %d, want the one in force", k.Ready())
	}
	for r := range 2 {
		if err := b.ranks[r].Stage(6, nativeHooks(t)); err != nil {
			t.Fatal(err)
		}
	}
	b.step(t)
	if k.Withdraw(6) || k.Schedule().PolicyEpoch() != 6 {
		t.Errorf("an epoch in force (%d) is withdrawn", k.Schedule().PolicyEpoch())
	}
}

// A rank that is told of an epoch it does not hold goes on with what it has.
func TestFlipWithoutTheHooks(t *testing.T) {
	var notes [2][]string
	b := newBed(t, benchConfig(2), func(r int) rank.Hooks { return gateSpy(t, "old", &notes[r]) })
	busy(t, b, 4, 4, 0)
	for r := range 2 {
		if err := b.ranks[r].Stage(1, gateSpy(t, "new", &notes[r])); err != nil {
			t.Fatal(err)
		}
	}
	b.beforeReduce = func() { b.ranks[1].Withdraw(1) } // its ballot has promised the epoch already
	b.step(t)
	b.beforeReduce = nil
	b.step(t)
	if got := notes[1][len(notes[1])-1]; got != "old asked in epoch 1" || b.ranks[1].Counts().EffectErrors != 1 {
		t.Errorf("%q, %d effect errors", got, b.ranks[1].Counts().EffectErrors)
	}
	if got := notes[0][len(notes[0])-1]; got != "new asked in epoch 1" {
		t.Errorf("rank 0: %q", got)
	}
}

// Policies that are staged, and ones that were swapped in, cost a tick nothing.
func TestSwapAllocatesNothing(t *testing.T) {
	b := newBed(t, benchConfig(2), func(int) rank.Hooks { return nativeHooks(t) })
	busy(t, b, 32, 32, 4)
	for range 64 {
		b.step(t)
	}
	if err := b.ranks[0].Stage(1, nativeHooks(t)); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { b.step(t) }); n != 0 {
		t.Errorf("%v allocations a tick with policies staged on one rank", n)
	}
	if err := b.ranks[1].Stage(1, nativeHooks(t)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		b.step(t) // the new policies' batches grow to their size
	}
	if n := testing.AllocsPerRun(100, func() { b.step(t) }); n != 0 || b.ranks[0].Schedule().PolicyEpoch() != 1 {
		t.Errorf("%v allocations a tick after the switch to epoch %d", n, b.ranks[0].Schedule().PolicyEpoch())
	}
}
