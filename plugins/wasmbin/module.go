package wasmbin

// ValueType is the type of a value, as its byte in the binary format.
type ValueType byte

// The value types of the supported feature set.
const (
	I32 ValueType = 0x7F
	I64 ValueType = 0x7E
	F32 ValueType = 0x7D
	F64 ValueType = 0x7C
)

// String is the type as the text format writes it.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	}
	return "no type"
}

// Kind says what an import or export is.
type Kind byte

// The kinds.
const (
	KindFunction Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

// String is the kind in words.
func (k Kind) String() string {
	return [...]string{"function", "table", "memory", "global"}[k&3]
}

// Module is a decoded module. Byte slices alias the bytes that it was decoded from and must not be written to.
type Module struct {
	Types     []FuncType
	Imports   []Import
	Functions []uint32 // type index of each function that the module defines
	Tables    []Limit  // in elements; all of functions
	Memories  []Limit  // in pages of 64 KiB
	Globals   []Global
	Exports   []Export
	Start     int // function index, -1 for none
	Elements  []Element
	DataCount int // -1 for none
	Bodies    []Body
	Data      []Data
	Customs   []Custom

	size int // bytes that it was decoded from
}

// FuncType is a function's type. More than one result is representable and refused by Verify.
type FuncType struct{ Params, Results []ValueType }

// Import is one import. Type is the function's type index; Limit and Global are set for the other kinds.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         uint32
	Limit        Limit
	Global       Global
}

// Limit is the size of a memory or table.
type Limit struct {
	Min, Max uint32
	HasMax   bool
}

// Global is a global; Init is its constant expression, with the final end.
type Global struct {
	Type    ValueType
	Mutable bool
	Init    []byte
}

// Export is one export.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Element is an active segment of table 0. Offset is a constant expression with the final end.
type Element struct {
	Offset    []byte
	Functions []uint32
}

// Data is a data segment: active at Offset (a constant expression with the final end), or passive where that is nil.
type Data struct {
	Offset []byte
	Bytes  []byte
}

// Body is a function's code.
type Body struct {
	Locals []LocalRun
	Code   []byte // instructions, with the final end
	Offset int    // of Code in the module that it was decoded from
}

// LocalRun is N locals of one type.
type LocalRun struct {
	N    uint32
	Type ValueType
}

// Custom is a custom section.
type Custom struct {
	Name  string
	Bytes []byte
}

// ImportedFunctions is how many function indices are imports.
func (m *Module) ImportedFunctions() int { return m.imported(KindFunction) }

func (m *Module) imported(k Kind) int {
	n := 0
	for i := range m.Imports {
		if m.Imports[i].Kind == k {
			n++
		}
	}
	return n
}

// functionTypes is the type index of every function, imports first.
func (m *Module) functionTypes() []uint32 {
	all := make([]uint32, 0, len(m.Imports)+len(m.Functions))
	for i := range m.Imports {
		if m.Imports[i].Kind == KindFunction {
			all = append(all, m.Imports[i].Type)
		}
	}
	return append(all, m.Functions...)
}
