package wasmbin

import "fmt"

// Instructions that the package treats one by one.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0B
	opBr           = 0x0C
	opBrIf         = 0x0D
	opBrTable      = 0x0E
	opReturn       = 0x0F
	opCall         = 0x10
	opCallIndirect = 0x11
	opSelect       = 0x1B
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32GtU       = 0x4B
	opI64LtS       = 0x53
	opF32Eq        = 0x5B
	opF64Eq        = 0x61
	opI32Add       = 0x6A
	opI32Sub       = 0x6B
	opI64Sub       = 0x7D
	opI64ShrU      = 0x88
	opI64Shl       = 0x86
	opExtendU      = 0xAD // i64.extend_i32_u
	opPrefix       = 0xFC // two-part instructions, numbered 0x100 + the second part here
	opMemoryInit   = 0x108
	opDataDrop     = 0x109
	opMemoryCopy   = 0x10A
	opMemoryFill   = 0x10B
	opcodes        = 0x10C
	blockEmpty     = 0x40
)

// form is what follows an opcode.
type form uint8

const (
	formNone form = iota + 1
	formBlock
	formLabel
	formTable
	formFunction
	formIndirect
	formLocal
	formGlobal
	formMemory // alignment and offset
	formZero   // a memory index, which is 0
	formI32
	formI64
	formF32
	formF64
	formSegment // data segment and memory index
	formDrop    // data segment
	formTwoZeros
)

// opcode describes an instruction: what follows it, how many values it takes and gives, and what it costs. A zero form is
// an instruction outside the feature set.
type opcode struct {
	form       form
	pops, push uint8
	canon      ValueType // F32 or F64 where the result may be a NaN whose bits the engine chooses
	weight     weight
}

// weight picks one of the Costs.
type weight uint8

const (
	weightPlain weight = iota
	weightFree
	weightDivide
	weightCall
	weightBulk
)

// opcodeTable describes the feature set. It is a function of nothing, built once by each caller that walks a module.
func opcodeTable() *[opcodes]opcode {
	t := &[opcodes]opcode{}
	set := func(from, to int, o opcode) {
		for i := from; i <= to; i++ {
			t[i] = o
		}
	}
	one := func(at int, o opcode) { t[at] = o }
	one(opUnreachable, opcode{form: formNone})
	one(0x01, opcode{form: formNone, weight: weightFree}) // nop
	one(opBlock, opcode{form: formBlock, weight: weightFree})
	one(opLoop, opcode{form: formBlock, weight: weightFree})
	one(opIf, opcode{form: formBlock, pops: 1})
	one(opElse, opcode{form: formNone, weight: weightFree})
	one(opEnd, opcode{form: formNone, weight: weightFree})
	one(opBr, opcode{form: formLabel})
	one(opBrIf, opcode{form: formLabel, pops: 1})
	one(opBrTable, opcode{form: formTable, pops: 1})
	one(opReturn, opcode{form: formNone})
	one(opCall, opcode{form: formFunction, weight: weightCall})
	one(opCallIndirect, opcode{form: formIndirect, pops: 1, weight: weightCall})
	one(0x1A, opcode{form: formNone, pops: 1, weight: weightFree}) // drop
	one(opSelect, opcode{form: formNone, pops: 3, push: 1})
	one(opLocalGet, opcode{form: formLocal, push: 1})
	one(opLocalSet, opcode{form: formLocal, pops: 1})
	one(opLocalTee, opcode{form: formLocal, pops: 1, push: 1})
	one(opGlobalGet, opcode{form: formGlobal, push: 1})
	one(opGlobalSet, opcode{form: formGlobal, pops: 1})
	set(0x28, 0x35, opcode{form: formMemory, pops: 1, push: 1}) // loads
	set(0x36, 0x3E, opcode{form: formMemory, pops: 2})          // stores
	one(0x3F, opcode{form: formZero, push: 1})                  // memory.size
	one(opMemoryGrow, opcode{form: formZero, pops: 1, push: 1, weight: weightBulk})
	one(opI32Const, opcode{form: formI32, push: 1})
	one(opI64Const, opcode{form: formI64, push: 1})
	one(opF32Const, opcode{form: formF32, push: 1})
	one(opF64Const, opcode{form: formF64, push: 1})
	unary, binary := opcode{form: formNone, pops: 1, push: 1}, opcode{form: formNone, pops: 2, push: 1}
	one(0x45, unary)        // i32.eqz
	set(0x46, 0x4F, binary) // i32 comparisons
	one(0x50, unary)        // i64.eqz
	set(0x51, 0x66, binary) // other comparisons
	set(0x67, 0x69, unary)  // i32 counts of bits
	set(0x6A, 0x78, binary) // i32 arithmetic
	set(0x79, 0x7B, unary)  // i64 counts of bits
	set(0x7C, 0x8A, binary) // i64 arithmetic
	divide := binary
	divide.weight = weightDivide
	set(0x6D, 0x70, divide) // i32 div, rem
	set(0x7F, 0x82, divide) // i64 div, rem
	for _, f := range []struct {
		base  int
		canon ValueType
	}{{0x8B, F32}, {0x99, F64}} {
		// abs, neg, ceil, floor, trunc, nearest, sqrt, then add, sub, mul, div, min, max, copysign. abs, neg and copysign
		// work on bits and choose none.
		set(f.base, f.base+1, unary)
		set(f.base+2, f.base+5, opcode{form: formNone, pops: 1, push: 1, canon: f.canon})
		one(f.base+6, opcode{form: formNone, pops: 1, push: 1, canon: f.canon, weight: weightDivide})
		set(f.base+7, f.base+12, opcode{form: formNone, pops: 2, push: 1, canon: f.canon})
		one(f.base+10, opcode{form: formNone, pops: 2, push: 1, canon: f.canon, weight: weightDivide})
		one(f.base+13, binary)
	}
	set(0xA7, 0xBF, unary) // conversions
	one(0xB6, opcode{form: formNone, pops: 1, push: 1, canon: F32})
	one(0xBB, opcode{form: formNone, pops: 1, push: 1, canon: F64})
	set(0xC0, 0xC4, unary)   // sign extension
	set(0x100, 0x107, unary) // saturating float to integer
	one(opMemoryInit, opcode{form: formSegment, pops: 3, weight: weightBulk})
	one(opDataDrop, opcode{form: formDrop})
	one(opMemoryCopy, opcode{form: formTwoZeros, pops: 3, weight: weightBulk})
	one(opMemoryFill, opcode{form: formZero, pops: 3, weight: weightBulk})
	return t
}

// featureOf names the feature that an instruction outside the set belongs to.
func featureOf(op int) string {
	switch {
	case op >= 0x06 && op <= 0x0A, op == 0x18, op == 0x19, op == 0x1F:
		return "exceptions"
	case op == 0x12, op == 0x13:
		return "tail calls"
	case op == 0x14, op == 0x15, op >= 0xD3 && op <= 0xD6:
		return "typed function references"
	case op >= opcodes && op <= 0x10E:
		return "bulk operations on tables"
	case op == 0x1C, op == 0x25, op == 0x26, op >= 0xD0 && op <= 0xD2, op >= 0x10F && op <= 0x111:
		return "reference types"
	case op == 0xFB:
		return "garbage collection"
	case op == 0xFD:
		return "SIMD"
	case op == 0xFE:
		return "threads"
	}
	return "a feature that this host does not know"
}

// opcodeName is an opcode as the binary format writes it.
func opcodeName(op int) string {
	if op >= 0x100 {
		return fmt.Sprintf("0xfc %d", op-0x100)
	}
	return fmt.Sprintf("%#02x", op)
}

// instruction is one decoded instruction.
type instruction struct {
	op     int
	at     int // position in the body
	index  uint32
	block  byte // of block, loop, if: blockEmpty or a value type
	labels []uint32
}

// next reads one instruction into i. labels is reused.
func (r *reader) next(table *[opcodes]opcode, i *instruction) opcode {
	i.at = r.pos
	i.op = int(r.byte())
	if i.op == opPrefix {
		sub := r.u32()
		if sub > 0xFF {
			sub = 0xFF
		}
		i.op = 0x100 + int(sub)
	}
	if r.err != nil {
		return opcode{}
	}
	var o opcode
	if i.op < len(table) {
		o = table[i.op]
	}
	switch o.form {
	case formNone:
	case formLocal, formGlobal, formLabel, formFunction, formDrop:
		i.index = r.u32()
	case formMemory:
		// Higher bits of the alignment announce a memory index that this package would not skip.
		if align := r.u32(); r.err == nil && align > 3 {
			r.failAt(i.at, RuleFeature, "a memory access with alignment flags %#x; build without multi-memory", align)
		}
		r.u32()
	case formI32:
		r.signed(32)
	case formI64:
		r.signed(64)
	case formF32:
		r.take(4)
	case formF64:
		r.take(8)
	case formBlock:
		r.blockType(i)
	case formTable:
		n := r.count()
		i.labels = i.labels[:0]
		for k := 0; k <= n && r.err == nil; k++ {
			i.labels = append(i.labels, r.u32())
		}
	case formIndirect:
		i.index = r.u32()
		if t := r.u32(); r.err == nil && t != 0 {
			r.failAt(i.at, RuleFeature, "call_indirect through table %d; build without reference types", t)
		}
	case formZero:
		r.memoryZero(i.at)
	case formTwoZeros:
		r.memoryZero(i.at)
		r.memoryZero(i.at)
	case formSegment:
		i.index = r.u32()
		r.memoryZero(i.at)
	default:
		r.failAt(i.at, RuleFeature, "instruction %s needs %s, which no policy may use; build the policy without it", opcodeName(i.op), featureOf(i.op))
	}
	return o
}

func (r *reader) memoryZero(at int) {
	if m := r.u32(); r.err == nil && m != 0 {
		r.failAt(at, RuleFeature, "an instruction on memory %d; build without multi-memory", m)
	}
}

func (r *reader) blockType(i *instruction) {
	i.block = r.byte()
	switch ValueType(i.block) {
	case blockEmpty, I32, I64, F32, F64:
		return
	}
	if r.err == nil {
		r.failAt(i.at, RuleFeature, "block type %#x; only blocks without parameters and with at most one result are supported, build without multi-value", i.block)
	}
}
