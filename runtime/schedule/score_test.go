package schedule

import (
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/kvcache/index"
	"sluice/plugins/standard"
)

func scoreConfig(ranks, l1, l2 int) Config {
	cfg := testConfig(ranks, 4, l1, l2)
	cfg.Score = true
	return cfg
}

// propose is proposal for the score batch, which the shipped lfu answers.
func (g *group) propose(rank int, s *Scheduler) bool {
	g.scores[rank] = nil
	n := s.ScoreBatch()
	if n == 0 {
		return false
	}
	buf := make([]byte, abi.BatchSize(abi.Score, n, n))
	b, err := abi.Begin(buf, abi.Score, s.Tick(), s.PolicyEpoch(), n, n)
	if err != nil {
		g.t.Fatal(err)
	}
	s.EncodeScore(b)
	f, _ := standard.Score("lfu")
	if status := guest.RunScore(f, buf); status != 0 {
		g.t.Fatalf("lfu returned %d", status)
	}
	g.scores[rank] = b.Out
	if g.score != nil {
		g.scores[rank] = g.score(rank, b.Out, n)
	}
	return true
}

// nodes are those of rank 0's cache, by id.
func (g *group) nodes() map[index.NodeID]index.NodeInfo {
	all := map[index.NodeID]index.NodeInfo{}
	for id := index.NodeID(1); id < 1000; id++ {
		if n, ok := g.ranks[0].x.Node(id); ok && n.Pages > 0 {
			all[id] = n
		}
	}
	return all
}

// hitTokens are the prompt tokens found on the device when one more request of that prompt has been served.
func (g *group) hitTokens(base, prompt int) uint64 {
	before := g.ranks[0].Counts().HitL1
	g.add(base, prompt, 1)
	g.untilIdle()
	return g.ranks[0].Counts().HitL1 - before
}

// TestScoreDecidesWhatIsEvicted uses one prompt three times and then another once, and fills the device. By the last use
// the first goes, by the number of uses the second.
func TestScoreDecidesWhatIsEvicted(t *testing.T) {
	for _, c := range []struct {
		name     string
		score    bool
		hot, new uint64
	}{{"plain lru", false, 0, 16}, {"lfu", true, 16, 0}} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(2, 4, 12, 0)
			cfg.Score = c.score
			for _, look := range []struct {
				base int
				want uint64
			}{{0, c.hot}, {5000, c.new}} {
				g := newGroup(t, cfg)
				for range 3 {
					g.add(0, 17, 1)
					g.untilIdle()
				}
				g.add(5000, 17, 1)
				g.untilIdle()
				g.step() // the last keys
				g.add(9000, 21, 1)
				g.untilIdle()
				if got := g.hitTokens(look.base, 17); got != look.want {
					t.Errorf("prompt from %d: %d tokens are found on the device, want %d", look.base, got, look.want)
				}
			}
		})
	}
}

// TestScoreFaults spoils the score answers of one tick in each way: no key is given, it is a fault on all ranks in that
// tick, and the successor is asked about every node.
func TestScoreFaults(t *testing.T) {
	one := func(rank int, out []byte) []byte {
		if rank == 1 {
			return nil
		}
		return out
	}
	for _, c := range []struct {
		name   string
		shared bool // with admit
		spoil  func(rank int, out []byte) []byte
	}{
		{"one rank faults", false, one},
		{"one rank faults, the instance answers admit too", true, one},
		{"all ranks fault", false, func(int, []byte) []byte { return nil }},
		{"one key differs", false, func(rank int, out []byte) []byte {
			out[0] += byte(rank)
			return out
		}},
		{"answer too short, on all ranks", false, func(_ int, out []byte) []byte { return out[:len(out)-1] }},
		{"answer too long, on all ranks", true, func(_ int, out []byte) []byte { return append(out, make([]byte, 8)...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, scoreConfig(2, 16, 0))
			ready := uint64(1)
			g.ready = func(int) uint64 { return ready }
			spoil := false
			g.score = func(rank int, out []byte, _ int) []byte {
				if spoil {
					return c.spoil(rank, out)
				}
				return out
			}
			g.add(0, 9, 1)
			g.untilIdle()
			g.step()
			s := g.ranks[0]
			given := s.Counts().Scored
			if given == 0 || s.ScoreBatch() != 0 {
				t.Fatalf("%d keys given, %d nodes wait", given, s.ScoreBatch())
			}
			g.add(500, 9, 1)
			g.until("a node waits for its key", func() bool { return s.ScoreBatch() > 0 })
			spoil = true
			g.step()
			spoil = false
			if n := s.Counts().Scored; n != given {
				t.Errorf("%d keys were given by a spoilt answer", n-given)
			}
			wantDown := func(h abi.Hook) {
				t.Helper()
				if k := s.Health(h); !k.Down || k.Generation != 2 || s.PolicyAnswers(h) {
					t.Errorf("%v: %+v, want down and generation 2 wanted", h, k)
				}
				if n, e := g.countHook(EffectDiscard, h); n != 1 || e.tick != g.tick || e.Value != 2 {
					t.Errorf("%v: %d discards, the last at tick %d for generation %d; want 1, now, 2", h, n, e.tick, e.Value)
				}
			}
			wantDown(abi.Score)
			if k := s.Health(abi.Admit); k.Down || k.Generation != 1 || !s.PolicyAnswers(abi.Admit) {
				t.Errorf("admit: %+v, want untouched: its instance is another", k)
			}
			if c.shared {
				// The instance that answered score answered admit too, so no rank has one for admit.
				g.lost = func(_ int, h abi.Hook) bool { return h == abi.Admit }
				g.step()
				g.lost = nil
				wantDown(abi.Admit)
			}
			if s.Faults(abi.Score) != 1 || s.Faults(abi.Admit) != 0 {
				t.Errorf("%d faults of score and %d of admit, want 1 and 0", s.Faults(abi.Score), s.Faults(abi.Admit))
			}
			g.steps(3)
			if s.ScoreBatch() != 0 || s.Faults(abi.Score) != 1 {
				t.Errorf("%d nodes are shown to nobody, %d faults; want 0 and 1", s.ScoreBatch(), s.Faults(abi.Score))
			}
			ready = 2
			g.step()
			if n := len(g.nodes()); s.ScoreBatch() != n || n < 2 {
				t.Errorf("the successor is shown %d of %d nodes", s.ScoreBatch(), n)
			}
			g.untilIdle()
			g.step()
			for id, n := range g.nodes() {
				if !n.Scored {
					t.Errorf("node %d has no key: %+v", id, n)
				}
			}
		})
	}
}

// TestScoreEpoch flips the policy epoch: no key of the epoch before counts, and every node is shown again.
func TestScoreEpoch(t *testing.T) {
	g := newGroup(t, scoreConfig(2, 16, 0))
	g.add(0, 9, 1)
	g.add(500, 9, 1)
	g.untilIdle()
	g.step()
	before := g.ranks[0].Counts().Scored
	g.epoch = func(int) uint64 { return 1 }
	g.step()
	all := g.nodes()
	for id, n := range all {
		if n.Scored || n.Awaits {
			t.Errorf("node %d keeps its place after the flip: %+v", id, n)
		}
	}
	if n := g.ranks[0].ScoreBatch(); n != len(all) || n < 2 {
		t.Errorf("%d of %d nodes are shown after the flip", n, len(all))
	}
	g.step()
	if n := g.ranks[0].Counts().Scored - before; n != uint64(len(all)) {
		t.Errorf("%d keys given, want %d", n, len(all))
	}
}

// TestScoreQuarantine takes a score policy out of use: from then on the order is plain LRU and nobody is asked.
func TestScoreQuarantine(t *testing.T) {
	cfg := scoreConfig(2, 16, 0)
	cfg.Quarantine = QuarantineAll(1, 1000)
	g := newGroup(t, cfg)
	g.add(0, 9, 1)
	g.untilIdle()
	g.step()
	g.score = func(int, []byte, int) []byte { return nil }
	g.add(500, 9, 1)
	g.untilIdle()
	g.step()
	s := g.ranks[0]
	if n, _ := g.countHook(EffectQuarantine, abi.Score); n != 1 || !s.Quarantined(abi.Score) || s.Quarantined(abi.Admit) {
		t.Fatalf("%d quarantines, score %v, admit %v", n, s.Quarantined(abi.Score), s.Quarantined(abi.Admit))
	}
	g.add(900, 9, 1)
	g.untilIdle()
	for id, n := range g.nodes() {
		if n.Scored || n.Awaits {
			t.Errorf("node %d is out of the plain order: %+v", id, n)
		}
	}
	if s.ScoreBatch() != 0 || s.Faults(abi.Score) != 1 {
		t.Errorf("%d nodes shown, %d faults", s.ScoreBatch(), s.Faults(abi.Score))
	}
}

// TestScoreTakesTurns gives a cache of more nodes than one batch holds its keys in several ticks, each node once.
func TestScoreTakesTurns(t *testing.T) {
	cfg := scoreConfig(1, 400, 0)
	cfg.Quarantine = QuarantineAll(1<<20, 1000)
	g := newGroup(t, cfg)
	down := uint64(0)
	g.ready = func(int) uint64 { return down }
	g.score = func(int, []byte, int) []byte { return nil }
	const prompts = 150
	for i := range prompts {
		g.add(1000*i, 5, 1)
	}
	g.untilIdle()
	g.score, down = nil, 1<<40
	s := g.ranks[0]
	if n := len(g.nodes()); n != prompts || s.Counts().Scored != 0 {
		t.Fatalf("%d nodes, %d keys", n, s.Counts().Scored)
	}
	g.step() // the successor is there
	for _, want := range []int{ScoreWindow, ScoreWindow, prompts - 2*ScoreWindow, 0} {
		if s.ScoreBatch() != want {
			t.Errorf("%d nodes are shown, want %d", s.ScoreBatch(), want)
		}
		g.step()
	}
	if n := s.Counts().Scored; n != prompts {
		t.Errorf("%d keys for %d nodes", n, prompts)
	}
}

// TestScoreRecords compares what is shown of a node with the node.
func TestScoreRecords(t *testing.T) {
	g := newGroup(t, scoreConfig(1, 16, 16))
	var seen []abi.ScoreRecord
	var globals abi.ScoreGlobals
	g.score = func(rank int, out []byte, n int) []byte {
		buf := make([]byte, abi.BatchSize(abi.Score, n, n))
		b, err := abi.Begin(buf, abi.Score, 0, 0, n, n)
		if err != nil {
			t.Fatal(err)
		}
		g.ranks[rank].EncodeScore(b)
		globals = b.ScoreGlobals()
		for i := range n {
			seen = append(seen, b.ScoreIn(i))
		}
		return out
	}
	g.addRequest(Request{Tokens: counting(0, 9), Limit: 1, Tenant: 7})
	g.untilIdle()
	g.steps(2)
	if len(seen) == 0 {
		t.Fatal("nothing is shown")
	}
	first := seen[0]
	if first.Tokens != 8 || first.DepthTokens != 0 || first.Tenant != 7 || first.Class != abi.ScoreAwaiting || first.Flags&abi.ScoreFlagOnDevice == 0 || first.Hits != 0 || first.LastUse == 0 {
		t.Errorf("%+v", first)
	}
	if globals.PageSize != 4 || globals.TotalTokens != 64 || globals.Nodes != 1 || globals.FreeTokens+globals.EvictableTokens > 64 {
		t.Errorf("%+v", globals)
	}
	seen = nil
	g.addRequest(Request{Tokens: append(counting(0, 8), counting(700, 9)...), Limit: 1, Tenant: 3})
	g.untilIdle()
	g.steps(2)
	var again, deeper bool
	for _, r := range seen {
		again = again || r.NodeKey == first.NodeKey && r.Class == abi.ScoreKeyed && r.Hits == 1 && r.LastUse > first.LastUse && r.Flags&abi.ScoreFlagBackedUp != 0
		deeper = deeper || r.DepthTokens == 8 && r.Tokens == 8 && r.Tenant == 3 && r.Hits == 0
	}
	if !again || !deeper {
		t.Errorf("the used node again: %v, the deeper one: %v, in %+v", again, deeper, seen)
	}
}

// TestWithoutScoreNothingIsAdded compares the ballots: the lanes of score are the only difference, and nobody is asked
// where there are none.
func TestWithoutScoreNothingIsAdded(t *testing.T) {
	off, on := newGroup(t, testConfig(2, 4, 16, 0)), newGroup(t, scoreConfig(2, 16, 0))
	for _, g := range []*group{off, on} {
		g.add(0, 9, 1)
		g.untilIdle()
		g.step()
	}
	a, b := off.ranks[0].Shape(), on.ranks[0].Shape()
	if want := (Shape{a.U64 + num64Score, a.U32, a.U8 + 1, a.Leader}); b != want {
		t.Errorf("with score %+v, want %+v", b, want)
	}
	if a.U64 != numFields*2+num64 || a.U8 != 3+1 {
		t.Errorf("without score %+v", a)
	}
	if c := off.ranks[0].Counts(); c.Scored != 0 || off.ranks[0].ScoreBatch() != 0 {
		t.Errorf("%d keys, %d nodes shown without a score policy", c.Scored, off.ranks[0].ScoreBatch())
	}
	if off.ranks[0].cfgHash == on.ranks[0].cfgHash {
		t.Error("the configuration's hash does not tell the two apart")
	}
}
