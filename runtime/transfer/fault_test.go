package transfer

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
)

// A ring of three pages under chunks of two: the second chunk waits until the first is scattered, and
// nothing is lost.
func TestFullRingMakesChunksWait(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), prefill: 1, ring: 3, chunk: 2, delay: func(host.Op, int) uint64 { return 4 }})
	j := g.job(1, 28, 0) // seven pages, four chunks
	g.send(j)
	took := g.until(60, func() bool {
		for rank, r := range g.recv {
			if granted, free := r.Watermark(); granted-free > 3 {
				t.Fatalf("rank %d: %d ring pages held of 3", rank, granted-free)
			}
			if p := r.Poll(j.request); p.Raw == abi.PollTransferring && p.StagingEmpty && len(r.scatters) > 0 {
				t.Fatalf("rank %d: staging reads as empty with scatters queued", rank)
			}
		}
		return g.all(j, abi.PollSuccess)
	})
	// Two pages, then two, then two and one together.
	if took < 3*4 {
		t.Fatalf("took %d ticks; three scatters of four ticks must follow each other", took)
	}
	g.check(j)
	for rank, r := range g.recv {
		if c := r.Counts(); c.RingFull == 0 || c.Scattered != 7 {
			t.Errorf("rank %d: %+v", rank, c)
		}
		if granted, free := r.Watermark(); granted != 7 || free != 7 {
			t.Errorf("rank %d: watermark %d of %d, want 7 of 7", rank, free, granted)
		}
	}
	g.forget(j)
	g.idle()
}

func TestRing(t *testing.T) {
	g := ring{arena: 3, size: 4}
	a, b := g.grant(3), g.grant(1)
	if a == nil || b == nil || g.grant(1) != nil {
		t.Fatal("4 pages hold 3 and 1, and no more")
	}
	g.release(b)
	if g.watermark != 0 || g.grant(1) != nil {
		t.Errorf("watermark %d passes a region that is held", g.watermark)
	}
	g.release(a)
	g.release(a)
	if g.watermark != 4 {
		t.Errorf("watermark %d, want 4", g.watermark)
	}
	c := g.grant(4)
	for i, r := range c.refs {
		if want := (gpu.Ref{Arena: 3, Index: uint32(i), Generation: 2}); r != want {
			t.Errorf("page %d is %v, want %v", i, r, want)
		}
	}
}

// A scatter that runs keeps its request from being drained; one that had not started is dropped.
func TestScattersHoldTheDrain(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), prefill: 1, ring: 4, chunk: 2, delay: func(host.Op, int) uint64 { return 6 }})
	j := g.job(1, 16, 0)
	g.send(j)
	g.tick()
	for rank, r := range g.recv {
		if p := r.Poll(j.request); !p.Staged || p.StagingEmpty || p.Raw != abi.PollTransferring || !p.StampSeen || p.ArrivedPages != 0 {
			t.Fatalf("rank %d: %+v", rank, p)
		}
	}
	g.cancel(j)
	took := g.until(20, func() bool {
		for _, r := range g.recv {
			if r.Drained(j.request) == (len(r.InFlight(nil, j.request)) > 0) {
				t.Fatal("drained with a scatter running")
			}
		}
		return g.drained(j)
	})
	if took < 4 {
		t.Errorf("drained after %d ticks, with scatters of 6", took)
	}
	g.forget(j)
	g.idle()
}

func TestScatterFailureFails(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), prefill: 1, ring: 4, chunk: 2})
	must(t, g.devs[1].Inject(host.Fault{Kind: host.Move, Rank: 1, Page: 1, Err: errors.New("copy engine")}))
	j := g.job(1, 16, 0)
	g.send(j)
	if g.until(10, func() bool {
		return g.recv[0].Poll(j.request).Raw == abi.PollSuccess && g.recv[1].Poll(j.request).Raw == abi.PollFailed
	}) < 0 {
		t.Fatalf("%+v, %+v", g.recv[0].Poll(j.request), g.recv[1].Poll(j.request))
	}
	if p := g.recv[1].Poll(j.request); p.Reason != abi.ReasonTransferFailed {
		t.Errorf("%+v", p)
	}
	g.cancel(j)
	if g.until(5, func() bool { return g.drained(j) }) < 0 {
		t.Error("never drained")
	}
	g.forget(j)
	g.idle()
}

// A lost ack never drains by itself. The fence does it, once revoking has completed, and the peer is
// back with a new incarnation.
func TestAckLossEndsInARevocation(t *testing.T) {
	script := WithFaults(Pace{Total: 10 * tick}.Script(), Fault{Nth: 1, Rank: 1, OnAck: func(a *Ack) { a.Lose = true }})
	g := newRig(t, rigOptions{shape: withShards(2), script: script, revoke: 3 * tick})
	j := g.job(1, 16, 0)
	g.send(j)
	g.tick()
	g.cancel(j)
	for range 50 {
		g.tick()
	}
	if !g.recv[0].Drained(j.request) || g.recv[1].Drained(j.request) {
		t.Fatalf("drained: %v and %v, want the ack of rank 1 lost", g.recv[0].Drained(j.request), g.recv[1].Drained(j.request))
	}
	for _, r := range g.recv {
		r.Fence(1, 1)
		if r.Connected(1, 1) {
			t.Error("a fenced peer is connected")
		}
	}
	if g.recv[1].Drained(j.request) {
		t.Error("drained before the revocation has completed")
	}
	if took := g.until(10, func() bool { return g.recv[1].Drained(j.request) }); took != 3 {
		t.Errorf("revoked after %d ticks, want 3", took)
	}
	g.forget(j)
	if inc := g.peer.Incarnation(); inc != 2 || !g.recv[0].Connected(1, 2) || !g.recv[1].Connected(1, 2) {
		t.Errorf("incarnation %d, connected %v", inc, g.recv[0].Peers(nil))
	}
	k := g.job(2, 8, 0)
	g.send(k)
	if g.until(20, func() bool { return g.all(k, abi.PollSuccess) }) < 0 {
		t.Error("the peer's new incarnation does not serve")
	}
	g.forget(k)
	g.idle()
}

// A peer dies with chunks under way. They may land in the quarantined pages until the right to write
// is revoked; afterwards nothing does.
func TestDeadPeersWritesAreFenced(t *testing.T) {
	script := WithFaults(Pace{Each: 4 * tick, Flight: time.Hour}.Script())
	g := newRig(t, rigOptions{shape: withShards(2), script: script, revoke: 2 * tick, restart: 3 * tick})
	j := g.job(1, 16, 0)
	g.send(j)
	g.tick()
	g.peer.Crash()
	g.tick()
	if g.recv[0].Connected(1, 1) || g.recv[1].Connected(1, 1) {
		t.Fatal("a dead peer is connected")
	}
	if err := g.peer.Submit(Request{Room: 8, Tokens: tokens(4, 1)}); !errors.Is(err, ErrDown) {
		t.Errorf("submit to a dead peer: %v", err)
	}
	if p := g.recv[0].Poll(j.request).Raw; p != abi.PollWaitingForInput {
		t.Errorf("before the fence: %v", p)
	}
	if j.ended == nil || !errors.Is(*j.ended, ErrDown) {
		t.Errorf("the peer's client was told %v", j.ended)
	}
	for g.recv[0].Counts().Chunks == 0 {
		g.tick() // the dead peer's first chunk lands all the same
	}
	if g.drained(j) {
		t.Error("drained without fence or ack")
	}
	for _, r := range g.recv {
		r.Fence(1, 1)
		r.Fence(1, 1)
		if p := r.Poll(j.request); p.Raw != abi.PollFailed || p.Reason != abi.ReasonPeerLost {
			t.Errorf("fenced: %+v", p)
		}
	}
	g.cancel(j)
	if took := g.until(10, func() bool { return g.drained(j) }); took != 2 {
		t.Errorf("drained after %d ticks, want 2", took)
	}
	g.forget(j)
	owner := g.take(4) // LIFO: the same pages
	if !slices.Equal(pageIDs(owner), pageIDs(j.dst)) {
		t.Fatal("other pages: the test tests nothing")
	}
	mark := bytes.Repeat([]byte{0xab}, g.shape.PageBytes())
	for rank := range g.recv {
		for _, ref := range owner {
			must(t, g.devs[rank].Write(ref, 0, mark))
		}
	}
	refused := g.recv[0].Counts().Refused
	for range 20 {
		g.tick()
	}
	if g.recv[0].Counts().Refused == refused {
		t.Error("no late write came: the test tests nothing")
	}
	for rank := range g.recv {
		for i, ref := range owner {
			if !bytes.Equal(g.read(rank, ref), mark) {
				t.Errorf("rank %d: page %d was written by the dead peer", rank, i)
			}
		}
	}
	g.give(owner)
	if !g.recv[0].Connected(1, 2) {
		t.Error("the peer has not come back")
	}
	g.idle()
}

// A crash that a script asks for, in the middle of a request.
func TestScriptedCrash(t *testing.T) {
	script := WithFaults(Pace{Each: tick}.Script(), Fault{Nth: 1, Rank: 0, Chunk: 2, OnChunk: func(c *Chunk) { c.Crash = true }})
	g := newRig(t, rigOptions{shape: withShards(2), script: script, restart: 5 * tick})
	j := g.job(1, 16, 0)
	g.send(j)
	if g.until(10, func() bool { return !g.recv[1].Connected(1, 1) }) < 0 {
		t.Fatal("no crash")
	}
	if got := g.recv[0].Poll(j.request).ArrivedPages; got != 2 {
		t.Errorf("%d pages before the crash, want 2", got)
	}
	for _, r := range g.recv {
		r.Fence(1, 1)
	}
	g.cancel(j)
	if g.until(10, func() bool { return g.drained(j) && g.recv[0].Connected(1, 2) }) < 0 {
		t.Error("not drained, or not back")
	}
	g.forget(j)
	g.idle()
}

// One rank alone loses the peer.
func TestCutRank(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), script: Pace{Each: 2 * tick}.Script()})
	j := g.job(1, 16, 0)
	g.send(j)
	g.tick()
	g.peer.Cut(1)
	for range 20 {
		g.tick()
	}
	if !g.recv[0].Connected(1, 1) || g.recv[1].Connected(1, 1) {
		t.Fatalf("connected: %v and %v", g.recv[0].Connected(1, 1), g.recv[1].Connected(1, 1))
	}
	if a, b := g.recv[0].Poll(j.request).Raw, g.recv[1].Poll(j.request).Raw; a != abi.PollSuccess || b == abi.PollSuccess {
		t.Errorf("polls %v and %v", a, b)
	}
	for _, r := range g.recv {
		r.Fence(1, 1)
	}
	if p := g.recv[0].Poll(j.request); p.Raw != abi.PollSuccess {
		t.Errorf("a success turned into %+v", p)
	}
	g.cancel(j)
	if g.until(5, func() bool { return g.drained(j) }) < 0 {
		t.Error("never drained")
	}
	g.forget(j)
	g.tick()
	if !g.recv[1].Connected(1, 2) {
		t.Error("not registered again")
	}
	g.idle()
}

// Chunks that come twice, or in another order, are the same bytes once.
func TestDuplicateAndReorderedChunks(t *testing.T) {
	for _, prefill := range []int{1, 2} {
		script := WithFaults(Pace{}.Script(), Fault{Rank: Any, Chunk: Any, OnChunk: func(c *Chunk) { c.Duplicate = 2 * tick }},
			Fault{Rank: Any, Chunk: 0, OnChunk: func(c *Chunk) { c.At = 9 * tick }}, Fault{Rank: 1, Chunk: 2, OnChunk: func(c *Chunk) { c.At = 5 * tick }})
		g := newRig(t, rigOptions{shape: withShards(2), prefill: prefill, ring: 16, chunk: 1, script: script})
		j := g.job(1, 15, 0)
		g.send(j)
		g.until(30, func() bool {
			if p := g.recv[0].Poll(j.request); p.ArrivedPages > len(j.dst) || p.Raw == abi.PollSuccess && g.ticks < 9 {
				t.Fatalf("tick %d: %+v", g.ticks, p)
			}
			return g.all(j, abi.PollSuccess)
		})
		g.check(j)
		if c := g.recv[0].Counts(); c.Duplicates == 0 {
			t.Errorf("peer of %d shards: no duplicate seen: %+v", prefill, c)
		}
		for range 5 {
			g.tick()
		}
		g.forget(j)
		g.idle()
	}
}

// A chunk that never lands leaves the request in transfer for ever: the caller's limit ends it.
func TestDroppedChunkNeverSucceeds(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), script: WithFaults(nil, Fault{Room: 1, Rank: 1, Chunk: 2, OnChunk: func(c *Chunk) { c.Drop = true }})})
	j := g.job(1, 16, 0)
	g.send(j)
	for range 50 {
		g.tick()
	}
	if a, b := g.recv[0].Poll(j.request), g.recv[1].Poll(j.request); a.Raw != abi.PollSuccess || b.Raw != abi.PollTransferring || b.ArrivedPages != 3 {
		t.Fatalf("%+v, %+v", a, b)
	}
	progress := g.recv[1].Poll(j.request).Progress
	g.tick()
	if g.recv[1].Poll(j.request).Progress != progress {
		t.Error("progress without an arrival")
	}
	g.cancel(j)
	if g.until(3, func() bool { return g.drained(j) }) < 0 {
		t.Error("never drained")
	}
	g.forget(j)
	g.idle()
}

func TestMetadataOrStatusLost(t *testing.T) {
	g := newRig(t, rigOptions{shape: smallShape, script: WithFaults(nil, Fault{Rank: Any, OnFinish: func(f *Finish) { f.Lose = true }})})
	j := g.job(1, 8, 0)
	g.send(j)
	for range 20 {
		g.tick()
	}
	if p := g.recv[0].Poll(j.request); p.Raw != abi.PollTransferring || p.StampSeen || p.ArrivedPages != 2 {
		t.Errorf("%+v", p)
	}
	g.cancel(j)
	if g.until(3, func() bool { return g.drained(j) }) < 0 {
		t.Error("never drained")
	}
	g.forget(j)
	g.idle()
}

// Cancel in every state: it leaves nothing behind on either side.
func TestCancelInEveryState(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reach func(g *rig, j *job)
	}{
		{"before anything", func(*rig, *job) {}},
		{"asked, not answered", func(g *rig, j *job) { g.recv[0].Handshake(j.room, 1); g.recv[1].Handshake(j.room, 1) }},
		{"ready", func(g *rig, j *job) { g.recv[0].Handshake(j.room, 1); g.recv[1].Handshake(j.room, 1); g.tick() }},
		{"one rank has sent", func(g *rig, j *job) {
			g.recv[0].Handshake(j.room, 1)
			g.recv[1].Handshake(j.room, 1)
			g.tick()
			g.recv[0].Send(g.info(j))
			g.tick()
		}},
		{"sent", func(g *rig, j *job) { g.send(j) }},
		{"transferring", func(g *rig, j *job) { g.send(j); g.tick(); g.tick(); g.tick() }},
		{"done", func(g *rig, j *job) { g.send(j); g.until(30, func() bool { return g.all(j, abi.PollSuccess) }) }},
		{"failed", func(g *rig, j *job) { g.send(j); g.tick(); g.peer.Abort(j.room); g.tick() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t, rigOptions{shape: withShards(2), script: Pace{Each: 2 * tick, Flight: tick}.Script()})
			j := g.job(1, 16, 0)
			tc.reach(g, j)
			g.cancel(j)
			g.cancel(j)
			if g.until(5, func() bool { return g.drained(j) }) < 0 {
				t.Fatal("never drained")
			}
			g.forget(j)
			g.forget(&job{request: j.request})
			if !g.drained(j) || g.recv[0].Poll(j.request).Raw != abi.PollBootstrapping {
				t.Error("a forgotten request is still there")
			}
			g.peer.Abort(j.room)
			for range 10 {
				g.tick()
			}
			g.idle()
		})
	}
}

// A request that is forgotten under way: what comes later for its room is refused, also once the room
// has a new request.
func TestLateMessagesAfterForgetAreRefused(t *testing.T) {
	script := WithFaults(Pace{}.Script(), Fault{Nth: 1, Rank: Any, Chunk: 1, OnChunk: func(c *Chunk) { c.At, c.Flight = 6*tick, 6*tick }},
		Fault{Nth: 2, Rank: Any, Chunk: Any, OnChunk: func(c *Chunk) { c.At = 12 * tick }})
	for _, prefill := range []int{1, 2} {
		g := newRig(t, rigOptions{shape: withShards(2), prefill: prefill, ring: 2, script: script})
		j := g.job(1, 8, 0)
		g.send(j)
		g.tick()
		g.forget(j)
		if p := g.recv[0].slots[j.slot]; p.Stamp != 0 {
			t.Errorf("the slot keeps its stamp: %+v", p)
		}
		g.tick()
		again := g.job(1, 8, 0)
		g.send(again)
		refused := g.recv[0].Counts().Refused
		for range 6 {
			g.tick()
		}
		if g.recv[0].Counts().Refused == refused {
			t.Error("nothing came late: the test tests nothing")
		}
		if p := g.recv[0].Poll(again.request); p.ArrivedPages != 0 {
			t.Errorf("the late chunk counts for the new request: %+v", p)
		}
		if g.until(20, func() bool { return g.all(again, abi.PollSuccess) }) < 0 {
			t.Fatal("the second request does not end")
		}
		g.check(again)
		g.forget(again)
		g.idle()
	}
}

func TestRoomsWaitForRanksOnlySoLong(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), timeout: 10 * tick})
	j := g.job(1, 8, 0)
	g.recv[0].Handshake(1, 1)
	g.recv[1].Handshake(1, 1)
	g.tick()
	g.recv[0].Send(g.info(j))
	if at, ok := g.peer.Next(); !ok || at != g.now() {
		t.Errorf("next at %v, %v with a message waiting", at, ok)
	}
	g.tick()
	if at, ok := g.peer.Next(); !ok || at != 11*tick {
		t.Errorf("next at %v, %v, want the deadline", at, ok)
	}
	for range 10 {
		g.tick()
	}
	if p := g.recv[0].Poll(j.request); p.Raw != abi.PollFailed || p.Reason != abi.ReasonDeadline {
		t.Errorf("%+v", p)
	}
	if j.ended == nil || !errors.Is(*j.ended, ErrFailed) {
		t.Errorf("the peer's client was told %v", j.ended)
	}
	g.cancel(j)
	g.until(3, func() bool { return g.drained(j) })
	g.forget(j)
	for range 12 {
		g.tick()
	}
	g.idle()
	if len(g.peer.pump.rooms) != 0 {
		t.Error("the failed room is kept for ever")
	}
}

// What two ranks tell must fit the prompt and each other.
func TestInfosAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Info){
		"other prompt":     func(i *Info) { i.PromptTokens = 19 },
		"other promise":    func(i *Info) { i.PromiseTokens = 8; i.Dst = i.Dst[1:] },
		"no page multiple": func(i *Info) { i.PromiseTokens = 6 },
		"past the prompt":  func(i *Info) { i.PromiseTokens = 24; i.Dst = nil },
		"pages missing":    func(i *Info) { i.Dst = i.Dst[:2] },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, rigOptions{shape: withShards(2)})
			j := g.job(1, 20, 4)
			for _, r := range g.recv {
				r.Handshake(1, 1)
			}
			g.tick()
			g.recv[0].Send(g.info(j))
			bad := g.info(j)
			change(&bad)
			g.recv[1].Send(bad)
			g.tick()
			if p := g.recv[1].Poll(j.request); p.Raw != abi.PollFailed || p.Reason != abi.ReasonCoverageDiffers {
				t.Errorf("%+v", p)
			}
			g.cancel(j)
			g.peer.Abort(1)
			if g.until(5, func() bool { return g.drained(j) }) < 0 {
				t.Error("never drained")
			}
			g.forget(j)
			g.tick()
			g.idle()
		})
	}
}

func TestPollingAllocatesNothing(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), prefill: 1, ring: 4, script: Pace{Each: 3 * tick}.Script(), delay: func(host.Op, int) uint64 { return 5 }})
	j := g.job(1, 32, 0)
	h := g.job(2, 8, 0)
	g.send(j)
	for _, r := range g.recv {
		r.Handshake(h.room, 1)
	}
	for range 8 {
		g.tick()
	}
	r := g.recv[0]
	if len(r.scatters) == 0 {
		t.Fatal("no scatter is running: the test tests nothing")
	}
	refs := make([]gpu.Ref, 0, 64)
	now := g.now()
	if got := testing.AllocsPerRun(100, func() {
		r.Poll(j.request)
		r.Drained(j.request)
		r.Handshake(h.room, 1)
		r.Connected(1, 1)
		refs = r.InFlight(refs[:0], j.request)
		r.Pump(now)
		g.peer.Pump(now)
	}); got != 0 {
		t.Errorf("%v allocations a tick", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	dev, err := host.NewVirtual(host.Options{})
	must(t, err)
	defer dev.Close()
	l1, err := dev.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: 8, Pages: 1})
	must(t, err)
	for name, f := range map[string]func() error{
		"no device": func() error { _, err := NewReceiver(ReceiverOptions{Shape: smallShape}); return err },
		"no shape":  func() error { _, err := NewReceiver(ReceiverOptions{Device: dev, Pages: l1}); return err },
		"rank": func() error {
			_, err := NewReceiver(ReceiverOptions{Device: dev, Pages: l1, Shape: smallShape, Rank: 1})
			return err
		},
		"no arena": func() error { _, err := NewReceiver(ReceiverOptions{Device: dev, Shape: smallShape}); return err },
		"page size": func() error {
			_, err := NewReceiver(ReceiverOptions{Device: dev, Pages: l1, Shape: smallShape})
			return err
		},
		"no rank":   func() error { _, err := NewPrefill(PrefillOptions{Shape: smallShape}); return err },
		"bad shape": func() error { _, err := NewPrefill(PrefillOptions{Ranks: 1}); return err },
		"receivers": func() error {
			p, err := NewPrefill(PrefillOptions{Shape: smallShape, Ranks: 1})
			if err != nil {
				return err
			}
			return errors.Join(p.Connect(), p.Connect(&Receiver{o: ReceiverOptions{Rank: 3, Shape: smallShape}}))
		},
	} {
		if err := f(); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v, want ErrOptions", name, err)
		}
	}
}
