package wasmbin

import "math"

// scanner walks function bodies. It checks structure and indices, follows the operand stack's height, and divides each
// body into the blocks that are charged for. Its buffers are reused from function to function.
type scanner struct {
	module  *Module
	table   *[opcodes]opcode
	types   []uint32 // of every function, imports first
	imports int      // functions
	globals int      // imports included
	costs   Costs

	r      reader
	frames []frame
	blocks []block
	edits  []edit
	ins    instruction

	// Of the function walked last.
	locals    int  // parameters and locals
	result    byte // block type of its result
	height    int  // of the operand stack, the most
	nesting   int  // most blocks open at once, the function's own included
	calls     int  // calls of functions of the module, and indirect ones
	forks     int  // blocks, arms and labels branched to: where an engine joins the values of locals
	needs32   bool // scratch locals of the inserted code
	needsF32  bool
	needsF64  bool
	current   int // block being walked, -1 in code that is never reached
	nowHeight int
}

// frame is an open block, loop or if.
type frame struct {
	op       int // opBlock, opLoop, opIf, opElse, or opEnd for the function
	entry    int // block at its start, -1 where that is never reached
	height   int
	arity    int
	targeted bool // a branch leads to its end
	then     bool // opElse: the first arm's end is reached
	reach    int  // outermost frame that a branch from inside leads to, math.MaxInt for none
}

// block is a run of instructions that is charged for as one. All of them run at most once each time its charge is paid.
type block struct {
	cost   int64
	extra  int64 // of other blocks, paid by this one
	parent int   // a block that has always been entered before, and no more seldom, or -1 for one that must pay for itself
	payer  int   // whose charge covers it
}

// edit is a place where Meter inserts code.
type edit struct {
	at   int // position in the body
	kind editKind
	arg  int // of editCharge: the block
	nest int // frames open there, the function's own left out: the label of the function's end
}

type editKind uint8

const (
	editCharge editKind = iota
	editBeforeCall
	editAfterCall
	editCanon32
	editCanon64
	editBulk
	editGrow
	editReturn
)

func newScanner(m *Module, c Costs) *scanner {
	return &scanner{module: m, table: opcodeTable(), types: m.functionTypes(), imports: m.ImportedFunctions(),
		globals: m.imported(KindGlobal) + len(m.Globals), costs: c}
}

// maxLocals is the most locals a function can have in any engine we know; more are not even counted.
const maxLocals = 50_000

// function walks the body of the i-th function that the module defines.
func (s *scanner) function(i int) *Error {
	body := &s.module.Bodies[i]
	s.r = reader{buf: body.Code, base: body.Offset, section: sectionName(secCode), function: s.imports + i}
	r := &s.r
	t := s.functionType(s.types[s.imports+i])
	if r.err != nil {
		return r.err
	}
	s.locals, s.result = len(t.Params), blockEmpty
	if len(t.Results) > 0 {
		s.result = byte(t.Results[0])
	}
	for _, run := range body.Locals {
		if run.N > maxLocals || s.locals+int(run.N) > maxLocals {
			r.failAt(0, "locals", "the function has more than %d locals, allowed are %d; keep large arrays in memory", maxLocals, DefaultLimits().Locals)
			return r.err
		}
		s.locals += int(run.N)
	}
	s.frames = append(s.frames[:0], frame{op: opEnd, arity: len(t.Results), reach: math.MaxInt})
	s.blocks = append(s.blocks[:0], block{parent: -1, cost: s.costs.Function + int64(s.locals)>>s.costs.Locals})
	s.edits = append(s.edits[:0], edit{kind: editCharge})
	s.height, s.nesting, s.calls, s.forks, s.current, s.nowHeight = 0, 1, 0, 1, 0, 0
	s.needs32, s.needsF32, s.needsF64 = false, false, false
	for len(s.frames) > 0 && r.err == nil {
		if r.done() {
			r.fail(RuleMalformed, "the function ends inside a block")
			break
		}
		s.step(r.next(s.table, &s.ins))
	}
	if r.err == nil && !r.done() {
		r.fail(RuleMalformed, "instructions follow the end of the function")
	}
	return r.err
}

func (s *scanner) functionType(index uint32) FuncType {
	if int64(index) >= int64(len(s.module.Types)) {
		s.r.failAt(s.ins.at, RuleMalformed, "type %d is named, there are %d", index, len(s.module.Types))
		return FuncType{}
	}
	t := s.module.Types[index]
	if len(t.Results) > 1 {
		s.r.failAt(s.ins.at, RuleFeature, "type %d has %d results; build without multi-value", index, len(t.Results))
	}
	return t
}

func (s *scanner) step(o opcode) {
	r, i := &s.r, &s.ins
	if r.err != nil {
		return
	}
	live := s.current >= 0
	if live {
		s.pop(int(o.pops))
		s.push(int(o.push))
		s.blocks[s.current].cost += s.costs.of(o.weight)
	}
	switch o.form {
	case formNone:
		s.plain(o, live)
	case formLocal:
		s.index(i.index, s.locals, "local")
	case formGlobal:
		s.index(i.index, s.globals, "global")
	case formBlock:
		s.open(live)
	case formLabel:
		s.branch(i.index)
		if i.op == opBr {
			s.current = -1
		} else if live {
			s.enter(s.current)
		}
	case formTable:
		for _, l := range i.labels {
			s.branch(l)
		}
		s.current = -1
	case formFunction:
		if s.index(i.index, len(s.types), "function"); r.err == nil {
			s.call(s.functionType(s.types[i.index]), int(i.index) >= s.imports)
		}
	case formIndirect:
		s.call(s.functionType(i.index), true)
		if len(s.module.Tables) == 0 {
			r.failAt(i.at, RuleMalformed, "call_indirect in a module without a table")
		}
	case formSegment, formDrop:
		s.index(i.index, s.module.DataCount, "data segment")
		if o.form == formSegment {
			s.bulk(live)
		}
	case formZero, formTwoZeros:
		s.bulk(live)
	}
}

// bulk marks an instruction whose cost depends on an operand.
func (s *scanner) bulk(live bool) {
	kind := editBulk
	switch s.ins.op {
	case opMemoryGrow:
		kind = editGrow
	case opMemoryInit, opMemoryCopy, opMemoryFill:
	default:
		return
	}
	if live {
		s.needs32 = true
		s.edit(s.ins.at, kind, 0)
	}
}

func (s *scanner) plain(o opcode, live bool) {
	switch s.ins.op {
	case opElse:
		s.otherArm()
	case opEnd:
		s.close()
	case opReturn:
		s.frames[len(s.frames)-1].reach = 0
		if live {
			s.pop(s.frames[0].arity)
			s.edit(s.ins.at, editReturn, 0)
		}
		s.current = -1
	case opUnreachable:
		s.current = -1
	default:
		if !live {
			return
		}
		switch o.canon {
		case F32:
			s.needsF32 = true
			s.edit(s.r.pos, editCanon32, 0)
		case F64:
			s.needsF64 = true
			s.edit(s.r.pos, editCanon64, 0)
		}
	}
}

func (s *scanner) edit(at int, kind editKind, arg int) {
	s.edits = append(s.edits, edit{at, kind, arg, len(s.frames) - 1})
}

func (s *scanner) index(v uint32, n int, what string) {
	if int64(v) >= int64(n) {
		s.r.failAt(s.ins.at, RuleMalformed, "%s %d is named, there are %d", what, v, max(n, 0))
	}
}

func (s *scanner) pop(n int) {
	s.nowHeight -= n
	if s.nowHeight < s.frames[len(s.frames)-1].height {
		s.r.failAt(s.ins.at, RuleMalformed, "instruction %s takes more values than there are", opcodeName(s.ins.op))
	}
}

func (s *scanner) push(n int) {
	s.nowHeight += n
	s.height = max(s.height, s.nowHeight)
}

func (s *scanner) call(t FuncType, own bool) {
	if own {
		s.calls++
	}
	if s.current < 0 || s.r.err != nil {
		return
	}
	s.pop(len(t.Params))
	s.push(len(t.Results))
	// An imported function may spend fuel too: the host charges for its own work.
	s.edit(s.ins.at, editBeforeCall, 0)
	s.edit(s.r.pos, editAfterCall, 0)
}

// enter starts a block whose code runs at most once for each time that the parent's charge is paid; -1: it pays itself.
func (s *scanner) enter(parent int) {
	s.current = len(s.blocks)
	s.blocks = append(s.blocks, block{parent: parent})
	s.edit(s.r.pos, editCharge, s.current)
}

func (s *scanner) open(live bool) {
	f := frame{op: s.ins.op, entry: s.current, height: s.nowHeight, reach: math.MaxInt}
	if s.ins.block != blockEmpty {
		f.arity = 1
	}
	s.frames = append(s.frames, f)
	s.forks++
	s.nesting = max(s.nesting, len(s.frames))
	switch {
	case !live || f.op == opBlock:
	case f.op == opLoop:
		s.enter(-1)
	default:
		s.enter(s.current)
	}
}

// branch follows a branch to the label with the given depth.
func (s *scanner) branch(depth uint32) {
	s.forks++
	if int64(depth) >= int64(len(s.frames)) {
		s.r.failAt(s.ins.at, RuleMalformed, "a branch out of %d blocks, %d are open", depth, len(s.frames))
		return
	}
	if s.current < 0 {
		return
	}
	to := len(s.frames) - 1 - int(depth)
	s.frames[to].targeted = true
	if top := &s.frames[len(s.frames)-1]; to < top.reach {
		top.reach = to
	}
}

func (s *scanner) otherArm() {
	f := &s.frames[len(s.frames)-1]
	if f.op != opIf {
		s.r.failAt(s.ins.at, RuleMalformed, "else without if")
		return
	}
	s.forks++
	f.op, f.then = opElse, s.current >= 0
	s.current, s.nowHeight = f.entry, f.height
	if f.entry >= 0 {
		s.enter(f.entry)
	}
}

// close ends the innermost frame. Where no branch from inside leads past its end, the code after it runs exactly as often
// as the block at its start and is charged for there; else it is a block of its own, as is code after a loop.
func (s *scanner) close() {
	f := s.frames[len(s.frames)-1]
	if s.current >= 0 {
		s.pop(f.arity)
	}
	s.frames = s.frames[:len(s.frames)-1]
	if f.entry < 0 || len(s.frames) == 0 {
		s.current = -1
		return
	}
	if parent := &s.frames[len(s.frames)-1]; f.reach < parent.reach {
		parent.reach = f.reach
	}
	s.nowHeight = f.height
	s.push(f.arity)
	reached := s.current >= 0
	switch f.op {
	case opBlock:
		if !f.targeted {
			return
		}
		reached = true
	case opIf:
		reached = true
	case opElse:
		reached = reached || f.then || f.targeted
	}
	switch {
	case !reached:
		s.current = -1
	case f.reach >= len(s.frames):
		s.current = f.entry
	default:
		s.enter(f.entry)
	}
}

// settle decides who pays for each block. A block whose parent has room pays nothing itself: its cost is added to the
// parent's, even where it is then paid for without being run. What is paid for nothing is at most Costs.Slack a charge, or
// as much as the payer itself costs; with no slack, every instruction is paid for exactly as often as it is reached.
func (s *scanner) settle() {
	for i := range s.blocks {
		b := &s.blocks[i]
		b.payer = i
		if b.parent < 0 {
			continue
		}
		p := s.blocks[b.parent].payer
		if payer := &s.blocks[p]; s.costs.Slack > 0 && payer.extra+b.cost <= max(payer.cost, s.costs.Slack) {
			payer.extra += b.cost
			b.payer = p
		}
	}
}

// charge is what a block pays, 0 for one that another pays for.
func (s *scanner) charge(i int) int64 {
	if b := &s.blocks[i]; b.payer == i {
		return b.cost + b.extra
	}
	return 0
}
