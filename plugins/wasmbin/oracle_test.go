package wasmbin

import (
	"math/bits"
)

// oracle runs modules of shape{} instruction by instruction and adds up what each costs, without knowing of blocks or
// charges. It stops where the call stack or the cost leaves what the tests use, or at a trap.
type oracle struct {
	m     *Module
	costs Costs
	table *[opcodes]opcode
	cost  int64
	depth int
	glob  []uint64
	jumps []map[int]jump // of each function
	code  [][]step
}

// step is a decoded instruction; at is what a jump counts in.
type step struct {
	instruction
	value uint64
}

// jump says where a block, loop or if leads: the steps of its else and end.
type jump struct{ otherwise, end int }

func newOracle(m *Module, c Costs) *oracle {
	o := &oracle{m: m, costs: c, table: opcodeTable()}
	for _, g := range m.Globals {
		r := &reader{buf: g.Init[1:]}
		o.glob = append(o.glob, uint64(r.signed(64)))
		if g.Type == I32 {
			o.glob[len(o.glob)-1] &= 0xFFFFFFFF
		}
	}
	for _, b := range m.Bodies {
		r := &reader{buf: b.Code}
		var steps []step
		jumps := map[int]jump{}
		var open []int
		for !r.done() {
			var s step
			r.next(o.table, &s.instruction)
			s.labels = append([]uint32{}, s.labels...)
			switch v := (&reader{buf: b.Code, pos: s.at + 1}); s.op {
			case opI32Const:
				s.value = uint64(uint32(v.signed(32)))
			case opI64Const:
				s.value = uint64(v.signed(64))
			case opBlock, opLoop, opIf:
				open = append(open, len(steps))
			case opElse:
				j := jumps[open[len(open)-1]]
				j.otherwise = len(steps)
				jumps[open[len(open)-1]] = j
			case opEnd:
				if len(open) > 0 {
					j := jumps[open[len(open)-1]]
					j.end = len(steps)
					jumps[open[len(open)-1]] = j
					open = open[:len(open)-1]
				}
			}
			steps = append(steps, s)
		}
		o.code, o.jumps = append(o.code, steps), append(o.jumps, jumps)
	}
	return o
}

// open is an entered block in a running function.
type open struct {
	start, end, height, arity int
	loop                      bool
}

func (o *oracle) call(f int, args []uint64) (results []uint64, ended bool) {
	if o.depth++; o.depth > 500 {
		return nil, false
	}
	defer func() { o.depth-- }()
	t := o.m.Types[o.m.Functions[f]]
	locals := append([]uint64{}, args...)
	for _, run := range o.m.Bodies[f].Locals {
		locals = append(locals, make([]uint64, run.N)...)
	}
	o.cost += o.costs.Function + int64(len(locals))>>o.costs.Locals
	steps, jumps := o.code[f], o.jumps[f]
	var stack []uint64
	blocks := []open{{end: len(steps) - 1, arity: len(t.Results)}}
	pop := func() uint64 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		return v
	}
	push := func(v uint64) { stack = append(stack, v) }
	branch := func(d uint32) int {
		b := blocks[len(blocks)-1-int(d)]
		if b.loop {
			blocks = blocks[:len(blocks)-int(d)]
			stack = stack[:b.height]
			return b.start + 1
		}
		stack = append(stack[:b.height], stack[len(stack)-b.arity:]...)
		blocks = blocks[:len(blocks)-1-int(d)]
		return b.end + 1
	}
	for pc := 0; pc < len(steps); {
		if len(blocks) == 0 {
			break
		}
		s := &steps[pc]
		o.cost += o.costs.of(o.table[s.op].weight)
		if o.cost > 1<<20 {
			return nil, false
		}
		pc++
		switch s.op {
		case opUnreachable:
			return nil, false
		case opBlock, opLoop, opIf:
			j := jumps[pc-1]
			b := open{start: pc - 1, end: j.end, loop: s.op == opLoop}
			if s.block != blockEmpty {
				b.arity = 1
			}
			if s.op == opIf && uint32(pop()) == 0 {
				if pc = j.otherwise + 1; j.otherwise == 0 {
					pc = j.end + 1
					continue
				}
			}
			b.height = len(stack)
			blocks = append(blocks, b)
		case opElse:
			pc = branch(0)
		case opEnd:
			blocks = blocks[:len(blocks)-1]
		case opBr:
			pc = branch(s.index)
		case opBrIf:
			if uint32(pop()) != 0 {
				pc = branch(s.index)
			}
		case opBrTable:
			pc = branch(s.labels[min(uint64(uint32(pop())), uint64(len(s.labels)-1))])
		case opReturn:
			return stack[len(stack)-len(t.Results):], true
		case opCall, opCallIndirect:
			callee := s.index
			if s.op == opCallIndirect {
				if callee = uint32(pop()); int(callee) >= len(o.m.Functions) || o.m.Functions[callee] != s.index {
					return nil, false
				}
			}
			n := len(o.m.Types[o.m.Functions[callee]].Params)
			args := append([]uint64{}, stack[len(stack)-n:]...)
			stack = stack[:len(stack)-n]
			r, ok := o.call(int(callee), args)
			if !ok {
				return nil, false
			}
			stack = append(stack, r...)
		case opSelect:
			c, b, a := pop(), pop(), pop()
			if uint32(c) != 0 {
				b = a
			}
			push(b)
		case opLocalGet:
			push(locals[s.index])
		case opLocalSet:
			locals[s.index] = pop()
		case opLocalTee:
			locals[s.index] = stack[len(stack)-1]
		case opGlobalGet:
			push(o.glob[s.index])
		case opGlobalSet:
			o.glob[s.index] = pop()
		case opI32Const, opI64Const:
			push(s.value)
		case 0x01:
		case 0x1A:
			pop()
		default:
			if o.table[s.op].pops == 1 {
				push(unaryOp(s.op, pop()))
			} else {
				b, a := pop(), pop()
				push(binaryOp(s.op, a, b))
			}
		}
	}
	return stack[len(stack)-len(t.Results):], true
}

func unaryOp(o int, a uint64) uint64 {
	switch o {
	case 0x50:
		return truth(a == 0)
	case 0xA7:
		return a & 0xFFFFFFFF
	case 0xAC:
		return uint64(int64(int32(a)))
	case 0xAD:
		return uint64(uint32(a))
	case 0x79:
		return uint64(bits.LeadingZeros64(a))
	case 0x7A:
		return uint64(bits.TrailingZeros64(a))
	case 0x7B:
		return uint64(bits.OnesCount64(a))
	case 0xC2:
		return uint64(int64(int8(a)))
	case 0xC3:
		return uint64(int64(int16(a)))
	}
	return uint64(int64(int32(a))) // 0xC4
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func binaryOp(o int, a, b uint64) uint64 {
	x, y := uint32(a), uint32(b)
	switch o {
	case 0x46:
		return truth(x == y)
	case 0x48:
		return truth(int32(x) < int32(y))
	case 0x49:
		return truth(x < y)
	case 0x4B:
		return truth(x > y)
	case 0x51:
		return truth(a == b)
	case 0x53:
		return truth(int64(a) < int64(b))
	case 0x56:
		return truth(a > b)
	case 0x6A:
		return uint64(x + y)
	case 0x6B:
		return uint64(x - y)
	case 0x6C:
		return uint64(x * y)
	case 0x71:
		return uint64(x & y)
	case 0x72:
		return uint64(x | y)
	case 0x73:
		return uint64(x ^ y)
	case 0x74:
		return uint64(x << (y & 31))
	case 0x75:
		return uint64(uint32(int32(x) >> (y & 31)))
	case 0x77:
		return uint64(bits.RotateLeft32(x, int(y&31)))
	case 0x7C:
		return a + b
	case 0x7D:
		return a - b
	case 0x7E:
		return a * b
	case 0x83:
		return a & b
	case 0x84:
		return a | b
	case 0x85:
		return a ^ b
	case 0x86:
		return a << (b & 63)
	case 0x88:
		return a >> (b & 63)
	}
	return bits.RotateLeft64(a, int(b&63)) // 0x89
}
