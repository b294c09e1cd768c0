package schedule

import (
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
)

// TestAdmitBatchSaysWhatTheWalkUses compares the batch that a policy is shown with the books.
func TestAdmitBatchSaysWhatTheWalkUses(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 24, 24))
	g.warm(0, 12, 1)
	g.demote()
	var run uint64
	g.stall(&run)
	run = g.nextID + 1
	g.add(500, 5, 12) // 2 pages, 2 more to the end
	g.until("it runs", func() bool { return g.where(run) == QueueRunning })
	g.shake = func(_ int, id uint64) abi.Poll { return abi.PollBootstrapping }
	ids := []uint64{g.add(0, 14, 8), g.add(900, 6, 2)}
	g.usable = func(int) (int, int) { return 20, 24 }
	g.held = func(int) uint64 { return 9 }
	g.until("both in prealloc", func() bool { return g.where(ids[1]) == QueuePrealloc })
	g.steps(3)
	s := g.ranks[0]
	n, nOut := s.AdmitBatch()
	if n != 3 || nOut != 2 {
		t.Fatalf("%d records, %d answered; want 3 and 2", n, nOut)
	}
	buf := make([]byte, abi.BatchSize(abi.Admit, n, nOut))
	b, err := abi.Begin(buf, abi.Admit, s.Tick(), s.PolicyEpoch(), n, nOut)
	if err != nil {
		t.Fatal(err)
	}
	s.EncodeAdmit(b)
	v, ok := guest.OpenAdmit(buf)
	if !ok {
		t.Fatal("the batch does not open")
	}
	q := v.Globals()
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"total", q.TotalTokens(), 96},
		{"free and evictable", q.FreeTokens() + q.EvictableTokens(), uint64(4 * s.x.Available())},
		{"held: 9 tokens are 3 pages", q.HeldTokens(), 12},
		{"growth of what runs", q.GrowthTokens(), 8},
		{"budget", q.BudgetTokens(), uint64(4 * s.budget(3))},
		{"budget in pages: 20 usable, less 2, 3 held and 2 of growth", q.BudgetTokens() / 4, 13},
		{"running", uint64(q.Running()), 1},
		{"tokens of what runs", q.RunningTokens(), 6},
		{"time", q.TimeNS(), s.TimeNS()},
		{"slots", uint64(q.FreeSlots()), 64},
		{"page size", uint64(q.PageSize()), 4},
		{"first: key", v.At(0).ReqKey(), ids[0]},
		{"first: to restore", uint64(v.At(0).MatchRestoreTokens()), 12},
		{"first: on the device", uint64(v.At(0).MatchL1Tokens()), 0},
		{"first: need, 1 page of its own and 3 to restore", uint64(v.At(0).NeedTokens()), 16},
		{"first: growth", uint64(v.At(0).GrowthTokens()), 8},
		{"first: not ready", uint64(v.At(0).Flags() & abi.AdmitFlagReady), 0},
		{"first: waited", uint64(v.At(0).WaitTicks()), uint64(s.ticksSince(s.reqs[s.byID[ids[0]]].entered))},
		{"running record: growth", uint64(v.At(2).GrowthTokens()), 8},
		{"running record: outputs", uint64(v.At(2).OutputTokens()), 1},
		{"running record: kind", uint64(v.At(2).Kind()), uint64(abi.AdmitRunning)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	g.shake, g.token, g.held = nil, nil, nil
	g.untilIdle()
}

// TestConfigIsChecked and hashed, field by field.
func TestConfigIsChecked(t *testing.T) {
	good := testConfig(2, 4, 16, 16)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *Config){
		"no ranks":            func(c *Config) { c.Ranks = 0 },
		"too many ranks":      func(c *Config) { c.Ranks = MaxRanks + 1 },
		"no page size":        func(c *Config) { c.PageSize = 0 },
		"one device page":     func(c *Config) { c.L1Pages = 1 },
		"negative host pages": func(c *Config) { c.L2Pages = -1 },
		"too many tokens":     func(c *Config) { c.L1Pages, c.PageSize = 1<<20, 1<<12 },
		"overcommit 0":        func(c *Config) { c.Overcommit = 0 },
		"overcommit above 1":  func(c *Config) { c.Overcommit = 1.01 },
		"no slots":            func(c *Config) { c.MetadataSlots = 0 },
		"no operations":       func(c *Config) { c.Operations = 0 },
		"short slice":         func(c *Config) { c.IngressSlice = 63 },
		"no faults":           func(c *Config) { c.Quarantine[Lane(abi.Gate)].Faults = 0 },
		"no fault window":     func(c *Config) { c.Quarantine[Lane(abi.Admit)].Window = 0 },
		"unknown admit":       func(c *Config) { c.AdmitNative = "nobody" },
	} {
		c := good
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := New(c, 1); err == nil {
			t.Errorf("%s: a scheduler was made", name)
		}
		if c.Hash() == good.Hash() {
			t.Errorf("%s: the hash is the same", name)
		}
	}
	for name, change := range map[string]func(c *Config){
		"K": func(c *Config) { c.ReservedDecodeTokens++ }, "hold": func(c *Config) { c.HoldTicks++ }, "starve": func(c *Config) { c.StarveTicks++ },
		"window": func(c *Config) { c.AdmitWindow++ }, "load failures": func(c *Config) { c.LoadFailures++ }, "EOS": func(c *Config) { c.EOS = 3 },
		"faults": func(c *Config) { c.Quarantine[Lane(abi.Reserve)].Faults++ }, "ticks": func(c *Config) { c.Quarantine[Lane(abi.Score)].Window++ },
		"hold gate": func(c *Config) { c.HoldOnFault[Lane(abi.Gate)] = true }, "hold admit": func(c *Config) { c.HoldOnFault[Lane(abi.Admit)] = true }, "queue": func(c *Config) { c.MaxQueue++ },
		"running": func(c *Config) { c.MaxRunning++ }, "new tokens": func(c *Config) { c.MaxNewTokens++ }, "admit": func(c *Config) { c.AdmitNative = "fifo-headroom" },
		"overcommit": func(c *Config) { c.Overcommit = 0.5 },
	} {
		c := good
		change(&c)
		if c.Hash() == good.Hash() {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}
