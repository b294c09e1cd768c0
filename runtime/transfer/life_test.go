package transfer

import (
	"errors"
	"testing"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
)

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

// What two ranks tell must fit the prompt and each other. What a rank can see by itself is refused
// before the peer is told; the peer checks all of it again.
func TestInfosAreChecked(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Info)
		atOnce bool // the receiver sees it
	}{
		{"other prompt", func(i *Info) { i.PromptTokens = 19 }, false},
		{"other tokens", func(i *Info) { i.Prompt = 1 }, false},
		{"other promise", func(i *Info) { i.PromiseTokens = 8; i.Dst = i.Dst[1:] }, false},
		{"no page multiple", func(i *Info) { i.PromiseTokens = 6 }, true},
		{"past the prompt", func(i *Info) { i.PromiseTokens = 24; i.Dst = nil }, true},
		{"pages missing", func(i *Info) { i.Dst = i.Dst[:2] }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t, rigOptions{shape: withShards(2)})
			j := g.job(1, 20, 4)
			for _, r := range g.recv {
				r.Handshake(1, 1)
			}
			g.tick()
			bad := g.info(j)
			tc.change(&bad)
			rm := &room{request: Request{Room: 1, Tokens: j.tokens}, shares: []*share{{info: g.info(j)}, nil}}
			if f := g.peer.pump.check(rm, &bad); f.reason != abi.ReasonCoverageDiffers {
				t.Errorf("the peer takes it: %+v", f)
			}
			good := g.info(j)
			if f := g.peer.pump.check(rm, &good); f.reason != abi.ReasonNone {
				t.Errorf("the peer refuses what fits: %+v", f)
			}
			g.recv[0].Send(g.info(j))
			g.recv[1].Send(bad)
			if p := g.recv[1].Poll(j.request); (p.Raw == abi.PollFailed) != tc.atOnce {
				t.Errorf("at once: %+v", p)
			}
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
