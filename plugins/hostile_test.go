package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/wasmbin"
)

// hostile is one module of testdata/hostile. The .wat beside the binary says in words and text what it does; both come from
// this list: go test ./plugins -run Hostile -rewrite.
type hostile struct {
	name  string
	wasm  []byte
	rule  string             // the rule that refuses it, or
	class plugins.FaultClass // how its call ends, or
	works bool               // it answers
	words []string           // of the refusal or fault

	hooks   []abi.Hook // that it answers so, each in a set of its own; nil: gate
	records int        // of its batches, 3 where it is 0
	answer  [5]string  // by hook, in the words of answers, what stands where it works; "": anything

	said func(s *plugins.Stats, lines []line) string // what is wrong with what is heard of it in three calls; nil: nobody listens
}

const (
	hostilePages = 64 // most memory of a hostile module: 4 MiB
	hostileFuel  = 3_000_000
)

// policyOf is the smallest policy with a gate: two fixed arenas and a memory.
func policyOf(gate []byte, more ...wasmbin.Body) *wasmbin.Module {
	return policyFor(hookBodies{abi.Gate: gate}, more...)
}

// hookBodies are the bodies of a policy's hooks, without their last end; nil for one that it does not answer.
type hookBodies [abi.Score + 1][]byte

// policyFor is policyOf for any hooks. The first one is function 3.
func policyFor(hooks hookBodies, more ...wasmbin.Body) *wasmbin.Module {
	types := []wasmbin.FuncType{
		{Params: []wasmbin.ValueType{wasmbin.I32, wasmbin.I32}, Results: []wasmbin.ValueType{wasmbin.I32}},
		{Params: []wasmbin.ValueType{wasmbin.I32}, Results: []wasmbin.ValueType{wasmbin.I32}},
		{},
		{Params: []wasmbin.ValueType{wasmbin.I32}},
	}
	m := &wasmbin.Module{Start: -1, DataCount: -1, Types: types, Memories: []wasmbin.Limit{{Min: 8}}}
	add := func(name string, typ uint32, code []byte) {
		m.Exports = append(m.Exports, wasmbin.Export{Name: name, Index: uint32(len(m.Functions))})
		m.Functions = append(m.Functions, typ)
		m.Bodies = append(m.Bodies, wasmbin.Body{Code: append(slices.Clip(code), opEnd)})
	}
	add("sluice_abi_1", typeNothing, []byte{})
	add("sluice_arena", typeArena, fixedArenas())
	add("sluice_configure", typeEntry, i32(0))
	for h, code := range hooks {
		if code != nil {
			add(abi.Hook(h).Export(), typeEntry, code)
		}
	}
	m.Exports = append(m.Exports, wasmbin.Export{Name: "memory", Kind: wasmbin.KindMemory})
	for _, b := range more {
		m.Functions, m.Bodies = append(m.Functions, 2), append(m.Bodies, b)
	}
	return m
}

func body(parts ...[]byte) wasmbin.Body {
	return wasmbin.Body{Code: append(code(parts...), opEnd)}
}

// changed is a policy that answers 0, changed.
func changed(f func(m *wasmbin.Module)) []byte {
	m := policyOf(i32(0))
	f(m)
	return m.Encode()
}

// again is code that runs for ever.
func again(parts ...[]byte) []byte {
	return code(op(opLoop, 0x40), code(parts...), op(opBr, 0, opEnd), i32(0))
}

// bomb is n functions of which each calls the next twice.
func bomb(n byte) []byte {
	var more []wasmbin.Body
	for i := range n - 1 {
		more = append(more, body(op(opCall, 5+i, opCall, 5+i)))
	}
	return policyOf(code(op(opCall, 4), i32(0)), append(more, body())...).Encode()
}

func wasi(name string, typ uint32) []wasmbin.Import {
	return []wasmbin.Import{{Module: "wasi_snapshot_preview1", Name: name, Type: typ}}
}

// shifted is a policy with one import, which takes the function index 0.
func shifted(imports []wasmbin.Import, gate []byte) []byte {
	m := policyOf(gate)
	m.Imports = imports
	for i := range m.Exports {
		if m.Exports[i].Kind == wasmbin.KindFunction {
			m.Exports[i].Index++
		}
	}
	return m.Encode()
}

// floods is how many entries a flood of the log writes in a call.
const floods = 100_000

// talkative is a policy that answers 0 after some code, with a LOG and a COUNTERS arena.
func talkative(log, counters int32, gate []byte) []byte {
	m := policyOf(code(gate, i32(0)))
	m.Bodies[1] = body(talkingArenas(log, counters))
	return m.Encode()
}

// unless is what is wrong where ok is false.
func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return "want " + want
}

func corpus() []hostile {
	const (
		opLocalSet     = 0x21
		opGlobalSet    = 0x24
		opReturnCall   = 0x12
		opF32Div       = 0x95
		opF32Add       = 0x92
		opReinterpret  = 0xBE // f32.reinterpret_i32
		opCallIndirect = 0x11
		fill           = 0x0B
		move           = 0x0A
	)
	whole := policyOf(i32(0)).Encode()
	f32 := func(bits int32) []byte { return code(i32(bits), op(opReinterpret)) }
	// outFloat stores what is computed as the aux word of the first record.
	outFloat := func(value []byte) []byte {
		return code(op(opLocalGet, 0, opLocalGet, 0, opI32Load, 2, 48, opI32Add), value, op(0x38, 2, 4))
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)-3] ^= 0x20 // the gate's i32.const becomes f64.eq, with nothing to compare
	table := &wasmbin.Module{Start: -1, DataCount: -1, Types: []wasmbin.FuncType{{}}, Functions: []uint32{0}, Tables: []wasmbin.Limit{{Min: 100_000_000}},
		Memories: []wasmbin.Limit{{Min: 1}}, Exports: []wasmbin.Export{{Name: "memory", Kind: wasmbin.KindMemory}}, Bodies: []wasmbin.Body{body()}}
	return append(outOfContract(), []hostile{
		{name: "endless_loop", wasm: policyOf(again()).Encode(), class: plugins.FaultOutOfFuel, words: []string{"3000000 units", "3 records"}},
		{name: "endless_configure", wasm: changed(func(m *wasmbin.Module) { m.Bodies[2] = body(again()) }), rule: "configure", words: []string{"out_of_fuel"}},
		{name: "endless_initialize", wasm: changed(func(m *wasmbin.Module) {
			m.Functions, m.Bodies = append(m.Functions, 2), append(m.Bodies, body(op(opLoop, 0x40, opBr, 0, opEnd)))
			m.Exports = append(m.Exports, wasmbin.Export{Name: "_initialize", Index: 4})
		}), rule: "start", words: []string{"out_of_fuel"}},
		{name: "endless_arena", wasm: changed(func(m *wasmbin.Module) {
			// The fixed arenas, but none for a batch of more than 64 KiB: that takes for ever.
			m.Bodies[1] = body(op(opLoop, 0x40, opLocalGet, 1), i32(64<<10), op(0x4B, opBrIf, 0, opEnd), fixedArenas())
		}), class: plugins.FaultOutOfFuel, words: []string{"sluice_arena"}, records: 3_000},
		{name: "start_bomb", wasm: changed(func(m *wasmbin.Module) {
			m.Functions, m.Bodies, m.Start = append(m.Functions, 2), append(m.Bodies, body(op(opLoop, 0x40, opBr, 0, opEnd))), 4
		}), rule: "start_section", words: []string{"function 4", "_initialize"}},
		{name: "call_bomb", wasm: bomb(30), class: plugins.FaultOutOfFuel},
		{name: "deep_recursion", wasm: policyOf(code(op(opCall, 4), i32(0)), body(op(opCall, 4))).Encode(), class: plugins.FaultStackDepth, words: []string{"400"}},
		{name: "indirect_recursion", wasm: changed(func(m *wasmbin.Module) {
			m.Tables = []wasmbin.Limit{{Min: 1}}
			m.Elements = []wasmbin.Element{{Offset: code(i32(0), op(opEnd)), Functions: []uint32{4}}}
			m.Functions, m.Bodies = append(m.Functions, 2), append(m.Bodies, body(i32(0), op(opCallIndirect, 2, 0)))
			m.Bodies[3] = body(op(opCall, 4), i32(0))
		}), class: plugins.FaultStackDepth},
		{name: "wide_recursion", wasm: func() []byte {
			b := body(op(opCall, 4))
			b.Locals = []wasmbin.LocalRun{{N: 1000, Type: wasmbin.I64}}
			return policyOf(code(op(opCall, 4), i32(0)), b).Encode()
		}(), class: plugins.FaultStackDepth},
		{name: "huge_table", wasm: table.Encode(), rule: "table", words: []string{"100000000"}},
		{name: "huge_locals", wasm: func() []byte {
			b := body()
			b.Locals = []wasmbin.LocalRun{{N: 1 << 31, Type: wasmbin.I64}, {N: 1 << 31, Type: wasmbin.I64}}
			return policyOf(i32(0), b).Encode()
		}(), rule: "locals", words: []string{"function 4"}},
		{name: "compile_bomb", wasm: func() []byte {
			const locals = 990
			b := wasmbin.Body{Locals: []wasmbin.LocalRun{{N: locals, Type: wasmbin.I32}}}
			for i := range 200 {
				b.Code = append(b.Code, code(op(opLoop, 0x40, opLocalGet), uleb(i), op(opLocalGet), uleb(i+7), op(opI32Add, opLocalSet), uleb(i+3), op(opLocalGet), uleb(i), op(opBrIf, 0, opEnd))...)
			}
			b.Code = append(b.Code, opEnd)
			return policyOf(i32(0), b).Encode()
		}(), rule: "joins", words: []string{"function 4", "split"}},
		{name: "huge_memory", wasm: changed(func(m *wasmbin.Module) { m.Memories[0].Min = 65536 }), rule: "memory", words: []string{"65536", "memory_pages"}},
		{name: "grow_storm", wasm: policyOf(again(i32(1), op(opGrow, 0, opDrop))).Encode(), class: plugins.FaultOutOfFuel},
		{name: "grow_to_the_limit", wasm: policyOf(code(
			// Take a page, write to it, until there is none.
			op(opLoop, 0x40), i32(1), op(opGrow, 0), i32(0), op(0x4E), // >= 0
			op(opIf, 0x40), op(0x3F, 0), i32(16), op(0x74), i32(-65536), op(opI32Add), i32(255), i32(65536), op(0xFC, fill, 0), op(opBr, 1, opEnd, opEnd),
			i32(0))).Encode(), class: plugins.FaultMemoryGrowth, words: []string{"64 pages"}},
		{name: "fill_storm", wasm: policyOf(again(i32(0), i32(255), i32(8<<16), op(0xFC, fill, 0))).Encode(), class: plugins.FaultOutOfFuel},
		{name: "copy_storm", wasm: policyOf(again(i32(0), i32(1), i32(8<<16-1), op(0xFC, move, 0, 0))).Encode(), class: plugins.FaultOutOfFuel},
		{name: "random_storm", wasm: shifted(wasi("random_get", 0), again(
			// Count the calls at 512, so that a test can see how many there were.
			i32(512), i32(512), op(opI32Load, 2, 0), i32(1), op(opI32Add, opI32Store, 2, 0),
			i32(1024), i32(7<<16), op(opCall, 0, opDrop))), class: plugins.FaultOutOfFuel},
		{name: "last_call", wasm: shifted(wasi("random_get", 0), code(i32(1024), i32(0), op(opCall, 0, opDrop), i32(0))), works: true},
		{name: "out_of_bounds", wasm: policyOf(code(i32(-4), op(opI32Load, 2, 0))).Encode(), class: plugins.FaultTrap, words: []string{"out of bounds"}},
		{name: "data_out_of_bounds", wasm: changed(func(m *wasmbin.Module) {
			m.Data = []wasmbin.Data{{Offset: code(i32(-1), op(opEnd)), Bytes: []byte("x")}}
		}), rule: "bounds", words: []string{"segment 0"}},
		{name: "nan", wasm: policyOf(code(outFloat(code(f32(-0x3FEDCC), f32(0x7F801111), op(opF32Add), f32(0), f32(0), op(opF32Div, opF32Add))), i32(0))).Encode(), works: true},
		{name: "log_ring_flood", wasm: talkative(logAt, countersAt, code(i32(900), i32(floods), op(opI32Store, 2, 0), op(opLoop, 0x40), wrote(1),
			i32(900), i32(900), op(opI32Load, 2, 0), i32(-1), op(opI32Add, opI32Store, 2, 0), i32(900), op(opI32Load, 2, 0, opBrIf, 0, opEnd))), works: true,
			said: func(s *plugins.Stats, lines []line) string {
				return unless(len(lines) == plugins.DefaultLogBurst && s.Lines+s.LinesLimited == 3*abi.LogEntries && s.LinesLost == 3*(floods-abi.LogEntries),
					"a burst, with all others counted")
			}},
		{name: "log_arena_lies", wasm: talkative(65536, countersAt, code(op(opLocalGet, 0), i32(-1), op(opI32Store, 2, 0))), works: true,
			said: func(s *plugins.Stats, lines []line) string {
				return unless(len(lines) <= plugins.DefaultLogBurst && s.Lines+s.LinesLimited <= 3*abi.LogEntries, "no more than the ring holds")
			}},
		{name: "log_arena_outside", wasm: talkative(8<<16-8192, countersAt, nil), rule: "arena", words: []string{"log arena at 0x7e000", "8208 bytes"}},
		{name: "log_entry_lies", wasm: talkative(8<<16-8208, countersAt, code(i32(8<<16-8208), i32(abi.LogEntries), op(opI32Store, 2, 0),
			i32(8<<16-8192), i32(255), i32(8192), op(0xFC, fill, 0))), works: true,
			said: func(s *plugins.Stats, lines []line) string {
				if len(lines) != plugins.DefaultLogBurst || s.LinesLost != 0 {
					return "want a burst"
				}
				l := lines[len(lines)-1]
				return unless(l.level == slog.LevelError && l.text == strings.Repeat(`\xff`, abi.LogTextBytes), "a line that is cut and escaped")
			}},
		{name: "log_goes_back", wasm: talkative(logAt, countersAt, wrote(-1)), works: true,
			said: func(s *plugins.Stats, lines []line) string {
				return unless(len(lines) == 0 && s.Lines+s.LinesLimited+s.LinesLost == 0, "nothing")
			}},
		{name: "counters_fall", wasm: talkative(logAt, countersAt, code(i32(countersAt), i32(countersAt), op(opI32Load, 2, 0, opI32Eqz), i32(1000), op(opI32Mul),
			i32(countersAt), op(opI32Load, 2, 0), i32(1), op(0x76, opI32Add, opI32Store, 2, 0))), works: true, // 0: 1000, else half as many
			said: func(s *plugins.Stats, lines []line) string {
				return unless(s.Counters[0] == 1000 && len(lines) == 0, "the most it ever was")
			}},
		{name: "counters_overflow", wasm: talkative(logAt, countersAt, code(i32(countersAt+8), op(opI64Const, 0x7F),
			i32(countersAt+8), op(0x29, 3, 0, 0x7D, 0x37, 3, 0))), works: true, // the largest, and 0, in turn
			said: func(s *plugins.Stats, lines []line) string {
				return unless(s.Counters[1] == math.MaxUint64 && len(lines) == 0, "the largest number")
			}},
		spilledRemainder(),
		{name: "exit", wasm: shifted(wasi("proc_exit", 3), code(i32(0), op(opCall, 0), i32(0))), class: plugins.FaultTrap, words: []string{"exit 0"}},
		{name: "command", wasm: changed(func(m *wasmbin.Module) { m.Exports = append(m.Exports, wasmbin.Export{Name: "_start", Index: 0}) }), rule: "command", words: []string{"-buildmode=c-shared"}},
		{name: "wasi_abuse", wasm: shifted(wasi("path_open", 2), i32(0)), rule: "import", words: []string{"path_open", "no files"}},
		{name: "imported_memory", wasm: changed(func(m *wasmbin.Module) {
			m.Imports = []wasmbin.Import{{Module: "env", Name: "memory", Kind: wasmbin.KindMemory, Limit: wasmbin.Limit{Min: 1}}}
			m.Memories = nil
		}), rule: "import", words: []string{"memory"}},
		{name: "refuel", wasm: policyOf(code(op(opI64Const, 0xC0, 0, opGlobalSet, 0), i32(0))).Encode(), rule: "not_wasm", words: []string{"global 0", "there are 0"}},
		{name: "reserved_name", wasm: changed(func(m *wasmbin.Module) {
			m.Globals = []wasmbin.Global{{Type: wasmbin.I64, Mutable: true, Init: []byte{opI64Const, 0, opEnd}}}
			m.Exports = append(m.Exports, wasmbin.Export{Name: "sluice_fuel", Kind: wasmbin.KindGlobal})
		}), rule: "reserved_name", words: []string{"sluice_fuel", "rename"}},
		{name: "tail_call", wasm: policyOf(code(op(opCall, 4), i32(0)), body(op(opReturnCall, 4))).Encode(), rule: "feature", words: []string{"tail calls"}},
		{name: "simd", wasm: policyOf(code(op(0xFD, 12), make([]byte, 16), op(opDrop), i32(0))).Encode(), rule: "feature", words: []string{"SIMD"}},
		{name: "truncated", wasm: whole[:len(whole)-7], rule: "not_wasm", words: []string{"truncated"}},
		{name: "bit_flipped", wasm: flipped, rule: "not_wasm", words: []string{"function 3"}},
	}...)
}

// spilledRemainder is a module that wazero v1.12.0 compiles wrongly for arm64 (its issue 2516): while a remainder is taken
// with more values alive than there are registers, its quotient is moved to the stack from a place where it was never
// stored, and the dividend comes out. The load vectors must keep the module out there, and only there.
func spilledRemainder() hostile {
	const (
		opLocalSet = 0x21
		opMul      = 0x6C
		opRemU     = 0x70
		opXor      = 0x73
		alive      = 30
		x, v, r    = 1, 2, 2 + alive // locals: a value from the batch, those alive, the remainder
	)
	get := func(l int) []byte { return code(op(opLocalGet), uleb(l)) }
	set := func(l int) []byte { return code(op(opLocalSet), uleb(l)) }
	gate := code(op(opLocalGet, 0, opLocalGet, 0, opI32Load, 2, 40, opI32Add, opI32Load, 2, 0), set(x)) // the first record's key
	for i := range alive {
		gate = code(gate, get(x), i32(int32(1000+i)), op(opI32Add), i32(int32(7+3*i)), op(opMul), set(v+i))
	}
	gate = code(gate, get(v), i32(60), op(opRemU), set(r))
	// Where the answer goes is below what the locals are mixed to.
	gate = code(gate, op(opLocalGet, 0, opLocalGet, 0, opI32Load, 2, 48, opI32Add), get(x))
	for _, mix := range [][]byte{op(opI32Add), op(opXor)} {
		for i := alive - 1; i >= 0; i-- {
			gate = code(gate, i32(31), op(opMul), get(v+i), mix)
		}
		gate = code(gate, i32(17), op(opMul), get(r), mix)
	}
	gate = code(gate, op(opI32Store, 2, 4), i32(0))
	h := hostile{name: "spilled_remainder", works: true, wasm: changed(func(m *wasmbin.Module) {
		m.Bodies[3] = wasmbin.Body{Locals: []wasmbin.LocalRun{{N: 1 + alive + 1, Type: wasmbin.I32}}, Code: append(gate, opEnd)}
	})}
	if runtime.GOARCH == "arm64" {
		h.works, h.rule, h.words = false, "vectors", []string{"answers differ"}
	}
	return h
}

func TestHostileCorpus(t *testing.T) {
	const dir = "testdata/hostile"
	known := map[string]bool{}
	for _, h := range corpus() {
		known[h.name] = true
		t.Run(h.name, func(t *testing.T) {
			path := filepath.Join(dir, h.name+".wasm")
			if *rewrite {
				if err := os.WriteFile(path, h.wasm, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(wasm, h.wasm) {
				t.Fatalf("%s is not what the test assembles: run with -rewrite", path)
			}
			text, err := os.ReadFile(filepath.Join(dir, h.name+".wat"))
			if err != nil || !bytes.HasPrefix(text, []byte(";; ")) {
				t.Errorf("the text beside it: %v; it starts with a comment that says what the module does", err)
			}
			sameAsText(t, filepath.Join(dir, h.name+".wat"), wasm)
			h.run(t)
		})
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(strings.TrimSuffix(f.Name(), ".wat"), ".wasm"); !known[name] {
			t.Errorf("%s belongs to no test", f.Name())
		}
	}
}

// Whatever a flipped bit makes of a policy, it is refused, or answers, or fails within its fuel.
func TestEveryFlippedBitIsHarmless(t *testing.T) {
	ctx := context.Background()
	whole := policyOf(code(outByte(0, 2), i32(0))).Encode()
	refused, ran := 0, 0
	for bit := 64; bit < 8*len(whole); bit += 5 {
		bad := slices.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		host := plugins.NewHost(plugins.Options{MemoryPages: hostilePages, Fuel: plugins.Fuel{Base: 10_000}})
		set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: bad}}, abi.HostInfo{})
		if err != nil {
			if !errors.Is(err, plugins.ErrRejected) {
				t.Errorf("bit %d: %v", bit, err)
			}
			refused++
		} else {
			_, encode, _ := inputs(abi.Gate)
			if _, err := set.Gate.Run(1, 1, 3, 3, encode); err != nil {
				t.Errorf("bit %d: %v", bit, err)
			}
			closing(t, set.Close)
			ran++
		}
		closing(t, host.Close)
	}
	if refused == 0 || ran == 0 {
		t.Errorf("%d refused, %d ran: both were to be seen", refused, ran)
	}
}

// Ten thousand instances that trap and are replaced leave no goroutine, mapping or memory behind, whether a spare stood
// beside them or not.
func TestTrapsLeaveNothingBehind(t *testing.T) {
	// The policy answers its first call, and does not come back from the second.
	second := code(raise(0, 1), i32(countersAt), op(opI32Load, 2, 0), i32(2), op(opI32Eq, opIf, 0x40), again(), op(opDrop, opEnd), i32(0))
	for _, tc := range []struct {
		name  string
		gate  []byte
		calls int // of an instance
	}{{"at the first call", again(), 1}, {"with a spare", second, 2}} {
		t.Run(tc.name, func(t *testing.T) { leaveNothing(t, tc.gate, tc.calls) })
	}
}

func leaveNothing(t *testing.T, gate []byte, calls int) {
	t.Helper()
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{MemoryPages: hostilePages, Fuel: plugins.Fuel{Base: 2_000}})
	defer closing(t, host.Close)
	set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: policyOf(gate).Encode()}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	_, encode, _ := inputs(abi.Gate)
	fail := func(n int) {
		for i := range n {
			for call := range calls {
				a, err := set.Gate.Run(uint64(i), 1, 3, 3, encode)
				if err != nil || (a.Fault != nil) != (call == calls-1) || a.Native != (a.Fault != nil) || a.Fault != nil && a.Fault.Class != plugins.FaultOutOfFuel {
					t.Fatal(err, a.Fault)
				}
				if err := set.Gate.Refresh(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fail(100)
	goroutines, mappings, live, instances := runtime.NumGoroutine(), countMappings(t), liveBytes(), host.Live()
	fail(10_000)
	// Mappings that lie side by side are one to the system, and no memory of an instance is on the heap.
	if n := host.Live(); n != instances || n == 0 {
		t.Errorf("%d instances have a memory, %d before", n, instances)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	// The collector takes and gives mappings of its own.
	if n := countMappings(t); n > mappings+50 {
		t.Errorf("%d mappings, %d before", n, mappings)
	}
	// What is live, not the process's peak: when the collector runs is no leak. A hundred bytes
	// kept per trap would be seen.
	if grown := liveBytes() - live; grown > 1<<20 {
		t.Errorf("%d more bytes are live", grown)
	}
}

// liveBytes is how much of the heap is reachable, pages the engine took from it included.
func liveBytes() int64 {
	var m runtime.MemStats
	// The second collection frees what the finalizers of the first let go.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// countMappings is how many pieces of address space the process has, 0 where the system does not say.
func countMappings(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// sameAsText compares a binary with its text where the machine can read text, and where the text describes a module.
func sameAsText(t *testing.T, wat string, wasm []byte) {
	t.Helper()
	tool, err := exec.LookPath("wasm-tools")
	if err != nil {
		return
	}
	text, err := os.ReadFile(wat)
	if err != nil || !bytes.Contains(text, []byte("(module")) {
		return
	}
	out := filepath.Join(t.TempDir(), "out.wasm")
	if said, err := exec.Command(tool, "parse", wat, "-o", out).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", wat, err, said)
	}
	built, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	a, errA := wasmbin.Decode(wasm)
	b, errB := wasmbin.Decode(built)
	if (errA == nil) != (errB == nil) {
		t.Fatalf("the binary: %v, its text: %v", errA, errB)
	}
	if errA != nil {
		return
	}
	a.Customs, b.Customs = nil, nil
	if !bytes.Equal(a.Encode(), b.Encode()) {
		t.Errorf("%s is not the text of the binary", wat)
	}
}

// run takes the module through its life and holds the process's growth against what its memory may be. The rest of the
// process can only add to a growth, so the least of a few lives is the nearest to the module's own.
func (h hostile) run(t *testing.T) {
	t.Helper()
	const lives = 3
	most, least := int64(hostilePages<<16+2<<20), int64(math.MaxInt64)
	if h.hooks == nil {
		h.hooks = []abi.Hook{abi.Gate}
	}
	for range lives {
		for _, hook := range h.hooks {
			least = min(least, h.live(t, hook))
		}
		if least <= most {
			return
		}
	}
	t.Errorf("the process grew by %d bytes in the best of %d lives, at most %d are allowed", least, lives, most)
}

// live loads the module for a hook and, where it loads, calls it until it was discarded and made afresh twice, and says by
// how much the process grew meanwhile, in bytes.
func (h hostile) live(t *testing.T, hook abi.Hook) (grown int64) {
	t.Helper()
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{MemoryPages: hostilePages, Fuel: plugins.Fuel{Base: hostileFuel}})
	defer closing(t, host.Close)
	warm(t, host)
	peak := watchMemory(t)
	defer func() { grown = peak() }()
	set, err := host.NewSet(ctx, []plugins.Spec{{Hook: hook, Module: h.wasm, Name: h.name}}, abi.HostInfo{})
	if h.rule != "" {
		if err == nil {
			closing(t, set.Close)
		}
		wantRefusal(t, err, h.rule, append(h.words, h.name)...)
		return grown
	}
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	log, lines := listen(slog.LevelDebug)
	r := set.Runner(hook)
	r.LogTo(log)
	defer func() {
		if s := r.Stats(); h.said != nil {
			if wrong := h.said(&s, *lines); wrong != "" {
				t.Errorf("%s; heard %v, stats %+v", wrong, *lines, s)
			}
		}
	}()
	for round := range uint64(3) {
		a := h.call(t, r, round)
		if h.works {
			if a.Fault != nil || a.Native {
				t.Fatalf("%s, round %d: %v", hook, round, a.Fault)
			}
			continue
		}
		if a.Fault == nil || a.Fault.Class != h.class || a.Fault.Hook != hook || !a.Native {
			t.Fatalf("%s, round %d: fault %v, want %v", hook, round, a.Fault, h.class)
		}
		for _, w := range append(h.words, h.name, hook.String(), h.class.String()) {
			if !strings.Contains(a.Fault.Error(), w) {
				t.Errorf("%q does not say %q", a.Fault, w)
			}
		}
		if err := r.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		r.Install() // what the ranks do together for a replicated hook
	}
	return grown
}

// call is one tick. Where the policy fails the answer is the native one.
func (h hostile) call(t *testing.T, r *plugins.Runner, tick uint64) plugins.Answer {
	t.Helper()
	if h.records > 0 {
		return runGate(t, r, gateRecords(h.records))
	}
	if !h.works {
		return wantAnswers(t, r, tick)
	}
	nOut, encode, _ := inputs(r.Hook())
	a, err := r.Run(tick, 1, 3, nOut, encode)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(answers(r.Hook(), a, nOut), ", "), h.answer[r.Hook()]; want != "" && got != want {
		t.Errorf("%s: the answer is %q, want %q", r.Hook(), got, want)
	}
	if h.name == "nan" && a.Batch.GateOut(0).Aux != 0x7FC00000 {
		t.Errorf("the NaN is %#x", a.Batch.GateOut(0).Aux)
	}
	return a
}

// warm loads a harmless module, so that what the engine keeps for ever is there before the memory is looked at.
func warm(t *testing.T, host *plugins.Host) {
	t.Helper()
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: policyOf(i32(0)).Encode()}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, set.Close)
}

// watchMemory collects what is garbage and returns a function that says by how many bytes of the machine's memory the
// process grew since, at its largest; always 0 where the system does not keep count. Garbage is collected early meanwhile:
// a collector that waits is no growth of the policy's.
func watchMemory(t *testing.T) (grown func() int64) {
	t.Helper()
	percent := debug.SetGCPercent(5)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	debug.FreeOSMemory()
	// Writing 5 makes the kernel forget the largest size until now.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil || raceDetector {
		t.Logf("memory is not measured: race detector %v, %v", raceDetector, err)
		return func() int64 { return 0 }
	}
	before := status(t, "VmRSS:")
	return func() int64 { return status(t, "VmHWM:") - before }
}

// status is a size in bytes from the kernel's account of this process.
func status(t *testing.T, field string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), field)
	words := strings.Fields(rest)
	if len(words) == 0 {
		t.Fatalf("no %s in the status of the process", field)
	}
	kib, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
