package kit_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/standard"
)

// The reference is a second host: on the shipped Go module, with every import in use, it gives the host's answers and fuel.
func TestReferenceIsTheHost(t *testing.T) {
	const seed, runs = 11, 30
	ctx := context.Background()
	wasm := shipped(t)
	config := standard.Config{Gate: "restore-gated", Reserve: "until-retired", Admit: "fifo-headroom", Score: "lfu"}.JSON()
	o := kit.FuzzOptions{Options: kit.Options{Name: "standard", Config: config}, Runs: runs, Seed: seed}
	res, err := layout(t).Fuzz(ctx, kit.Compiled(compile(t, wasm)), reference(t, wasm), o)
	if err != nil {
		t.Fatal(err)
	}
	if res.Failure != nil || res.Runs != runs || res.Declined != 0 || res.Records == 0 {
		t.Errorf("seed %d: %+v %v", seed, res, res.Failure)
	}
}

// A guest that stops is stopped with the same class of fault by both hosts.
func TestReferenceTellsTheFault(t *testing.T) {
	recurse := []byte{0x20, 0, 0x10, 3} // the gate is function 3
	for _, c := range []struct {
		name string
		body []byte
		want plugins.FaultClass
	}{
		{"trap", kittest.Unreachable(), plugins.FaultTrap},
		{"endless", kittest.Spin(), plugins.FaultOutOfFuel},
		{"recursion", recurse, plugins.FaultStackDepth},
		{"bad status", kittest.Const(-1), plugins.FaultBadStatus},
		{"large status", kittest.Const(256), plugins.FaultBadStatus},
		{"illegal answer", kittest.Votes(kittest.Const(5)), plugins.FaultIllegalAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			wasm := gate(c.body)
			for side, b := range map[string]kit.Build{"host": kit.Compiled(compile(t, wasm)), "reference": reference(t, wasm)} {
				p := open(t, side, b)
				for tick := range uint64(2) { // the second one meets a fresh instance
					a, err := p.Ask(abi.Gate, tick, 1, 1, 1, func(abi.Batch) {})
					if err != nil || a.Fault == nil || a.Fault.Class != c.want || a.Out != nil {
						t.Fatalf("%s: %+v, %v; want %v", side, a, err, c.want)
					}
				}
			}
		})
	}
}

func TestReferenceRefusesWhatIsNoModule(t *testing.T) {
	for _, wasm := range [][]byte{nil, []byte("hello"), gate(kittest.Const(0))[:40]} {
		if r, err := kit.NewReference(context.Background(), wasm, plugins.DefaultFuel()); err == nil {
			t.Errorf("%q is taken: %v", wasm, r)
		}
	}
}

// Memory is seen on the reference alone: a guest that grows it a page a call.
func TestPages(t *testing.T) {
	wasm := gate(kittest.Leak(1))
	ref, host := open(t, "ref", reference(t, wasm)), open(t, "host", kit.Compiled(compile(t, wasm)))
	before := ref.Pages(abi.Gate)
	if _, err := layout(t).Endure(context.Background(), ref, abi.Gate, 1, 100); err != nil {
		t.Fatal(err)
	}
	if got := ref.Pages(abi.Gate); got != before+100 || host.Pages(abi.Gate) != 0 {
		t.Errorf("%d pages, then %d; the host shows %d", before, got, host.Pages(abi.Gate))
	}
	var fault *plugins.Fault
	if _, err := layout(t).Endure(context.Background(), host, abi.Gate, 1, 4000); !errors.As(err, &fault) || fault.Class != plugins.FaultMemoryGrowth {
		t.Errorf("4000 pages on a host: %v", err)
	}
}

func TestFuzzFindsWhatIsWrong(t *testing.T) {
	l := layout(t)
	// Traps on the one record whose restore has failed and whose raw poll is Success.
	rare := kittest.Votes(slices.Concat(kittest.InByte(8), kittest.Const(4), []byte{0x46}, kittest.InByte(9), kittest.Const(2), []byte{0x46, 0x71, 0x04, 0x40, 0x00, 0x0B}, kittest.InByte(8)))
	for _, c := range []struct {
		name      string
		body      []byte
		other     []byte // of the reference
		wantLines string
	}{
		{"well", kittest.Votes(kittest.InByte(8)), nil, ""},
		{"a rare trap", rare, nil, `policy "x": gate: trap{unreachable}: wasm error: unreachable`},
		{"an illegal vote", kittest.Votes(kittest.Const(6)), nil, `policy "x": gate: illegal_answer: illegal answer: gate record 0: vote is 6`},
		{"another engine's answer", kittest.Votes(kittest.Const(3)), kittest.Votes(kittest.Const(2)), "out 0: Vote on the compiler is Transferring, on the interpreter is WaitingForInput"},
		{"another engine's fault", kittest.Votes(kittest.Const(3)), kittest.Unreachable(), "the interpreter fails where the compiler answers"},
		{"another engine's status", kittest.Const(0), kittest.Const(1), "status on the compiler is 0, on the interpreter 1"},
		{"another engine's fuel", kittest.Const(0), slices.Concat(kittest.Const(1), []byte{0x1A}, kittest.Const(0)), "fuel on the compiler is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := c.other
			if other == nil {
				other = c.body
			}
			o := kit.FuzzOptions{Options: kit.Options{Name: "x"}, Runs: 200, Seed: 3}
			res, err := l.Fuzz(context.Background(), kit.Compiled(compile(t, gate(c.body))), reference(t, gate(other)), o)
			if err != nil {
				t.Fatal(err)
			}
			if c.wantLines == "" {
				if res.Failure != nil || res.Runs != 200 {
					t.Errorf("%+v", res)
				}
				return
			}
			if res.Failure == nil || len(res.Failure.Lines[0]) < len(c.wantLines) || res.Failure.Lines[0][:len(c.wantLines)] != c.wantLines {
				t.Fatalf("got %+v, want %q", res.Failure, c.wantLines)
			}
			if _, err := l.ParseVectors(res.Failure.Vector); err != nil {
				t.Errorf("the batch is no vector: %v", err)
			}
			again, err := l.Fuzz(context.Background(), kit.Compiled(compile(t, gate(c.body))), reference(t, gate(other)), o)
			if err != nil || again.Failure == nil || again.Failure.Run != res.Failure.Run || again.Failure.Vector != res.Failure.Vector {
				t.Errorf("the same seed gives another failure: %+v, %v", again.Failure, err)
			}
		})
	}
	if _, err := l.Fuzz(context.Background(), kit.Compiled(compile(t, gate(kittest.Const(0)))), nil, kit.FuzzOptions{}); err == nil {
		t.Error("no runs are no error")
	}
}

func TestAskAllocatesNothing(t *testing.T) {
	p := open(t, "x", kit.Compiled(compile(t, gate(kittest.Votes(kittest.InByte(8))))))
	encode := func(b abi.Batch) {
		for i := range 64 {
			b.PutGate(i, &abi.GateRecord{RawPoll: abi.PollSuccess})
		}
	}
	tick := uint64(0)
	got := testing.AllocsPerRun(100, func() {
		tick++
		if a, err := p.Ask(abi.Gate, tick, 1, 64, 64, encode); err != nil || a.Fault != nil {
			t.Fatal(err, a.Fault)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations a call", got)
	}
}

// Bench counts what it measures: sizes, fuel and allocations; time is the clock's.
func TestBench(t *testing.T) {
	l, ctx := layout(t), context.Background()
	p := open(t, "x", kit.Compiled(compile(t, gate(kittest.Votes(kittest.InByte(8))))))
	readings := time.Duration(0)
	var sizes []int
	now := func() time.Duration { readings += time.Millisecond; return readings }
	wasm := gate(kittest.Votes(kittest.InByte(8)))
	plain, metered, err := kit.NewMeteringPair(ctx, wasm, plugins.DefaultFuel())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(plain.Close(ctx), metered.Close(ctx)); err != nil {
			t.Error(err)
		}
	}()
	side := func(p *kit.Policy) kit.Side {
		return kit.Side{Ask: p.Asker(abi.Gate), Spent: func() uint64 { return p.Spent(abi.Gate) }}
	}
	all, err := l.Bench(ctx, abi.Gate, []kit.Side{side(p), side(open(t, "plain", plain)), side(open(t, "metered", metered))}, 1, now, func(n int) { sizes = append(sizes, n) })
	if err != nil || len(all) != 3 || len(all[0]) != len(kit.BenchSizes()) {
		t.Fatalf("%v, %v", all, err)
	}
	if !slices.Equal(sizes, kit.BenchSizes()) {
		t.Errorf("begun with %v", sizes)
	}
	rows := all[0]
	for i := range rows {
		if all[1][i].Fuel != 0 || all[2][i].Fuel != rows[i].Fuel {
			t.Errorf("fuel of the host is %d, of the plain module %d, of the metered one %d; want 0 and the host's", rows[i].Fuel, all[1][i].Fuel, all[2][i].Fuel)
		}
	}
	for i, r := range rows {
		calls := max(1<<15/r.Records, 16)
		if r.Records != kit.BenchSizes()[i] || r.Allocs != 0 || r.Fuel == 0 || r.NSPerCall != float64(time.Millisecond.Nanoseconds())/float64(calls) {
			t.Errorf("%+v", r)
		}
		if i > 0 && r.Fuel <= rows[i-1].Fuel {
			t.Errorf("%d records take %d units of fuel, %d take %d", r.Records, r.Fuel, rows[i-1].Records, rows[i-1].Fuel)
		}
	}
	bad := open(t, "bad", kit.Compiled(compile(t, gate(kittest.Unreachable()))))
	if _, err := l.Bench(ctx, abi.Gate, []kit.Side{side(bad)}, 1, now, nil); err == nil {
		t.Error("a policy that traps is measured")
	}
	set, err := host().NewSet(ctx, nil, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
		ask, err := kit.NativeAsker(h, set)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := l.Bench(ctx, h, []kit.Side{{Ask: ask}}, 1, now, nil); err != nil || rows[0][3].Allocs != 0 || rows[0][3].Fuel != 0 {
			t.Errorf("native %s: %v, %v", h, rows, err)
		}
	}
	if _, err := kit.NativeAsker(99, set); err == nil {
		t.Error("hook 99 is answered natively")
	}
}

// What spends much is called less often, and at least once a sample.
func TestBenchIsBoundByFuel(t *testing.T) {
	l, ctx := layout(t), context.Background()
	now := func() time.Duration { return 0 }
	for _, c := range []struct {
		fuel  uint64
		calls int // of all sizes: 4 to warm up, 15 samples and 5 of allocations, each
	}{{1 << 24, 4 * (4 + 15*2 + 5*2)}, {1 << 40, 4 * (4 + 15 + 5)}} {
		calls := 0
		ask := func(uint64, int, int, func(abi.Batch)) error { calls++; return nil }
		if _, err := l.Bench(ctx, abi.Gate, []kit.Side{{Ask: ask, Spent: func() uint64 { return c.fuel }}}, 1, now, nil); err != nil || calls != c.calls {
			t.Errorf("%d units of fuel a call: %d calls, want %d; %v", c.fuel, calls, c.calls, err)
		}
	}
}

func TestEndureIsBoundByFuel(t *testing.T) {
	wasm, err := os.ReadFile("../testdata/hostile/log_ring_flood.wasm")
	if err != nil {
		t.Fatal(err)
	}
	l, ctx := layout(t), context.Background()
	p := open(t, "flood", kit.Compiled(compile(t, wasm)))
	done, err := l.Endure(ctx, p, abi.Gate, 1, 4000)
	if most := kit.EndureFuel / int(p.Spent(abi.Gate)); err != nil || done > most+1 || done < most {
		t.Errorf("%d batches of 4000, want %d or one more; %v", done, most, err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if done, err := l.Endure(stopped, p, abi.Gate, 1, 4000); done != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped after %d batches: %v", done, err)
	}
}

func TestOpenRefusesABadConfiguration(t *testing.T) {
	_, err := kit.Open(context.Background(), kit.Compiled(compile(t, shipped(t))), kit.Options{Name: "standard", Config: []byte(`{"gate":"nonsense"}`)})
	var f *plugins.Fault
	if !errors.Is(err, plugins.ErrRejected) || !errors.As(err, &f) || f.Policy != "standard" {
		t.Errorf("got %v", err)
	}
}

// A policy that logs, counts and keeps a state does the same in the reference as in the host, which both offer it the
// arenas: fuel and answers are equal.
func TestReferenceOffersEveryArena(t *testing.T) {
	ctx := context.Background()
	for _, language := range []string{"c", "rust", "assemblyscript", "zig"} {
		wasm, err := os.ReadFile("../../abi/testdata/frozen/v1.0/talker-" + language + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		ref, err := kit.NewReference(ctx, wasm, plugins.DefaultFuel())
		if err != nil {
			t.Fatal(err)
		}
		res, err := layout(t).Fuzz(ctx, kit.Compiled(compile(t, wasm)), ref, kit.FuzzOptions{Options: kit.Options{Name: language}, Runs: 60, Seed: 5})
		if err != nil || res.Failure != nil || res.Runs != 60 {
			t.Errorf("%s: %+v, %v", language, res, err)
		}
		if err := ref.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
