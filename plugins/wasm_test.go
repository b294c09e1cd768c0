package plugins_test

import "slices"

// guestModule assembles a small policy module byte by byte, so that the tests need no WebAssembly toolchain. Each part can
// be bent to break one rule.
type guestModule struct {
	marker    string // export name of the version marker; "-" leaves it out
	extra     []string
	imports   []testImport
	gate      []byte // bodies without the final end; nil leaves the export out
	reserve   []byte
	admit     []byte
	configure []byte // nil: returns 0
	save      []byte // nil leaves the export out
	load      []byte
	arena     []byte // nil: the fixed arenas
	arenaType byte   // type index of sluice_arena; 0 is the right one
	noMemory  bool
	start     string // an export name for a function that does nothing, "_start" say
	pages     byte
}

type testImport struct {
	module, name string
	typ          byte
}

// Type indices of the assembled modules.
const (
	typeArena   = 0 // (i32, i32) -> i32
	typeEntry   = 1 // (i32) -> i32
	typeNothing = 2 // () -> ()
	typeTake    = 3 // (i32) -> ()
	typeClock   = 4 // (i32, i64, i32) -> i32
	typeWrite   = 5 // (i32, i32, i32, i32) -> i32
	typeSave    = 6 // (i32) -> i64
)

// Instructions.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0B
	opBr          = 0x0C
	opBrIf        = 0x0D
	opCall        = 0x10
	opDrop        = 0x1A
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opLocalTee    = 0x22
	opI32Load     = 0x28
	opI32Store    = 0x36
	opI32Store8   = 0x3A
	opGrow        = 0x40
	opI32Const    = 0x41
	opI64Const    = 0x42
	opI32Eqz      = 0x45
	opI32Eq       = 0x46
	opI32Add      = 0x6A
	opI32Sub      = 0x6B
	opI32Mul      = 0x6C
	typeI64       = 0x7E
	typeI32       = 0x7F
)

func code(parts ...[]byte) []byte { return slices.Concat(parts...) }

func op(b ...byte) []byte { return b }

func i32(v int32) []byte {
	out := []byte{opI32Const}
	for {
		b := byte(v & 0x7F)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func uleb(v int) []byte {
	var out []byte
	for {
		b := byte(v & 0x7F)
		v >>= 7
		if v == 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// outByte stores v at an offset from the start of the output records of the batch in local 0.
func outByte(at int, v int32) []byte {
	return code(op(opLocalGet, 0), op(opLocalGet, 0), op(opI32Load, 2), uleb(48), op(opI32Add), i32(v), op(opI32Store8, 0), uleb(at))
}

// outWord stores the word at a fixed address at an offset from the start of the output records.
func outWord(at int, address int32) []byte {
	return code(op(opLocalGet, 0), op(opLocalGet, 0), op(opI32Load, 2), uleb(48), op(opI32Add), i32(address), op(opI32Load, 2, 0), op(opI32Store, 2), uleb(at))
}

// fixedArenas puts IN (kind 1) at 64 KiB and every other kind 256 bytes apart from 1 KiB on.
func fixedArenas() []byte {
	return code(op(opLocalGet, 0), i32(1), op(opI32Eq, opIf, typeI32), i32(65536), op(opElse, opLocalGet, 0), i32(256), op(opI32Mul), i32(1024), op(opI32Add, opEnd))
}

func section(id byte, content []byte) []byte { return code([]byte{id}, uleb(len(content)), content) }

func name(s string) []byte { return append(uleb(len(s)), s...) }

func list(items [][]byte) []byte { return append(uleb(len(items)), slices.Concat(items...)...) }

func (g guestModule) bytes() []byte {
	types := [][]byte{{0x60, 2, typeI32, typeI32, 1, typeI32}, {0x60, 1, typeI32, 1, typeI32}, {0x60, 0, 0}, {0x60, 1, typeI32, 0},
		{0x60, 3, typeI32, typeI64, typeI32, 1, typeI32}, {0x60, 4, typeI32, typeI32, typeI32, typeI32, 1, typeI32}, {0x60, 1, typeI32, 1, typeI64}}
	var imports, functions, exports, bodies [][]byte
	for _, i := range g.imports {
		imports = append(imports, code(name(i.module), name(i.name), []byte{0, i.typ}))
	}
	add := func(export string, typ byte, body []byte) {
		functions = append(functions, []byte{typ})
		exports = append(exports, code(name(export), []byte{0}, uleb(len(g.imports)+len(functions)-1)))
		b := code([]byte{0}, body, []byte{opEnd})
		bodies = append(bodies, append(uleb(len(b)), b...))
	}
	switch g.marker {
	case "-":
	case "":
		add("sluice_abi_1", typeNothing, nil)
	default:
		add(g.marker, typeNothing, nil)
	}
	for _, e := range g.extra {
		add(e, typeNothing, nil)
	}
	arena := g.arena
	if arena == nil {
		arena = fixedArenas()
	}
	add("sluice_arena", g.arenaType, arena)
	configure := g.configure
	if configure == nil {
		configure = i32(0)
	}
	add("sluice_configure", typeEntry, configure)
	for _, e := range []struct {
		name string
		body []byte
	}{{"sluice_gate_v1", g.gate}, {"sluice_reserve_v1", g.reserve}, {"sluice_admit_v1", g.admit}} {
		if e.body != nil {
			add(e.name, typeEntry, e.body)
		}
	}
	if g.save != nil {
		add("sluice_state_save", typeSave, g.save)
	}
	if g.load != nil {
		add("sluice_state_load", typeArena, g.load)
	}
	if g.start != "" {
		add(g.start, typeNothing, nil)
	}
	pages := g.pages
	if pages == 0 {
		pages = 8
	}
	out := code([]byte("\x00asm\x01\x00\x00\x00"), section(1, list(types)))
	if len(imports) > 0 {
		out = append(out, section(2, list(imports))...)
	}
	out = append(out, section(3, list(functions))...)
	out = append(out, section(5, []byte{1, 0, pages})...)
	if !g.noMemory {
		exports = append(exports, code(name("memory"), []byte{2, 0}))
	}
	return append(append(out, section(7, list(exports))...), section(10, list(bodies))...)
}
