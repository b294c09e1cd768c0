package replay

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit/kittest"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// guests are one module as every rank's gate, in WebAssembly, with successors made as soon as they are wanted.
type guests struct{ ranks []*rank.Policies }

// useGate puts a module in the place of the gate of a World that is yet to be made. pages is the most memory of an
// instance, 0 the host's default.
func useGate(t *testing.T, cfg *WorldConfig, wasm []byte, pages uint32) *guests {
	t.Helper()
	ctx := context.Background()
	engine := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	g := &guests{}
	for range cfg.Schedule.Ranks {
		set, err := engine.NewSet(ctx, []plugins.Spec{
			{Hook: abi.Gate, Module: wasm, Name: "guest", Fuel: plugins.Fuel{Base: 1_000_000, PerRecord: 1000}, MemoryPages: pages},
			{Hook: abi.Reserve, Builtin: "until-retired", Native: true}, {Hook: abi.Admit, Builtin: "greedy", Native: true},
		}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := set.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		g.ranks = append(g.ranks, rank.NewPolicies(set, nil))
	}
	cfg.Hooks = func(r int) (rank.Hooks, error) { return g.ranks[r].Hooks(), nil }
	cfg.Refresh = func(r int, _ uint64) error { return g.ranks[r].Refresh(ctx) }
	return g
}

func (g *guests) stats(r int) plugins.Stats { return g.ranks[r].Set().Gate.Stats() }

// echo votes as the transfer polls.
func echo() []byte { return kittest.Votes(kittest.InByte(8)) }

func gateModule(body []byte) []byte {
	return kittest.Module(kittest.Export{Name: abi.Gate.Export(), Body: body})
}

// callBomb is a gate whose functions call the next one twice, 30 deep, from its third call on.
func callBomb() []byte {
	const depth = 30
	exports := []kittest.Export{{Name: abi.Gate.Export(), Body: kittest.FromCall(3, kittest.CallTwice(1), echo())}}
	for i := range byte(depth) {
		body := kittest.Const(0)
		if i < depth-1 {
			body = kittest.CallTwice(i + 2)
		}
		exports = append(exports, kittest.Export{Name: "f" + string('A'+rune(i)), Body: body})
	}
	return kittest.Module(exports...)
}

// TestS17 has a gate that never returns, in five ways, from its third call on. Four requests run: every tick ends and
// gives each of them its token, the native answers apply on both ranks, and after three faults the policy is off, which
// can be seen.
func TestS17PolicyNeverReturns(t *testing.T) {
	wasi := func(name, params string, body []byte) []byte {
		return kittest.ModuleWith([]kittest.Import{{Module: "wasi_snapshot_preview1", Name: name, Params: params}},
			kittest.Export{Name: abi.Gate.Export(), Body: body})
	}
	for _, tc := range []struct {
		name string
		wasm []byte
	}{
		{"loop", gateModule(kittest.FromCall(3, kittest.Spin(), echo()))},
		{"exponential calls", callBomb()},
		{"loop around a host call", wasi("sched_yield", "", kittest.FromCall(3, kittest.SpinOn(0, 0), echo()))},
		{"bulk memory", gateModule(kittest.FromCall(3, kittest.FillStorm(), echo()))},
		{"sleeps", wasi("poll_oneoff", "iiii", kittest.FromCall(3, kittest.SpinOn(0, 4), echo()))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := simConfig(2, 4, 256, 0)
			g := useGate(t, &cfg, tc.wasm, 0)
			s := newSim(t, cfg)
			var ids []uint64
			for i := range 4 {
				ids = append(ids, s.add(1000*i, 8, 140))
			}
			s.until("four run", func() bool { return s.ranks[0].Schedule().QueueLen(schedule.QueueRunning) == 4 })
			s.holds++ // one more in transfer, so that the gate is asked every tick
			held := s.Submit(Request{Namespace: "default", Tokens: counting(9000, 8), Limit: 1, Room: holdRoom + s.holds})
			s.until("one in transfer", s.in(schedule.QueueTransfer, held))
			made := func() (n int) {
				for _, id := range ids {
					n += len(s.Outcome(id).Tokens)
				}
				return n
			}
			for range 100 {
				before := made()
				s.step()
				if n := made() - before; n != 4 {
					t.Fatalf("tick %d gives %d tokens, want 4", s.tick, n)
				}
			}
			for r := range 2 {
				n := g.stats(r)
				sched := s.ranks[r].Schedule()
				if n.Faults[plugins.FaultOutOfFuel] != 3 || n.FaultTotal() != 3 || sched.Faults(abi.Gate) != 3 || !sched.Quarantined(abi.Gate) {
					t.Errorf("rank %d: %+v, %d faults counted, quarantined %v; want 3 out of fuel and quarantined", r, n, sched.Faults(abi.Gate), sched.Quarantined(abi.Gate))
				}
				if n.Calls-n.Native < 2 {
					t.Errorf("rank %d: the guest's own answers were %d, want its first two", r, n.Calls-n.Native)
				}
			}
			s.Abort(held)
			s.until("the end", s.done(ids...))
			for _, id := range ids {
				s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
			}
			s.untilIdle()
		})
	}
}

// TestS24 has a gate that traps in an instance's fifth call: call 5 and call 10 are answered natively on both ranks, the
// calls between and after by a fresh instance, which has forgotten what the one before had counted.
func TestS24TrapsDoNotKillThePolicy(t *testing.T) {
	cfg := simConfig(2, 4, 64, 0)
	g := useGate(t, &cfg, gateModule(kittest.OnCall(5, kittest.Unreachable(), echo())), 0)
	s := newSim(t, cfg)
	s.holds++
	held := s.Submit(Request{Namespace: "default", Tokens: counting(9000, 8), Limit: 1, Room: holdRoom + s.holds})
	s.until("one in transfer", s.in(schedule.QueueTransfer, held))
	for g.stats(0).Calls < 14 { // the next trap would be the third within the window
		s.step()
		n := g.stats(0)
		if want := n.Calls / 5; n.Faults[plugins.FaultTrap] != want || n.Native != want || n.FaultTotal() != want {
			t.Fatalf("after call %d: %+v, want %d traps and as many native answers", n.Calls, n, want)
		}
		if g.stats(1) != n {
			t.Fatalf("rank 1: %+v, rank 0: %+v", g.stats(1), n)
		}
	}
	if s.ranks[0].Schedule().Quarantined(abi.Gate) || s.ranks[0].Schedule().Faults(abi.Gate) != 2 {
		t.Errorf("quarantined %v after %d faults, want 2 and no quarantine", s.ranks[0].Schedule().Quarantined(abi.Gate), s.ranks[0].Schedule().Faults(abi.Gate))
	}
	s.Abort(held)
	s.untilIdle()
}

// TestS31 has a gate that leaks a page a call under a cap of 64. It is stopped where its memory has grown too far, goes on
// as a fresh instance, and never holds more than the cap.
func TestS31MemoryIsBounded(t *testing.T) {
	const calls, most = 2000, 64
	cfg := simConfig(2, 4, 64, 0)
	cfg.Schedule.Quarantine, cfg.Schedule.HoldTicks = schedule.QuarantineAll(1000, 1000), 1<<20
	g := useGate(t, &cfg, gateModule(slices.Concat(kittest.Leak(1), kittest.Drop(), echo())), most)
	s := newSim(t, cfg)
	s.holds++
	held := s.Submit(Request{Namespace: "default", Tokens: counting(9000, 8), Limit: 1, Room: holdRoom + s.holds})
	s.until("one in transfer", s.in(schedule.QueueTransfer, held))
	for g.stats(0).Calls < calls {
		s.step()
	}
	for r := range 2 {
		n := g.stats(r)
		traps := n.Faults[plugins.FaultMemoryGrowth]
		// An instance starts with 8 pages and may grow by half of what the cap leaves, 28, so it is stopped in call 29.
		if traps != n.Calls/29 || n.FaultTotal() != traps || n.Native != traps {
			t.Errorf("rank %d: %+v, want a stop every 29 calls, the policy's own answers between them", r, n)
		}
	}
	s.Abort(held)
	s.untilIdle()
}

// TestS26 has a score policy that goes by the clock and by random numbers. Both are the same on all ranks in a tick and
// in every replay, so no answers differ, and two runs end in the same state.
func TestS26LogicalTimeAndRandomness(t *testing.T) {
	const wasiModule, at = "wasi_snapshot_preview1", 1536
	imports := []kittest.Import{{Module: wasiModule, Name: "random_get", Params: "ii"}, {Module: wasiModule, Name: "clock_time_get", Params: "ili"}}
	wasm := kittest.ModuleWith(imports, kittest.Export{Name: abi.Score.Export(), Body: slices.Concat(
		kittest.Const(at), kittest.Const(4), kittest.Call(0), kittest.Drop(),
		kittest.Const(0), kittest.Const64(0), kittest.Const(at+8), kittest.Call(1), kittest.Drop(),
		// The key's byte is a random one, changed by the third byte of the time, which moves on every 65 us.
		kittest.Votes(kittest.Xor(kittest.ByteAt(at), kittest.ByteAt(at+8+2))))})
	ctx := context.Background()
	engine := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	run := func() (digests []string, keys map[uint64]bool) {
		var sets []*plugins.Set
		cfg := simConfig(2, 4, 64, 128)
		cfg.Schedule.Score = true
		keys = map[uint64]bool{}
		cfg.Hooks = func(int) (rank.Hooks, error) {
			set, err := engine.NewSet(ctx, []plugins.Spec{{Hook: abi.Score, Module: wasm}}, abi.HostInfo{})
			if err != nil {
				return rank.Hooks{}, err
			}
			sets = append(sets, set)
			p := rank.NewPolicies(set, nil)
			p.Record(keyRecorder{keys})
			return p.Hooks(), nil
		}
		s := newSim(t, cfg)
		for i := range 200 {
			s.add(i%40*100, 12, 2)
			s.steps(2)
			digests = append(digests, fmt.Sprint(s.ranks[0].Schedule().Digest(), s.ranks[1].Schedule().Digest()))
		}
		s.untilIdle()
		for r, set := range sets {
			if n := set.Score.Stats(); n.Calls < 200 || n.FaultTotal() != 0 || n.Native != 0 || s.ranks[r].Schedule().Faults(abi.Score) != 0 {
				t.Errorf("rank %d: %+v, %d faults; want every answer from the policy, and none that differs", r, n, s.ranks[r].Schedule().Faults(abi.Score))
			}
			if err := set.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		return digests, keys
	}
	first, keys := run()
	second, again := run()
	if !slices.Equal(first, second) || fmt.Sprint(keys) != fmt.Sprint(again) {
		t.Error("two runs differ")
	}
	if len(keys) < 32 {
		t.Errorf("%d keys only: the policy sees no time or no randomness", len(keys))
	}
}

// keyRecorder takes down which keys a score policy has given.
type keyRecorder struct{ keys map[uint64]bool }

func (k keyRecorder) Run(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	a, err := r.Run(tick, epoch, n, nOut, encode)
	if r.Hook() == abi.Score && err == nil {
		for at := 0; at < len(a.Batch.Out); at += abi.ScoreOutStride {
			k.keys[abi.GetScoreOut(a.Batch.Out[at:]).Key] = true
		}
	}
	return a, err
}
