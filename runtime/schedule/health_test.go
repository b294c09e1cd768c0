package schedule

import (
	"fmt"
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

func (g *group) countHook(kind EffectKind, h abi.Hook) (n int, last event) {
	for _, e := range g.events[len(g.events)-1] {
		if e.Kind == kind && e.Hook == h {
			n, last = n+1, e
		}
	}
	return n, last
}

// TestAdmitFaults spoils the admit answers of one tick in each way. The native rule answers in that same tick on all
// ranks, the instance is discarded, and the successor answers once every rank has it.
func TestAdmitFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(rank int, out []byte) []byte
	}{
		{"one rank faults", func(rank int, out []byte) []byte {
			if rank == 1 {
				return nil
			}
			return out
		}},
		{"all ranks fault", func(int, []byte) []byte { return nil }},
		{"one answer differs", func(rank int, out []byte) []byte {
			out[1] = byte(rank)
			return out
		}},
		{"no permutation, on all ranks", func(_ int, out []byte) []byte {
			out[4] = 77
			return out
		}},
		{"unknown verdict, on all ranks", func(_ int, out []byte) []byte {
			out[0] = 3
			return out
		}},
		{"reserved byte set, on all ranks", func(_ int, out []byte) []byte {
			out[3] = 1
			return out
		}},
		{"answer too short, on all ranks", func(_ int, out []byte) []byte { return out[:len(out)-1] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 16, 0))
			ready := [2]uint64{1, 1}
			g.ready = func(rank int) uint64 { return ready[rank] }
			asked := 0
			defers := false
			spoil := false
			g.admit = func(rank int, out []byte, n int) []byte {
				asked++
				if defers {
					for i := range n {
						abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(i)})
					}
				}
				if spoil {
					return c.spoil(rank, out)
				}
				return out
			}
			defers = true
			a := g.add(0, 6, 4)
			g.until("it waits for the policy", func() bool { return g.where(a) == QueuePrealloc })
			g.steps(3)
			if g.where(a) != QueuePrealloc {
				t.Fatal("the policy's deferral does not stand")
			}
			spoil = true
			g.step()
			spoil, defers = false, true
			if g.where(a) != QueueTransfer {
				t.Errorf("the request is %v after the fault, want admitted by the native rule in the same tick", g.where(a))
			}
			s := g.ranks[0]
			if h := s.Health(abi.Admit); !h.Down || h.Generation != 2 || s.Faults(abi.Admit) != 1 || s.PolicyAnswers(abi.Admit) {
				t.Errorf("health %+v, %d faults; want down, generation 2 wanted, 1 fault", h, s.Faults(abi.Admit))
			}
			if n, e := g.countHook(EffectDiscard, abi.Admit); n != 1 || e.tick != g.tick || e.Value != 2 || e.Diverged != (c.name == "one answer differs") {
				t.Errorf("%d discards, the last at tick %d for generation %d, diverged %v; want 1, now, 2", n, e.tick, e.Value, e.Diverged)
			}
			asked = 0
			b := g.add(500, 6, 4)
			g.until("the native rule admits the next", func() bool { return g.where(b) > QueuePrealloc })
			ready[0] = 2 // rank 1 is not there yet
			g.steps(3)
			if asked != 0 || s.Faults(abi.Admit) != 1 {
				t.Errorf("asked %d times while down, %d faults; want none and 1", asked, s.Faults(abi.Admit))
			}
			ready[1] = 2
			g.step()
			if !s.PolicyAnswers(abi.Admit) {
				t.Error("the successor does not answer although all ranks have it")
			}
			x := g.add(900, 6, 4)
			g.until("it waits again", func() bool { return g.where(x) == QueuePrealloc })
			g.steps(3)
			if g.where(x) != QueuePrealloc || asked == 0 {
				t.Error("the successor's word does not stand")
			}
			defers = false
			g.untilIdle()
		})
	}
}

// TestQuarantine takes a policy out of use after K faults in M ticks, on all ranks in one tick.
func TestQuarantine(t *testing.T) {
	for _, hook := range []abi.Hook{abi.Gate, abi.Reserve} {
		for _, c := range []struct {
			gap  int // ticks from one fault to the next
			want bool
		}{{1, true}, {4, true}, {5, false}, {9, false}} {
			t.Run(fmt.Sprintf("%v, a fault in %d ticks", hook, c.gap), func(t *testing.T) {
				cfg := testConfig(2, 4, 16, 0)
				cfg.Quarantine[Lane(hook)] = Quarantine{3, 9} // the first and the third may lie 8 ticks apart
				g := newGroup(t, cfg)
				n := 0
				g.hookOK = func(rank int, h abi.Hook) bool { return !(h == hook && rank == 1 && n%c.gap == 0) }
				for n = 0; n <= 2*c.gap; n++ {
					if g.ranks[0].Quarantined(hook) {
						t.Fatalf("quarantined at fault %d", n/c.gap)
					}
					g.step()
				}
				if got := g.ranks[1].Quarantined(hook); got != c.want || g.ranks[0].Faults(hook) != 3 {
					t.Errorf("quarantined %v after %d faults, want %v after 3", got, g.ranks[0].Faults(hook), c.want)
				}
				effects, e := g.countHook(EffectQuarantine, hook)
				if (effects == 1 && e.tick == g.tick) != c.want {
					t.Errorf("%d quarantine effects, the last at tick %d of %d", effects, e.tick, g.tick)
				}
				if c.want && g.ranks[0].PolicyAnswers(hook) {
					t.Error("a quarantined policy is asked")
				}
			})
		}
	}
	t.Run("admit", func(t *testing.T) {
		cfg := testConfig(2, 4, 16, 0)
		cfg.Quarantine[Lane(abi.Admit)].Faults = 2
		g := newGroup(t, cfg)
		g.admit = func(int, []byte, int) []byte { return nil }
		for i := range 3 {
			id := g.add(100*i, 5, 2)
			g.until("the end", func() bool { return g.ended(id) })
			g.wantFinish(id, FinishLength, 0)
			g.untilIdle()
		}
		if s := g.ranks[0]; !s.Quarantined(abi.Admit) || s.Faults(abi.Admit) != 2 {
			t.Errorf("quarantined %v after %d faults, want true after 2", s.Quarantined(abi.Admit), s.Faults(abi.Admit))
		}
	})
}

func TestReject(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 0))
	reason := abi.Reason(70)
	g.admit = func(_ int, out []byte, n int) []byte {
		for i := range n {
			abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(n - 1 - i), Verdict: abi.VerdictReject, Reason: reason})
		}
		return out
	}
	a := g.add(0, 6, 2)
	g.until("the end", func() bool { return g.ended(a) })
	g.wantFinish(a, FinishRefused, 70)
	reason = 0
	b := g.add(0, 6, 2)
	g.until("the end", func() bool { return g.ended(b) })
	g.wantFinish(b, FinishRefused, abi.ReasonRejected)
	if n := g.count(EffectCancel, a); n != 1 {
		t.Errorf("the peer is told %d times, want once", n)
	}
	g.untilIdle()
}

// TestRefusedAtTheDoor fills the queue and names a peer that nobody knows.
func TestRefusedAtTheDoor(t *testing.T) {
	cfg := testConfig(2, 4, 8, 0)
	cfg.MaxQueue = 3
	g := newGroup(t, cfg)
	g.shake = func(int, uint64) abi.Poll { return abi.PollBootstrapping }
	var ids []uint64
	for i := range 5 {
		ids = append(ids, g.add(100*i, 4, 2))
	}
	g.until("all in", func() bool { return g.ended(ids[4]) })
	g.wantFinish(ids[3], FinishRefused, abi.ReasonQueueFull)
	g.wantFinish(ids[4], FinishRefused, abi.ReasonQueueFull)
	g.shake = nil
	g.until("room again", func() bool { return g.ended(ids[2]) })
	stranger := g.addRequest(Request{Peer: 9, Limit: 2, Tokens: counting(0, 4)})
	g.until("the stranger refused", func() bool { return g.ended(stranger) })
	g.wantFinish(stranger, FinishRefused, abi.ReasonPeerLost)
	g.untilIdle()
}

// TestPeerIsFencedAndComesBack loses a peer on one rank only.
func TestPeerIsFencedAndComesBack(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 24, 24))
	g.stream = AppendPeer(g.stream, 2, 5)
	g.steps(2)
	var run uint64
	g.stall(&run)
	run = g.nextID + 1
	g.addRequest(Request{Peer: 2, Limit: 3, Tokens: counting(0, 6)})
	g.until("one of its requests runs", func() bool { return g.where(run) == QueueRunning })
	hold, drained := true, false
	g.raw = func(int, uint64, uint32) abi.Poll {
		if hold {
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	g.drain = func(int, uint64) bool { return drained }
	moving := g.addRequest(Request{Peer: 2, Limit: 3, Tokens: counting(100, 6)})
	other := g.addRequest(Request{Peer: 1, Limit: 3, Tokens: counting(200, 6)})
	g.until("two in transfer", func() bool { return g.ranks[0].QueueLen(QueueTransfer) == 2 })
	g.shake = func(int, uint64) abi.Poll { return abi.PollBootstrapping }
	waits := g.addRequest(Request{Peer: 2, Limit: 3, Tokens: counting(300, 6)})
	g.until("one in prealloc", func() bool { return g.where(waits) == QueuePrealloc })
	lost := PeerView{2, 5}
	g.peerUp = func(rank int, p PeerView) bool { return !(rank == 1 && p == lost) }
	g.step()
	fences, e := 0, event{}
	for _, x := range g.events[0] {
		if x.Kind == EffectFence {
			fences, e = fences+1, x
		}
	}
	if fences != 1 || e.Peer != 2 || e.Value != 5 || e.tick != g.tick {
		t.Errorf("%d fences, the last of peer %d incarnation %d; want 1, of 2 and 5", fences, e.Peer, e.Value)
	}
	for _, id := range []uint64{moving, waits} {
		if e := g.wantFinish(id, FinishFailed, abi.ReasonPeerLost); e.tick != g.tick {
			t.Errorf("request %d ended at tick %d, want %d", id, e.tick, g.tick)
		}
	}
	if g.where(moving) != QueueQuarantine || g.where(other) != QueueTransfer || g.where(run) != QueueRunning {
		t.Errorf("in transfer: %v, of another peer: %v, running: %v", g.where(moving), g.where(other), g.where(run))
	}
	gone := g.addRequest(Request{Peer: 2, Limit: 3, Tokens: counting(400, 6)})
	g.until("refused while fenced", func() bool { return g.ended(gone) })
	g.wantFinish(gone, FinishRefused, abi.ReasonPeerLost)

	g.stream = AppendPeer(g.stream, 2, 6)
	hold, drained, g.shake, g.token = false, true, nil, nil
	back := g.addRequest(Request{Peer: 2, Limit: 3, Tokens: counting(500, 6)})
	g.until("all end", func() bool { return g.ended(back) && g.ended(other) && g.ended(run) })
	for _, id := range []uint64{back, other, run} {
		g.wantFinish(id, FinishLength, 0)
	}
	g.untilIdle()
	if k := g.books(index.L1); k.Free+k.Evictable != 24 {
		t.Errorf("books %+v", k)
	}
}

// TestBudgetLane reduces what ranks hold back to the smallest budget, and raises each to the floor.
func TestBudgetLane(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 8, 16))
	g.warm(0, 16, 1)
	g.demote()
	g.load = func(int, OperationView, bool) (bool, int, bool) { return false, 0, false }
	// A's restore of 4 pages is promised in this tick and set aside in the next.
	id := g.add(0, 16, 1)
	g.until("promised", func() bool { return g.where(id) == QueueTransfer })
	s := g.ranks[0]
	if f := s.Pools(); f.Floor != 16 || f.SetAside != 0 || f.Total != 32 {
		t.Errorf("pools %+v, want 16 tokens on the floor of 32", f)
	}
	for _, c := range []struct {
		held   uint64
		lane   uint64
		raised bool
	}{{0, 4, true}, {12, 4, true}, {13, 4, false}, {16, 4, false}, {17, 3, false}, {32, 0, false}, {1 << 60, 0, false}} {
		b := newBallot(s.Shape())
		if raised := s.SetBudget(b, c.held); raised != c.raised || b.U64[s.lay.scalar(laneBudget)] != c.lane {
			t.Errorf("held %d: lane %d, raised %v; want %d, %v", c.held, b.U64[s.lay.scalar(laneBudget)], raised, c.lane, c.raised)
		}
	}
	g.step()
	if f := s.Pools(); f.Floor != 0 || f.SetAside != 16 {
		t.Errorf("pools %+v after the restore started, want all set aside", f)
	}
	// One rank holds 3 more pages back: 1 is left, and a request of 2 waits on both.
	g.held = func(rank int) uint64 { return uint64(12 * rank) }
	small := g.add(500, 5, 1)
	g.until("in prealloc", func() bool { return g.where(small) == QueuePrealloc })
	g.steps(4)
	if g.where(small) != QueuePrealloc || s.heldLast != 3 {
		t.Errorf("the small one is %v with %d pages held, want waiting with 3", g.where(small), s.heldLast)
	}
	g.held, g.load = nil, nil
	g.untilIdle()
	g.wantFinish(small, FinishLength, 0)
	g.wantFinish(id, FinishLength, 0)
}

func TestFlushEmptiesAnIdleCache(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 8, 8))
	g.warm(0, 12, 1)
	var run uint64
	g.stall(&run)
	run = g.nextID + 1
	g.add(500, 5, 2)
	g.until("it runs", func() bool { return g.where(run) == QueueRunning })
	g.stream = AppendFlush(g.stream)
	g.steps(3)
	if m := g.match(counting(0, 12)); m.Pages != 3 {
		t.Errorf("%d pages match after a flush while a request runs, want 3", m.Pages)
	}
	g.token = nil
	g.untilIdle()
	g.stream = AppendFlush(g.stream)
	g.steps(3)
	for rank, s := range g.ranks {
		if a, b := s.Books(index.L1), s.Books(index.L2); a.Free != 8 || b.Free != 8 {
			t.Errorf("rank %d: books %+v and %+v after the flush", rank, a, b)
		}
	}
}
