package main

import (
	"bytes"
	"fmt"
	"go/format"
)

// goViews renders abi/guest/layout_gen.go: read views over globals and input records, write views over output
// records, and views for both over those of the log.
func goViews(d *desc) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(banner + "package guest\n\nimport (\n\"encoding/binary\"\n\n\"sluice/abi\"\n)\n\n")
	for _, r := range d.Records {
		switch r.Role {
		case "globals", "in":
			view(&b, r)
		case "out":
			writeView(&b, r)
		case "log":
			view(&b, r)
			setters(&b, r)
		}
	}
	return format.Source(b.Bytes())
}

// viewName is GateGlobals for globals, GateRecord for input records, GateAnswer for output records.
func viewName(r record) string {
	if r.Role == "out" {
		return r.Hook + "Answer"
	}
	return r.Name
}

func abiType(f field) string {
	if f.Go != "" {
		return "abi." + f.Go
	}
	return f.goType()
}

func view(b *bytes.Buffer, r record) {
	name := viewName(r)
	where := "a batch"
	if r.Role == "log" {
		where = "a LOG arena, for reading and writing"
	}
	fmt.Fprintf(b, "// %s is a view of an abi.%s in %s.\ntype %s struct{ p *[abi.%s]byte }\n\n", name, r.Name, where, name, r.strideName())
	for _, f := range r.Fields {
		g := f
		g.Go = ""
		expr := getter(g, "v.p")
		if f.Go != "" {
			expr = abiType(f) + "(" + expr + ")"
		}
		fmt.Fprintf(b, "// %s: %s.\nfunc (v %s) %s() %s { return %s }\n\n", f.Name, fieldNote(f), name, f.Name, abiType(f), expr)
	}
}

func writeView(b *bytes.Buffer, r record) {
	name := viewName(r)
	fmt.Fprintf(b, "// %s is a view of an abi.%s in a batch, for writing.\ntype %s struct{ p *[abi.%s]byte }\n\n", name, r.Name, name, r.strideName())
	setters(b, r)
}

func setters(b *bytes.Buffer, r record) {
	name := viewName(r)
	for _, f := range r.Fields {
		var body string
		switch {
		case f.Type == "u8" && f.Go == "":
			body = fmt.Sprintf("v.p[%d] = x", f.Off)
		case f.Type == "u8":
			body = fmt.Sprintf("v.p[%d] = uint8(x)", f.Off)
		default:
			body = fmt.Sprintf("binary.LittleEndian.Put%s(v.p[%d:], x)", method(f.Type), f.Off)
		}
		fmt.Fprintf(b, "// Set%s: %s.\nfunc (v %s) Set%s(x %s) { %s }\n\n", f.Name, fieldNote(f), name, f.Name, abiType(f), body)
	}
}
