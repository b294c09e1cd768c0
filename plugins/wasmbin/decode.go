package wasmbin

// Section numbers of the binary format.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
	secTag
)

var header = [8]byte{0, 'a', 's', 'm', 1, 0, 0, 0}

// sectionName is the name of a section in errors.
func sectionName(id byte) string {
	names := [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data", "data count", "tag"}
	if int(id) < len(names) {
		return names[id]
	}
	return "unknown"
}

// sectionOrder is the place of a section in a module: the data count comes before the code.
func sectionOrder(id byte) int {
	switch id {
	case secDataCount:
		return 2*secElement + 1
	default:
		return 2 * int(id)
	}
}

// Decode reads a module's structure. The result aliases wasm. Function bodies are cut out and not looked into; Verify and
// Meter do that. Errors are *Error of rule RuleMalformed or RuleFeature.
func Decode(wasm []byte) (*Module, error) {
	r := &reader{buf: wasm, function: -1}
	if len(wasm) < len(header) || string(wasm[:len(header)]) != string(header[:]) {
		r.failAt(0, RuleMalformed, "the file does not start with the bytes of a WebAssembly 1 module")
		return nil, r.err
	}
	r.pos = len(header)
	m := &Module{Start: -1, DataCount: -1, size: len(wasm)}
	last := 0
	for !r.done() {
		at := r.pos
		id := r.byte()
		size := r.u32()
		start := r.pos
		content := r.take(size)
		if r.err != nil {
			return nil, r.err
		}
		s := &reader{buf: content, base: start, section: sectionName(id), function: -1}
		if id != secCustom {
			if id > secTag {
				r.failAt(at, RuleMalformed, "section %d is not one of WebAssembly's", id)
			} else if order := sectionOrder(id); order <= last {
				r.failAt(at, RuleMalformed, "the %s section comes twice or too late", sectionName(id))
			} else {
				last = order
			}
		}
		if r.err == nil {
			m.section(s, id)
			r.err = s.err
		}
		if r.err == nil && !s.done() {
			s.fail(RuleMalformed, "%d bytes follow the section's last item", len(s.buf)-s.pos)
			r.err = s.err
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	if len(m.Functions) != len(m.Bodies) {
		return nil, refuse(RuleMalformed, "code", "%d functions are declared, %d have code", len(m.Functions), len(m.Bodies))
	}
	if m.DataCount >= 0 && m.DataCount != len(m.Data) {
		return nil, refuse(RuleMalformed, "data", "%d data segments are announced, there are %d", m.DataCount, len(m.Data))
	}
	return m, nil
}

func (m *Module) section(r *reader, id byte) {
	switch id {
	case secCustom:
		name := r.name()
		m.Customs = append(m.Customs, Custom{name, r.take(uint32(len(r.buf) - r.pos))})
	case secType:
		m.Types = items(r, (*reader).funcType)
	case secImport:
		m.Imports = items(r, (*reader).importItem)
	case secFunction:
		m.Functions = items(r, (*reader).u32)
	case secTable:
		m.Tables = items(r, (*reader).table)
	case secMemory:
		m.Memories = items(r, (*reader).limit)
	case secGlobal:
		m.Globals = items(r, func(r *reader) Global {
			g := r.globalType()
			g.Init = r.constant()
			return g
		})
	case secExport:
		m.Exports = items(r, func(r *reader) Export {
			return Export{r.name(), r.kind(), r.u32()}
		})
	case secStart:
		m.Start = int(r.u32())
	case secElement:
		m.Elements = items(r, (*reader).element)
	case secDataCount:
		m.DataCount = int(r.u32())
	case secCode:
		m.code(r)
	case secData:
		m.Data = items(r, (*reader).data)
	case secTag:
		r.fail(RuleFeature, "the module uses exceptions; build it without them")
	}
}

// items reads a vector.
func items[T any](r *reader, one func(*reader) T) []T {
	n := r.count()
	all := make([]T, 0, min(n, 1<<16))
	for i := 0; i < n && r.err == nil; i++ {
		all = append(all, one(r))
	}
	return all
}

func (r *reader) valueType() ValueType {
	t := ValueType(r.byte())
	switch t {
	case I32, I64, F32, F64:
		return t
	case 0x7B:
		r.failAt(r.pos-1, RuleFeature, "the type v128 needs SIMD; build for wasm32 without it")
	case 0x70, 0x6F:
		r.failAt(r.pos-1, RuleFeature, "a reference type needs the reference-types feature; build without it")
	case 0x63, 0x64, 0x68, 0x69, 0x6A, 0x6B, 0x6C, 0x6D, 0x6E, 0x71, 0x72, 0x73, 0x74, 0x75:
		r.failAt(r.pos-1, RuleFeature, "the reference type %#x needs garbage collection, exceptions or typed references; build without them", byte(t))
	default:
		r.failAt(r.pos-1, RuleMalformed, "%#x is no value type", byte(t))
	}
	return 0
}

func (r *reader) funcType() FuncType {
	if form := r.byte(); r.err == nil && form != 0x60 {
		r.failAt(r.pos-1, RuleFeature, "type form %#x is not a plain function type; build without garbage collection and typed references", form)
	}
	return FuncType{items(r, (*reader).valueType), items(r, (*reader).valueType)}
}

func (r *reader) kind() Kind {
	k := Kind(r.byte())
	if k > KindGlobal {
		switch k {
		case 4:
			r.failAt(r.pos-1, RuleFeature, "a tag needs exceptions; build without them")
		case 0x7E, 0x7F:
			r.failAt(r.pos-1, RuleFeature, "imports that share a module name or type need compact imports; build without them")
		default:
			r.failAt(r.pos-1, RuleMalformed, "%#x is no kind of import or export", byte(k))
		}
		return 0
	}
	return k
}

func (r *reader) importItem() Import {
	i := Import{Module: r.name(), Name: r.name(), Kind: r.kind()}
	switch i.Kind {
	case KindFunction:
		i.Type = r.u32()
	case KindTable:
		i.Limit = r.table()
	case KindMemory:
		i.Limit = r.limit()
	case KindGlobal:
		i.Global = r.globalType()
	}
	return i
}

func (r *reader) limit() Limit {
	flags := r.byte()
	switch {
	case r.err != nil:
	case flags > 7:
		r.failAt(r.pos-1, RuleMalformed, "limit flags %#x", flags)
	case flags&4 != 0:
		r.failAt(r.pos-1, RuleFeature, "a 64-bit memory or table; build for wasm32")
	case flags&2 != 0:
		r.failAt(r.pos-1, RuleFeature, "a shared memory needs threads; build without them")
	}
	l := Limit{Min: r.u32(), HasMax: flags&1 != 0}
	if l.HasMax {
		l.Max = r.u32()
		if r.err == nil && l.Max < l.Min {
			r.fail(RuleMalformed, "the maximum %d is below the minimum %d", l.Max, l.Min)
		}
	}
	return l
}

func (r *reader) table() Limit {
	if t := r.byte(); r.err == nil && t != 0x70 {
		r.failAt(r.pos-1, RuleFeature, "a table of type %#x; only tables of functions are supported, build without reference types", t)
	}
	return r.limit()
}

func (r *reader) globalType() Global {
	g := Global{Type: r.valueType()}
	switch b := r.byte(); {
	case r.err != nil:
	case b > 3:
		r.failAt(r.pos-1, RuleMalformed, "mutability %#x", b)
	case b > 1:
		r.failAt(r.pos-1, RuleFeature, "a shared global needs threads; build without them")
	default:
		g.Mutable = b == 1
	}
	return g
}

// constant is a constant expression: one constant and the end.
func (r *reader) constant() []byte {
	start := r.pos
	switch o := r.byte(); {
	case r.err != nil:
	case o == opI32Const:
		r.signed(32)
	case o == opI64Const:
		r.signed(64)
	case o == opF32Const:
		r.take(4)
	case o == opF64Const:
		r.take(8)
	default:
		r.failAt(start, RuleFeature, "instruction %#x in a constant expression; only constants are supported, build without extended-const", o)
	}
	if end := r.byte(); r.err == nil && end != opEnd {
		r.failAt(r.pos-1, RuleFeature, "a constant expression of more than one instruction; build without extended-const")
	}
	if r.err != nil {
		return nil
	}
	return r.buf[start:r.pos:r.pos]
}

func (r *reader) element() Element {
	if flags := r.u32(); r.err == nil && flags != 0 {
		r.fail(RuleFeature, "an element segment of form %d; only active ones of table 0 are supported, build without reference types", flags)
	}
	return Element{r.constant(), items(r, (*reader).u32)}
}

func (r *reader) data() Data {
	flags := r.u32()
	switch {
	case r.err != nil:
	case flags > 2:
		r.fail(RuleMalformed, "data segment of form %d", flags)
	case flags == 2:
		if i := r.u32(); r.err == nil && i != 0 {
			r.fail(RuleFeature, "a data segment for memory %d; build without multi-memory", i)
		}
	}
	d := Data{}
	if flags != 1 {
		d.Offset = r.constant()
	}
	d.Bytes = r.take(r.u32())
	return d
}

// code cuts out the bodies.
func (m *Module) code(r *reader) {
	n := r.count()
	m.Bodies = make([]Body, 0, min(n, 1<<16))
	imports := m.ImportedFunctions()
	for i := 0; i < n && r.err == nil; i++ {
		r.function = imports + i
		size := r.u32()
		start := r.pos
		content := r.take(size)
		if r.err != nil {
			return
		}
		s := &reader{buf: content, base: r.base + start, section: r.section, function: r.function}
		b := Body{Locals: items(s, func(r *reader) LocalRun { return LocalRun{r.u32(), r.valueType()} })}
		if s.err == nil && s.done() {
			s.fail(RuleMalformed, "the function has no instructions")
		}
		if r.err = s.err; r.err != nil {
			return
		}
		b.Code, b.Offset = content[s.pos:], s.base+s.pos
		m.Bodies = append(m.Bodies, b)
	}
	r.function = -1
}
