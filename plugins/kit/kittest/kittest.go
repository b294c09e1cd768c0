package kittest

import (
	"bytes"
	"slices"
)

// Import is an imported function; Params has one letter a parameter, i for i32 and l for i64. It returns an i32.
type Import struct{ Module, Name, Params string }

// Export is an exported function (i32) -> i32: the batch's address in local 0, with two more i32 locals, 1 and 2. Body is
// its code without the final end and leaves the status on the stack. The functions of a state have the types that their
// names ask for.
type Export struct {
	Name string
	Body []byte
}

// Instructions that the bodies here are made of.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0B
	opBr          = 0x0C
	opBrIf        = 0x0D
	opDrop        = 0x1A
	opGet         = 0x20
	opSet         = 0x21
	opLoad        = 0x28
	opLoad8       = 0x2D
	opStore8      = 0x3A
	opStore16     = 0x3B
	opGrow        = 0x40
	opConst       = 0x41
	opEqz         = 0x45
	opEq          = 0x46
	opStore       = 0x36
	opConst64     = 0x42
	opAdd         = 0x6A
	opSub         = 0x6B
	opMul         = 0x6C
	opXor         = 0x73
	opRem         = 0x70 // unsigned
	opGreaterEq   = 0x4F // unsigned
	opCall        = 0x10
	opBulk        = 0xFC
	bulkFill      = 0x0B
	bulkCopy      = 0x0A
	typeI64       = 0x7E
	typeI32       = 0x7F
	typeEmpty     = 0x40
)

// Const is an i32 constant.
func Const(v int32) []byte {
	out := []byte{opConst}
	for {
		b := byte(v & 0x7F)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// Const64 is an i64 constant from 0 to 63.
func Const64(v byte) []byte { return []byte{opConst64, v} }

// Drop drops what is on the stack.
func Drop() []byte { return []byte{opDrop} }

// Call calls an import by its number, with the arguments that are on the stack.
func Call(imported byte) []byte { return []byte{opCall, imported} }

// ByteAt is the byte at a fixed address.
func ByteAt(at int32) []byte { return cat(Const(at), []byte{opLoad8, 0, 0}) }

// Xor is the exclusive or of two i32 expressions.
func Xor(a, b []byte) []byte { return cat(a, b, []byte{opXor}) }

// Unreachable traps.
func Unreachable() []byte { return []byte{opUnreachable} }

// Spin never ends.
func Spin() []byte { return cat([]byte{opLoop, typeEmpty, opBr, 0, opEnd}, Const(0)) }

// Leak grows the memory by pages a call and returns status 0.
func Leak(pages int32) []byte { return cat(Const(pages), []byte{opGrow, 0, opDrop}, Const(0)) }

// SpinOn calls the import of that index for ever, with zeroes as its arguments.
func SpinOn(imported byte, arguments int) []byte {
	zeroes := bytes.Repeat(Const(0), arguments)
	return cat([]byte{opLoop, typeEmpty}, zeroes, []byte{opCall, imported, opDrop, opBr, 0, opEnd}, Const(0))
}

// FillStorm sets half of the memory to 255 for ever, in calls of 64 KiB.
func FillStorm() []byte {
	return cat([]byte{opLoop, typeEmpty}, Const(4<<16), Const(255), Const(1<<16), []byte{opBulk, bulkFill, 0, opBr, 0, opEnd}, Const(0))
}

// CallTwice calls the export of that number of the same module twice, with its own argument.
func CallTwice(export byte) []byte {
	call := []byte{opGet, 0, opCall, ownFunctions + export}
	return cat(call, []byte{opDrop}, call)
}

// OnCall counts the calls, beside the number of Remembers, and does what bad says in call number n, and what good says in
// the others.
func OnCall(n int32, bad, good []byte) []byte { return counted(cat(Const(n), []byte{opEq}), bad, good) }

// FromCall is OnCall for call number n and all after it.
func FromCall(n int32, bad, good []byte) []byte {
	return counted(cat(Const(n), []byte{opGreaterEq}), bad, good)
}

// EveryCall is OnCall for every n-th call.
func EveryCall(n int32, bad, good []byte) []byte {
	return counted(cat(Const(n), []byte{opRem, opEqz}), bad, good)
}

// counted goes by what test makes of the number of the call, which it finds on the stack.
func counted(test, bad, good []byte) []byte {
	const at = countAt + 4
	number := cat(Const(at), []byte{opLoad, 2, 0})
	return cat(Const(at), number, Const(1), []byte{opAdd, opStore, 2, 0},
		number, test, []byte{opIf, typeI32}, bad, []byte{opElse}, good, []byte{opEnd})
}

// Votes is a gate: value, an i32 expression that finds the input record's address in local 2, becomes the first byte of
// each output record. The status is 0.
func Votes(value []byte) []byte {
	return each(outRecord(), value, []byte{opStore8, 0, 0})
}

// Fails is a gate: it fails every finished transfer for the reason.
func Fails(reason uint8) []byte {
	return each(outRecord(), Const(int32(reason)<<8), []byte{opStore16, 1, 0})
}

// Admits is an admit that takes every candidate in the order in which they ask, with value as the reason of each; see
// Votes.
func Admits(value []byte) []byte {
	return each(
		outRecord(), Const(1), []byte{opStore8, 0, 0},
		outRecord(), value, []byte{opStore8, 0, 1},
		outRecord(), []byte{opGet, 1, opStore, 2, 4})
}

// KeepBatch copies the first bytes of the batch, a constant of up to 64 KiB, to an address below the IN arena.
func KeepBatch(to, bytes int32) []byte {
	return cat(Const(to), []byte{opGet, 0}, Const(bytes), []byte{opBulk, bulkCopy, 0, 0})
}

// header is a word of the batch's header.
func header(at byte) []byte { return []byte{opGet, 0, opLoad, 2, at} }

// outRecord is the address of the output record of the input record that each is at.
func outRecord() []byte {
	return cat([]byte{opGet, 0}, header(48), []byte{opAdd, opGet, 1}, header(44), []byte{opMul, opAdd})
}

// each runs code for every input record, with its number in local 1 and its address in local 2. The status is 0.
func each(code ...[]byte) []byte {
	return cat(
		Const(0), []byte{opSet, 1},
		[]byte{opBlock, typeEmpty, opLoop, typeEmpty},
		header(32), []byte{opGet, 1, opSub, opEqz, opBrIf, 1},
		[]byte{opGet, 0}, header(40), []byte{opAdd, opGet, 1}, header(36), []byte{opMul, opAdd, opSet, 2},
		cat(code...),
		[]byte{opGet, 1}, Const(1), []byte{opAdd, opSet, 1, opBr, 0, opEnd, opEnd},
		Const(0))
}

// InByte is the input record's byte at an offset, for Votes.
func InByte(at byte) []byte { return []byte{opGet, 2, opLoad8, 0, at} }

// ownFunctions is how many functions a module has before those that it is asked for, imports aside.
const ownFunctions = 3

// Where Remembers keeps its count, and where the STATE arena is.
const (
	countAt = 512
	stateAt = 1024 + 3*256
)

// Remembers are the exports of a policy that adds step to a number, modulo 256, each time its hook is asked, and writes it
// into the first byte of each output record. It saves and loads the number as a state of 4 bytes.
func Remembers(hook string, step int32) []Export {
	number := cat(Const(countAt), []byte{opLoad8, 0, 0})
	move := func(to, from int32) []byte { return cat(Const(to), Const(from), []byte{opLoad, 2, 0, opStore, 2, 0}) }
	return []Export{
		{hook, cat(Const(countAt), number, Const(step), []byte{opAdd, opStore8, 0, 0}, Votes(number))},
		{"sluice_state_save", cat(move(stateAt, countAt), []byte{opConst64, 4})},
		{"sluice_state_load", cat(move(countAt, stateAt), Const(0))},
	}
}

// CountsLoads is Remembers for a policy whose load counts itself, in the second byte of what it saves next.
func CountsLoads(hook string, step int32) []Export {
	all := Remembers(hook, step)
	const at = countAt + 1
	load := &all[2]
	load.Body = cat(load.Body[:len(load.Body)-len(Const(0))], Const(at), Const(at), []byte{opLoad8, 0, 0}, Const(1), []byte{opAdd, opStore8, 0, 0}, Const(0))
	return all
}

// Module assembles a module with marker, arenas, configure, a memory of eight pages and the given exports.
func Module(exports ...Export) []byte { return ModuleWith(nil, exports...) }

// ModuleWith is Module with imports.
func ModuleWith(imports []Import, exports ...Export) []byte {
	// Types: 0 (i32, i32) -> i32, 1 (i32) -> i32, 2 () -> (), 3 (i32) -> i64, then one an import.
	types := [][]byte{{0x60, 2, typeI32, typeI32, 1, typeI32}, {0x60, 1, typeI32, 1, typeI32}, {0x60, 0, 0}, {0x60, 1, typeI32, 1, typeI64}}
	var imported, functions, named, bodies [][]byte
	for _, i := range imports {
		t := []byte{0x60, byte(len(i.Params))}
		for _, c := range i.Params {
			t = append(t, map[rune]byte{'i': typeI32, 'l': typeI64}[c])
		}
		imported = append(imported, cat(name(i.Module), name(i.Name), []byte{0, byte(len(types))}))
		types = append(types, append(t, 1, typeI32))
	}
	add := func(export string, typ byte, locals, body []byte) {
		functions = append(functions, []byte{typ})
		named = append(named, cat(name(export), []byte{0}, uleb(len(imports)+len(functions)-1)))
		b := cat(locals, body, []byte{opEnd})
		bodies = append(bodies, cat(uleb(len(b)), b))
	}
	none := []byte{0}
	add("sluice_abi_1", 2, none, nil)
	// IN at 64 KiB, every other arena 256 bytes from the next, from 1 KiB on.
	add("sluice_arena", 0, none, cat([]byte{opGet, 0}, Const(1), []byte{opEq, opIf, typeI32}, Const(65536), []byte{opElse, opGet, 0},
		Const(256), []byte{opMul}, Const(1024), []byte{opAdd, opEnd}))
	add("sluice_configure", 1, none, Const(0))
	for _, e := range exports {
		typ := byte(1)
		switch e.Name {
		case "sluice_state_load":
			typ = 0
		case "sluice_state_save":
			typ = 3
		}
		add(e.Name, typ, []byte{1, 2, typeI32}, e.Body)
	}
	named = append(named, cat(name("memory"), []byte{2, 0}))
	out := cat([]byte("\x00asm\x01\x00\x00\x00"), section(1, list(types)))
	if len(imports) > 0 {
		out = append(out, section(2, list(imported))...)
	}
	return cat(out, section(3, list(functions)), section(5, []byte{1, 0, 8}), section(7, list(named)), section(10, list(bodies)))
}

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func uleb(v int) []byte {
	var out []byte
	for v > 0x7F {
		out, v = append(out, byte(v)|0x80), v>>7
	}
	return append(out, byte(v))
}

func section(id byte, content []byte) []byte { return cat([]byte{id}, uleb(len(content)), content) }

func name(s string) []byte { return append(uleb(len(s)), s...) }

func list(items [][]byte) []byte { return append(uleb(len(items)), slices.Concat(items...)...) }
