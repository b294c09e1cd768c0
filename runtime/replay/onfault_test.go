package replay

import (
	"context"
	"fmt"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// faulty is a group in which the policy of one hook fails on a rank whenever it is asked and fails says so; else it is a
// shipped one. Discarded instances have successors from the tick on in which refresh allows it.
type faulty struct {
	*sim
	hook     abi.Hook
	sets     []*plugins.Set
	policies []*rank.Policies
	fails    func(rank int) bool
	shown    func(rank int, b abi.Batch) bool // judges what the policy is shown in the place of fails
	refresh  func(rank int) bool              // nil: at once
}

// fault is how the policy of a faulty group fails.
type fault func(hook abi.Hook) error

func trap(hook abi.Hook) error {
	return &plugins.Fault{Class: plugins.FaultTrap, Hook: hook, Kind: "unreachable"}
}
func outOfFuel(hook abi.Hook) error { return &plugins.Fault{Class: plugins.FaultOutOfFuel, Hook: hook} }

// failing is a shipped policy that fails by decree.
type failing struct {
	plugins.Caller
	how   fault
	fails func(abi.Batch) bool
	b     abi.Batch
}

func (f *failing) Begin(hook abi.Hook, tick, epoch uint64, n, nOut int) (b abi.Batch, err error) {
	f.b, err = f.Caller.Begin(hook, tick, epoch, n, nOut)
	return f.b, err
}

func (f *failing) Call(hook abi.Hook) (abi.Status, error) {
	if f.fails(f.b) {
		return 0, f.how(hook)
	}
	return f.Caller.Call(hook)
}

func newFaulty(t *testing.T, ranks int, hook abi.Hook, how fault, edit func(*WorldConfig)) *faulty {
	f := &faulty{hook: hook, fails: func(int) bool { return false }}
	cfg := simConfig(ranks, 4, 32, 32)
	cfg.Schedule.HoldOnFault[schedule.Lane(hook)] = true
	if edit != nil {
		edit(&cfg)
	}
	cfg.Hooks = func(r int) (rank.Hooks, error) {
		names := standard.Config{Gate: "restore-gated", Reserve: "until-retired", Admit: "greedy"}
		set, err := plugins.NewNativeSet(names)
		if err != nil {
			return rank.Hooks{}, err
		}
		run, err := callerRunner(hook, names.Name(hook), func() plugins.Caller {
			return &failing{Caller: fallback(hook, names.Name(hook)), how: how, fails: func(b abi.Batch) bool {
				if f.shown != nil {
					return f.shown(r, b)
				}
				return f.fails(r)
			}}
		})
		if err != nil {
			return rank.Hooks{}, err
		}
		if cfg.Schedule.HoldOnFault[schedule.Lane(hook)] {
			run.SetOnFault(plugins.OnFaultHold)
		}
		switch hook {
		case abi.Gate:
			set.Gate = run
		case abi.Reserve:
			set.Reserve = run
		case abi.Admit:
			set.Admit = run
		}
		p := rank.NewPolicies(set, nil)
		f.sets, f.policies = append(f.sets, set), append(f.policies, p)
		return p.Hooks(), nil
	}
	cfg.Refresh = func(r int, _ uint64) error {
		if f.refresh != nil && !f.refresh(r) {
			return nil
		}
		return f.policies[r].Refresh(context.Background())
	}
	f.sim = newSim(t, cfg)
	return f
}

func (f *faulty) never() { f.refresh = func(int) bool { return false } }

// stats are the counters of the faulty hook's runner on a rank.
func (f *faulty) stats(r int) plugins.Stats { return f.sets[r].Runner(f.hook).Stats() }

func (f *faulty) faults() uint64 { return f.ranks[0].Schedule().Faults(f.hook) }

func (f *faulty) quarantined() bool { return f.ranks[0].Schedule().Quarantined(f.hook) }

// whoFails are the ranks whose policy fails in a scenario of so many ranks.
func whoFails() map[string]func(rank int) bool {
	return map[string]func(int) bool{
		"on all ranks":    func(int) bool { return true },
		"on one rank":     func(r int) bool { return r == 1 },
		"on the leader":   func(r int) bool { return r == 0 },
		"of a single one": nil,
	}
}

func ranksOf(fails func(int) bool) (int, func(int) bool) {
	if fails == nil {
		return 1, func(int) bool { return true }
	}
	return 2, fails
}

// TestHeldGateEndsInQuarantine has a gate that always traps. Nothing becomes ready meanwhile, its third fault quarantines
// it, and the native gate answers from the next tick on.
func TestHeldGateEndsInQuarantine(t *testing.T) {
	for name, who := range whoFails() {
		t.Run(name, func(t *testing.T) {
			ranks, fails := ranksOf(who)
			f := newFaulty(t, ranks, abi.Gate, trap, nil)
			f.warm(0, 8)
			f.fails = fails
			a := f.add(500, 9, 3)
			f.until("the quarantine", f.quarantined)
			at := f.tick
			if f.where(a) != schedule.QueueTransfer || f.faults() != 3 {
				t.Fatalf("%v at the quarantine, after %d faults; want in transfer, 3", f.where(a), f.faults())
			}
			f.until("ready", func() bool { return f.where(a) > schedule.QueueTransfer })
			if f.tick != at+1 {
				t.Errorf("ready %d ticks after the quarantine, want 1", f.tick-at)
			}
			for r := range f.ranks {
				s := f.stats(r)
				if want := uint64(3); fails(r) && (s.FaultTotal() != want || s.Held < want || s.Native == 0) || !fails(r) && s.Held != 0 {
					t.Errorf("rank %d: %+v", r, s)
				}
			}
			f.until("its end", f.done(a))
			f.wantEnd(a, schedule.FinishLength, abi.ReasonNone)
			f.wantTokens(a, 3)
			f.untilIdle()
		})
	}
}

// TestHeldGateEndsAtTheHoldLimit has a gate that traps once on one rank and never comes back. Every request is held for
// hold_ticks from when all ranks are ready, also one whose restore has failed; the rail counts towards the quarantine.
func TestHeldGateEndsAtTheHoldLimit(t *testing.T) {
	f := newFaulty(t, 2, abi.Gate, trap, func(c *WorldConfig) {
		c.Schedule.HoldTicks = 30
		c.Schedule.Quarantine[schedule.Lane(abi.Gate)].Faults = 3
	})
	f.never()
	f.fails = func(r int) bool { return r == 0 }
	a := f.add(500, 9, 3)
	f.until("in transfer", f.in(schedule.QueueTransfer, a))
	from := f.tick + 1 // the first ballot in which both ranks show it ready
	f.until("let go", func() bool { return f.where(a) > schedule.QueueTransfer })
	if f.tick-from < 30 || f.tick-from > 32 || f.Rails()["hold_limit"] != 1 || f.faults() != 2 {
		t.Errorf("held for %d ticks, hold_limit %d, faults %d; want 30, 1, 2", f.tick-from, f.Rails()["hold_limit"], f.faults())
	}
	b := f.add(900, 9, 3)
	f.until("both", f.done(a, b))
	f.step()
	if !f.quarantined() || f.faults() != 3 || f.Rails()["hold_limit"] != 2 {
		t.Errorf("quarantined %v after %d faults, hold_limit %d; want true, 3, 2", f.quarantined(), f.faults(), f.Rails()["hold_limit"])
	}
	for _, id := range []uint64{a, b} {
		f.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
		f.wantTokens(id, 3)
	}
	f.untilIdle()
	// Quarantined it is answered natively, though no instance will ever be there again.
	x := f.add(1300, 9, 3)
	f.until("in transfer", f.in(schedule.QueueTransfer, x))
	from = f.tick
	f.until("ready", func() bool { return f.where(x) > schedule.QueueTransfer })
	if f.tick-from > 3 {
		t.Errorf("a quarantined gate held it for %d ticks", f.tick-from)
	}
	f.untilIdle()
}

// TestHeldGateGoesOnWithItsSuccessor has one fault. A request that became ready in that tick is let go in the tick in
// which the successor answers, whether that is the next one or a later one.
func TestHeldGateGoesOnWithItsSuccessor(t *testing.T) {
	for _, wait := range []uint64{1, 7} {
		for name, who := range whoFails() {
			t.Run(fmt.Sprintf("%s, back after %d ticks", name, wait), func(t *testing.T) {
				ranks, fails := ranksOf(who)
				f := newFaulty(t, ranks, abi.Gate, trap, nil)
				arrive := false
				f.script.chunk = func(transfer.Key, int) transfer.Chunk { return transfer.Chunk{At: 10 * tick} }
				a := f.add(500, 9, 3)
				f.until("in transfer", f.in(schedule.QueueTransfer, a))
				var at uint64
				// No spare is ready when it fails: the successor is made so much later.
				f.refresh = func(int) bool { return at > 0 && f.tick >= at+wait }
				// The policy sees the raw polls; it fails in the first tick in which it sees a Success.
				f.shown = func(r int, b abi.Batch) bool {
					if b.GateIn(0).RawPoll == abi.PollSuccess {
						arrive = true
					}
					if arrive && at == 0 || at == f.tick {
						at = f.tick
						return fails(r)
					}
					return false
				}
				f.until("ready", func() bool { return f.where(a) > schedule.QueueTransfer })
				if at == 0 || f.tick != at+wait || f.faults() != 1 || f.quarantined() {
					t.Errorf("fault in tick %d, ready in tick %d, %d faults; want %d ticks later, 1", at, f.tick, f.faults(), wait)
				}
				for r := range f.ranks {
					if s := f.stats(r); fails(r) && (s.Held != wait || s.Native != 0) || !fails(r) && s.Held != 0 {
						t.Errorf("rank %d: %+v, want held in %d ticks", r, s, wait)
					}
				}
				f.until("its end", f.done(a))
				f.wantEnd(a, schedule.FinishLength, abi.ReasonNone)
				f.wantTokens(a, 3)
				f.untilIdle()
			})
		}
	}
}

// TestHeldAdmitEndsInQuarantine has an admit that always traps.
func TestHeldAdmitEndsInQuarantine(t *testing.T) {
	for name, who := range whoFails() {
		t.Run(name, func(t *testing.T) {
			ranks, fails := ranksOf(who)
			f := newFaulty(t, ranks, abi.Admit, trap, nil)
			f.fails = fails
			a, b := f.add(500, 9, 3), f.add(900, 9, 3)
			for !f.quarantined() {
				if f.where(a) > schedule.QueuePrealloc || f.tick > 100 {
					t.Fatalf("tick %d: %v after %d faults", f.tick, f.where(a), f.faults())
				}
				f.step()
			}
			if f.faults() != 3 || f.where(a) != schedule.QueueTransfer || f.where(b) != schedule.QueueTransfer {
				t.Errorf("%d faults, %v and %v in the tick of the quarantine; want 3, both in transfer", f.faults(), f.where(a), f.where(b))
			}
			if n := f.ranks[0].Schedule().Counts().AdmitHeld; n < 2 {
				t.Errorf("held in %d ticks, want those of the first two faults at least", n)
			}
			f.until("both", f.done(a, b))
			for _, id := range []uint64{a, b} {
				f.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
				f.wantTokens(id, 3)
			}
			f.untilIdle()
		})
	}
}

// TestHeldAdmitStarves has an admit that traps once on one rank, whose successor never comes: nothing is admitted for
// starve_ticks, then what fits, and so on.
func TestHeldAdmitStarves(t *testing.T) {
	f := newFaulty(t, 2, abi.Admit, trap, func(c *WorldConfig) {
		c.Schedule.StarveTicks = 25
		c.Schedule.Quarantine[schedule.Lane(abi.Admit)].Faults = 4
	})
	f.refresh = func(r int) bool { return r == 0 }
	f.fails = func(r int) bool { return r == 1 }
	for n := range uint64(3) {
		a := f.add(100*int(n), 9, 3)
		f.until("queued", f.in(schedule.QueuePrealloc, a))
		from := f.tick
		f.until("admitted", f.in(schedule.QueueTransfer, a))
		if f.tick-from < 25 || f.tick-from > 27 || f.Rails()["starved"] != n+1 || f.faults() != n+2 {
			t.Errorf("request %d: admitted after %d ticks, starved %d, faults %d; want 25, %d, %d", n, f.tick-from, f.Rails()["starved"], f.faults(), n+1, n+2)
		}
		f.until("its end", f.done(a))
		f.wantEnd(a, schedule.FinishLength, abi.ReasonNone)
		f.untilIdle()
	}
	if !f.quarantined() {
		t.Error("a fault and three starved ticks do not quarantine")
	}
	a := f.add(900, 9, 3)
	f.until("its end", f.done(a))
	if f.Rails()["starved"] != 3 {
		t.Errorf("starved %d times, want 3: the native rule admits", f.Rails()["starved"])
	}
	f.untilIdle()
}

// TestHeldAdmitGoesOnWithItsSuccessor has one fault of one rank. All candidates wait until every rank has the successor.
func TestHeldAdmitGoesOnWithItsSuccessor(t *testing.T) {
	f := newFaulty(t, 2, abi.Admit, trap, nil)
	var at uint64
	f.fails = func(r int) bool {
		if r == 1 && (at == 0 || at == f.tick) {
			at = f.tick
			return true
		}
		return false
	}
	f.refresh = func(r int) bool { return r == 0 || f.tick >= at+9 }
	a, b := f.add(500, 9, 3), f.add(900, 9, 3)
	f.until("the fault", func() bool { return f.faults() == 1 })
	f.until("the answer of the successor", func() bool { return f.where(a) > schedule.QueuePrealloc })
	// Reported in tick at+9, it is asked from the next one on.
	if f.tick != at+10 || f.where(b) != schedule.QueueTransfer || f.faults() != 1 {
		t.Errorf("fault in tick %d, admitted in tick %d beside %v, %d faults; want 10 later, in transfer, 1", at, f.tick, f.where(b), f.faults())
	}
	if n := f.ranks[0].Schedule().Counts().AdmitHeld; n != 10 {
		t.Errorf("held in %d ticks, want 10", n)
	}
	f.until("both", f.done(a, b))
	f.untilIdle()
}

// TestHeldReserve has a reserve that is out of fuel whenever it is asked, on one rank: while something is in transfer
// nothing new is admitted and what runs goes on, until the quarantine or, where that is far, until nothing is in transfer.
func TestHeldReserve(t *testing.T) {
	for _, faults := range []int{3, 1000} {
		for name, who := range whoFails() {
			t.Run(fmt.Sprintf("%s, quarantine after %d", name, faults), func(t *testing.T) {
				ranks, fails := ranksOf(who)
				f := newFaulty(t, ranks, abi.Reserve, outOfFuel, func(c *WorldConfig) {
					c.Schedule.Quarantine[schedule.Lane(abi.Reserve)].Faults = faults
				})
				f.fails = fails
				run := f.add(100, 9, 60)
				f.until("one runs", f.in(schedule.QueueRunning, run))
				before := f.faults()
				f.script.chunk = func(transfer.Key, int) transfer.Chunk { return transfer.Chunk{At: 20 * tick} }
				a := f.add(500, 9, 3)
				f.until("in transfer", f.in(schedule.QueueTransfer, a))
				tokens := len(f.Outcome(run).Tokens)
				b := f.add(900, 9, 3)
				f.until("queued", f.in(schedule.QueuePrealloc, b))
				held := 0
				for f.where(b) == schedule.QueuePrealloc && f.tick < 1000 {
					f.step()
					held++
				}
				switch {
				case faults == 3 && (!f.quarantined() || f.faults() != 3 || f.where(a) != schedule.QueueTransfer):
					t.Errorf("admitted after %d faults, quarantined %v, with the other %v; want at the quarantine", f.faults(), f.quarantined(), f.where(a))
				case faults > 3 && (f.quarantined() || f.faults() <= before+10 || f.where(a) == schedule.QueueTransfer):
					t.Errorf("admitted after %d faults, quarantined %v, with the other %v; want after the transfer", f.faults()-before, f.quarantined(), f.where(a))
				}
				if n := len(f.Outcome(run).Tokens); n < tokens+held-2 {
					t.Errorf("%d tokens of the running one in %d ticks of hold", n-tokens, held)
				}
				if f.Rails()["over_capacity"] != 0 {
					t.Error("a held answer trips a rail")
				}
				f.until("all", f.done(run, a, b))
				for _, id := range []uint64{run, a, b} {
					f.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
				}
				f.untilIdle()
			})
		}
	}
}

// TestFaultsAreNotHeldUnasked is the same gate with on_fault = native: nobody waits.
func TestFaultsAreNotHeldUnasked(t *testing.T) {
	f := newFaulty(t, 2, abi.Gate, trap, func(c *WorldConfig) { c.Schedule.HoldOnFault = [schedule.NumHooks]bool{} })
	f.never()
	f.fails = func(int) bool { return true }
	a := f.add(500, 9, 3)
	f.until("in transfer", f.in(schedule.QueueTransfer, a))
	from := f.tick
	f.until("ready", func() bool { return f.where(a) > schedule.QueueTransfer })
	if s := f.stats(0); f.tick-from > 3 || s.Held != 0 || s.Native == 0 {
		t.Errorf("ready after %d ticks, %+v", f.tick-from, s)
	}
	f.untilIdle()
}
