package transfer

import (
	"errors"
	"testing"

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
