package schedule

import (
	"testing"

	"sluice/abi"
)

func holdConfig(ranks int) Config {
	cfg := testConfig(ranks, 4, 16, 0)
	cfg.HoldOnFault[Lane(abi.Admit)] = true
	return cfg
}

// TestAdmitHold spoils the admit answers of one tick in each way. Nobody is admitted in that tick, nor until every rank
// has the successor, whose word then stands; what runs goes on.
func TestAdmitHold(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks int
		spoil func(rank int, out []byte) []byte
	}{
		{"the only rank faults", 1, func(int, []byte) []byte { return nil }},
		{"one rank of two faults", 2, func(rank int, out []byte) []byte {
			if rank == 1 {
				return nil
			}
			return out
		}},
		{"all ranks fault", 2, func(int, []byte) []byte { return nil }},
		{"one answer differs", 2, func(rank int, out []byte) []byte {
			out[0] = byte(rank)
			return out
		}},
		{"no permutation, on all ranks", 2, func(_ int, out []byte) []byte {
			out[4] = 77
			return out
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, holdConfig(c.ranks))
			generation := make([]uint64, c.ranks)
			for r := range generation {
				generation[r] = 1
			}
			g.ready = func(rank int) uint64 { return generation[rank] }
			var run uint64
			g.stall(&run)
			run = g.add(0, 4, 3)
			g.until("one runs", func() bool { return g.where(run) == QueueRunning })
			spoil := true
			g.admit = func(rank int, out []byte, _ int) []byte {
				if spoil {
					return c.spoil(rank, out)
				}
				return out
			}
			s := g.ranks[0]
			held := g.add(500, 6, 4)
			g.until("the fault", func() bool { return s.Faults(abi.Admit) == 1 })
			spoil = false
			at := g.tick
			if c.ranks > 1 {
				generation[0] = 2 // the last rank is not there yet
			}
			g.steps(5)
			if g.where(held) != QueuePrealloc || s.Faults(abi.Admit) != 1 || s.Counts().AdmitHeld != g.tick-at+1 || !s.Health(abi.Admit).Down {
				t.Errorf("5 ticks after the fault: %v, %d faults, held in %d ticks, health %+v; want prealloc, 1, 6, down",
					g.where(held), s.Faults(abi.Admit), s.Counts().AdmitHeld, s.Health(abi.Admit))
			}
			g.token = nil
			g.until("what runs ends", func() bool { return g.ended(run) })
			if g.where(held) != QueuePrealloc {
				t.Errorf("admitted by nobody: %v", g.where(held))
			}
			for r := range generation {
				generation[r] = 2
			}
			g.step() // all ranks report the successor; it is asked in the next tick
			before := s.Counts().AdmitHeld
			g.step()
			if g.where(held) != QueueTransfer || s.Counts().AdmitHeld != before {
				t.Errorf("%v in the successor's first tick, want admitted", g.where(held))
			}
			g.untilIdle()
			g.wantFinish(held, FinishLength, 0)
			g.wantFinish(run, FinishLength, 0)
		})
	}
}

// TestAdmitHoldEndsInQuarantine faults in every tick in which it is asked. The native rule answers from the tick of the
// last fault on, on all ranks.
func TestAdmitHoldEndsInQuarantine(t *testing.T) {
	cfg := holdConfig(2)
	cfg.Quarantine[Lane(abi.Admit)].Faults = 3
	g := newGroup(t, cfg)
	g.admit = func(rank int, out []byte, _ int) []byte {
		if rank == 1 {
			return nil
		}
		return out
	}
	id := g.add(0, 6, 2)
	s := g.ranks[0]
	g.until("the second fault", func() bool { return s.Faults(abi.Admit) == 2 })
	for s.Faults(abi.Admit) == 2 {
		if g.where(id) != QueuePrealloc {
			t.Fatalf("admitted after %d faults", s.Faults(abi.Admit))
		}
		g.step()
	}
	if g.where(id) != QueueTransfer || !s.Quarantined(abi.Admit) {
		t.Errorf("%v in the tick of the third fault, quarantined %v; want admitted, true", g.where(id), s.Quarantined(abi.Admit))
	}
	g.untilIdle()
	g.wantFinish(id, FinishLength, 0)
}

// TestAdmitHoldStarves has a successor that never comes. Each starved tick admits by itself, counts once towards the
// quarantine, and the quarantine ends the hold.
func TestAdmitHoldStarves(t *testing.T) {
	cfg := holdConfig(2)
	cfg.StarveTicks = 20
	cfg.Quarantine[Lane(abi.Admit)] = Quarantine{Faults: 3, Window: 1000}
	g := newGroup(t, cfg)
	g.ready = func(rank int) uint64 { return 1 }
	fail := true
	g.admit = func(_ int, out []byte, _ int) []byte {
		if fail {
			return nil
		}
		return out
	}
	s := g.ranks[0]
	for n := range uint64(2) {
		id := g.add(100*int(n), 6, 2)
		g.until("it is queued", func() bool { return g.where(id) == QueuePrealloc })
		from := g.tick
		g.until("it is admitted", func() bool { return g.where(id) == QueueTransfer })
		if k := s.Counts(); g.tick-from != 20 || k.Rails[Starved] != n+1 || s.Faults(abi.Admit) != n+2 {
			t.Errorf("request %d: admitted after %d ticks, starved %d, faults %d; want 20, %d, %d", n, g.tick-from, k.Rails[Starved], s.Faults(abi.Admit), n+1, n+2)
		}
		g.until("its end", func() bool { return g.ended(id) })
		g.untilIdle()
	}
	if !s.Quarantined(abi.Admit) {
		t.Fatal("a fault and two starved ticks do not quarantine")
	}
	id := g.add(900, 6, 2)
	g.until("it is queued", func() bool { return g.where(id) >= QueuePrealloc })
	from := g.tick
	g.until("it is admitted", func() bool { return g.where(id) == QueueTransfer })
	if g.tick-from > 2 {
		t.Errorf("quarantined, and the native rule took %d ticks", g.tick-from)
	}
	g.untilIdle()
	g.wantFinish(id, FinishLength, 0)
}

// TestQuarantineIsTheHooksOwn faults gate and reserve alike; each goes by its own rule.
func TestQuarantineIsTheHooksOwn(t *testing.T) {
	cfg := testConfig(2, 4, 16, 0)
	cfg.Quarantine[Lane(abi.Gate)] = Quarantine{Faults: 2, Window: 1000}
	cfg.Quarantine[Lane(abi.Reserve)] = Quarantine{Faults: 5, Window: 1000}
	g := newGroup(t, cfg)
	g.hookOK = func(int, abi.Hook) bool { return false }
	s := g.ranks[0]
	was := [2]uint64{}
	for range 6 {
		g.step()
		for i, h := range []abi.Hook{abi.Gate, abi.Reserve} {
			if was[i] == 0 && s.Quarantined(h) {
				was[i] = s.Faults(h)
			}
		}
	}
	if was[0] != 2 || was[1] != 5 {
		t.Errorf("gate and reserve were quarantined at %v faults, want 2 and 5", was)
	}
}
