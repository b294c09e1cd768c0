package wasmbin

import (
	"slices"

	"sluice/internal/text"
)

// Limits is what a module may have. A count is the most that is allowed.
type Limits struct {
	Imports     []ImportName // functions that may be imported
	MemoryPages uint32       // that the one memory starts with, in pages of 64 KiB; how far it may grow is the engine's to hold
	Module      int          // bytes of the whole module

	Types         int
	Params        int // of one function type
	Functions     int // imports included
	FunctionBytes int // code of one function
	Locals        int // of one function, parameters included, runs expanded
	Operands      int // height of one function's operand stack
	Nesting       int // blocks open at once in one function
	Joins         int // of one function: its locals and one, times its blocks, arms and branch targets
	AllJoins      int // of all functions together
	Table         int // entries
	Elements      int // element segments
	Entries       int // functions named by all element segments together
	Globals       int
	Exports       int
	Data          int // data segments
}

// ImportName names an import.
type ImportName struct{ Module, Name string }

// DefaultLimits admits the output of every supported toolchain with room to spare, a Go program of some megabytes
// included, and no imports. MemoryPages is 1,024: 64 MiB. The shipped Go module has 14 thousand joins in its largest
// function and 0.87 million in all, each Go example as many, and a Go program that links fmt, encoding/json, regexp,
// text/template and math/big 35 thousand and 2.9 million; an optimizing engine's time and memory grow with them, and faster:
// 32 KiB of code with four million joins in one function take it seconds and 200 MiB. What is admitted compiles in a few
// seconds.
func DefaultLimits() Limits {
	return Limits{
		MemoryPages: 1024, Module: 16 << 20,
		Types: 10_000, Params: 64, Functions: 50_000, FunctionBytes: 512 << 10, Locals: 1_000, Operands: 1_000, Nesting: 20_000, Joins: 250_000, AllJoins: 4_000_000,
		Table: 50_000, Elements: 1_000, Entries: 50_000, Globals: 1_000, Exports: 1_000, Data: 200_000,
	}
}

// Verify judges a decoded module without running it. The first rule broken is the *Error: its Rule is RuleMalformed,
// RuleFeature, or one of size, import, start_section, memory, table, reserved_name, types, params, functions,
// function_size, locals, operands, nesting, joins, elements, globals, exports, data, bounds.
func Verify(m *Module, l Limits) error {
	for _, check := range []func(*Module, *Limits) *Error{verifyCounts, verifyTypes, verifyImports, verifyMemory, verifyTables, verifyExports, verifyData, verifyCode} {
		if err := check(m, &l); err != nil {
			return err
		}
	}
	return nil
}

func verifyCounts(m *Module, l *Limits) *Error {
	for _, c := range []struct {
		rule, section, what string
		have, most          int
		fix                 string
	}{
		{"size", "", "bytes", m.size, l.Module, "strip it, or link less into the policy"},
		{"types", "type", "function types", len(m.Types), l.Types, "split the policy"},
		{"functions", "function", "functions", m.ImportedFunctions() + len(m.Functions), l.Functions, "link less into the policy"},
		{"globals", "global", "globals", len(m.Globals), l.Globals, "keep state in memory"},
		{"exports", "export", "exports", len(m.Exports), l.Exports, "export only what the policy interface names"},
		{"elements", "element", "element segments", len(m.Elements), l.Elements, "fill the table with fewer segments"},
		{"data", "data", "data segments", len(m.Data), l.Data, "merge data segments, as linkers do unless told otherwise"},
	} {
		if c.have > c.most {
			return refuse(c.rule, c.section, "the module has %d %s, at most %d are allowed; %s", c.have, c.what, c.most, c.fix)
		}
	}
	if m.Start >= 0 {
		return startRefused(m.Start)
	}
	return nil
}

func verifyTypes(m *Module, l *Limits) *Error {
	for i, t := range m.Types {
		if len(t.Params) > l.Params {
			return refuse("params", "type", "type %d has %d parameters, at most %d are allowed; pass a pointer", i, len(t.Params), l.Params)
		}
		if len(t.Results) > 1 {
			return refuse(RuleFeature, "type", "type %d has %d results, at most 1 is allowed; build without multi-value", i, len(t.Results))
		}
	}
	for i, t := range m.functionTypes() {
		if int64(t) >= int64(len(m.Types)) {
			return refuse(RuleMalformed, "function", "function %d has type %d, there are %d types", i, t, len(m.Types))
		}
	}
	return nil
}

func verifyImports(m *Module, l *Limits) *Error {
	for _, i := range m.Imports {
		if i.Kind != KindFunction {
			return refuse("import", "import", "the %s %s is imported from %s; a policy imports functions only, build it with its own %s", i.Kind, text.Quote(i.Name), text.Quote(i.Module), i.Kind)
		}
		if !slices.Contains(l.Imports, ImportName{i.Module, i.Name}) {
			return refuse("import", "import", "the function %s is imported from %s, which is not served; remove the call", text.Quote(i.Name), text.Quote(i.Module))
		}
	}
	return nil
}

func verifyMemory(m *Module, l *Limits) *Error {
	exported := 0
	for _, x := range m.Exports {
		if x.Kind == KindMemory {
			exported++
		}
	}
	if len(m.Memories) != 1 || exported != 1 {
		return refuse("memory", "memory", "the module must export exactly one memory; it has %d and exports %d", len(m.Memories), exported)
	}
	mem := m.Memories[0]
	if mem.Min > l.MemoryPages {
		return refuse("memory", "memory", "the memory starts with %d pages, at most %d are allowed; use less, or raise memory_pages", mem.Min, l.MemoryPages)
	}
	return nil
}

func verifyTables(m *Module, l *Limits) *Error {
	if len(m.Tables) > 1 {
		return refuse(RuleFeature, "table", "%d tables, at most 1 is allowed; build without reference types", len(m.Tables))
	}
	for _, t := range m.Tables {
		// Nothing in the feature set grows a table, so the maximum does not matter.
		if int64(t.Min) > int64(l.Table) {
			return refuse("table", "table", "the table has %d entries, at most %d are allowed; a table needs one for each function whose address is taken", t.Min, l.Table)
		}
	}
	total, functions := 0, m.ImportedFunctions()+len(m.Functions)
	for i, e := range m.Elements {
		if len(m.Tables) == 0 {
			return refuse(RuleMalformed, "element", "segment %d fills a table, there is none", i)
		}
		for _, f := range e.Functions {
			if int64(f) >= int64(functions) {
				return refuse(RuleMalformed, "element", "segment %d names function %d, there are %d", i, f, functions)
			}
		}
		if total += len(e.Functions); total > l.Entries {
			return refuse("elements", "element", "the segments name more than %d functions; name each once", l.Entries)
		}
	}
	return nil
}

func verifyExports(m *Module, _ *Limits) *Error {
	sizes := map[Kind]int{KindFunction: m.ImportedFunctions() + len(m.Functions), KindTable: len(m.Tables), KindMemory: len(m.Memories), KindGlobal: len(m.Globals)}
	seen := make(map[string]bool, len(m.Exports))
	for _, x := range m.Exports {
		if err := reserved(x.Name); err != nil {
			return err
		}
		if seen[x.Name] {
			return refuse(RuleMalformed, "export", "%s is exported twice", text.Quote(x.Name))
		}
		seen[x.Name] = true
		if int64(x.Index) >= int64(sizes[x.Kind]) {
			return refuse(RuleMalformed, "export", "%s is %s %d, there are %d", text.Quote(x.Name), x.Kind, x.Index, sizes[x.Kind])
		}
	}
	return nil
}

// verifyData checks that each global starts with a constant of its type, and that the segments fit what they fill: were one
// not to, instantiating would fail halfway.
func verifyData(m *Module, _ *Limits) *Error {
	want := map[ValueType]byte{I32: opI32Const, I64: opI64Const, F32: opF32Const, F64: opF64Const}
	for i, g := range m.Globals {
		if len(g.Init) == 0 || g.Init[0] != want[g.Type] {
			return refuse(RuleMalformed, "global", "global %d is %s and starts with a value of another type", i, g.Type)
		}
	}
	for i, e := range m.Elements {
		if at, ok := offset(e.Offset); !ok {
			return refuse(RuleMalformed, "element", "segment %d has an offset that is no i32", i)
		} else if end := at + int64(len(e.Functions)); end > int64(m.Tables[0].Min) {
			return refuse("bounds", "element", "segment %d ends at entry %d, the table starts with %d", i, end, m.Tables[0].Min)
		}
	}
	for i, d := range m.Data {
		if d.Offset == nil {
			continue
		}
		if at, ok := offset(d.Offset); !ok {
			return refuse(RuleMalformed, "data", "segment %d has an offset that is no i32", i)
		} else if end := at + int64(len(d.Bytes)); end > int64(m.Memories[0].Min)<<16 {
			return refuse("bounds", "data", "segment %d ends at byte %d, the memory starts with %d; declare more initial memory", i, end, int64(m.Memories[0].Min)<<16)
		}
	}
	return nil
}

// offset is the value of a constant expression of type i32, as the address that it is.
func offset(constant []byte) (int64, bool) {
	if len(constant) == 0 || constant[0] != opI32Const {
		return 0, false
	}
	r := reader{buf: constant[1:]}
	v := r.signed(32)
	return int64(uint32(v)), r.err == nil
}

func verifyCode(m *Module, l *Limits) *Error {
	s := newScanner(m, DefaultCosts())
	all := 0
	for i := range m.Bodies {
		if err := s.function(i); err != nil {
			return err
		}
		joins := (s.locals + 1) * s.forks
		all += joins
		for _, c := range []struct {
			rule, what string
			have, most int
			fix        string
		}{
			{"function_size", "bytes of code", len(m.Bodies[i].Code), l.FunctionBytes, "split the function"},
			{"locals", "locals", s.locals, l.Locals, "keep large arrays in memory"},
			{"operands", "values on its operand stack", s.height, l.Operands, "split its expressions"},
			{"nesting", "blocks open at once", s.nesting, l.Nesting, "split the function"},
			{"joins", "joins (locals times branches)", joins, l.Joins, "split the function"},
			{"joins", "joins (locals times branches) with those before it", all, l.AllJoins, "link less into the policy"},
		} {
			if c.have > c.most {
				err := refuse(c.rule, "code", "the function has %d %s, at most %d are allowed; %s", c.have, c.what, c.most, c.fix)
				err.Function, err.Offset = s.imports+i, m.Bodies[i].Offset
				return err
			}
		}
	}
	return nil
}
