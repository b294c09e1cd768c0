package decode

import (
	"bytes"
	"encoding/binary"
)

// Bodies of a reserve hook, without the final end: what it returns is its status, and an untouched answer holds nothing
// back, which is legal.
func answers(status byte) []byte { return []byte{0x41, status} } // i32.const

// trapsOnCall counts its calls in memory and stops at the n-th.
func trapsOnCall(n uint16) []byte {
	const counter = 16
	load := []byte{0x41, counter, 0x28, 2, 0}
	return bytes.Join([][]byte{
		{0x41, counter}, load, {0x41, 1, 0x6A, 0x36, 2, 0}, // counter++
		load, {0x41, byte(n) | 0x80, byte(n >> 7), 0x46, 0x04, 0x40, 0x00, 0x0B}, // if counter == n: unreachable
		{0x41, 0},
	}, nil)
}

// refusesConfig is a configure that takes nothing but an empty configuration.
func refusesConfig() []byte {
	return []byte{0x20, 0, 0x28, 2, 12, 0x41, 2, 0x4B, 0x04, 0x7F, 0x41, 0x7D, 0x05, 0x41, 0, 0x0B} // bytes > 2 ? -3 : 0
}

// reserveModule assembles a policy module that answers reserve: memory of 8 pages, the IN arena at 64 KiB, the other
// arenas 256 bytes apart from 1 KiB on. configure nil takes everything.
func reserveModule(reserve, configure []byte) []byte {
	return hookModule("sluice_reserve_v1", reserve, configure)
}

func hookModule(hook string, body, configure []byte) []byte {
	if configure == nil {
		configure = []byte{0x41, 0}
	}
	const i32 = 0x7F
	size := func(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }
	sized := func(b []byte) []byte { return append(size(len(b)), b...) }
	section := func(id byte, items ...[]byte) []byte {
		return append([]byte{id}, sized(append(size(len(items)), bytes.Join(items, nil)...))...)
	}
	function := func(code []byte) []byte { return sized(append(append([]byte{0}, code...), 0x0B)) }
	export := func(name string, kind, index byte) []byte { return append(sized([]byte(name)), kind, index) }
	// kind == 1 ? 65536 : 256*kind + 1024
	arena := []byte{0x20, 0, 0x41, 1, 0x46, 0x04, i32, 0x41, 0x80, 0x80, 0x04, 0x05, 0x20, 0, 0x41, 0x80, 0x02, 0x6C, 0x41, 0x80, 0x08, 0x6A, 0x0B}
	return bytes.Join([][]byte{
		{0, 'a', 's', 'm', 1, 0, 0, 0},
		section(1, []byte{0x60, 0, 0}, []byte{0x60, 2, i32, i32, 1, i32}, []byte{0x60, 1, i32, 1, i32}),
		section(3, []byte{0}, []byte{1}, []byte{2}, []byte{2}),
		section(5, []byte{0, 8}),
		section(7, export("memory", 2, 0), export("sluice_abi_1", 0, 0), export("sluice_arena", 0, 1), export("sluice_configure", 0, 2), export(hook, 0, 3)),
		section(10, function(nil), function(arena), function(configure), function(body)),
	}, nil)
}

// holds is a gate that votes the raw poll, but Transferring for what has arrived before it is that many ticks old, at most 63.
func holds(ticks byte) []byte {
	const left, out = 16, 20 // records to go, and where the next answer is written
	load := func(at byte) []byte { return []byte{0x41, at, 0x28, 2, 0} }
	field := func(at byte) []byte { return []byte{0x20, 0, 0x28, 2, at} } // of the batch, later of the record
	poll := []byte{0x20, 0, 0x2D, 0, 8}
	store := []byte{0x36, 2, 0}
	return bytes.Join([][]byte{
		{0x41, left}, field(32), store, // left = n
		{0x41, out, 0x20, 0}, field(48), {0x6A}, store, // out = batch + out_off
		{0x20, 0}, field(40), {0x6A, 0x21, 0}, // record = batch + in_off
		{0x02, 0x40, 0x03, 0x40}, load(left), {0x45, 0x0D, 1}, // while left > 0
		load(out), {0x41, 3}, poll, poll, {0x41, 4, 0x46}, field(12), {0x41, ticks, 0x49, 0x71, 0x1B, 0x3A, 0, 0}, // vote
		{0x41, out}, load(out), {0x41, 8, 0x6A}, store,
		{0x20, 0, 0x41, 32, 0x6A, 0x21, 0},
		{0x41, left}, load(left), {0x41, 1, 0x6B}, store,
		{0x0C, 0, 0x0B, 0x0B, 0x41, 0},
	}, nil)
}

// counts is a body that counts 2^18 down to 0, which takes longer than many ticks.
func counts() []byte {
	const counter = 16
	load, store := []byte{0x41, counter, 0x28, 2, 0}, []byte{0x36, 2, 0}
	return bytes.Join([][]byte{
		{0x41, counter, 0x41, 0x80, 0x80, 0x10}, store,
		{0x03, 0x40, 0x41, counter}, load, {0x41, 1, 0x6B}, store, load, {0x0D, 0, 0x0B},
		{0x41, 0},
	}, nil)
}
