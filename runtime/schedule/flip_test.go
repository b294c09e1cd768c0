package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/abi"
)

// flips lists the policy epochs that a rank has switched to, with their ticks.
func (g *group) flips(rank int) (out []string) {
	for _, e := range g.events[rank] {
		if e.Kind == EffectPolicyEpoch {
			out = append(out, fmt.Sprintf("tick %d: epoch %d, generation %d", e.tick, e.Value, e.Generation))
		}
	}
	return out
}

// wantSameFlips checks that all ranks switched at the same ticks, n times in all.
func (g *group) wantSameFlips(n int) {
	g.t.Helper()
	want := g.flips(0)
	if len(want) != n {
		g.t.Errorf("%d switches, want %d: %v", len(want), n, want)
	}
	for rank := range g.ranks {
		if got := g.flips(rank); fmt.Sprint(got) != fmt.Sprint(want) {
			g.t.Errorf("rank %d switched %v, rank 0 %v", rank, got, want)
		}
	}
}

// TestFlipOnOneTick has ranks become ready at ticks of their own: all switch in the tick in which the last is, and a
// rollback is one more epoch.
func TestFlipOnOneTick(t *testing.T) {
	for _, c := range []struct {
		name  string
		ready [3]uint64 // tick at which a rank has epoch 1 ready
	}{{"all at once", [3]uint64{5, 5, 5}}, {"rank 0 lags", [3]uint64{90, 5, 6}}, {"rank 2 lags", [3]uint64{5, 40, 60}}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(3, 4, 16, 16))
			back := false
			g.epoch = func(rank int) uint64 {
				switch {
				case back:
					return 2
				case g.tick >= c.ready[rank]:
					return 1
				}
				return 0
			}
			last := max(c.ready[0], c.ready[1], c.ready[2])
			for g.tick < last-1 {
				g.step()
			}
			g.wantSameFlips(0)
			g.step()
			g.wantSameFlips(1)
			if e := g.events[0][len(g.events[0])-1]; e.tick != last || e.Generation != 2 || g.ranks[2].PolicyEpoch() != 1 {
				t.Errorf("switched at tick %d to epoch %d, generation %d; want tick %d, epoch 1, generation 2", e.tick, g.ranks[2].PolicyEpoch(), e.Generation, last)
			}
			g.steps(2)
			back = true
			g.step()
			g.wantSameFlips(2)
			if h := g.ranks[1].Health(abi.Admit); h.Generation != 3 || h.Down || g.ranks[1].PolicyEpoch() != 2 {
				t.Errorf("after the rollback: epoch %d, %+v", g.ranks[1].PolicyEpoch(), h)
			}
		})
	}
}

// TestFlipClearsTheRecord replaces a policy that is quarantined, one that is down, and one with faults: its successor
// starts with none of it, in the next tick.
func TestFlipClearsTheRecord(t *testing.T) {
	ready := uint64(0)
	start := func(t *testing.T) *group {
		cfg := testConfig(2, 4, 16, 0)
		cfg.Quarantine = QuarantineAll(3, 1000)
		g := newGroup(t, cfg)
		ready = 0
		g.epoch = func(int) uint64 { return ready }
		return g
	}
	for _, hook := range []abi.Hook{abi.Gate, abi.Reserve} {
		t.Run(hook.String()+" quarantined", func(t *testing.T) {
			g := start(t)
			bad := true
			g.hookOK = func(rank int, h abi.Hook) bool { return !(bad && h == hook && rank == 1) }
			g.steps(3)
			if !g.ranks[0].Quarantined(hook) {
				t.Fatal("not quarantined")
			}
			ready = 1
			g.step()
			if s := g.ranks[1]; s.Quarantined(hook) || !s.PolicyAnswers(hook) || s.Faults(hook) != 3 {
				t.Errorf("quarantined %v, answers %v, %d faults counted; want a clean successor and the count as it was", s.Quarantined(hook), s.PolicyAnswers(hook), s.Faults(hook))
			}
			g.steps(2)
			if g.ranks[0].Quarantined(hook) {
				t.Error("two faults of the successor quarantine it: the predecessor's count")
			}
			g.step()
			if !g.ranks[0].Quarantined(hook) {
				t.Error("three faults of the successor do not quarantine it")
			}
		})
	}
	for _, c := range []struct {
		name   string
		faults int
		down   bool
		quar   bool
	}{{"admit down", 1, true, false}, {"admit quarantined", 3, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t)
			have := uint64(1)
			g.ready = func(int) uint64 { return have }
			bad, asked := true, 0
			g.admit = func(_ int, out []byte, _ int) []byte {
				asked++
				if bad {
					return nil
				}
				return out
			}
			for i := range c.faults {
				id := g.add(100*i, 5, 2)
				g.until("the end", func() bool { return g.ended(id) })
				if i < c.faults-1 {
					have++ // a successor, which is no better
				}
				g.untilIdle()
			}
			if h := g.ranks[0].Health(abi.Admit); h.Down != c.down || h.Quarantined != c.quar {
				t.Fatalf("health %+v", h)
			}
			generation := g.ranks[0].Health(abi.Admit).Generation
			ready, bad = 1, false
			g.step()
			have = generation + 1 // the instances that were ready answer as the new generation
			if h := g.ranks[1].Health(abi.Admit); h.Down || h.Quarantined || h.Generation != generation+1 {
				t.Errorf("after the switch: %+v, want up with generation %d", h, generation+1)
			}
			asked = 0
			id := g.add(900, 5, 2)
			g.until("the end", func() bool { return g.ended(id) })
			if asked == 0 || g.ranks[0].Faults(abi.Admit) != uint64(c.faults) {
				t.Errorf("asked %d times, %d faults; want asked, and %d", asked, g.ranks[0].Faults(abi.Admit), c.faults)
			}
		})
	}
}

// TestFaultInTheTickOfAFlip lets the predecessor's last answer be bad: it is discarded, and its successor in use.
func TestFaultInTheTickOfAFlip(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 0))
	ready := uint64(0)
	g.epoch = func(int) uint64 { return ready }
	g.admit = func(rank int, out []byte, _ int) []byte {
		if rank == 1 && ready == 1 && g.ranks[0].PolicyEpoch() == 0 {
			return nil
		}
		return out
	}
	g.shake = func(int, uint64) abi.Poll { return abi.PollBootstrapping }
	g.add(0, 5, 2)
	g.steps(3)
	ready = 1
	g.step()
	g.wantSameFlips(1)
	if n, e := g.countHook(EffectDiscard, abi.Admit); n != 1 || e.tick != g.tick || e.Value != 2 {
		t.Errorf("%d discards, the last %+v", n, e)
	}
	if h := g.ranks[0].Health(abi.Admit); h.Down || h.Generation != 3 {
		t.Errorf("health %+v, want up with generation 3", h)
	}
	g.shake = nil
	g.untilIdle()
	if f := g.ranks[0].Faults(abi.Admit); f != 1 {
		t.Errorf("%d faults, want the predecessor's one", f)
	}
}

// TestFlipThatPartsTheRanks alters one rank's copy of the ready lanes, so that it alone switches: the next exchange names
// the policy epoch, and after the resync all ranks use the later one.
func TestFlipThatPartsTheRanks(t *testing.T) {
	for _, quarantined := range []bool{false, true} {
		t.Run(fmt.Sprintf("quarantined before: %v", quarantined), func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 16, 16))
			g.epoch = func(int) uint64 { return 0 }
			if quarantined {
				g.hookOK = func(_ int, h abi.Hook) bool { return h != abi.Gate }
				g.steps(3)
			}
			bs := g.ballots()
			reduce(bs)
			for r := range 2 {
				bs[1].U64[fieldReady*2+r] = 1
			}
			for rank, s := range g.ranks {
				g.effects[rank].Reset()
				if err := s.Apply(bs[rank], Proposals{}, &g.effects[rank]); err != nil {
					t.Fatal(err)
				}
			}
			if a, b := g.ranks[0].PolicyEpoch(), g.ranks[1].PolicyEpoch(); a != 0 || b != 1 {
				t.Fatalf("epochs %d and %d", a, b)
			}
			g.epoch = nil
			m, ok := g.parted()[0].(*Mismatch)
			if !ok || m.Field != "state digest" && m.Field != "policy epoch" {
				t.Fatalf("found %v", m)
			}
			for rank, err := range g.resync() {
				if err != nil {
					t.Fatalf("rank %d: %v", rank, err)
				}
				s := g.ranks[rank]
				if h := s.Health(abi.Admit); s.PolicyEpoch() != 1 || !h.Down || h.Generation != 3 || s.Quarantined(abi.Gate) {
					t.Errorf("rank %d: epoch %d, admit %+v, gate quarantined %v; want 1, a fresh instance wanted, no", rank, s.PolicyEpoch(), h, s.Quarantined(abi.Gate))
				}
				var kinds []EffectKind
				for _, f := range g.effects[rank].List {
					kinds = append(kinds, f.Kind)
				}
				if f := g.effects[rank].List[0]; f.Kind != EffectPolicyEpoch || f.Value != 1 || f.Generation != 3 {
					t.Errorf("rank %d begins with %+v of %v, want the epoch that all use", rank, f, kinds)
				}
			}
			g.steps(3)
			if a, b := g.ranks[0].Checksum(), g.ranks[1].Checksum(); a != b {
				t.Errorf("checksums %x and %x", a, b)
			}
		})
	}
}

// TestResyncKeepsQuarantine repeats what is agreed about policies to a rank whose instances are made anew.
func TestResyncKeepsQuarantine(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 16))
	g.epoch = func(int) uint64 { return 7 }
	g.step()
	g.hookOK = func(_ int, h abi.Hook) bool { return h != abi.Reserve }
	g.steps(3)
	for rank, err := range g.resync() {
		if err != nil {
			t.Fatal(err)
		}
		l := g.effects[rank].List
		if l[0].Kind != EffectPolicyEpoch || l[0].Value != 7 || l[1].Kind != EffectQuarantine || l[1].Hook != abi.Reserve || !g.ranks[rank].Quarantined(abi.Reserve) {
			t.Errorf("rank %d: effects %+v, %+v", rank, l[0], l[1])
		}
	}
}

// TestRandomFlips has ranks become ready in random order with random faults between: the same switches on all ranks,
// and never an epoch that some rank did not have.
func TestRandomFlips(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 4))
		g := newGroup(t, testConfig(2+r.IntN(2), 4, 24, 24))
		have := make([]uint64, len(g.ranks))
		g.epoch = func(rank int) uint64 { return have[rank] }
		g.hookOK = func(int, abi.Hook) bool { return r.IntN(12) > 0 }
		g.admit = func(_ int, out []byte, _ int) []byte {
			if r.IntN(10) == 0 {
				return nil
			}
			return out
		}
		for range 200 {
			if r.IntN(3) == 0 {
				have[r.IntN(len(have))] += uint64(r.IntN(3))
			}
			if r.IntN(6) == 0 {
				g.add(r.IntN(4)*100, 1+r.IntN(12), 1+r.IntN(6))
			}
			g.step()
			for rank := range have {
				if e := g.ranks[0].PolicyEpoch(); e > have[rank] {
					t.Fatalf("seed %d, tick %d: epoch %d in force, rank %d has %d", seed, g.tick, e, rank, have[rank])
				}
			}
		}
		g.wantSameFlips(len(g.flips(0)))
		if len(g.flips(0)) == 0 {
			t.Errorf("seed %d: no switch at all", seed)
		}
	}
}
