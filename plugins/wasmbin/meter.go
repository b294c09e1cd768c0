package wasmbin

import (
	"slices"

	"sluice/internal/text"
)

// Meter rewrites a module so that it counts what it does, stops when that is more than it may, and gives NaNs of one bit
// pattern only. The result gives the same answers as the module as long as it may go on, but for the bits of NaNs.
//
// Every function pays for a block of its code before that runs: when it is entered, at each loop's start and at branches
// (see Costs). The fuel lies in a local while a function runs and in GlobalFuel across calls and between them; GlobalDepth
// counts the frames of functions that call others. Both globals come last and start at 0, so no index changes and a module
// whose caller sets no budget stops at once. Custom sections are dropped.
//
// Meter expects what Verify has passed; what it cannot rewrite is an *Error. It does not change m.
func Meter(m *Module, c Costs) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	for _, x := range m.Exports {
		if err := reserved(x.Name); err != nil {
			return nil, err
		}
	}
	if m.Start >= 0 {
		return nil, startRefused(m.Start)
	}
	if len(m.Bodies) != len(m.Functions) {
		return nil, refuse(RuleMalformed, "code", "%d functions are declared, %d have code", len(m.Functions), len(m.Bodies))
	}
	out := *m
	out.Customs = nil
	fuel := uint32(m.imported(KindGlobal) + len(m.Globals))
	e := emitter{s: newScanner(m, c), fuel: fuel, depth: fuel + 1, code: make([]byte, 0, m.size+m.size/4)}
	out.Globals = append(slices.Clip(m.Globals),
		Global{Type: I64, Mutable: true, Init: []byte{opI64Const, 0, opEnd}},
		Global{Type: I32, Mutable: true, Init: []byte{opI32Const, 0, opEnd}})
	out.Exports = append(slices.Clip(m.Exports),
		Export{GlobalFuel, KindGlobal, e.fuel}, Export{GlobalDepth, KindGlobal, e.depth})
	out.Bodies = make([]Body, len(m.Bodies))
	for i := range m.Bodies {
		b, err := e.function(i)
		if err != nil {
			return nil, err
		}
		out.Bodies[i] = b
	}
	return out.Encode(), nil
}

func reserved(name string) *Error {
	if name == GlobalFuel || name == GlobalDepth {
		return refuse("reserved_name", "export", "the module exports %s, which is this host's own name; rename the export", text.Quote(name))
	}
	return nil
}

func startRefused(f int) *Error {
	return refuse("start_section", "start", "function %d runs while the module is instantiated, before any budget is set; export it as _initialize instead", f)
}

// emitter writes metered function bodies, all into one buffer.
type emitter struct {
	s           *scanner
	fuel, depth uint32 // indices of the globals
	code        []byte

	inLocal  bool   // the fuel lies in a local
	counted  bool   // the function counts as a frame
	units    int64  // of call stack, if counted
	scratch  uint32 // index of the first local that is added
	local32  uint32
	localF32 uint32
	localF64 uint32
}

// function writes one function:
//
//	block                  ; left where the frames are too many
//	  block                ; left where the fuel is spent
//	    count the frame
//	    block (result)     ; the function's own label: what returned now branches here
//	      the body, with charges
//	    end
//	    put fuel and depth back
//	    return
//	  end
//	  leave the fuel negative, stop
//	end
//	stop
func (e *emitter) function(i int) (Body, error) {
	s := e.s
	if err := s.function(i); err != nil {
		return Body{}, err
	}
	s.settle()
	e.plan()
	body := &s.module.Bodies[i]
	locals := e.addLocals(body.Locals)
	start := len(e.code)
	if e.counted {
		e.op(opBlock, blockEmpty)
	}
	e.op(opBlock, blockEmpty)
	if e.counted {
		e.enterFrame()
	}
	e.op(opBlock, s.result)
	from := 0
	for _, x := range s.edits {
		if x.kind == editCharge && s.charge(x.arg) == 0 {
			continue
		}
		e.code = append(e.code, body.Code[from:x.at]...)
		from = x.at
		e.edit(x)
		if x.kind == editReturn {
			from++
		}
	}
	e.code = append(e.code, body.Code[from:]...)
	if e.inLocal {
		e.save()
	}
	if e.counted {
		e.global(opGlobalGet, e.depth)
		e.constant(opI32Const, e.units)
		e.op(opI32Sub)
		e.global(opGlobalSet, e.depth)
	}
	e.op(opReturn, opEnd)
	if e.inLocal {
		e.constant(opI64Const, -1)
		e.global(opGlobalSet, e.fuel)
	}
	e.op(opUnreachable)
	if e.counted {
		e.op(opEnd, opUnreachable)
	}
	e.op(opEnd)
	return Body{Locals: locals, Code: e.code[start:len(e.code):len(e.code)]}, nil
}

// plan decides how the function keeps its books. A local is cheaper for each charge, and costs a load and a store for the
// function and for each call.
func (e *emitter) plan() {
	s := e.s
	charges := 0
	for i := range s.blocks {
		if s.charge(i) > 0 {
			charges++
		}
	}
	e.inLocal = charges > 1
	// A function that calls nothing adds one frame at most to those that are counted.
	e.counted = s.calls > 0
	e.units = 1 + int64(s.locals+s.height)>>s.costs.SlotShift
}

// addLocals adds the scratch locals behind the function's own.
func (e *emitter) addLocals(own []LocalRun) []LocalRun {
	s := e.s
	e.scratch = uint32(s.locals)
	next := e.scratch + 1
	runs := append(slices.Clip(own), LocalRun{1, I64})
	add := func(t ValueType) uint32 {
		runs = append(runs, LocalRun{1, t})
		next++
		return next - 1
	}
	if s.needs32 || e.counted {
		e.local32 = add(I32)
	}
	if s.needsF32 {
		e.localF32 = add(F32)
	}
	if s.needsF64 {
		e.localF64 = add(F64)
	}
	return runs
}

func (e *emitter) op(b ...byte) { e.code = append(e.code, b...) }

func (e *emitter) global(op byte, index uint32) { e.code = appendUint(append(e.code, op), index) }

func (e *emitter) local(op byte, index uint32) { e.code = appendUint(append(e.code, op), index) }

func (e *emitter) constant(op byte, v int64) { e.code = appendInt(append(e.code, op), v) }

// load brings the fuel from the global into the local; save takes it back.
func (e *emitter) load() {
	e.global(opGlobalGet, e.fuel)
	e.local(opLocalSet, e.scratch)
}

func (e *emitter) save() {
	e.local(opLocalGet, e.scratch)
	e.global(opGlobalSet, e.fuel)
}

// enterFrame counts the frame, and leaves two blocks where it is one too many.
func (e *emitter) enterFrame() {
	e.global(opGlobalGet, e.depth)
	e.constant(opI32Const, e.units)
	e.op(opI32Add)
	e.local(opLocalTee, e.local32)
	e.global(opGlobalSet, e.depth)
	e.local(opLocalGet, e.local32)
	e.constant(opI32Const, int64(e.s.costs.Depth))
	e.op(opI32GtU)
	e.op(opBrIf, 1)
}

func (e *emitter) edit(x edit) {
	switch x.kind {
	case editCharge:
		e.fuelOperand(x.at == 0 && x.arg == 0)
		e.constant(opI64Const, e.s.charge(x.arg))
		e.spend(x.nest)
	case editBeforeCall:
		if e.inLocal {
			e.save()
		}
	case editAfterCall:
		if e.inLocal {
			e.load()
		}
	case editCanon32:
		e.canonical(opF32Const, []byte{0, 0, 0xC0, 0x7F}, opF32Eq, e.localF32)
	case editCanon64:
		e.canonical(opF64Const, []byte{0, 0, 0, 0, 0, 0, 0xF8, 0x7F}, opF64Eq, e.localF64)
	case editBulk:
		e.dynamic(opI64ShrU, e.s.costs.Bytes, x.nest)
	case editGrow:
		e.dynamic(opI64Shl, e.s.costs.Page, x.nest)
	case editReturn:
		e.code = appendUint(append(e.code, opBr), uint32(x.nest))
	}
}

// fuelOperand puts the fuel on the stack. At a function's first charge it is not in the local yet.
func (e *emitter) fuelOperand(first bool) {
	if e.inLocal && !first {
		e.local(opLocalGet, e.scratch)
	} else {
		e.global(opGlobalGet, e.fuel)
	}
}

// spend takes the operand off the fuel and leaves the function where that makes it negative.
func (e *emitter) spend(nest int) {
	e.op(opI64Sub)
	e.local(opLocalTee, e.scratch)
	if !e.inLocal {
		e.global(opGlobalSet, e.fuel)
		e.local(opLocalGet, e.scratch)
	}
	e.constant(opI64Const, 0)
	e.op(opI64LtS)
	e.code = appendUint(append(e.code, opBrIf), uint32(nest)+1)
}

// dynamic charges for the i32 on top of the stack, shifted.
func (e *emitter) dynamic(shift, by uint8, nest int) {
	e.local(opLocalTee, e.local32)
	e.fuelOperand(false)
	e.local(opLocalGet, e.local32)
	e.op(opExtendU)
	e.constant(opI64Const, int64(by))
	e.op(shift)
	e.spend(nest)
}

// canonical replaces a NaN on top of the stack by the positive quiet one with no payload.
func (e *emitter) canonical(constOp byte, nan []byte, eq byte, local uint32) {
	e.local(opLocalTee, local)
	e.op(constOp)
	e.op(nan...)
	e.local(opLocalGet, local)
	e.local(opLocalGet, local)
	e.op(eq, opSelect)
}
