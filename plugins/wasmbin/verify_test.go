package wasmbin

import (
	"slices"
	"testing"
)

// repeat is n times the same piece of code.
func repeat(n int, piece ...byte) []byte { return slices.Repeat(piece, n) }

func TestShippedModuleIsAdmitted(t *testing.T) {
	m, err := Decode(readShipped(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(m, shippedLimits(m)); err != nil {
		t.Error(err)
	}
	wantError(t, Verify(m, DefaultLimits()), "import", "wasi_snapshot_preview1", "not served")
}

// The default limits leave Go programs that link more than the shipped one room, and none to a module that would keep a
// compiler busy for long.
func TestRoomForJoins(t *testing.T) {
	m, err := Decode(readShipped(t))
	if err != nil {
		t.Fatal(err)
	}
	l := shippedLimits(m)
	l.Joins, l.AllJoins = DefaultLimits().Joins/10, DefaultLimits().AllJoins/4
	if err := Verify(m, l); err != nil {
		t.Errorf("the shipped module has no room to grow: %v", err)
	}
	busy := fn{types(0), []LocalRun{{998, I32}}, repeat(240, opBlock, blockEmpty, opEnd)}
	wantError(t, Verify(build(slices.Repeat([]fn{busy}, 40)...), DefaultLimits()), "joins", "link less")
}

// small has limits that a test can reach.
func small() Limits {
	return Limits{
		Imports:     []ImportName{{"env", "known"}},
		MemoryPages: 4, Module: 1 << 20, Types: 4, Params: 2, Functions: 4, FunctionBytes: 200, Locals: 10, Operands: 10, Nesting: 5, Joins: 40, AllJoins: 60,
		Table: 8, Elements: 2, Entries: 3, Globals: 2, Exports: 6, Data: 2,
	}
}

func one(code ...[]byte) *Module {
	m := build(fn{types(0), nil, cat(code...)})
	m.Memories[0].Max = 4
	return m
}

func TestWhatIsAdmitted(t *testing.T) {
	table := one(i32(0), op(opCallIndirect, 0, 0x80, 0x80, 0x80, 0x80, 0x00))
	table.Tables = []Limit{{Min: 8}}
	table.Elements = []Element{{cat(i32(7), op(opEnd)), []uint32{0}}}
	data := one(i32(0), i32(0), i32(0), op(0xFC, 8, 1, 0), op(0xFC, 9, 1))
	data.Data, data.DataCount = []Data{{cat(i32(65534), op(opEnd)), []byte("ab")}, {nil, []byte("c")}}, 2
	imported := one(call(0))
	imported.Imports = []Import{{Module: "env", Name: "known", Type: 0}}
	imported.Exports[1].Index = 1
	unbounded := one()
	unbounded.Memories[0] = Limit{Min: 4}
	large := one()
	large.Memories[0] = Limit{Min: 4, Max: 5, HasMax: true}
	for name, m := range map[string]*Module{
		"a table, its index longer than needed": table,
		"passive data":                          data,
		"an import of the list":                 imported,
		"memory without a maximum":              unbounded,
		"memory with a maximum past the cap":    large,
		"sign extension, saturation, bulk":      one(i32(1), op(0xC0, 0xC1, 0x1A), f32(1), op(0xFC, 0, 0x1A), i32(0), i32(0), i32(0), op(0xFC, 10, 0, 0), i32(0), i32(0), i32(0), op(0xFC, 11, 0)),
		"ten locals":                            build(fn{types(I32, I32, 0), []LocalRun{{4, I32}, {0, I64}, {4, F64}}, nil}),
		"five blocks":                           one(repeat(4, opBlock, blockEmpty), repeat(4, opEnd)),
		"code that is never reached":            one(op(opBr, 0, 0x6A, 0x6A, opIf, 0x7F, opUnreachable, opElse, opLoop, 0x40, opEnd, opUnreachable, opEnd, 0x1A), call(0)),
	} {
		t.Run(name, func(t *testing.T) {
			m.Memories[0].Max = min(m.Memories[0].Max, 4)
			if err := judge(m.Encode(), small()); err != nil {
				t.Fatal(err)
			}
			for engine, cfg := range engines() {
				if name != "an import of the list" {
					instantiate(t, cfg, metered(t, again(t, m), DefaultCosts())).close()
				} else if _, err := Meter(m, DefaultCosts()); err != nil {
					t.Error(engine, err)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	edit := func(f func(m *Module)) *Module {
		m := one()
		f(m)
		return m
	}
	zero := cat(i32(0), op(opEnd))
	for _, tc := range []struct {
		name  string
		m     *Module
		rule  string
		words []string
	}{
		{"module size", edit(func(m *Module) { m.Customs = []Custom{{"x", make([]byte, 1<<20)}} }), "size", []string{"1048576", "strip"}},
		{"start section", edit(func(m *Module) { m.Start = 0 }), "start_section", []string{"function 0", "_initialize"}},
		{"types", edit(func(m *Module) { m.Types = append(m.Types, make([]FuncType, 4)...) }), "types", []string{"5 function types", "4 are"}},
		{"parameters", edit(func(m *Module) { m.Types = append(m.Types, types(I32, I32, I32, 0)) }), "params", []string{"type 1", "3 parameters", "at most 2"}},
		{"results", edit(func(m *Module) { m.Types = append(m.Types, types(0, I32, I32)) }), RuleFeature, []string{"2 results", "multi-value"}},
		{"functions", edit(func(m *Module) { m.Functions, m.Bodies = make([]uint32, 5), slices.Repeat(m.Bodies, 5) }), "functions", []string{"5 functions", "at most 4"}},
		{"type of a function", edit(func(m *Module) { m.Functions[0] = 1 }), RuleMalformed, []string{"type 1", "there are 1"}},
		{"imported memory", edit(func(m *Module) { m.Imports = []Import{{Module: "env", Name: "memory", Kind: KindMemory}} }), "import", []string{`memory "memory"`, `"env"`}},
		{"imported global", edit(func(m *Module) {
			m.Imports = []Import{{Module: "env", Name: "known", Kind: KindGlobal, Global: Global{Type: I32}}}
		}), "import", []string{"global"}},
		{"unknown import", edit(func(m *Module) { m.Imports = []Import{{Module: "env", Name: "other"}} }), "import", []string{`"other"`, "remove"}},
		{"no memory", edit(func(m *Module) { m.Memories, m.Exports = nil, m.Exports[1:] }), "memory", []string{"has 0"}},
		{"memory kept back", edit(func(m *Module) { m.Exports = m.Exports[1:] }), "memory", []string{"exports 0"}},
		{"two memories", edit(func(m *Module) { m.Memories = append(m.Memories, Limit{}) }), "memory", []string{"has 2"}},
		{"memory minimum", edit(func(m *Module) { m.Memories[0] = Limit{Min: 5} }), "memory", []string{"starts with 5", "at most 4"}},
		{"two tables", edit(func(m *Module) { m.Tables = make([]Limit, 2) }), RuleFeature, []string{"2 tables"}},
		{"large table", edit(func(m *Module) { m.Tables = []Limit{{Min: 100_000_000}} }), "table", []string{"100000000 entries", "at most 8"}},
		{"elements without a table", edit(func(m *Module) { m.Elements = []Element{{zero, nil}} }), RuleMalformed, []string{"there is none"}},
		{"element function", edit(func(m *Module) { m.Tables, m.Elements = []Limit{{Min: 1}}, []Element{{zero, []uint32{1}}} }), RuleMalformed, []string{"function 1"}},
		{"element segments", edit(func(m *Module) { m.Tables, m.Elements = []Limit{{Min: 1}}, make([]Element, 3) }), "elements", []string{"3 element segments"}},
		{"element entries", edit(func(m *Module) { m.Tables, m.Elements = []Limit{{Min: 8}}, []Element{{zero, make([]uint32, 4)}} }), "elements", []string{"more than 3"}},
		{"elements past the table", edit(func(m *Module) { m.Tables, m.Elements = []Limit{{Min: 1}}, []Element{{zero, make([]uint32, 2)}} }), "bounds", []string{"entry 2"}},
		{"element offset", edit(func(m *Module) {
			m.Tables, m.Elements = []Limit{{Min: 1}}, []Element{{cat(i64(0), op(opEnd)), nil}}
		}), RuleMalformed, []string{"no i32"}},
		{"exported twice", edit(func(m *Module) { m.Exports = append(m.Exports, m.Exports[1]) }), RuleMalformed, []string{"twice"}},
		{"exports", edit(func(m *Module) { m.Exports = make([]Export, 7) }), "exports", []string{"7 exports"}},
		{"export of nothing", edit(func(m *Module) { m.Exports[1].Index = 1 }), RuleMalformed, []string{`"f0" is function 1`}},
		{"our fuel", edit(func(m *Module) { m.Exports[1].Name = GlobalFuel }), "reserved_name", []string{GlobalFuel, "rename"}},
		{"our depth", edit(func(m *Module) { m.Exports[1].Name = GlobalDepth }), "reserved_name", []string{GlobalDepth}},
		{"globals", edit(func(m *Module) { m.Globals = make([]Global, 3) }), "globals", []string{"3 globals"}},
		{"global of another type", edit(func(m *Module) { m.Globals = []Global{{I64, false, zero}} }), RuleMalformed, []string{"global 0", "i64"}},
		{"data segments", edit(func(m *Module) { m.Data = make([]Data, 3) }), "data", []string{"3 data"}},
		{"data offset", edit(func(m *Module) { m.Data = []Data{{cat(f32(0), op(opEnd)), nil}} }), RuleMalformed, []string{"no i32"}},
		{"data past the memory", edit(func(m *Module) { m.Data = []Data{{cat(i32(65535), op(opEnd)), []byte("ab")}} }), "bounds", []string{"byte 65537", "65536"}},
		{"data below zero", edit(func(m *Module) { m.Data = []Data{{cat(i32(-1), op(opEnd)), nil}} }), "bounds", []string{"4294967295"}},
		{"function size", one(repeat(200, 0x01)), "function_size", []string{"function 0", "201 bytes"}},
		{"locals", build(fn{types(I32, I32, 0), []LocalRun{{4, I32}, {5, F64}}, nil}), "locals", []string{"11 locals", "at most 10"}},
		{"locals that overflow", build(fn{types(0), []LocalRun{{1 << 31, I32}, {1 << 31, I32}}, nil}), "locals", []string{"50000"}},
		{"operands", one(repeat(11, opI32Const, 0), op(opBr, 0)), "operands", []string{"11 values"}},
		{"nesting", one(repeat(5, opBlock, blockEmpty), repeat(5, opEnd)), "nesting", []string{"6 blocks", "at most 5"}},
		{"joins", build(fn{types(I32, I32, 0), []LocalRun{{7, I32}}, repeat(4, opBlock, blockEmpty, opEnd)}), "joins", []string{"function 0", "50 joins", "at most 40"}},
		{"joins of all functions", build(slices.Repeat([]fn{{types(I32, I32, 0), []LocalRun{{7, I32}}, repeat(2, opBlock, blockEmpty, opEnd)}}, 3)...), "joins", []string{"function 2", "90 joins", "at most 60"}},
		{"labels of a branch table", one(i32(0), op(opBrTable, 40), make([]byte, 41)), "joins", []string{"42 joins"}},
		{"local", one(get(0), op(0x1A)), RuleMalformed, []string{"local 0", "there are 0"}},
		{"local that metering adds", one(i64(9), set(0)), RuleMalformed, []string{"local 0"}},
		{"global that metering adds", one(i64(1<<40), with(opGlobalSet, 0)), RuleMalformed, []string{"global 0"}},
		{"the same where it is never reached", one(op(opUnreachable), i64(1<<40), with(opGlobalSet, 0)), RuleMalformed, []string{"global 0"}},
		{"function", one(call(1)), RuleMalformed, []string{"function 1"}},
		{"type of an indirect call", edit(func(m *Module) {
			m.Tables, m.Bodies[0].Code = []Limit{{}}, cat(i32(0), op(opCallIndirect, 1, 0, opEnd))
		}), RuleMalformed, []string{"type 1"}},
		{"indirect call without a table", one(i32(0), op(opCallIndirect, 0, 0)), RuleMalformed, []string{"without a table"}},
		{"branch", one(op(opBr, 1)), RuleMalformed, []string{"1 blocks", "1 are open"}},
		{"branch table", one(i32(0), op(opBrTable, 1, 0, 7)), RuleMalformed, []string{"7 blocks"}},
		{"long branch table", one(i32(0), op(opBrTable, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0)), RuleMalformed, []string{"4294967295"}},
		{"data segment without a count", one(i32(0), i32(0), i32(0), op(0xFC, 8, 0, 0)), RuleMalformed, []string{"data segment 0", "there are 0"}},
		{"else without if", one(op(opBlock, blockEmpty, opElse, opEnd)), RuleMalformed, []string{"else"}},
		{"two elses", one(i32(0), op(opIf, blockEmpty, opElse, opElse, opEnd)), RuleMalformed, []string{"else"}},
		{"open block", one(op(opBlock, blockEmpty)), RuleMalformed, []string{"inside a block"}},
		{"code after the end", one(op(opEnd, 0x01)), RuleMalformed, []string{"follow the end"}},
		{"too few operands", one(op(0x6A)), RuleMalformed, []string{"more values"}},
		{"no result", build(fn{types(0, I32), nil, nil}), RuleMalformed, []string{"more values"}},
		{"SIMD", one(op(0xFD, 12)), RuleFeature, []string{"SIMD", "function 0", "offset"}},
		{"threads", one(op(0xFE, 0)), RuleFeature, []string{"threads"}},
		{"tail call", one(op(0x12, 0)), RuleFeature, []string{"tail calls"}},
		{"indirect tail call", one(op(0x13, 0, 0)), RuleFeature, []string{"tail calls"}},
		{"try", one(op(0x06, 0x40)), RuleFeature, []string{"exceptions"}},
		{"try_table", one(op(0x1F, 0x40, 0)), RuleFeature, []string{"exceptions"}},
		{"throw", one(op(0x08, 0)), RuleFeature, []string{"exceptions"}},
		{"ref.null", one(op(0xD0, 0x70)), RuleFeature, []string{"reference types"}},
		{"table.get", one(op(0x25, 0)), RuleFeature, []string{"reference types"}},
		{"table.grow", one(op(0xFC, 15, 0)), RuleFeature, []string{"reference types", "0xfc 15"}},
		{"table.copy", one(op(0xFC, 14, 0, 0)), RuleFeature, []string{"bulk operations on tables"}},
		{"select with a type", one(op(0x1C, 1, 0x7F)), RuleFeature, []string{"reference types"}},
		{"call_ref", one(op(0x14, 0)), RuleFeature, []string{"typed function references"}},
		{"struct.new", one(op(0xFB, 0, 0)), RuleFeature, []string{"garbage collection"}},
		{"second table", one(i32(0), op(opCallIndirect, 0, 1)), RuleFeature, []string{"table 1"}},
		{"second memory", one(i32(0), i32(0), i32(0), op(0xFC, 10, 0, 1)), RuleFeature, []string{"memory 1"}},
		{"memory index of a load", one(i32(0), op(0x28, 0x42, 0, 0, 0x1A)), RuleFeature, []string{"0x42", "multi-memory"}},
		{"block with a type index", one(op(opBlock, 0, opEnd)), RuleFeature, []string{"multi-value"}},
		{"unknown instruction", one(op(0x27)), RuleFeature, []string{"0x27"}},
		{"unknown part of a prefix", one(op(0xFC, 0x80, 0x80, 0x04)), RuleFeature, []string{"0xfc"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if len(tc.m.Memories) == 1 && tc.rule != "memory" && tc.m.Memories[0].HasMax {
				tc.m.Memories[0].Max = 4
			}
			d, err := Decode(encodeRaw(tc.m))
			if err == nil {
				err = Verify(d, small())
			}
			wantError(t, err, tc.rule, tc.words...)
		})
	}
}

// encodeRaw is Encode for modules with segments and globals that have no constant yet.
func encodeRaw(m *Module) []byte {
	zero := cat(i32(0), op(opEnd))
	for i := range m.Elements {
		if m.Elements[i].Offset == nil {
			m.Elements[i].Offset = zero
		}
	}
	for i := range m.Globals {
		if m.Globals[i].Init == nil {
			m.Globals[i] = Global{I32, false, zero}
		}
	}
	return m.Encode()
}
