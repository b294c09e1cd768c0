package transfer

import (
	"bytes"
	"testing"

	"sluice/abi"
	"sluice/gpu/host"
)

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

// A success needs every byte, also where the metadata comes first.
func TestMetadataBeforeData(t *testing.T) {
	for _, prefill := range []int{1, 2} {
		script := WithFaults(Pace{Each: 3 * tick}.Script(), Fault{Rank: Any, OnFinish: func(f *Finish) { f.Early = true }})
		g := newRig(t, rigOptions{shape: withShards(2), prefill: prefill, ring: 8, script: script, delay: func(host.Op, int) uint64 { return 2 }})
		j := g.job(1, 16, 0)
		g.send(j)
		g.until(30, func() bool {
			if p := g.recv[0].Poll(j.request); p.Raw == abi.PollSuccess && p.ArrivedPages < 4 || p.HasFirst != (p.Raw == abi.PollSuccess) {
				t.Fatalf("tick %d: %+v", g.ticks, p)
			}
			return g.all(j, abi.PollSuccess)
		})
		g.check(j)
		g.forget(j)
		g.idle()
	}
}

// After a success the pages are the request's own: a duplicate that comes then does not undo what
// decode has written.
func TestNothingLandsAfterSuccess(t *testing.T) {
	for _, prefill := range []int{1, 2} {
		script := WithFaults(nil, Fault{Rank: Any, Chunk: Any, OnChunk: func(c *Chunk) { c.Duplicate = 6 * tick }})
		g := newRig(t, rigOptions{shape: withShards(2), prefill: prefill, ring: 8, script: script})
		j := g.job(1, 15, 0)
		g.send(j)
		if g.until(5, func() bool { return g.all(j, abi.PollSuccess) }) < 0 {
			t.Fatal("no success")
		}
		mark := bytes.Repeat([]byte{0xcd}, g.shape.PageBytes())
		for rank := range g.recv {
			must(t, g.devs[rank].Write(j.dst[3], 0, mark))
		}
		for range 10 {
			g.tick()
		}
		for rank, r := range g.recv {
			if r.Counts().Refused == 0 {
				t.Error("no duplicate came: the test tests nothing")
			}
			if !bytes.Equal(g.read(rank, j.dst[3]), mark) {
				t.Errorf("rank %d: a duplicate has overwritten the page", rank)
			}
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
