package schedule

import (
	"slices"
	"testing"
)

// TestOneLogTwoInstances replays the reduced ballots of random runs into two fresh schedulers, beside different local
// noise: one gets no proposals where they do not count, and keeps its effects; the other looks at everything it can.
// Digests and checksums must be equal in every tick, and those of the run itself.
func TestOneLogTwoInstances(t *testing.T) {
	type record struct {
		b        *Ballot
		p        Proposals
		digest   uint64
		checksum uint64
		used     bool
		scored   bool
	}
	for seed := uint64(1); seed <= 60; seed++ {
		c := newChaos(t, seed)
		c.replayable = true
		var log []record
		c.tap = func(b *Ballot, p Proposals) {
			log = append(log, record{b: b, p: Proposals{Admit: slices.Clone(p.Admit), Score: slices.Clone(p.Score)},
				scored: c.keys != proposalFaults && (c.keys != proposalDiffers || c.cfg.Ranks == 1), used: c.mode != proposalFaults && (c.mode != proposalDiffers || c.cfg.Ranks == 1)})
		}
		for range 80 {
			c.arrive()
			c.tickOnce()
			last := &log[len(log)-1]
			last.digest, last.checksum = c.ranks[0].Digest(), c.ranks[0].Checksum()
		}
		x, err := New(c.cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		y, err := New(c.cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		var kept Effects
		for n, r := range log {
			p := r.p
			if !r.used {
				p.Admit = []byte("not an answer")
			}
			if !r.scored {
				p.Score = []byte("nor this")
			}
			if err := x.Apply(r.b, p, &kept); err != nil {
				t.Fatalf("seed %d, tick %d: %v", seed, n+1, err)
			}
			for i := range y.NumTransfer() {
				y.Transfer(i)
			}
			y.Pools()
			var e Effects
			if err := y.Apply(r.b, r.p, &e); err != nil {
				t.Fatalf("seed %d, tick %d: %v", seed, n+1, err)
			}
			if x.Digest() != y.Digest() || x.Checksum() != y.Checksum() || x.Digest() != r.digest || x.Checksum() != r.checksum {
				t.Fatalf("seed %d, tick %d: digests %#x %#x, of the run %#x; checksums %#x %#x, of the run %#x", seed, n+1,
					x.Digest(), y.Digest(), r.digest, x.Checksum(), y.Checksum(), r.checksum)
			}
			from := len(kept.List) - len(e.List)
			for i := range e.List {
				a, b := kept.List[from+i], e.List[i]
				if !slices.Equal(kept.Src(from+i), e.Src(i)) || !slices.Equal(kept.Dst(from+i), e.Dst(i)) {
					t.Fatalf("seed %d, tick %d: effect %d copies other pages", seed, n+1, i)
				}
				a.src, a.dst = b.src, b.dst
				if a != b {
					t.Fatalf("seed %d, tick %d: effect %d is %+v and %+v", seed, n+1, i, a, b)
				}
			}
		}
	}
}

// TestChecksumSeesState compares schedulers that differ in one thing only.
func TestChecksumSeesState(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 16))
	id := g.add(0, 6, 9)
	g.until("it runs", func() bool { return g.where(id) == QueueRunning })
	a, b := g.ranks[0], g.ranks[1]
	if a.Checksum() != b.Checksum() {
		t.Fatal("equal states have different checksums")
	}
	r := &b.reqs[b.byID[id]]
	for name, change := range map[string]func() (undo func()){
		"a token":         func() func() { r.tokens[2]++; return func() { r.tokens[2]-- } },
		"a page":          func() func() { r.pages[1] ^= 1; return func() { r.pages[1] ^= 1 } },
		"the limit":       func() func() { r.limit++; return func() { r.limit-- } },
		"a free slot":     func() func() { b.freeSlots[0]++; return func() { b.freeSlots[0]-- } },
		"the policy":      func() func() { b.hooks[0].quarantined = true; return func() { b.hooks[0].quarantined = false } },
		"a peer":          func() func() { b.peers[0].incarnation++; return func() { b.peers[0].incarnation-- } },
		"the agreed time": func() func() { b.timeNS++; return func() { b.timeNS-- } },
	} {
		undo := change()
		if a.Checksum() == b.Checksum() {
			t.Errorf("%s does not show in the checksum", name)
		}
		undo()
	}
	if a.Checksum() != b.Checksum() {
		t.Fatal("the changes were not undone")
	}
}
