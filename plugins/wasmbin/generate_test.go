package wasmbin

import (
	"math"
	"math/rand/v2"
)

// shape says what generated modules may do.
type shape struct {
	floats bool // float instructions
	memory bool // loads, stores, bulk instructions, growth, traps of arithmetic
	wild   bool // branches back, recursion, indirect calls: may run for ever
}

// generator writes one valid module after another from its seed.
type generator struct {
	r *rand.Rand
	shape
	m *Module

	code    []byte
	fn      int
	types   []ValueType // of the locals; the first readOnly.. are loop counters, never written by statements
	vars    int         // locals that statements may write
	result  ValueType   // of the function, 0 for none
	labels  []label     // innermost last
	counter int         // next free loop counter
	fuel    int         // instructions that may still be written
}

type label struct {
	loop  bool
	value ValueType // 0 for none
}

const counters = 4 // locals of each function that only its bounded loops use

func newGenerator(seed uint64, s shape) *generator {
	return &generator{r: rand.New(rand.NewPCG(seed, 0x51)), shape: s}
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) anyType() ValueType {
	all := []ValueType{I32, I64, F32, F64}
	if !g.floats {
		all = all[:2]
	}
	return all[g.r.IntN(len(all))]
}

// module generates a module whose f0 takes and returns what its type says.
func (g *generator) module() *Module {
	n := 2 + g.r.IntN(4)
	g.m = &Module{Start: -1, DataCount: -1, Memories: []Limit{{Min: 1, Max: 8, HasMax: true}}, Exports: []Export{{"memory", KindMemory, 0}}}
	for i := range n {
		t := FuncType{}
		for range g.r.IntN(3) {
			t.Params = append(t.Params, g.anyType())
		}
		if i == 0 || g.chance(80) {
			t.Results = []ValueType{g.anyType()}
		}
		g.m.Types = append(g.m.Types, t)
		g.m.Functions = append(g.m.Functions, uint32(i))
		g.m.Exports = append(g.m.Exports, Export{"f" + string(rune('0'+i)), KindFunction, uint32(i)})
	}
	for i := range 3 {
		t := []ValueType{I32, I64, g.anyType()}[i]
		g.m.Globals = append(g.m.Globals, Global{t, true, cat(g.constant(t), op(opEnd))})
		g.m.Exports = append(g.m.Exports, Export{"g" + string(rune('0'+i)), KindGlobal, uint32(i)})
	}
	g.m.Tables = []Limit{{Min: uint32(n) + 2}}
	e := Element{Offset: cat(i32(0), op(opEnd))}
	for i := range n {
		e.Functions = append(e.Functions, uint32(i))
	}
	g.m.Elements = []Element{e}
	if g.memory {
		g.m.Data = []Data{{cat(i32(8), op(opEnd)), []byte("some active bytes")}, {nil, []byte("and some passive ones")}}
		g.m.DataCount = 2
	}
	for i := range n {
		g.m.Bodies = append(g.m.Bodies, g.function(i))
	}
	return g.m
}

func (g *generator) function(i int) Body {
	t := g.m.Types[i]
	g.fn, g.code, g.counter, g.fuel = i, nil, 0, 150
	g.types = append([]ValueType{}, t.Params...)
	b := Body{}
	for range g.r.IntN(4) {
		run := LocalRun{1 + g.r.Uint32N(2), g.anyType()}
		b.Locals = append(b.Locals, run)
		for range run.N {
			g.types = append(g.types, run.Type)
		}
	}
	g.vars = len(g.types)
	b.Locals = append(b.Locals, LocalRun{counters, I32})
	for range counters {
		g.types = append(g.types, I32)
	}
	g.result = 0
	if len(t.Results) > 0 {
		g.result = t.Results[0]
	}
	g.labels = []label{{value: g.result}}
	for range 2 + g.r.IntN(6) {
		g.statement(0)
	}
	if g.result != 0 {
		g.value(g.result, 0)
	}
	b.Code = append(g.code, opEnd)
	return b
}

func (g *generator) emit(parts ...[]byte) {
	for _, p := range parts {
		g.code = append(g.code, p...)
		g.fuel--
	}
}

func (g *generator) constant(t ValueType) []byte {
	switch t {
	case I32:
		return i32([]int32{0, 1, -1, 7, 64, 1000, math.MinInt32, g.r.Int32()}[g.r.IntN(8)])
	case I64:
		return i64([]int64{0, 1, -1, 3, math.MinInt64, g.r.Int64()}[g.r.IntN(6)])
	case F32:
		return f32([]float32{0, 1, -2.5, float32(math.Inf(1)), float32(math.NaN()), g.r.Float32() * 1e6}[g.r.IntN(6)])
	}
	return f64([]float64{0, -1, 2.5, math.Inf(-1), math.NaN(), g.r.Float64() * 1e12}[g.r.IntN(6)])
}

// value writes code that leaves a value of type t.
func (g *generator) value(t ValueType, deep int) {
	if deep > 4 || g.fuel <= 0 {
		g.leaf(t)
		return
	}
	switch k := g.r.IntN(16); {
	case k < 4:
		g.leaf(t)
	case k < 9:
		g.arithmetic(t, deep)
	case k == 9:
		g.value(t, deep+1)
		g.value(t, deep+1)
		g.value(I32, deep+1)
		g.emit(op(opSelect))
	case k == 10:
		g.value(I32, deep+1)
		g.emit(op(opIf, byte(t)))
		g.inside(label{value: t}, func() { g.some(1); g.value(t, deep+1) })
		g.emit(op(opElse))
		g.inside(label{value: t}, func() { g.value(t, deep+1) })
		g.emit(op(opEnd))
	case k == 11:
		g.emit(op(opBlock, byte(t)))
		g.inside(label{value: t}, func() {
			g.some(1)
			g.value(t, deep+1)
			g.value(I32, deep+1)
			g.emit(with(opBrIf, 0))
		})
		g.emit(op(opEnd))
	case k == 12 && g.memory:
		g.address(deep)
		g.emit(op(map[ValueType][]byte{I32: {0x28, 2, 4}, I64: {0x31, 0, 0}, F32: {0x2A, 0, 0}, F64: {0x2B, 0, 8}}[t]...))
	case k <= 14:
		g.call(t, deep)
	default:
		g.emit(g.tee(t, deep))
	}
}

// tee leaves a value through a local where there is one of the type.
func (g *generator) tee(t ValueType, deep int) []byte {
	g.value(t, deep+1)
	if l, ok := g.local(t, true); ok {
		return with(opLocalTee, l)
	}
	return nil
}

// local picks a local of the type; writable leaves out the counters.
func (g *generator) local(t ValueType, writable bool) (uint32, bool) {
	n := len(g.types)
	if writable {
		n = g.vars
	}
	for range 4 {
		if n == 0 {
			break
		}
		if l := g.r.IntN(n); g.types[l] == t {
			return uint32(l), true
		}
	}
	return 0, false
}

func (g *generator) leaf(t ValueType) {
	if l, ok := g.local(t, false); ok && g.chance(60) {
		g.emit(get(l))
		return
	}
	if i := g.r.IntN(3); g.m.Globals[i].Type == t && g.chance(50) {
		g.emit(with(opGlobalGet, uint32(i)))
		return
	}
	g.emit(g.constant(t))
}

// address leaves an address that is nearly always inside the memory.
func (g *generator) address(deep int) {
	g.value(I32, deep+1)
	mask := int32(0xFFF)
	if g.chance(4) {
		mask = -1
	}
	g.emit(i32(mask), op(0x71))
}

// plainOps are binary instructions that never trap.
var plainOps = map[ValueType][]byte{
	I32: {0x6A, 0x6B, 0x6C, 0x71, 0x72, 0x73, 0x74, 0x75, 0x77},
	I64: {0x7C, 0x7D, 0x7E, 0x83, 0x84, 0x85, 0x86, 0x88, 0x89},
	F32: {0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98},
	F64: {0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6},
}

func (g *generator) arithmetic(t ValueType, deep int) {
	switch k := g.r.IntN(10); {
	case k < 5:
		ops := plainOps[t]
		g.value(t, deep+1)
		g.value(t, deep+1)
		g.emit(op(ops[g.r.IntN(len(ops))]))
	case t == I32 && k == 5:
		g.value(I64, deep+1)
		g.emit(op([]byte{0x50, 0xA7}[g.r.IntN(2)])) // eqz, wrap
	case t == I32:
		of := g.anyType()
		g.value(of, deep+1)
		g.value(of, deep+1)
		g.emit(op(map[ValueType][]byte{I32: {0x46, 0x48, 0x4B}, I64: {0x51, 0x53, 0x56}, F32: {0x5B, 0x5D, 0x60}, F64: {0x61, 0x63, 0x66}}[of][g.r.IntN(3)]))
	case t == I64 && k == 5:
		g.value(I32, deep+1)
		g.emit(op([]byte{0xAC, 0xAD}[g.r.IntN(2)]))
	case t == I64 && g.floats && k == 6:
		g.value(F64, deep+1)
		g.emit([][]byte{{0xBD}, {0xFC, 6}, {0xFC, 7}, {0xB0}}[g.r.IntN(4)])
	case t == I64 && g.memory && k == 7:
		g.value(I64, deep+1)
		g.value(I64, deep+1)
		g.emit(op([]byte{0x7F, 0x80, 0x81, 0x82}[g.r.IntN(4)])) // traps on 0
	case t == I64:
		g.value(I64, deep+1)
		g.emit(op([]byte{0x79, 0x7A, 0x7B, 0xC2, 0xC3, 0xC4}[g.r.IntN(6)]))
	case t == F32:
		g.unaryFloat(F32, deep, []byte{0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90, 0x91}, I32, []byte{0xB2, 0xB3, 0xBE}, F64, 0xB6)
	default:
		g.unaryFloat(F64, deep, []byte{0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F}, I64, []byte{0xB9, 0xBA, 0xBF}, F32, 0xBB)
	}
}

func (g *generator) unaryFloat(t ValueType, deep int, own []byte, from ValueType, convert []byte, other ValueType, cross byte) {
	switch g.r.IntN(3) {
	case 0:
		g.value(t, deep+1)
		g.emit(op(own[g.r.IntN(len(own))]))
	case 1:
		g.value(from, deep+1)
		g.emit(op(convert[g.r.IntN(len(convert))]))
	default:
		g.value(other, deep+1)
		g.emit(op(cross))
	}
}

// call calls a function that leaves a t, or leaves one itself where there is none to call.
func (g *generator) call(t ValueType, deep int) {
	for range 3 {
		f := g.r.IntN(len(g.m.Types))
		if !g.wild && f <= g.fn {
			continue
		}
		callee := g.m.Types[f]
		if len(callee.Results) == 0 || callee.Results[0] != t {
			continue
		}
		for _, p := range callee.Params {
			g.value(p, deep+2)
		}
		if g.wild && g.chance(30) {
			// An index that is mostly right; another may be of another type or empty.
			at := f
			if g.chance(20) {
				at = g.r.IntN(int(g.m.Tables[0].Min) + 1)
			}
			g.emit(i32(int32(at)), cat(with(opCallIndirect, uint32(f)), op(0x80, 0)))
			return
		}
		g.emit(call(uint32(f)))
		return
	}
	g.leaf(t)
}

// inside writes code with one more label in scope.
func (g *generator) inside(l label, body func()) {
	g.labels = append(g.labels, l)
	body()
	g.labels = g.labels[:len(g.labels)-1]
}

func (g *generator) some(n int) {
	for range g.r.IntN(n + 1) {
		g.statement(3)
	}
}

func (g *generator) statement(deep int) {
	if g.fuel <= 0 {
		return
	}
	switch k := g.r.IntN(17); {
	case k < 3:
		t := g.anyType()
		g.value(t, deep)
		if l, ok := g.local(t, true); ok {
			g.emit(with(opLocalSet, l))
		} else {
			g.emit(op(0x1A))
		}
	case k == 3:
		i := g.r.IntN(3)
		g.value(g.m.Globals[i].Type, deep)
		g.emit(with(opGlobalSet, uint32(i)))
	case k < 6:
		g.value(I32, deep)
		g.emit(op(opIf, blockEmpty))
		g.inside(label{}, func() { g.body(deep) })
		if g.chance(50) {
			g.emit(op(opElse))
			g.inside(label{}, func() { g.body(deep) })
		}
		g.emit(op(opEnd))
	case k < 8:
		g.emit(op(opBlock, blockEmpty))
		g.inside(label{}, func() { g.body(deep) })
		g.emit(op(opEnd))
	case k < 10:
		g.loop(deep)
	case k < 13:
		g.branch(deep)
	case g.memory:
		g.touch(deep)
	default:
		g.emit(op(0x01))
	}
}

func (g *generator) body(deep int) {
	if deep > 5 {
		return
	}
	for range 1 + g.r.IntN(3) {
		g.statement(deep + 1)
	}
}

// loop runs its body a few times, or, in wild modules, until a branch leaves it.
func (g *generator) loop(deep int) {
	if g.counter == counters || deep > 4 {
		return
	}
	c := uint32(g.vars + g.counter)
	g.counter++
	g.emit(i32(0), set(c), op(opLoop, blockEmpty))
	g.inside(label{loop: true}, func() {
		g.body(deep + 1)
		g.emit(get(c), i32(1), op(opI32Add), with(opLocalTee, c), i32(g.r.Int32N(5)), op(0x49), with(opBrIf, 0))
	})
	g.emit(op(opEnd))
}

// branch leaves some block, on a condition or at once.
func (g *generator) branch(deep int) {
	to := func() (uint32, label) {
		for {
			d := g.r.IntN(len(g.labels))
			if l := g.labels[len(g.labels)-1-d]; !l.loop || g.wild {
				return uint32(d), l
			}
		}
	}
	d, l := to()
	carry := func() {
		if l.value != 0 && !l.loop {
			g.value(l.value, deep+1)
		}
	}
	drop := func() {
		if l.value != 0 && !l.loop {
			g.emit(op(0x1A))
		}
	}
	switch k := g.r.IntN(8); {
	case k < 4:
		carry()
		g.value(I32, deep+1)
		g.emit(with(opBrIf, d))
		drop()
	case k == 4:
		carry()
		g.emit(with(opBr, d))
		g.dead()
	case k == 5:
		if g.result != 0 {
			g.value(g.result, deep+1)
		}
		g.emit(op(opReturn))
		g.dead()
	default:
		// A table of labels that carry the same.
		labels := []uint32{}
		for range 1 + g.r.IntN(3) {
			if other, o := to(); (o.value == 0 || o.loop) == (l.value == 0 || l.loop) && (l.loop || o.loop || o.value == l.value) {
				labels = append(labels, other)
			}
		}
		g.emit(op(opBlock, blockEmpty)) // so that the code after it is reached
		g.inside(label{}, func() {
			carry()
			g.value(I32, deep+1)
		})
		code := appendUint([]byte{opBrTable}, uint32(len(labels))+1)
		code = append(code, 0) // stands for the block around it where nothing is carried
		if l.value != 0 && !l.loop {
			code[len(code)-1] = byte(d + 1)
		}
		for _, x := range append(labels, d) {
			code = appendUint(code, x+1)
		}
		g.emit(code, op(opEnd))
		if l.value != 0 && !l.loop {
			g.dead()
		}
	}
}

// dead writes valid code where none is reached: what follows a branch in the same block.
func (g *generator) dead() {
	if g.chance(30) {
		g.emit(op(opBlock, blockEmpty, opEnd), i32(1), op(opIf, blockEmpty, opUnreachable, opReturn, opEnd))
	}
}

// touch changes the memory.
func (g *generator) touch(deep int) {
	length := func() { g.value(I32, deep+1); g.emit(i32(0x3FF), op(0x71)) }
	switch g.r.IntN(7) {
	case 0, 1:
		t := g.anyType()
		g.address(deep)
		g.value(t, deep+1)
		g.emit(op(map[ValueType][]byte{I32: {0x36, 2, 0}, I64: {0x3D, 0, 3}, F32: {0x38, 0, 0}, F64: {0x39, 3, 0}}[t]...))
	case 2:
		g.address(deep)
		g.value(I32, deep+1)
		length()
		g.emit(op(0xFC, 11, 0))
	case 3:
		g.address(deep)
		g.address(deep)
		length()
		g.emit(op(0xFC, 10, 0, 0))
	case 4:
		g.address(deep)
		g.emit(i32(g.r.Int32N(4)), i32(g.r.Int32N(20)), op(0xFC, 8, 1, 0))
	case 5:
		g.emit(i32(g.r.Int32N(3)), op(opMemoryGrow, 0, 0x1A))
	default:
		if g.chance(20) {
			g.emit(op(0xFC, 9, 1))
		} else {
			g.emit(op(0x3F, 0, 0x1A))
		}
	}
}
