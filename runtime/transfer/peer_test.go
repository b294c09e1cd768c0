package transfer

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/abi"
)

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
