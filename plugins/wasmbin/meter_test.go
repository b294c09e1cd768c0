package wasmbin

import (
	"fmt"
	"math"
	"testing"
)

// exact charges for each instruction as often as it runs.
func exact() Costs {
	c := DefaultCosts()
	c.Slack = 0
	return c
}

// counting is f0(n): a loop that runs n times and returns the sum of 1 to n.
func counting() fn {
	return fn{types(I32, 0, I32), []LocalRun{{1, I32}}, cat(
		op(opBlock, blockEmpty, opLoop, blockEmpty),
		get(0), op(0x45), with(opBrIf, 1), // leave at 0
		get(1), get(0), op(opI32Add), set(1),
		get(0), i32(1), op(opI32Sub), set(0),
		with(opBr, 0), op(opEnd, opEnd), get(1))}
}

func TestFuelIsWhatTheCodeCosts(t *testing.T) {
	const entry = 4 // Costs.Function
	for _, tc := range []struct {
		name string
		m    *Module
		args []uint64
		want int64
	}{
		{"an empty function", one(), nil, entry},
		{"free instructions", one(op(0x01, opBlock, blockEmpty, opEnd), i32(1), op(0x1A)), nil, entry + 1},
		{"a division", one(i32(6), i32(3), op(0x6D, 0x1A)), nil, entry + 2 + 8},
		{"a loop that is left at once", build(counting()), []uint64{0}, entry + 3 + 1},
		{"ten rounds", build(counting()), []uint64{10}, entry + 10*(3+9) + 3 + 1},
		{"a branch not taken", build(fn{types(I32, 0), nil, cat(get(0), op(opIf, blockEmpty), i32(1), op(0x1A, opElse), i32(1), i32(2), op(0x1A, 0x1A, opEnd), i32(1), op(0x1A))}), []uint64{1}, entry + 2 + 1 + 1},
		{"the other arm", build(fn{types(I32, 0), nil, cat(get(0), op(opIf, blockEmpty), i32(1), op(0x1A, opElse), i32(1), i32(2), op(0x1A, 0x1A, opEnd), i32(1), op(0x1A))}), []uint64{0}, entry + 2 + 2 + 1},
		{"an end that only a branch reaches", build(fn{types(I32, 0), nil, cat(get(0), op(opIf, blockEmpty, opBr, 0, opElse, opReturn, opEnd), i32(1), op(0x1A))}), []uint64{1}, entry + 2 + 1 + 1},
		{"return", one(i32(0), op(0x1A, opReturn), i32(1), op(0x1A)), nil, entry + 2},
		{"a call", build(fn{types(0), nil, call(1)}, fn{types(0), nil, nil}), nil, entry + 4 + entry},
		{"locals", build(fn{types(0), []LocalRun{{9, I64}}, nil}), nil, entry + 2},
		{"filling 800 bytes", one(i32(0), i32(1), i32(800), op(0xFC, 11, 0)), nil, entry + 3 + 16 + 100},
		{"copying 807 bytes", one(i32(0), i32(1), i32(807), op(0xFC, 10, 0, 0)), nil, entry + 3 + 16 + 100},
		{"growing by two pages", one(i32(2), op(opMemoryGrow, 0, 0x1A)), nil, entry + 1 + 16 + 2*8192},
		{"growing that fails", one(i32(99), op(opMemoryGrow, 0, 0x1A)), nil, entry + 1 + 16 + 99*8192},
		{"size of the memory", one(op(0x3F, 0, 0x1A)), nil, entry + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wasm := metered(t, again(t, tc.m), exact())
			for engine, cfg := range engines() {
				o := runOnce(t, cfg, wasm, "f0", 1<<40, tc.args...)
				if got := 1<<40 - o.fuel; o.trap != "" || got != tc.want {
					t.Errorf("%s: spent %d, want %d; trap %q", engine, got, tc.want, o.trap)
				}
				if o.depth != 0 {
					t.Errorf("%s: depth %d after the call", engine, o.depth)
				}
				// With just enough it runs; with one less it stops, and says why.
				if o := runOnce(t, cfg, wasm, "f0", tc.want, tc.args...); o.trap != "" || o.fuel != 0 {
					t.Errorf("%s: with %d: trap %q, %d left", engine, tc.want, o.trap, o.fuel)
				}
				if o := runOnce(t, cfg, wasm, "f0", tc.want-1, tc.args...); o.trap != "wasm error: unreachable" || o.fuel >= 0 {
					t.Errorf("%s: with %d: trap %q, %d left", engine, tc.want-1, o.trap, o.fuel)
				}
			}
		})
	}
}

func TestNothingRunsWithoutABudget(t *testing.T) {
	wasm := metered(t, again(t, one(i32(0), i32(1), op(0x36, 2, 0))), DefaultCosts())
	for engine, cfg := range engines() {
		i := instantiate(t, cfg, wasm)
		if _, err := i.module.ExportedFunction("f0").Call(t.Context()); err == nil {
			t.Errorf("%s: it ran", engine)
		}
		if v, _ := i.module.Memory().ReadUint32Le(0); v != 0 {
			t.Errorf("%s: it wrote %d before it stopped", engine, v)
		}
		i.close()
	}
}

// What stops a module for want of fuel stops it before the code that is not paid for.
func TestABlockIsPaidBeforeItRuns(t *testing.T) {
	body := cat(i32(0), i32(7), op(0x36, 2, 0))
	for name, m := range map[string]*Module{
		"fill":     one(body, i32(64), i32(255), i32(65000), op(0xFC, 11, 0)),
		"copy":     one(body, i32(64), i32(0), i32(65000), op(0xFC, 10, 0, 0)),
		"division": one(body, i32(64), i32(1), i32(1), op(0x6D), op(0x36, 2, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			wasm := metered(t, again(t, m), exact())
			for engine, cfg := range engines() {
				need := 1<<40 - runOnce(t, cfg, wasm, "f0", 1<<40).fuel
				i := instantiate(t, cfg, wasm)
				if o := i.run(t, "f0", need-1); o.trap == "" || o.fuel >= 0 {
					t.Errorf("%s: trap %q, fuel %d", engine, o.trap, o.fuel)
				}
				if v, _ := i.module.Memory().ReadUint32Le(64); v != 0 {
					t.Errorf("%s: it wrote %#x without paying", engine, v)
				}
				i.close()
			}
		})
	}
}

func TestDepth(t *testing.T) {
	c := DefaultCosts()
	// f0(n) calls itself n times.
	self := fn{types(I32, 0, I32), nil, cat(get(0), op(opIf, byte(I32)), get(0), i32(1), op(opI32Sub), call(0), i32(1), op(opI32Add, opElse), i32(0), op(opEnd))}
	wide := self
	wide.locals = []LocalRun{{95, I64}}
	// f0(n) calls f1(n), which calls f0(n-1) through the table.
	mutual := build(
		fn{types(I32, 0, I32), nil, cat(get(0), op(opIf, byte(I32)), get(0), call(1), i32(1), op(opI32Add, opElse), i32(0), op(opEnd))},
		fn{types(I32, 0, I32), nil, cat(get(0), i32(1), op(opI32Sub), i32(0), op(opCallIndirect, 0, 0))})
	mutual.Tables, mutual.Elements = []Limit{{Min: 1}}, []Element{{cat(i32(0), op(opEnd)), []uint32{0}}}
	for _, tc := range []struct {
		name   string
		m      *Module
		frames uint64 // that n calls take, for each of n
		units  uint64 // a frame
	}{
		{"recursion", build(self), 1, 1},
		{"frames of many locals", build(wide), 1, 4},
		{"mutual recursion", mutual, 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wasm := metered(t, again(t, tc.m), c)
			most := uint64(c.Depth) / tc.units / tc.frames
			for engine, cfg := range engines() {
				if o := runOnce(t, cfg, wasm, "f0", 1<<40, most-1); o.trap != "" || o.depth != 0 || o.results[0] != most-1 {
					t.Errorf("%s: %d calls: %+v", engine, most-1, o)
				}
				for _, n := range []uint64{most, math.MaxUint32} {
					if o := runOnce(t, cfg, wasm, "f0", 1<<40, n); o.trap != "wasm error: unreachable" || o.depth <= c.Depth || o.fuel < 0 {
						t.Errorf("%s: %d calls: trap %q, depth %d, fuel %d", engine, n, o.trap, o.depth, o.fuel)
					}
				}
			}
		})
	}
}

// Loop-free code can call for a long time too.
func TestCallBomb(t *testing.T) {
	var fns []fn
	for i := range uint32(10) {
		fns = append(fns, fn{types(0), nil, cat(call(i+1), call(i+1))})
	}
	wasm := metered(t, again(t, build(append(fns, fn{types(0), nil, nil})...)), DefaultCosts())
	var left []int64
	for engine, cfg := range engines() {
		o := runOnce(t, cfg, wasm, "f0", 5_000)
		if o.trap == "" || o.fuel >= 0 {
			t.Errorf("%s: %+v", engine, o)
		}
		left = append(left, runOnce(t, cfg, wasm, "f0", 1<<20).fuel)
	}
	if left[0] != left[1] || left[0] <= 0 || left[0] == 1<<20 {
		t.Errorf("fuel left %d", left)
	}
}

// Operations whose NaN the engine may choose give one and the same; operations on bits keep theirs.
func TestNaNsAreCanonical(t *testing.T) {
	const (
		nan32, other32 = 0x7FC00000, 0xFFC01234
		nan64, other64 = 0x7FF8000000000000, 0xFFF8000000001234
	)
	bits32 := func(v uint32) []byte { return cat(i32(int32(v)), op(0xBE)) }
	bits64 := func(v uint64) []byte { return cat(i64(int64(v)), op(0xBF)) }
	var f32s, f64s = map[string][]byte{}, map[string][]byte{}
	for o := byte(0x8D); o <= 0x91; o++ { // ceil to sqrt
		f32s[fmt.Sprintf("%#x", o)] = cat(bits32(other32), op(o))
		f64s[fmt.Sprintf("%#x", o+14)] = cat(bits64(other64), op(o+14))
	}
	for o := byte(0x92); o <= 0x97; o++ { // add to max
		f32s[fmt.Sprintf("%#x", o)] = cat(bits32(other32), bits32(0xFF801111), op(o))
		f32s[fmt.Sprintf("%#x of a number", o)] = cat(f32(1), bits32(other32), op(o))
		f64s[fmt.Sprintf("%#x", o+14)] = cat(bits64(other64), bits64(0xFFF0000000001111), op(o+14))
		f64s[fmt.Sprintf("%#x of a number", o+14)] = cat(bits64(other64), f64(1), op(o+14))
	}
	f32s["sqrt of a negative number"] = cat(f32(-1), op(0x91))
	f32s["0/0"] = cat(f32(0), f32(0), op(0x95))
	f64s["inf-inf"] = cat(f64(math.Inf(1)), f64(math.Inf(1)), op(0xA1))
	f32s["demote"] = cat(bits64(other64), op(0xB6))
	f64s["promote"] = cat(bits32(other32), op(0xBB))
	check := func(name string, m *Module, want uint64) {
		wasm := metered(t, again(t, m), DefaultCosts())
		for engine, cfg := range engines() {
			if o := runOnce(t, cfg, wasm, "f0", 1<<20); o.trap != "" || o.results[0] != want {
				t.Errorf("%s: %s: %+v, want %x", engine, name, o, want)
			}
		}
	}
	for name, code := range f32s {
		check(name, build(fn{types(0, I32), nil, cat(code, op(0xBC))}), nan32)
	}
	for name, code := range f64s {
		check(name, build(fn{types(0, I64), nil, cat(code, op(0xBD))}), nan64)
	}
	check("f32.neg", build(fn{types(0, I32), nil, cat(bits32(other32), op(0x8C, 0xBC))}), other32^1<<31)
	check("f32.abs", build(fn{types(0, I32), nil, cat(bits32(0xFF801234), op(0x8B, 0xBC))}), 0x7F801234)
	check("f32.copysign", build(fn{types(0, I32), nil, cat(bits32(0x7FC01234), f32(-1), op(0x98, 0xBC))}), other32)
	check("f64.neg", build(fn{types(0, I64), nil, cat(bits64(other64), op(0x9A, 0xBD))}), other64^1<<63)
	check("f64.copysign", build(fn{types(0, I64), nil, cat(bits64(0x7FF8000000001234), f64(-1), op(0xA6, 0xBD))}), other64)
	check("a number", build(fn{types(0, I64), nil, cat(f64(1.5), f64(2), op(0xA2, 0xBD))}), math.Float64bits(3))
	check("minus zero", build(fn{types(0, I64), nil, cat(f64(math.Copysign(0, -1)), f64(1), op(0xA2, 0xBD))}), 1<<63)
}

func TestMeterKeepsItsInput(t *testing.T) {
	wasm := readShipped(t)
	m, err := Decode(wasm)
	if err != nil {
		t.Fatal(err)
	}
	before := m.Encode()
	first := metered(t, m, DefaultCosts())
	if string(m.Encode()) != string(before) {
		t.Error("metering changed the module")
	}
	if string(metered(t, m, DefaultCosts())) != string(first) {
		t.Error("metering twice gives two modules")
	}
	d := again(t, m)
	if string(metered(t, d, DefaultCosts())) != string(first) {
		t.Error("metering depends on how the module was written")
	}
	t.Logf("%d bytes, metered %d", len(wasm), len(first))
}

func TestWhatMeterRefuses(t *testing.T) {
	bad := func(f func(c *Costs)) Costs {
		c := DefaultCosts()
		f(&c)
		return c
	}
	start := one()
	start.Start = 0
	name := one()
	name.Exports[1].Name = GlobalFuel
	short := one()
	short.Bodies = nil
	for _, tc := range []struct {
		name string
		m    *Module
		c    Costs
		rule string
	}{
		{"free instructions", one(), bad(func(c *Costs) { c.Plain = 0 }), "costs"},
		{"costs that overflow", one(), bad(func(c *Costs) { c.Bulk = math.MaxInt64 }), "costs"},
		{"a shift of 40", one(), bad(func(c *Costs) { c.Page = 40 }), "costs"},
		{"no depth", one(), bad(func(c *Costs) { c.Depth = 0 }), "costs"},
		{"negative slack", one(), bad(func(c *Costs) { c.Slack = -1 }), "costs"},
		{"a start function", start, DefaultCosts(), "start_section"},
		{"our names", name, DefaultCosts(), "reserved_name"},
		{"bodies missing", short, DefaultCosts(), RuleMalformed},
		{"a global of ours", one(i64(1), with(opGlobalSet, 0)), DefaultCosts(), RuleMalformed},
		{"a local of ours", one(get(0), op(0x1A)), DefaultCosts(), RuleMalformed},
		{"SIMD", one(op(0xFD, 12)), DefaultCosts(), RuleFeature},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Meter(tc.m, tc.c)
			wantError(t, err, tc.rule)
		})
	}
}

func BenchmarkPrepareShipped(b *testing.B) {
	wasm := readShipped(b)
	for b.Loop() {
		m, err := Decode(wasm)
		if err != nil {
			b.Fatal(err)
		}
		if err := Verify(m, shippedLimits(m)); err != nil {
			b.Fatal(err)
		}
		if _, err := Meter(m, DefaultCosts()); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(wasm)))
}
