package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/runtime/model"
)

// Every pairing of shards and layout, every way a promise and a prompt can end: the pages get the
// bytes that the model would have written, direct or staged, and a full hit completes without any.
func TestBytesArrive(t *testing.T) {
	for _, tc := range []struct {
		name            string
		prefill, decode int
		stamp           bool
	}{
		{"direct 1 to 1", 1, 1, false},
		{"direct 2 to 2", 2, 2, false},
		{"staged 1 to 2", 1, 2, false},
		{"staged 2 to 1", 2, 1, false},
		{"staged 1 to 4", 1, 4, false},
		{"direct stamps", 2, 2, true},
		{"staged stamps", 1, 2, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			shape := withShards(tc.decode)
			shape.Stamp = tc.stamp
			g := newRig(t, rigOptions{shape: shape, prefill: tc.prefill, ring: 4, chunk: 2, script: Pace{Each: 2 * tick}.Script()})
			room := uint64(1)
			for n := 1; n <= 17; n++ {
				for promise := 0; promise <= n; promise += 4 {
					j := g.job(room, n, promise)
					room++
					g.send(j)
					if g.until(60, func() bool { return g.all(j, abi.PollSuccess) }) < 0 {
						t.Fatalf("%d tokens, %d promised: no success", n, promise)
					}
					if p := g.recv[0].Poll(j.request); p.Staged != (tc.prefill != tc.decode) {
						t.Errorf("staged = %v", p.Staged)
					}
					g.check(j)
					if j.ended == nil || *j.ended != nil {
						t.Errorf("the peer's client was told %v", j.ended)
					}
					if !g.drained(j) {
						t.Error("a success is not drained")
					}
					g.forget(j)
				}
			}
			g.idle()
			if c := g.peer.Counts(); c.Done != c.Rooms || c.Failed != 0 {
				t.Errorf("peer counts %+v", c)
			}
		})
	}
}

func TestPace(t *testing.T) {
	ticksOf := func(p Pace) []int {
		g := newRig(t, rigOptions{shape: withShards(2), chunk: 2, script: p.Script()})
		j := g.job(1, 40, 8)
		g.send(j)
		out := []int{-1, -1}
		g.until(100, func() bool {
			for rank, r := range g.recv {
				if r.Poll(j.request).Raw == abi.PollSuccess && out[rank] < 0 {
					out[rank] = g.ticks
				}
			}
			return !slices.Contains(out, -1)
		})
		return out
	}
	base := ticksOf(Pace{})
	for _, tc := range []struct {
		name string
		pace Pace
		want []int // later than at once
	}{
		{"forty ticks", Pace{Total: 40 * tick}, []int{40, 40}},
		{"four chunks of three ticks", Pace{Each: 3 * tick}, []int{12, 12}},
		{"rank 1 six later", Pace{Total: 40 * tick, Lag: []time.Duration{0, 6 * tick}}, []int{40, 46}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ticksOf(tc.pace)
			for rank := range got {
				if got[rank]-base[rank] != tc.want[rank] {
					t.Errorf("rank %d took %d ticks, want %d", rank, got[rank]-base[rank], tc.want[rank])
				}
			}
		})
	}
	a, b := ticksOf(Pace{Each: tick, Jitter: 20 * tick, Seed: 5}), ticksOf(Pace{Each: tick, Jitter: 20 * tick, Seed: 5})
	if !slices.Equal(a, b) {
		t.Errorf("one seed, two runs: %v and %v", a, b)
	}
	differ := false
	for seed := uint64(6); seed < 16; seed++ {
		differ = differ || !slices.Equal(a, ticksOf(Pace{Each: tick, Jitter: 20 * tick, Seed: seed}))
	}
	if !differ {
		t.Error("ten other seeds give the same run")
	}
}

// S01: the client aborts after two of four chunks, the other two are past stopping.
func TestLateWritesHitOnlyQuarantinedPages(t *testing.T) {
	script := WithFaults(Pace{Each: tick}.Script(), Fault{Rank: Any, Chunk: Any, OnChunk: func(c *Chunk) {
		if c.Flight = c.At; c.At > 2*tick {
			c.At += 2 * tick // chunks 2 and 3 land at t5 and t6
		}
	}}, Fault{Rank: Any, OnAck: func(a *Ack) { a.Delay = tick }})
	g := newRig(t, rigOptions{shape: smallShape, pages: 8, script: script})
	a := g.job(1, 16, 0)
	g.send(a)
	g.tick() // the peer has the pages: t0
	t0 := g.ticks
	g.tick()
	g.tick()
	if got := g.recv[0].Poll(a.request).ArrivedPages; got != 2 {
		t.Fatalf("t2: %d pages arrived, want 2", got)
	}
	g.cancel(a)
	g.cancel(a)
	if p := g.recv[0].Poll(a.request); p.Raw != abi.PollFailed || p.Reason != abi.ReasonAborted {
		t.Fatalf("t2: %+v", p)
	}
	// The pages stay A's. C gets the four clean ones.
	c := g.take(4)
	before := g.read(0, a.dst[3])
	for g.ticks < t0+6 {
		if g.drained(a) {
			t.Fatalf("t%d: drained with chunks under way", g.ticks-t0)
		}
		if got := pageIDs(g.recv[0].InFlight(nil, a.request)); !slices.Equal(got, pageIDs(a.dst)) {
			t.Fatalf("t%d: pages %v under the peer, want %v", g.ticks-t0, got, pageIDs(a.dst))
		}
		g.tick()
	}
	if bytes.Equal(before, g.read(0, a.dst[3])) {
		t.Error("chunk 3 did not land late: the test tests nothing")
	}
	if g.drained(a) {
		t.Error("t6: drained before the ack")
	}
	g.tick()
	if !g.drained(a) || len(g.recv[0].InFlight(nil, a.request)) != 0 {
		t.Error("t7: not drained")
	}
	for i, ref := range c {
		if !bytes.Equal(g.read(0, ref), make([]byte, g.shape.PageBytes())) {
			t.Errorf("page %d of C was written by A's peer", i)
		}
	}
	g.forget(a)
	g.give(c)
	g.idle()
}

// S02: what goes wrong on the way ends as a failure with its reason, never as success, and the pages
// come back after a drain ack.
func TestFailedReceiveFails(t *testing.T) {
	boom := errors.New("link error")
	for _, tc := range []struct {
		name   string
		faults []Fault
		spoil  func(g *rig, j *job)
		reason abi.Reason
		text   string
	}{
		{"a: page 1 fails on the wire", []Fault{{Rank: 0, Chunk: 1, OnChunk: func(c *Chunk) { c.Err = boom }}}, nil, abi.ReasonTransferFailed, "link error"},
		{"a: page 1 fails in the device", nil, func(g *rig, _ *job) {
			must(g.t, g.devs[0].Inject(host.Fault{Kind: host.Write, After: 1, Err: boom}))
		}, abi.ReasonTransferFailed, "link error"},
		{"b: unknown room", nil, func(_ *rig, j *job) { j.room += 100 }, abi.ReasonHandshakeFailed, "does not know room"},
		{"c: page out of range", nil, func(_ *rig, j *job) { j.dst[1].Index = 4000 }, abi.ReasonTransferFailed, "no such page"},
		{"d: page has a newer owner", nil, func(g *rig, j *job) {
			newer := j.dst[2]
			newer.Generation++
			must(g.t, g.devs[0].Assign(slices.Concat(j.dst[:0:0], []gpu.Ref{newer})))
		}, abi.ReasonStaleReference, "generation"},
		{"d: the source has a newer owner", []Fault{{Rank: 0, Chunk: 2, OnChunk: func(c *Chunk) { c.Err, c.Reason = boom, abi.ReasonStaleReference }}}, nil, abi.ReasonStaleReference, "link error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t, rigOptions{shape: smallShape, script: WithFaults(Pace{Each: tick}.Script(), tc.faults...)})
			j := g.job(1, 12, 0)
			for _, r := range g.recv {
				r.Handshake(j.room, 1)
			}
			g.tick()
			dst := slices.Clone(j.dst)
			if tc.spoil != nil {
				tc.spoil(g, j)
			}
			g.recv[0].Send(g.info(j))
			if g.until(10, func() bool { return g.recv[0].Poll(j.request).Raw == abi.PollFailed }) < 0 {
				t.Fatalf("no failure: %+v", g.recv[0].Poll(j.request))
			}
			if p := g.recv[0].Poll(j.request); p.Reason != tc.reason || !strings.Contains(p.Message, tc.text) || p.HasFirst {
				t.Errorf("%+v, want %v and %q", p, tc.reason, tc.text)
			}
			if g.drained(j) {
				t.Error("a failure counts as a drain ack")
			}
			g.cancel(j)
			if g.until(3, func() bool { return g.drained(j) }) < 0 {
				t.Error("no drain ack")
			}
			g.recv[0].Cancel(99, 1) // the handshake that "b" left behind
			g.recv[0].Forget(j.request)
			g.give(dst)
			if tc.name[0] == 'b' {
				g.peer.Abort(1)
			}
			g.idle()
		})
	}
}

// S09: the peer declares something else than it was asked for.
func TestDeclarationIsChecked(t *testing.T) {
	refuse := func(from, to uint32) func(*Finish) {
		return func(f *Finish) {
			f.Record = func(r *Record) { r.From, r.To = from, to }
			f.Reason, f.Message, f.Status = abi.ReasonHandshakeFailed, "prompt refused by the peer", 422
		}
	}
	for _, tc := range []struct {
		name    string
		faults  []Fault
		reason  abi.Reason
		message [2]string
		status  [2]int
	}{
		{"one token", []Fault{{Rank: Any, OnFinish: refuse(0, 1)}}, abi.ReasonCoverageDiffers, [2]string{"prompt refused by the peer", "prompt refused by the peer"}, [2]int{422, 422}},
		{"a page short", []Fault{{Rank: Any, OnFinish: refuse(8, 36)}}, abi.ReasonCoverageDiffers, [2]string{"prompt refused by the peer", "prompt refused by the peer"}, [2]int{422, 422}},
		{"a page early", []Fault{{Rank: Any, OnFinish: refuse(4, 40)}}, abi.ReasonCoverageDiffers, [2]string{"prompt refused by the peer", "prompt refused by the peer"}, [2]int{422, 422}},
		{"rank 1 is told no reason", []Fault{{Rank: Any, OnFinish: refuse(0, 1)}, {Rank: 1, OnFinish: func(f *Finish) { f.Message, f.Status = "", 0 }}},
			abi.ReasonCoverageDiffers, [2]string{"prompt refused by the peer", ""}, [2]int{422, 0}},
		{"another room's stamp", []Fault{{Rank: Any, OnFinish: func(f *Finish) { f.Record = func(r *Record) { r.Stamp = 77 } }}}, abi.ReasonStampDiffers, [2]string{}, [2]int{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t, rigOptions{shape: withShards(2), chunk: 4, script: WithFaults(Pace{Each: tick}.Script(), tc.faults...)})
			j := g.job(1, 40, 8)
			g.send(j)
			g.until(10, func() bool { return g.all(j, abi.PollFailed) })
			for rank, r := range g.recv {
				if p := r.Poll(j.request); p.Raw != abi.PollFailed || p.Reason != tc.reason || p.Message != tc.message[rank] || p.Status != tc.status[rank] {
					t.Errorf("rank %d: %+v", rank, p)
				}
				if r.Drained(j.request) {
					t.Errorf("rank %d: drained without an ack", rank)
				}
			}
			g.cancel(j)
			if g.until(3, func() bool { return g.drained(j) }) < 0 {
				t.Error("never drained")
			}
			g.forget(j)
			g.idle()
		})
	}
	t.Run("refused at the door", func(t *testing.T) {
		g := newRig(t, rigOptions{shape: withShards(2)})
		for _, r := range g.recv {
			r.Handshake(5, 1)
		}
		if err := g.peer.Submit(Request{Room: 5}); !errors.Is(err, ErrRefused) {
			t.Errorf("empty prompt: %v", err)
		}
		g.tick()
		for rank, r := range g.recv {
			if p, reason := r.Handshake(5, 1); p != abi.PollFailed || reason != abi.ReasonHandshakeFailed {
				t.Errorf("rank %d: %v, %v", rank, p, reason)
			}
			r.Cancel(1, 5)
		}
		g.idle()
	})
}

// S12: layouts are compared before anything else.
func TestLayoutIsCheckedAtFirstContact(t *testing.T) {
	decode := model.Shape{Layers: 2, BytesPerTokenLayer: 8, PageSize: 4, Shards: 1} // 64 bytes an item
	for _, tc := range []struct {
		name         string
		change       func(*model.Shape)
		chunk        int
		theirs, ours int
	}{
		{"page size", func(s *model.Shape) { s.PageSize = 8 }, 1, 8, 4},
		{"item size", func(s *model.Shape) { s.BytesPerTokenLayer = 16 }, 1, 128, 64},
		{"layers", func(s *model.Shape) { s.Layers, s.BytesPerTokenLayer = 4, 4 }, 1, 4, 2},
		{"stamps", func(s *model.Shape) { s.Stamp = true }, 1, 16, 64},
		{"staged without a ring that holds a chunk", func(s *model.Shape) { s.Shards = 2 }, 3, 3, 2},
		{"equal", func(*model.Shape) {}, 9, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newRig(t, rigOptions{shape: decode, ring: 2})
			shape := decode
			tc.change(&shape)
			p, err := NewPrefill(PrefillOptions{ID: 2, Shape: shape, Ranks: 1, ChunkPages: tc.chunk})
			must(t, err)
			err = p.Connect(g.recv...)
			var le *LayoutError
			if tc.ours == 0 {
				must(t, err)
			} else if !errors.As(err, &le) || !errors.Is(err, ErrLayout) || le.Theirs != tc.theirs || le.Ours != tc.ours ||
				!strings.Contains(err.Error(), fmt.Sprint(tc.theirs)) || !strings.Contains(err.Error(), fmt.Sprint(tc.ours)) {
				t.Fatalf("%v, want both %d and %d named", err, tc.theirs, tc.ours)
			}
			poll, reason := g.recv[0].Handshake(3, 2)
			if bad := tc.ours != 0; bad != (poll == abi.PollFailed && reason == abi.ReasonHandshakeFailed) || bad == g.recv[0].Connected(2, 1) {
				t.Errorf("handshake %v, %v", poll, reason)
			}
			peers := g.recv[0].Peers(nil)
			if len(peers) != 2 || peers[0].Err != nil || (peers[1].Err != nil) != (tc.ours != 0) || !peers[0].Connected {
				t.Errorf("peers %+v", peers)
			}
			// The good peer still serves.
			j := g.job(9, 8, 0)
			g.send(j)
			if g.until(5, func() bool { return g.all(j, abi.PollSuccess) }) < 0 {
				t.Error("the good peer does not serve")
			}
		})
	}
}

// S20 at this level: a live room is refused, everywhere.
func TestDuplicateRoom(t *testing.T) {
	g := newRig(t, rigOptions{shape: smallShape, script: Pace{Each: tick}.Script()})
	j := g.job(7, 8, 0)
	if err := g.submit(&job{room: 7, tokens: tokens(4, 1)}); !errors.Is(err, ErrDuplicateRoom) {
		t.Errorf("second live room: %v", err)
	}
	if err := g.submit(&job{tokens: tokens(4, 1)}); !errors.Is(err, ErrRoom) {
		t.Errorf("room 0: %v", err)
	}
	if p, _ := g.recv[0].Handshake(0, 1); p != abi.PollFailed {
		t.Errorf("handshake of room 0: %v", p)
	}
	g.send(j)
	if p, reason := g.recv[0].Handshake(7, 1); p != abi.PollFailed || reason != abi.ReasonDuplicate {
		t.Errorf("second handshake of a live room: %v, %v", p, reason)
	}
	other := g.info(j)
	other.Request, other.Slot = 99, 3
	g.recv[0].Send(other)
	if p := g.recv[0].Poll(99); p.Raw != abi.PollFailed || p.Reason != abi.ReasonDuplicate {
		t.Errorf("second request with a live room: %+v", p)
	}
	if !g.recv[0].Drained(99) {
		t.Error("a request that was never sent is not drained")
	}
	g.recv[0].Cancel(99, 7)
	g.recv[0].Forget(99)
	if g.until(5, func() bool { return g.all(j, abi.PollSuccess) }) < 0 {
		t.Fatalf("the first holder was disturbed: %+v", g.recv[0].Poll(j.request))
	}
	g.check(j)
	g.forget(j)
	again := g.job(7, 8, 4)
	g.send(again)
	if g.until(5, func() bool { return g.all(again, abi.PollSuccess) }) < 0 {
		t.Error("the room cannot be used again after its end")
	}
	g.check(again)
	g.forget(again)
	g.idle()
}
