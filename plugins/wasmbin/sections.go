package wasmbin

// Section is one section of a module as it lies in the file. Byte slices alias the file.
type Section struct {
	Custom string // name of a custom section; empty for every other section, and for a custom one without a name
	ID     byte
	Raw    []byte // the whole section, its number and size included
	Bytes  []byte // its content; for a custom section what follows the name
}

// Sections cuts a module into its sections, in the order of the file, and looks into none but the names of custom ones:
// the header and the Raw of all sections, joined, are the file. Errors are *Error of rule RuleMalformed.
func Sections(wasm []byte) ([]Section, error) {
	r := &reader{buf: wasm, function: -1}
	if len(wasm) < len(header) || string(wasm[:len(header)]) != string(header[:]) {
		r.failAt(0, RuleMalformed, "the file does not start with the bytes of a WebAssembly 1 module")
		return nil, r.err
	}
	r.pos = len(header)
	var all []Section
	for !r.done() {
		at := r.pos
		s := Section{ID: r.byte()}
		size := r.u32()
		start := r.pos
		s.Bytes = r.take(size)
		if r.err != nil {
			return nil, r.err
		}
		s.Raw = wasm[at:r.pos:r.pos]
		if s.ID == secCustom {
			c := &reader{buf: s.Bytes, base: start, section: sectionName(s.ID), function: -1}
			s.Custom = c.name()
			if c.err != nil {
				return nil, c.err
			}
			s.Bytes = s.Bytes[c.pos:]
		}
		all = append(all, s)
	}
	return all, nil
}

// AppendCustom appends a custom section to a module's bytes.
func AppendCustom(wasm []byte, name string, content []byte) []byte {
	e := encoder{out: wasm}
	e.byte(secCustom)
	at := e.begin()
	e.name(name)
	e.bytes(content)
	e.end(at)
	return e.out
}
