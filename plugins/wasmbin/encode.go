package wasmbin

// Encode writes a module. Numbers in sections are written as short as they can be, instructions as they are. Custom
// sections come last: nothing in the supported feature set depends on their place.
func (m *Module) Encode() []byte {
	e := encoder{out: append(make([]byte, 0, m.size+m.size/8+1024), header[:]...)}
	e.section(secType, len(m.Types), func(i int) { e.funcType(m.Types[i]) })
	e.section(secImport, len(m.Imports), func(i int) { e.importItem(m.Imports[i]) })
	e.section(secFunction, len(m.Functions), func(i int) { e.u32(m.Functions[i]) })
	e.section(secTable, len(m.Tables), func(i int) { e.byte(0x70); e.limit(m.Tables[i]) })
	e.section(secMemory, len(m.Memories), func(i int) { e.limit(m.Memories[i]) })
	e.section(secGlobal, len(m.Globals), func(i int) { e.globalType(m.Globals[i]); e.bytes(m.Globals[i].Init) })
	e.section(secExport, len(m.Exports), func(i int) {
		x := m.Exports[i]
		e.name(x.Name)
		e.byte(byte(x.Kind))
		e.u32(x.Index)
	})
	if m.Start >= 0 {
		e.single(secStart, uint32(m.Start))
	}
	e.section(secElement, len(m.Elements), func(i int) {
		s := m.Elements[i]
		e.byte(0)
		e.bytes(s.Offset)
		e.u32(uint32(len(s.Functions)))
		for _, f := range s.Functions {
			e.u32(f)
		}
	})
	if m.DataCount >= 0 {
		e.single(secDataCount, uint32(len(m.Data)))
	}
	e.section(secCode, len(m.Bodies), func(i int) { e.body(m.Bodies[i]) })
	e.section(secData, len(m.Data), func(i int) { e.data(m.Data[i]) })
	for _, c := range m.Customs {
		e.byte(secCustom)
		at := e.begin()
		e.name(c.Name)
		e.bytes(c.Bytes)
		e.end(at)
	}
	return e.out
}

// encoder appends to out. Sizes that are not known yet are left five bytes of room and closed up afterwards.
type encoder struct{ out []byte }

const sizeRoom = 5

func (e *encoder) byte(b byte)    { e.out = append(e.out, b) }
func (e *encoder) bytes(b []byte) { e.out = append(e.out, b...) }
func (e *encoder) u32(v uint32)   { e.out = appendUint(e.out, v) }

func (e *encoder) name(s string) {
	e.u32(uint32(len(s)))
	e.out = append(e.out, s...)
}

func (e *encoder) begin() int {
	e.out = append(e.out, make([]byte, sizeRoom)...)
	return len(e.out)
}

func (e *encoder) end(at int) {
	size := len(e.out) - at
	head := appendUint(e.out[:at-sizeRoom], uint32(size))
	e.out = append(head, e.out[at:at+size]...)
}

// section writes a vector section, or nothing for an empty one.
func (e *encoder) section(id byte, n int, one func(i int)) {
	if n == 0 {
		return
	}
	e.byte(id)
	at := e.begin()
	e.u32(uint32(n))
	for i := range n {
		one(i)
	}
	e.end(at)
}

func (e *encoder) single(id byte, v uint32) {
	e.byte(id)
	at := e.begin()
	e.u32(v)
	e.end(at)
}

func (e *encoder) funcType(t FuncType) {
	e.byte(0x60)
	for _, list := range [2][]ValueType{t.Params, t.Results} {
		e.u32(uint32(len(list)))
		for _, v := range list {
			e.byte(byte(v))
		}
	}
}

func (e *encoder) importItem(i Import) {
	e.name(i.Module)
	e.name(i.Name)
	e.byte(byte(i.Kind))
	switch i.Kind {
	case KindFunction:
		e.u32(i.Type)
	case KindTable:
		e.byte(0x70)
		e.limit(i.Limit)
	case KindMemory:
		e.limit(i.Limit)
	case KindGlobal:
		e.globalType(i.Global)
	}
}

func (e *encoder) limit(l Limit) {
	if !l.HasMax {
		e.byte(0)
		e.u32(l.Min)
		return
	}
	e.byte(1)
	e.u32(l.Min)
	e.u32(l.Max)
}

func (e *encoder) globalType(g Global) {
	e.byte(byte(g.Type))
	if g.Mutable {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) body(b Body) {
	at := e.begin()
	e.u32(uint32(len(b.Locals)))
	for _, l := range b.Locals {
		e.u32(l.N)
		e.byte(byte(l.Type))
	}
	e.bytes(b.Code)
	e.end(at)
}

func (e *encoder) data(d Data) {
	if d.Offset == nil {
		e.byte(1)
	} else {
		e.byte(0)
		e.bytes(d.Offset)
	}
	e.u32(uint32(len(d.Bytes)))
	e.bytes(d.Bytes)
}
