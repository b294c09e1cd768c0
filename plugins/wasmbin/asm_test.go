package wasmbin

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"testing"
)

const shippedPath = "../standard/standard.wasm"

// Small pieces of code. Instructions without operands are written as their bytes.
func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }
func op(b ...byte) []byte        { return b }
func i32(v int32) []byte         { return appendInt([]byte{opI32Const}, int64(v)) }
func i64(v int64) []byte         { return appendInt([]byte{opI64Const}, v) }
func f32(v float32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{opF32Const}, math.Float32bits(v))
}
func f64(v float64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{opF64Const}, math.Float64bits(v))
}
func with(o byte, index uint32) []byte { return appendUint([]byte{o}, index) }
func get(l uint32) []byte              { return with(opLocalGet, l) }
func set(l uint32) []byte              { return with(opLocalSet, l) }
func call(f uint32) []byte             { return with(opCall, f) }

// types is a function type: parameters, then results after a zero.
func types(v ...ValueType) FuncType {
	i := slices.Index(v, 0)
	return FuncType{v[:i], v[i+1:]}
}

// fn is one function of a test module.
type fn struct {
	t      FuncType
	locals []LocalRun
	code   []byte // without the final end
}

// build makes a module with one page of memory. Functions are exported as f0, f1, ...
func build(fns ...fn) *Module {
	m := &Module{Start: -1, DataCount: -1, Memories: []Limit{{Min: 1, Max: 16, HasMax: true}}, Exports: []Export{{"memory", KindMemory, 0}}}
	for i, f := range fns {
		m.Types = append(m.Types, f.t)
		m.Functions = append(m.Functions, uint32(i))
		m.Bodies = append(m.Bodies, Body{Locals: f.locals, Code: cat(f.code, op(opEnd))})
		m.Exports = append(m.Exports, Export{"f" + string(rune('0'+i)), KindFunction, uint32(i)})
	}
	return m
}

// again is the module as Decode reads it from its own bytes.
func again(t testing.TB, m *Module) *Module {
	t.Helper()
	d, err := Decode(m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func readShipped(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(shippedPath)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shippedLimits are the default limits with the imports that a Go program has.
func shippedLimits(m *Module) Limits {
	l := DefaultLimits()
	for _, i := range m.Imports {
		l.Imports = append(l.Imports, ImportName{i.Module, i.Name})
	}
	return l
}
