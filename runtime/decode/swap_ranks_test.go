package decode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// stepper lets rank 0 begin ticks one at a time.
type stepper struct {
	on    atomic.Bool
	turns chan struct{}
	quit  chan struct{}
}

func (s *stepper) before(rank int, _ uint64) {
	if rank == 0 && s.on.Load() {
		select {
		case <-s.turns:
		case <-s.quit:
		}
	}
}

// A rollback takes one tick, and the predecessor goes on with the state it was left with.
func TestRollbackIsWarmAndTakesOneTick(t *testing.T) {
	r := newSwapRig(t, func(o *Options) {
		o.Deadline, o.Pace = patience, time.Millisecond
		o.Schedule.Quarantine = schedule.QuarantineAll(1<<20, 1000)
	})
	const trapAt, leaveAt = 300, 200 // calls on each of two ranks
	if _, err := r.Rollback(context.Background()); !errors.Is(err, server.ErrPolicyConflict) || !strings.Contains(err.Error(), "nothing to roll back to") {
		t.Errorf("with no predecessor: %v", err)
	}
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	first := r.swap(module(reserveModule(trapsOnCall(trapAt), nil), "v1"))
	eventually(t, "some calls", func() bool { return r.active("reserve").Calls >= 2*leaveAt })
	r.swap(module(reserveModule(answers(0), nil), "v2"))
	if p := r.inState(server.PolicyPrevious)[0].Hooks[1]; p.Calls < 2*leaveAt || len(p.Faults) > 0 {
		t.Fatalf("left as %+v", p)
	}
	s := &stepper{turns: make(chan struct{}), quit: make(chan struct{})}
	free := sync.OnceFunc(func() { close(s.quit) })
	defer free()
	s.on.Store(true)
	r.beforeTick(s.before)
	s.turns <- struct{}{} // rank 0 is at the start of the next tick
	done := make(chan error, 1)
	go func() {
		_, err := r.Rollback(context.Background())
		done <- err
	}()
	eventually(t, "the offer", func() bool {
		r.policies.mu.Lock()
		defer r.policies.mu.Unlock()
		return r.policies.change != nil
	})
	ticks := 0
	for finished := false; !finished; {
		select {
		case s.turns <- struct{}{}:
			ticks++
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			finished = true
		}
	}
	// One may have begun before the offer; one switches; one may begin before its end is seen here.
	if ticks > 3 || r.active("reserve").Name != "v1" || r.inState(server.PolicyActive)[0].ID != first.ID {
		t.Errorf("%d ticks for a rollback to %+v", ticks, r.active("reserve"))
	}
	free()
	// Its counter was not lost: the trap comes after the calls of both times in use together.
	var k server.PolicyHook
	eventually(t, "the trap", func() bool { k = r.active("reserve"); return k.Faults["trap"] > 0 })
	if k.Calls < 2*trapAt-1 || k.Calls >= 2*(leaveAt+trapAt) {
		t.Errorf("trapped by call %d of two ranks, want about %d", k.Calls, 2*trapAt)
	}
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// An activation that one rank does not see in time is withdrawn on all, by name of the rank, and can be made again.
func TestActivateWithAStalledRank(t *testing.T) {
	for stalled := range 2 {
		t.Run(fmt.Sprintf("rank %d", stalled), func(t *testing.T) {
			r := newSwapRig(t, func(o *Options) {
				o.Deadline = patience
				o.Policies.Deadline = 20 * time.Millisecond
			})
			staged := r.stage(builtin("gate", "ungated"))
			release, entered := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			r.beforeTick(func(rank int, _ uint64) {
				if rank == stalled && once.CompareAndSwap(false, true) {
					close(entered)
					<-release
				}
			})
			<-entered
			_, err := r.Activate(context.Background(), staged.ID)
			if !errors.Is(err, server.ErrPolicyConflict) || !strings.Contains(err.Error(), fmt.Sprintf("rank [%d] lags", stalled)) {
				t.Errorf("error %v, want rank %d named", err, stalled)
			}
			if got := r.inState(server.PolicyStaged); len(got) != 1 || got[0].Reason == "" || r.value("policy_refused_total") != 1 {
				t.Errorf("staged %+v, %v refused", got, r.value("policy_refused_total"))
			}
			gone, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := r.Activate(gone, staged.ID); err == nil {
				t.Error("activated for a caller that has gone")
			}
			close(release)
			outcome(t, r.submit("x", 10, 5)) // some ticks of all ranks
			if r.value("policy_epoch") != 0 || r.active("gate").Name != "restore-gated" {
				t.Errorf("the withdrawn epoch came into force: %v, %s", r.value("policy_epoch"), r.active("gate").Name)
			}
			eventually(t, "the activation to be taken", func() bool {
				_, err := r.Activate(context.Background(), staged.ID)
				return err == nil
			})
			if r.active("gate").Name != "ungated" || r.value("group_epoch") != 1 {
				t.Errorf("active %s in group epoch %v", r.active("gate").Name, r.value("group_epoch"))
			}
		})
	}
}

// A group that ends takes the activation under way with it; the next group runs what was active, and takes it.
func TestActivateWhileTheGroupEnds(t *testing.T) {
	r := newSwapRig(t, nil)
	r.swap(builtin("reserve", "none"))
	staged := r.stage(builtin("gate", "ungated"))
	entered, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 1 && once.CompareAndSwap(false, true) {
			close(entered)
			<-release
		}
	})
	<-entered
	done := make(chan error, 1)
	go func() {
		_, err := r.Activate(context.Background(), staged.ID)
		done <- err
	}()
	eventually(t, "the end of the group", func() bool { return r.Ready() != nil })
	close(release)
	if err := <-done; !errors.Is(err, server.ErrPolicyConflict) || !strings.Contains(err.Error(), "group of epoch 1 has ended") {
		t.Errorf("error %v", err)
	}
	r.ready()
	if r.active("reserve").Name != "none" || r.active("gate").Name != "restore-gated" || r.value("policy_epoch") != 1 || r.value("group_epoch") != 2 {
		t.Errorf("after forming again: reserve %s, gate %s, policy epoch %v", r.active("reserve").Name, r.active("gate").Name, r.value("policy_epoch"))
	}
	r.activate(staged.ID)
	// The predecessor of before the end, whose instances nobody vouches for, is made anew.
	if _, err := r.Rollback(context.Background()); err != nil || r.active("gate").Name != "restore-gated" || r.active("reserve").Name != "none" {
		t.Errorf("rollback: %v, gate %s, reserve %s", err, r.active("gate").Name, r.active("reserve").Name)
	}
	outcome(t, r.submit("x", 10, 5))
}

// The predecessor outlives the end of a group, with fresh instances.
func TestRollbackAfterFormingAgain(t *testing.T) {
	r := newSwapRig(t, nil)
	r.swap(module(reserveModule(answers(0), nil), "v1"))
	r.swap(module(reserveModule(answers(7), nil), "v2"))
	var once atomic.Bool
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 0 && once.CompareAndSwap(false, true) {
			panic("scripted")
		}
	})
	eventually(t, "group epoch 2", func() bool { return r.value("group_epoch") == 2 })
	r.ready()
	if got := r.active("reserve").Name; got != "v2" {
		t.Errorf("%s is active after forming again, want v2", got)
	}
	if _, err := r.Rollback(context.Background()); err != nil || r.active("reserve").Name != "v1" {
		t.Errorf("rollback: %v, %s", err, r.active("reserve").Name)
	}
	outcome(t, r.submit("x", 10, 5))
}

// diverge has the ranks heal a divergence at the start of a coming tick, and waits until they are equal again.
func (r *rig) diverge() {
	r.t.Helper()
	var mu sync.Mutex
	var at uint64
	healed := make(chan error, 2)
	r.beforeTick(func(rank int, tick uint64) {
		mu.Lock()
		if at == 0 {
			at = tick + 1 // neither rank is further
		}
		now := tick == at
		mu.Unlock()
		if now {
			g := r.policies.running
			healed <- g.heal(context.Background(), g.members[rank], &schedule.Mismatch{})
		}
	})
	for range 2 {
		if err := <-healed; err != nil {
			r.t.Fatalf("resync: %v", err)
		}
	}
	r.beforeTick(nil)
}

// A resync makes the instances in use anew, and those before them before they come back: they may have been left by one
// rank a batch later than by the other. What is staged was never asked.
func TestRollbackAfterAResync(t *testing.T) {
	r := newSwapRig(t, func(o *Options) { o.Deadline = patience })
	r.wire.set(func(w *wire) { w.slow = true })
	sets := func() (active, previous *policySet, of [2]*rank.Policies) {
		r.policies.mu.Lock()
		defer r.policies.mu.Unlock()
		return r.policies.active, r.policies.previous, [2]*rank.Policies{r.policies.active.ranks[0], r.policies.previous.ranks[0]}
	}
	r.swap(module(reserveModule(answers(0), nil), "v1"))
	r.swap(module(reserveModule(answers(7), nil), "v2"))
	staged := r.stage(builtin("gate", "ungated"))
	_, _, before := sets()
	r.diverge()
	live := r.submit("live", 10, 5)
	if _, err := r.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, _, after := sets()
	if r.active("reserve").Name != "v1" || after[0] == before[1] {
		t.Errorf("%s is back, with the instances it was left with: %v", r.active("reserve").Name, after[0] == before[1])
	}
	eventually(t, "its answers", func() bool { k := r.active("reserve"); return k.Calls > 2 && k.Native == 0 })
	// What the resync has made anew is warm again from there on, and so is what was made anew for the rollback.
	for range 2 {
		_, _, before = sets()
		if _, err := r.Rollback(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, _, after = sets(); after[0] != before[1] || after[1] != before[0] {
			t.Error("a later rollback makes instances anew")
		}
	}
	r.activate(staged.ID)
	if active, previous, _ := sets(); active.stale || previous.stale || r.active("gate").Name != "ungated" || r.value("group_epoch") != 1 {
		t.Errorf("stale %v and %v, gate %s, group epoch %v", active.stale, previous.stale, r.active("gate").Name, r.value("group_epoch"))
	}
	r.wire.set(func(w *wire) { w.slow = false })
	if tokens, _ := outcome(t, live); len(tokens) != 5 {
		t.Errorf("%d tokens", len(tokens))
	}
}

// A resync in the middle of a switch parts the set that is being left.
func TestResyncWhileSwitching(t *testing.T) {
	r := newSwapRig(t, func(o *Options) { o.Deadline = patience })
	r.swap(module(reserveModule(answers(0), nil), "v1"))
	staged := r.stage(builtin("gate", "ungated"))
	var once sync.Once
	done := make(chan error, 1)
	// Rank 1 has not looked at the change when the ranks meet to heal.
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 1 {
			once.Do(func() {
				go func() {
					_, err := r.Activate(context.Background(), staged.ID)
					done <- err
				}()
				eventually(t, "the offer", func() bool {
					r.policies.mu.Lock()
					defer r.policies.mu.Unlock()
					return r.policies.change != nil
				})
				r.policies.resynced()
			})
		}
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.policies.mu.Lock()
	active, left, was := r.policies.active, r.policies.previous, r.policies.previous.ranks[0]
	stale := [2]bool{active.stale, left.stale}
	r.policies.mu.Unlock()
	if stale != [2]bool{false, true} {
		t.Fatalf("stale: active %v, previous %v; want the one that was left", stale[0], stale[1])
	}
	if _, err := r.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r.active("reserve").Name != "v1" || left.ranks[0] == was || left.stale {
		t.Errorf("%s is back with the instances it was left with", r.active("reserve").Name)
	}
	outcome(t, r.submit("x", 10, 5))
}
