package plugins_test

import (
	"context"
	"errors"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins"
)

// crew makes instances that fail where fail is set, and counts those that are open.
type crew struct {
	fail             bool
	made, open, most int
}

type counted struct {
	plugins.Caller
	crew *crew
}

func (c counted) Close(context.Context) error {
	c.crew.open--
	return nil
}

func (c *crew) build(context.Context) (plugins.Caller, error) {
	c.made++
	c.open++
	c.most = max(c.most, c.open)
	status := func() int32 {
		if c.fail {
			return -1
		}
		return 0
	}
	return counted{plugins.NewNative(plugins.NativePolicy{
		Gate: func(guest.GateBatch) int32 { return status() },
		Admit: func(b guest.AdmitBatch) int32 {
			for i := range b.Candidates() {
				b.Set(i, abi.VerdictDefer, i)
			}
			return status()
		},
	}), c}, nil
}

func (c *crew) runner(t *testing.T, hook abi.Hook) (*plugins.Runner, *plugins.Slot) {
	t.Helper()
	slot, err := plugins.NewSlot(context.Background(), plugins.ClassOf(hook), c.build)
	if err != nil {
		t.Fatal(err)
	}
	r, err := plugins.NewRunner(hook, "p", slot, fallback(t, hook))
	if err != nil {
		t.Fatal(err)
	}
	return r, slot
}

// refresh is what happens beside the ticks: all that is wanted is made.
func refresh(t *testing.T, r *plugins.Runner) {
	t.Helper()
	for range 5 {
		if err := r.Refresh(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if r.Wanted() {
		t.Error("more is wanted after a refresh")
	}
}

// With a spare, a fault costs the policy the tick in which it happens: a local one answers the next, a replicated one is
// ready at once and answers when it is installed.
func TestASpareStepsIn(t *testing.T) {
	for _, hook := range []abi.Hook{abi.Gate, abi.Admit} {
		t.Run(hook.String(), func(t *testing.T) {
			var c crew
			r, slot := c.runner(t, hook)
			if r.Wanted() || c.made != 1 {
				t.Fatalf("a slot that nobody calls: wanted %v, %d made", r.Wanted(), c.made)
			}
			if a := ask(t, r, 1); a.Native || !r.Wanted() {
				t.Fatalf("native %v, wanted %v", a.Native, r.Wanted())
			}
			for tick := uint64(2); tick < 20; tick += 2 {
				refresh(t, r)
				c.fail = true
				if a := ask(t, r, tick); a.Fault == nil || !a.Native {
					t.Fatalf("tick %d: %v", tick, a.Fault)
				}
				c.fail = false
				if !r.Ready() || r.Wanted() {
					t.Fatalf("tick %d: ready %v, wanted %v", tick, r.Ready(), r.Wanted())
				}
				if hook == abi.Admit {
					if a := ask(t, r, tick); !a.Native || r.Active() {
						t.Fatalf("tick %d: a replicated spare answers before it is installed", tick)
					}
					if !r.Install() {
						t.Fatal("not installed")
					}
				}
				if a := ask(t, r, tick+1); a.Native || a.Fault != nil {
					t.Fatalf("tick %d: native %v, %v", tick+1, a.Native, a.Fault)
				}
				if !r.Wanted() {
					t.Fatalf("tick %d: no other spare is wanted", tick+1)
				}
			}
			if s := r.Stats(); s.Replaced != 9 || s.FaultTotal() != 9 || c.made != 10 || c.open != 1 || c.most != 2 {
				t.Errorf("%d replaced, %d made, %d open, %d at most", s.Replaced, c.made, c.open, c.most)
			}
			refresh(t, r)
			closing(t, slot.Close)
			if c.open != 0 || r.Wanted() || r.Ready() {
				t.Errorf("%d open after Close, wanted %v, ready %v", c.open, r.Wanted(), r.Ready())
			}
		})
	}
}

// Another rank's fault takes this rank's instance too, and its spare is ready.
func TestASpareForAnotherRanksFault(t *testing.T) {
	var c crew
	r, slot := c.runner(t, abi.Admit)
	defer closing(t, slot.Close)
	ask(t, r, 1)
	refresh(t, r)
	if err := errors.Join(r.Discard(context.Background()), r.Discard(context.Background())); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); !r.Ready() || r.Active() || s.Replaced != 1 {
		t.Errorf("ready %v, active %v, %d replaced", r.Ready(), r.Active(), s.Replaced)
	}
}

func TestASlotThatRestsHasNoSpare(t *testing.T) {
	ctx := context.Background()
	var c crew
	r, slot := c.runner(t, abi.Gate)
	defer closing(t, slot.Close)
	ask(t, r, 1)
	refresh(t, r)
	for range 2 {
		closing(t, slot.Rest)
		if refresh(t, r); c.open != 1 || !r.Active() {
			t.Fatalf("%d open, active %v", c.open, r.Active())
		}
	}
	if a := ask(t, r, 2); a.Native || !r.Wanted() {
		t.Errorf("called again: native %v, wanted %v", a.Native, r.Wanted())
	}
	// What stands in for a discarded instance stays.
	refresh(t, r)
	if err := r.Discard(ctx); err != nil {
		t.Fatal(err)
	}
	if closing(t, slot.Rest); !r.Ready() || c.open != 1 {
		t.Errorf("ready %v, %d open", r.Ready(), c.open)
	}
}

// A spare that is made while its slot goes to rest is closed.
func TestRestBesideRefresh(t *testing.T) {
	var c crew
	var slot *plugins.Slot
	rest := false
	slot, err := plugins.NewSlot(context.Background(), abi.ClassLocal, func(ctx context.Context) (plugins.Caller, error) {
		if rest {
			closing(t, slot.Rest)
		}
		return c.build(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, slot.Close)
	r, err := plugins.NewRunner(abi.Gate, "p", slot, fallback(t, abi.Gate))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, r, 1)
	rest = true
	if refresh(t, r); c.made != 2 || c.open != 1 {
		t.Errorf("%d made, %d open", c.made, c.open)
	}
}

// A policy that leaks is told how fast, and how often it has come to that.
func TestALeakIsNamed(t *testing.T) {
	r, _ := talking(t, guestModule{gate: code(i32(1), op(opGrow, 0, opDrop), i32(0))}, plugins.Options{MemoryPages: 40}, 0)
	for _, want := range []string{
		`memory grew to 25 pages, 24 are allowed, from 8 in 17 calls, by 65536 bytes a call; keep the hot path free of allocation`,
		`memory grew to 25 pages, 24 are allowed, from 8 in 17 calls, by 65536 bytes a call; keep the hot path free of allocation; 2 instances of the policy have ended so`,
	} {
		var f *plugins.Fault
		for tick := uint64(0); f == nil && tick < 100; tick++ {
			f = ask(t, r, tick).Fault
		}
		if f == nil || f.Class != plugins.FaultMemoryGrowth || f.Detail != want {
			t.Errorf("%v, want %q", f, want)
		}
		refresh(t, r)
	}
	if s := r.Stats(); s.Replaced != 2 {
		t.Errorf("%d replaced", s.Replaced)
	}
}
