package clock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func fired(t Timer) bool {
	select {
	case <-t.C():
		return true
	default:
		return false
	}
}

func TestVirtualTimerFiresAtItsDeadline(t *testing.T) {
	v := NewVirtual()
	timer := v.NewTimer(10)
	v.Advance(9)
	if fired(timer) {
		t.Fatal("fired one nanosecond early")
	}
	v.Advance(1)
	if !fired(timer) || fired(timer) {
		t.Fatal("did not fire exactly once")
	}
	if v.Now() != 10 || v.Pending() != 0 {
		t.Errorf("got now %v and %d pending, want 10ns and 0", v.Now(), v.Pending())
	}
}

func TestVirtualTimerOfNoLengthFiresAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, -1} {
		if !fired(NewVirtual().NewTimer(d)) {
			t.Errorf("a timer of %v did not fire", d)
		}
	}
}

func TestStopAndReset(t *testing.T) {
	v := NewVirtual()
	cases := []struct {
		name    string
		advance time.Duration
		do      func(Timer) bool
		was     bool
		after   time.Duration // then advance
		fires   bool
	}{
		{"stop pending", 5, Timer.Stop, true, 100, false},
		{"stop fired drops the value", 10, Timer.Stop, false, 100, false},
		{"reset pending", 5, func(t Timer) bool { return t.Reset(10) }, true, 9, false},
		{"reset pending, later", 5, func(t Timer) bool { return t.Reset(10) }, true, 10, true},
		{"reset fired", 10, func(t Timer) bool { return t.Reset(10) }, false, 10, true},
		{"reset to nothing", 5, func(t Timer) bool { return t.Reset(0) }, true, 0, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			timer := v.NewTimer(10)
			v.Advance(c.advance)
			if was := c.do(timer); was != c.was {
				t.Errorf("got was-pending %v, want %v", was, c.was)
			}
			v.Advance(c.after)
			if got := fired(timer); got != c.fires {
				t.Errorf("got fired %v, want %v", got, c.fires)
			}
			timer.Stop()
		})
	}
	if v.Pending() != 0 {
		t.Errorf("%d waits are left", v.Pending())
	}
}

// Waits end in the order (deadline, order of arming), whatever order they are armed in and whichever are stopped.
func TestOrderOfWaits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	v := NewVirtual()
	type event struct {
		at  time.Duration
		seq int
	}
	var want, got []event
	timers := map[event]Timer{}
	for seq := range 500 {
		e := event{time.Duration(rng.IntN(50) + 1), seq}
		timers[e] = v.Schedule(e.at, func() {
			if v.Now() != e.at {
				t.Errorf("seed %d: the clock reads %v at %v", seed, v.Now(), e.at)
			}
			got = append(got, e)
		})
		want = append(want, e)
	}
	want = slices.DeleteFunc(want, func(e event) bool { return rng.IntN(4) == 0 && timers[e].Stop() })
	slices.SortStableFunc(want, func(a, b event) int { return int(a.at - b.at) })
	v.Advance(50)
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: got %v\nwant %v", seed, got, want)
	}
}

func TestCallbacksMayScheduleIntoTheSameAdvance(t *testing.T) {
	v := NewVirtual()
	var log []string
	note := func(s string) { log = append(log, fmt.Sprintf("%s@%d", s, v.Now())) }
	v.Schedule(2, func() {
		note("a")
		v.Schedule(3, func() { note("b") })
		v.Schedule(0, func() { note("c") })
		v.Schedule(9, func() { note("late") })
		v.Advance(100) // refused: this advance is still running
		if v.AdvanceToNext() {
			t.Error("AdvanceToNext ran inside a callback")
		}
	})
	v.Advance(6)
	if want := []string{"a@2", "c@2", "b@5"}; !slices.Equal(log, want) {
		t.Errorf("got %v, want %v", log, want)
	}
	if v.Now() != 6 {
		t.Errorf("got now %v, want 6ns", v.Now())
	}
	if at, ok := v.Next(); !ok || at != 11 {
		t.Errorf("got next %v, %v, want 11ns, true", at, ok)
	}
	if !v.AdvanceToNext() || v.Now() != 11 || v.AdvanceToNext() {
		t.Errorf("AdvanceToNext did not stop at 11ns with nothing left: now %v", v.Now())
	}
	if _, ok := v.Next(); ok {
		t.Error("Next names a wait where none is pending")
	}
}

func TestAdvanceIsLimitedToTheRangeOfADuration(t *testing.T) {
	const last = time.Duration(1<<63 - 1)
	v := NewVirtual()
	v.Advance(5)
	v.Advance(-5)
	if v.Now() != 5 {
		t.Fatalf("a negative advance moved the clock to %v", v.Now())
	}
	timer := v.NewTimer(last)
	v.Advance(last - 6)
	if fired(timer) {
		t.Fatal("fired before the last instant")
	}
	v.Advance(last)
	if !fired(timer) || v.Now() != last {
		t.Errorf("got now %v, want the last instant", v.Now())
	}
}

func TestSleep(t *testing.T) {
	v := NewVirtual()
	done := make(chan error, 1)
	go func() { done <- Sleep(context.Background(), v, time.Second) }()
	v.AwaitPending(1)
	v.Advance(time.Second)
	if err := <-done; err != nil {
		t.Errorf("got %v, want nil", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- Sleep(ctx, v, time.Second) }()
	v.AwaitPending(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := Sleep(ctx, v, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("of an ended context: got %v, want context.Canceled", err)
	}
	if v.Pending() != 0 {
		t.Errorf("%d waits are left", v.Pending())
	}
}

// Many goroutines arm, reset and stop while one advances; the race detector judges, and every sleeper wakes.
func TestVirtualFromManyGoroutines(t *testing.T) {
	const sleepers = 32
	v := NewVirtual()
	var wg sync.WaitGroup
	for i := range sleepers {
		wg.Go(func() {
			scratch := v.NewTimer(time.Hour)
			scratch.Reset(2 * time.Hour)
			scratch.Stop()
			<-v.NewTimer(time.Duration(i + 1)).C()
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
			if v.Pending() != 0 {
				t.Errorf("%d waits are left", v.Pending())
			}
			return
		default:
			v.Advance(1)
		}
	}
}

func TestReal(t *testing.T) {
	var c Clock = NewReal()
	before := c.Now()
	timer := c.NewTimer(time.Nanosecond)
	<-timer.C()
	if c.Now() <= before {
		t.Error("the clock did not move past a timer")
	}
	if timer.Reset(time.Hour) || !timer.Stop() || timer.Stop() {
		t.Error("Reset and Stop misreport whether the timer was pending")
	}
	if err := Sleep(context.Background(), c, time.Nanosecond); err != nil {
		t.Error(err)
	}
}
