package schedule

import (
	"errors"
	"math/rand/v2"
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

// parted runs one exchange and returns the errors of all ranks; nothing is applied where they disagree.
func (g *group) parted() []error {
	g.tick++
	bs := g.ballots()
	reduceMismatched(bs)
	errs := make([]error, len(g.ranks))
	for rank, s := range g.ranks {
		g.effects[rank].Reset()
		errs[rank] = s.Apply(bs[rank], Proposals{}, &g.effects[rank])
	}
	return errs
}

// reduceMismatched reduces what the ballots have in common, as an engine that cannot check lengths does.
func reduceMismatched(bs []*Ballot) {
	for i := range bs[0].U64 {
		least := bs[0].U64[i]
		for _, b := range bs {
			least = min(least, b.U64[i])
		}
		for _, b := range bs {
			b.U64[i] = least
		}
	}
}

// resync makes the ranks equal again and carries the effects out.
func (g *group) resync() []error {
	sh := ResyncShape()
	var qs []*Resync
	for _, s := range g.ranks {
		qs = append(qs, NewResync(s))
	}
	for rounds := 0; !qs[0].Done(); rounds++ {
		if rounds > 10000 {
			g.t.Fatal("the resync does not end")
		}
		var bs []*Ballot
		for _, q := range qs {
			b := newBallot(sh)
			q.Fill(b.U64, b.U8)
			bs = append(bs, b)
		}
		reduce(bs)
		for i, q := range qs {
			q.Take(bs[i].U64, bs[i].U8)
		}
	}
	errs := make([]error, len(g.ranks))
	for rank, s := range g.ranks {
		if !qs[rank].Done() {
			g.t.Fatalf("rank %d is not done with rank 0", rank)
		}
		g.effects[rank].Reset()
		errs[rank] = s.FinishResync(qs[rank], &g.effects[rank])
		if errs[rank] != nil {
			continue
		}
		for _, f := range g.effects[rank].List {
			g.events[rank] = append(g.events[rank], event{g.tick, f})
		}
		d := g.devices[rank]
		clear(d.rows)
		clear(d.ops)
		for id := range d.sends {
			d.letGo(id)
		}
		if err := d.take(&g.effects[rank]); err != nil {
			g.t.Fatal(err)
		}
		if err := s.Check(); err != nil {
			g.t.Fatalf("rank %d after the resync: %v", rank, err)
		}
	}
	for rank, s := range g.ranks[1:] {
		if errs[rank+1] == nil && (s.Digest() != g.ranks[0].Digest() || s.Shape() != g.ranks[0].Shape() || s.x.Checksum() != g.ranks[0].x.Checksum()) {
			g.t.Fatalf("rank %d still differs from rank 0 after the resync", rank+1)
		}
	}
	return errs
}

// loaded brings a group to a state with something in every queue that matters.
func loadedGroup(t *testing.T, ranks int) (g *group, running, transferring, waiting uint64) {
	g = newGroup(t, testConfig(ranks, 4, 40, 40))
	g.warm(0, 16, 2)
	running = g.add(0, 18, 20)
	g.until("it to run", func() bool { return g.where(running) == QueueRunning })
	g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
		if id == running {
			return abi.PollSuccess
		}
		return abi.PollTransferring
	}
	transferring = g.add(1000, 12, 4)
	g.until("the transfer", func() bool { return g.where(transferring) == QueueTransfer })
	waiting = g.add(2000, 100, 8)
	g.until("the queue", func() bool { return g.where(waiting) == QueuePrealloc })
	return g, running, transferring, waiting
}

func (g *group) wantAllEqualAndDrained(ids ...uint64) {
	g.t.Helper()
	g.raw = nil
	g.until("everything to end", g.idle)
	for _, id := range ids {
		for rank := range g.ranks {
			n := 0
			for _, e := range g.events[rank] {
				if e.Kind == EffectFinish && e.Request == id {
					n++
				}
			}
			if n != 1 {
				g.t.Errorf("request %d has %d terminal events on rank %d", id, n, rank)
			}
		}
	}
	for _, tier := range []index.Tier{index.L1, index.L2} {
		if b := g.books(tier); b.Free+b.Evictable+b.Locked != b.Total() || tier == index.L1 && b.Locked > 0 {
			g.t.Errorf("tier %v after everything has ended: %+v", tier, b)
		}
	}
}

func TestResyncKeepsWhatAllRanksHoldAlike(t *testing.T) {
	for ranks := 1; ranks <= 3; ranks++ {
		g, running, transferring, waiting := loadedGroup(t, ranks)
		for rank, err := range g.resync() {
			if err != nil {
				t.Fatalf("rank %d: %v", rank, err)
			}
		}
		if g.where(running) != QueueRunning || g.where(waiting) != QueuePrealloc {
			t.Errorf("%d ranks: what all ranks hold alike is in %v and %v", ranks, g.where(running), g.where(waiting))
		}
		g.wantFinish(transferring, FinishFailed, abi.ReasonResync)
		if q := g.books(index.L1).Quarantined; q != 3 {
			t.Errorf("%d ranks: %d pages quarantined, want the 3 a peer may still write", ranks, q)
		}
		again := g.add(0, 16, 2)
		g.wantAllEqualAndDrained(running, transferring, waiting, again)
		g.wantFinish(running, FinishLength, 0)
		g.wantFinish(waiting, FinishLength, 0)
	}
}

func TestResyncAfterEachKindOfDivergence(t *testing.T) {
	for name, diverge := range map[string]func(s *Scheduler, running, transferring, waiting uint64){
		"a rank retired a request alone": func(s *Scheduler, _, transferring, _ uint64) {
			i := s.byID[transferring]
			s.transfer = remove(s.transfer, i)
			s.end(i, FinishFailed, abi.ReasonRestoreFailed, -1, 0, &Effects{})
			s.prepareNext()
		},
		"and gave its pages to another": func(s *Scheduler, running, transferring, _ uint64) {
			i := s.byID[transferring]
			pages := clonePages(s.reqs[i].pages)
			s.transfer = remove(s.transfer, i)
			s.end(i, FinishFailed, abi.ReasonRestoreFailed, -1, 0, &Effects{})
			for s.x.Books(index.L1).Free > 0 {
				got, err := s.x.Alloc(index.L1, 1, index.Private, nil)
				if err != nil {
					break
				}
				if got[0] == pages[0] {
					r := &s.reqs[s.byID[running]]
					r.pages = append(r.pages, got...)
					break
				}
			}
			s.prepareNext()
		},
		"a flipped digest": func(s *Scheduler, _, _, _ uint64) { s.digest ^= 1 },
		"another token": func(s *Scheduler, running, _, _ uint64) {
			r := &s.reqs[s.byID[running]]
			r.tokens[len(r.tokens)-1]++
			s.note(1, 1)
		},
		"another tick":   func(s *Scheduler, _, _, _ uint64) { s.tick++; s.prepareNext() },
		"another queue":  func(s *Scheduler, _, _, waiting uint64) { s.dropAlone(waiting) },
		"another budget": func(s *Scheduler, _, _, _ uint64) { s.heldLast += 5; s.note(2, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			g, running, transferring, waiting := loadedGroup(t, 2)
			diverge(g.ranks[1], running, transferring, waiting)
			found := false
			for _, err := range g.parted() {
				var m *Mismatch
				var shape *ShapeError
				found = found || errors.As(err, &m) || errors.As(err, &shape)
			}
			if !found {
				t.Fatal("no rank noticed the divergence")
			}
			for rank, err := range g.resync() {
				if err != nil {
					t.Fatalf("rank %d: %v", rank, err)
				}
			}
			again := g.add(500, 9, 3)
			g.raw = nil
			g.until("everything to end", g.idle)
			g.wantFinish(again, FinishLength, 0)
			for _, tier := range []index.Tier{index.L1, index.L2} {
				if b := g.books(tier); b.Private+b.Quarantined+b.Loading+b.Saving > 0 {
					t.Errorf("tier %v after everything has ended: %+v", tier, b)
				}
			}
		})
	}
}

// dropAlone loses a queued request, as a bug would.
func (s *Scheduler) dropAlone(id uint64) {
	i := s.byID[id]
	s.prealloc = remove(s.prealloc, i)
	s.release(i, &Effects{})
	s.dropRequest(i)
	s.prepareNext()
}

func TestResyncRefusesWhatCannotBeMadeEqual(t *testing.T) {
	g, _, _, _ := loadedGroup(t, 2)
	g.ranks[1].cfgHash++
	for rank, err := range g.resync() {
		if !errors.Is(err, ErrResync) {
			t.Errorf("rank %d with another configuration: %v", rank, err)
		}
	}
	g, _, _, _ = loadedGroup(t, 1)
	g.ranks[0].epoch = 1<<12 - 1
	if err := g.resync()[0]; !errors.Is(err, ErrResync) {
		t.Errorf("the last epoch: %v", err)
	}
	if err := g.ranks[0].FinishResync(NewResync(g.ranks[0]), &Effects{}); !errors.Is(err, ErrResync) {
		t.Errorf("before its rounds: %v", err)
	}
}

// Random groups are resynced at random moments, healthy or with one rank's record spoilt; they must be equal after
// it and run to their end.
func TestResyncAtRandomMoments(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 7))
		g := newGroup(t, testConfig(1+rng.IntN(3), 1+rng.IntN(4), 24+rng.IntN(40), rng.IntN(60)))
		g.load = func(int, OperationView, bool) (bool, int, bool) { return rng.IntN(2) == 0, 1 << 20, false }
		var ids []uint64
		for range 12 {
			ids = append(ids, g.add(rng.IntN(3)*100, 1+rng.IntN(20), 1+rng.IntN(12)))
		}
		for range 4 {
			g.steps(1 + rng.IntN(10))
			if len(g.stream) > 0 || g.ranks[0].IngressLen() > 0 {
				continue
			}
			if s := g.ranks[len(g.ranks)-1]; rng.IntN(2) == 0 && len(s.running) > 0 && len(g.ranks) > 1 {
				r := &s.reqs[s.running[0]]
				r.tokens[len(r.tokens)-1] ^= 1
			}
			for rank, err := range g.resync() {
				if err != nil {
					t.Fatalf("seed %d, rank %d: %v", seed, rank, err)
				}
			}
		}
		g.load = nil
		g.until("everything to end", g.idle)
		for _, id := range ids {
			if _, ok := g.finished(0, id); !ok {
				t.Fatalf("seed %d: request %d never ended", seed, id)
			}
		}
		if b := g.books(index.L1); b.Free+b.Evictable != b.Total() {
			t.Fatalf("seed %d: %+v after everything has ended", seed, b)
		}
	}
}
