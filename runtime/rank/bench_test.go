package rank_test

import (
	"context"
	"testing"
	"time"

	"sluice/abi"
	"sluice/collective"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/kvcache"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// scripted is a transport whose every answer a test sets.
type scripted struct {
	hand  abi.Poll
	raw   func(request uint64) abi.Poll
	sent  []transfer.Info
	gone  map[uint64]bool
	drain bool
}

func (s *scripted) Handshake(uint64, uint32) (abi.Poll, abi.Reason) { return s.hand, 0 }
func (s *scripted) Send(i transfer.Info)                            { s.sent = append(s.sent, i) }
func (s *scripted) Cancel(uint64, uint64)                           {}
func (s *scripted) Drained(uint64) bool                             { return s.drain }
func (s *scripted) Forget(request uint64)                           { s.gone[request] = true }
func (s *scripted) Fence(uint32, uint64)                            {}
func (s *scripted) Connected(uint32, uint64) bool                   { return true }
func (s *scripted) Poll(request uint64) transfer.Poll {
	p := transfer.Poll{Raw: s.raw(request), StagingEmpty: true, First: 33}
	p.HasFirst = p.Raw == abi.PollSuccess
	return p
}

// silent is a model that reads nothing.
type silent struct{}

func (silent) Step(items []model.Item, partial []uint64) error { return nil }

// bed is a group of ranks with scripted transports in one goroutine.
type bed struct {
	ranks  []*rank.Rank
	ports  []*scripted
	leader *rank.Leader
	vecs   []*collective.Vector
	devs   []*host.Device
	tokens []uint32
	tick   uint64

	beforeReduce func() // runs once the ballots are filled
}

func benchConfig(n int) schedule.Config {
	return schedule.Config{Ranks: n, PageSize: 16, L1Pages: 1 << 20, L2Pages: 1 << 10, MaxRunning: 512, MetadataSlots: 512,
		MaxNewTokens: 1 << 24, MaxQueue: 4096, ReservedDecodeTokens: 512, Overcommit: 1, HoldTicks: 1 << 20, StarveTicks: 1 << 20,
		AdmitWindow: 64, Operations: 64, LoadFailures: 3, Quarantine: schedule.QuarantineAll(3, 1000), IngressSlice: 1 << 20,
		EOS: schedule.NoToken, AdmitNative: "fifo-headroom"}
}

func newBed(tb testing.TB, cfg schedule.Config, hooks func(rank int) rank.Hooks) *bed {
	tb.Helper()
	b := &bed{leader: rank.NewLeader(), vecs: make([]*collective.Vector, cfg.Ranks), tokens: make([]uint32, 4096)}
	for r := range cfg.Ranks {
		d, err := host.NewVirtual(host.Options{Rank: r})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = d.Close() })
		l1, err := d.NewArena(gpu.ArenaSpec{Name: "L1", Kind: gpu.Memory, PageBytes: 16, Pages: cfg.L1Pages})
		if err != nil {
			tb.Fatal(err)
		}
		l2, err := d.NewArena(gpu.ArenaSpec{Name: "L2", Kind: gpu.Pinned, PageBytes: 16, Pages: cfg.L2Pages})
		if err != nil {
			tb.Fatal(err)
		}
		store, err := kvcache.New(kvcache.Options{Device: d, L1: l1, L2: l2, PageTokens: cfg.PageSize})
		if err != nil {
			tb.Fatal(err)
		}
		port := &scripted{hand: abi.PollWaitingForInput, raw: func(uint64) abi.Poll { return abi.PollSuccess }, gone: map[uint64]bool{}, drain: true}
		o := rank.Options{Rank: r, Schedule: cfg, Epoch: 1, Device: d, L1: l1, L2: l2, Store: store, Transport: port, Model: silent{}, Hooks: hooks(r)}
		if r == 0 {
			o.Leader = b.leader
		}
		k, err := rank.New(o)
		if err != nil {
			tb.Fatal(err)
		}
		b.ranks, b.ports, b.devs = append(b.ranks, k), append(b.ports, port), append(b.devs, d)
	}
	b.leader.Add(schedule.AppendPeer(nil, 1, 1))
	return b
}

// step is one tick of the group.
func (b *bed) step(tb testing.TB) {
	b.tick++
	for _, d := range b.devs {
		d.Step(b.tick)
	}
	for r, k := range b.ranks {
		v, err := k.Prepare(time.Duration(b.tick) * time.Millisecond)
		if err != nil {
			tb.Fatal(err)
		}
		b.vecs[r] = v
	}
	if b.beforeReduce != nil {
		b.beforeReduce()
	}
	if err := collective.Reduce(b.vecs); err != nil {
		tb.Fatal(err)
	}
	for _, k := range b.ranks {
		if err := k.Commit(); err != nil {
			tb.Fatal(err)
		}
	}
	for _, k := range b.ranks {
		p, err := k.StepModel()
		if err != nil {
			tb.Fatal(err)
		}
		k.SetTokens(b.tokens[:len(p)])
	}
}

func (b *bed) add(id uint64, prompt, limit int) {
	r := schedule.Request{ID: id, Room: id, Peer: 1, Limit: uint32(limit), Key: []byte("k")}
	for i := range prompt {
		r.Tokens = append(r.Tokens, uint32(id)<<12|uint32(i))
	}
	b.leader.Add(schedule.AppendAdd(nil, &r))
}

// busy brings the bed to the steady state of the target: so many running, in transfer, and waiting for pages.
func busy(tb testing.TB, b *bed, running, transferring, waiting int) {
	tb.Helper()
	id := uint64(0)
	for range running {
		id++
		b.add(id, 160, 1<<15)
	}
	for range 20 {
		b.step(tb)
	}
	last := id
	for _, p := range b.ports {
		p.raw = func(request uint64) abi.Poll {
			if request <= last {
				return abi.PollSuccess
			}
			return abi.PollTransferring
		}
	}
	for range transferring {
		id++
		b.add(id, 160, 16)
	}
	for range 20 {
		b.step(tb)
	}
	for range waiting {
		id++
		b.add(id, 4096, (1<<20-300)*16-running*(1<<15)/2) // fits alone, and not beside what runs
	}
	for range 20 {
		b.step(tb)
	}
	s := b.ranks[0].Schedule()
	if s.QueueLen(schedule.QueueRunning) != running || s.QueueLen(schedule.QueueTransfer) != transferring || s.QueueLen(schedule.QueuePrealloc) != waiting {
		tb.Fatalf("%d running, %d in transfer, %d waiting; want %d, %d, %d", s.QueueLen(schedule.QueueRunning),
			s.QueueLen(schedule.QueueTransfer), s.QueueLen(schedule.QueuePrealloc), running, transferring, waiting)
	}
}

// policies builds one rank's shipped policies, native or in WebAssembly.
func policies(tb testing.TB, h *plugins.Host, native bool) rank.Hooks {
	tb.Helper()
	var specs []plugins.Spec
	for _, k := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		specs = append(specs, plugins.Spec{Hook: k, Builtin: standard.Default(k), Native: native})
	}
	set, err := h.NewSet(context.Background(), specs, abi.HostInfo{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = set.Close(context.Background()) })
	return rank.NewPolicies(set, nil).Hooks()
}

// BenchmarkTick is the host work of one tick of two ranks: 256 requests running, 256 in transfer, 64 waiting for
// pages, all policies asked. The figure per rank is half of ns/op.
func BenchmarkTick(b *testing.B) {
	host := plugins.NewHost(plugins.Options{})
	b.Cleanup(func() { _ = host.Close(context.Background()) })
	for _, native := range []bool{true, false} {
		name := "wasm"
		if native {
			name = "native"
		}
		b.Run(name, func(b *testing.B) {
			t := newBed(b, benchConfig(2), func(int) rank.Hooks { return policies(b, host, native) })
			busy(b, t, 256, 256, 64)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				t.step(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "us/rank")
		})
	}
}

// A tick of the steady state allocates nothing, whichever way the policies run.
func TestTickAllocatesNothing(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() { _ = host.Close(context.Background()) })
	for _, native := range []bool{true, false} {
		b := newBed(t, benchConfig(2), func(int) rank.Hooks { return policies(t, host, native) })
		busy(t, b, 64, 64, 16)
		for range 64 {
			b.step(t)
		}
		if n := testing.AllocsPerRun(300, func() { b.step(t) }); n != 0 {
			t.Errorf("native %v: %v allocations a tick of two ranks", native, n)
		}
	}
}
