package transfer

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/internal/clock"
	"sluice/runtime/model"
)

// The same machines on goroutines: many requests at once, some cancelled, over the staged and the
// direct path, with real streams.
func TestLive(t *testing.T) {
	for name, prefill := range map[string]int{"staged": 1, "direct": 2} {
		t.Run(name, func(t *testing.T) {
			const (
				ranks    = 2
				requests = 40
				pages    = 5
			)
			shape := withShards(ranks)
			var recv []*Receiver
			var devs []*host.Device
			var l1 gpu.ArenaID
			for rank := range ranks {
				dev, err := host.NewLive(host.Options{Rank: rank})
				must(t, err)
				defer dev.Close()
				l1, err = dev.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: shape.PageBytes(), Pages: requests * pages})
				must(t, err)
				ring, err := dev.NewArena(gpu.ArenaSpec{Name: "ring", Kind: gpu.Memory, PageBytes: shape.PageBytes(), Pages: 4})
				must(t, err)
				stream, err := dev.NewStream("scatter")
				must(t, err)
				r, err := NewReceiver(ReceiverOptions{Rank: rank, Device: dev, Pages: l1, Shape: shape, Slots: requests, Ring: ring, Stream: stream, Poll: 100 * time.Microsecond})
				must(t, err)
				recv, devs = append(recv, r), append(devs, dev)
			}
			ps := shape
			ps.Shards = prefill
			peer, err := NewPrefill(PrefillOptions{ID: 1, Shape: ps, Ranks: ranks, ChunkPages: 2, Script: Pace{Each: 200 * time.Microsecond, Jitter: time.Millisecond, Seed: 3}.Script()})
			must(t, err)
			must(t, peer.Connect(recv...))

			ctx, stop := context.WithCancel(context.Background())
			var run sync.WaitGroup
			clk := clock.NewReal()
			run.Go(func() { _ = peer.Run(ctx, clk) })
			for _, r := range recv {
				run.Go(func() { _ = r.Run(ctx, clk) })
			}

			var ranksDone sync.WaitGroup
			for i := range requests {
				room := uint64(i + 1)
				must(t, peer.Submit(Request{Room: room, Namespace: "n", Tokens: tokens(4*pages, room)}))
			}
			for rank, r := range recv {
				ranksDone.Go(func() { liveRank(t, r, devs[rank], rank, shape, l1, requests, pages) })
			}
			ranksDone.Wait()
			stop()
			run.Wait()
		})
	}
}

// liveRank plays one rank's tick loop: it sends every request, cancels each fifth, and ends all.
func liveRank(t *testing.T, r *Receiver, dev *host.Device, rank int, shape model.Shape, l1 gpu.ArenaID, requests, pages int) {
	dst := make([][]gpu.Ref, requests)
	sent, cancelled, over := make([]bool, requests), make([]bool, requests), make([]bool, requests)
	for left := requests; left > 0; {
		for i := range requests {
			id := uint64(i + 1)
			switch {
			case over[i]:
			case !sent[i]:
				if p, _ := r.Handshake(id, 1); p == abi.PollBootstrapping {
					continue
				}
				for p := range pages {
					dst[i] = append(dst[i], gpu.Ref{Arena: l1, Index: uint32(i*pages + p)})
				}
				r.Send(Info{Request: id, Room: id, Peer: 1, Incarnation: 1, PromptTokens: 4 * pages, Dst: dst[i], Slot: uint32(i)})
				sent[i] = true
			case cancelled[i]:
				if r.Drained(id) {
					r.Forget(id)
					over[i], left = true, left-1
				}
			default:
				p := r.Poll(id)
				switch {
				case p.Raw == abi.PollSuccess:
					checkLive(t, dev, rank, shape, dst[i], id)
					r.Forget(id)
					over[i], left = true, left-1
				case p.Raw == abi.PollFailed || i%5 == 4 && p.ArrivedPages > 0:
					if i%5 != 4 {
						t.Errorf("rank %d, request %d: %+v", rank, id, p)
					}
					r.Cancel(id, id)
					cancelled[i] = true
				}
			}
		}
	}
}

func checkLive(t *testing.T, dev *host.Device, rank int, shape model.Shape, dst []gpu.Ref, room uint64) {
	prefix, toks := model.Start("n"), tokens(shape.PageSize*len(dst), room)
	want, got := make([]byte, shape.PageBytes()), make([]byte, shape.PageBytes())
	for p, ref := range dst {
		var err error
		if prefix, err = model.FillPage(want, shape, rank, prefix, p, toks[p*shape.PageSize:(p+1)*shape.PageSize]); err != nil {
			t.Error(err)
		}
		if err := dev.Read(ref, 0, got); err != nil || string(got) != string(want) {
			t.Errorf("rank %d, room %d, page %d: other bytes (%v)", rank, room, p, err)
		}
	}
}

// Calls from many goroutines at once, fences and crashes among them.
func TestCallsAreSafeAcrossGoroutines(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2), pages: 128, script: Pace{Each: time.Microsecond}.Script()})
	clk := clock.NewReal()
	ctx, stop := context.WithCancel(context.Background())
	var run, users sync.WaitGroup
	run.Go(func() { _ = g.peer.Run(ctx, clk) })
	for _, r := range g.recv {
		run.Go(func() { _ = r.Run(ctx, clk) })
	}
	for user := range 4 {
		users.Go(func() {
			for i := range uint64(60) {
				room := uint64(user)*1000 + i + 1
				_ = g.peer.Submit(Request{Room: room, Tokens: tokens(8, room)})
				for _, r := range g.recv {
					inc := g.peer.Incarnation()
					r.Handshake(room, 1)
					r.Send(Info{Request: room, Room: room, Peer: 1, Incarnation: inc, PromptTokens: 8, Dst: []gpu.Ref{{Arena: g.l1, Index: uint32(user) * 2}, {Arena: g.l1, Index: uint32(user)*2 + 1}}, Slot: uint32(user)})
					r.Poll(room)
					r.InFlight(nil, room)
					r.Peers(nil)
					if i%3 == 0 {
						r.Cancel(room, room)
					}
					if i%20 == 19 {
						r.Fence(1, inc)
					}
					r.Drained(room)
					r.Forget(room)
				}
				if i == 30 {
					g.peer.Crash()
				}
				g.peer.Counts()
				g.peer.Abort(room)
			}
		})
	}
	users.Wait()
	stop()
	run.Wait()
	for rank, r := range g.recv {
		if len(r.entries)+len(r.rooms) > 0 {
			t.Errorf("rank %d keeps %d requests and %d rooms", rank, len(r.entries), len(r.rooms))
		}
	}
}
