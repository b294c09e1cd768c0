package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// exported checks that a pure package hands out nothing that reaches into its state, as far as syntax shows it:
//   - exported fields of exported structs are no pointers, maps, functions or channels, and no slices where a method
//     returns the struct or a constructor returns a pointer to it;
//   - results of exported functions and methods are none of these either. A slice may be returned where the function
//     takes a parameter of the same slice type to append to, where it is no method and takes no pointer, or where the
//     receiver shows an exported field of that slice type, which makes it a buffer of the caller's. A function that is
//     no method may return a pointer to a type of its own package: the handle of a constructor;
//   - exported variables are errors only.
func (c *checker) exported(dir string) {
	e := &exportedCheck{checker: c, types: map[string]ast.Expr{}, visited: map[string]bool{}}
	var files []source
	for _, s := range c.sources {
		if s.dir != dir || s.test {
			continue
		}
		files = append(files, s)
		for _, decl := range s.tree.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, spec := range g.Specs {
					t := spec.(*ast.TypeSpec)
					e.types[t.Name.Name] = t.Type
				}
			}
		}
	}
	for _, s := range files {
		e.source = s
		for _, decl := range s.tree.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				e.function(d)
			case *ast.GenDecl:
				e.declaration(d)
			}
		}
	}
}

type exportedCheck struct {
	*checker
	source  source
	types   map[string]ast.Expr // the package's own types
	visited map[string]bool     // result types whose fields were judged
}

func (e *exportedCheck) at(n ast.Node) int { return e.set.Position(n.Pos()).Line }

func (e *exportedCheck) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if st, ok := spec.Type.(*ast.StructType); ok && spec.Name.IsExported() {
				e.fields(spec.Name.Name, st)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if d.Tok == token.VAR && name.IsExported() && !strings.HasPrefix(name.Name, "Err") {
					e.report(e.source, e.at(name), "exported variable %s: the pure set has constants and errors, no shared state", name.Name)
				}
			}
		}
	}
}

func (e *exportedCheck) fields(owner string, st *ast.StructType) {
	for _, field := range st.Fields.List {
		kind := e.reach(field.Type)
		if kind == "" || kind == "slice" {
			continue
		}
		if len(field.Names) == 0 {
			e.report(e.source, e.at(field), "struct %s embeds a %s", owner, kind)
		}
		for _, name := range field.Names {
			if name.IsExported() {
				e.report(e.source, e.at(name), "exported field %s.%s is a %s", owner, name.Name, kind)
			}
		}
	}
}

func (e *exportedCheck) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() || d.Type.Results == nil {
		return
	}
	method := d.Recv != nil
	if method && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
		return
	}
	for _, result := range d.Type.Results.List {
		kind := e.reach(result.Type)
		switch {
		case kind == "pointer" && !method && e.ownPointer(result.Type):
			e.resultFields(d.Name.Name, result.Type.(*ast.StarExpr).X)
		case kind == "slice" && (e.takes(d, result.Type) || !method && !e.takesPointer(d) || method && e.buffer(d, result.Type)):
		case kind != "":
			e.report(e.source, e.at(result), "%s returns a %s (%s); return values, or append to a slice that the caller gives",
				d.Name.Name, kind, types.ExprString(result.Type))
		case method:
			e.resultFields(d.Name.Name, result.Type)
		}
	}
}

// resultFields finds slices in the exported fields of a struct that a method returns or a constructor makes, however
// deep.
func (e *exportedCheck) resultFields(function string, t ast.Expr) {
	switch t := t.(type) {
	case *ast.ArrayType:
		e.resultFields(function, t.Elt)
	case *ast.Ident:
		under, own := e.types[t.Name]
		if !own || e.visited[t.Name] {
			return
		}
		e.visited[t.Name] = true
		e.resultFields(function, under)
	case *ast.StructType:
		for _, field := range t.Fields.List {
			for _, name := range field.Names {
				if name.IsExported() && e.reach(field.Type) == "slice" {
					at := e.set.Position(field.Pos())
					e.report(source{name: at.Filename}, at.Line, "field %s is a slice in a struct that %s returns", name.Name, function)
				}
			}
			e.resultFields(function, field.Type)
		}
	}
}

// reach names what makes a type reach into state: pointer, map, function, channel or slice; empty for a plain value.
func (e *exportedCheck) reach(t ast.Expr) string { return e.reachFrom(t, 0) }

func (e *exportedCheck) reachFrom(t ast.Expr, depth int) string {
	const longest = 16 // of a chain of type names; a cycle of names does not compile
	if depth > longest {
		return ""
	}
	switch t := t.(type) {
	case *ast.StarExpr:
		return "pointer"
	case *ast.MapType:
		return "map"
	case *ast.FuncType:
		return "function"
	case *ast.ChanType:
		return "channel"
	case *ast.ParenExpr:
		return e.reachFrom(t.X, depth+1)
	case *ast.ArrayType:
		if t.Len == nil {
			return "slice"
		}
		return e.reachFrom(t.Elt, depth+1)
	case *ast.Ident:
		if under, own := e.types[t.Name]; own {
			return e.reachFrom(under, depth+1)
		}
	case *ast.SelectorExpr:
		if x, ok := t.X.(*ast.Ident); ok && x.Name == "unsafe" && t.Sel.Name == "Pointer" {
			return "pointer"
		}
	case *ast.IndexExpr:
		return e.generic(t.X, depth)
	case *ast.IndexListExpr:
		return e.generic(t.X, depth)
	}
	return ""
}

// generic judges an instantiated type: the iterators of package iter are functions.
func (e *exportedCheck) generic(t ast.Expr, depth int) string {
	if s, ok := t.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "iter" {
			return "function"
		}
	}
	return e.reachFrom(t, depth+1)
}

// ownPointer reports whether t is *T for a type T of the package.
func (e *exportedCheck) ownPointer(t ast.Expr) bool {
	star, ok := t.(*ast.StarExpr)
	if !ok {
		return false
	}
	_, own := e.types[receiver(star.X)]
	return own
}

// takes reports whether d has a parameter of exactly this type.
func (e *exportedCheck) takes(d *ast.FuncDecl, t ast.Expr) bool {
	for _, p := range d.Type.Params.List {
		if types.ExprString(p.Type) == types.ExprString(t) {
			return true
		}
	}
	return false
}

// buffer reports whether the receiver has an exported field of exactly this slice type.
func (e *exportedCheck) buffer(d *ast.FuncDecl, t ast.Expr) bool {
	st, ok := e.types[receiver(d.Recv.List[0].Type)].(*ast.StructType)
	if !ok {
		return false
	}
	for _, field := range st.Fields.List {
		for _, name := range field.Names {
			if name.IsExported() && types.ExprString(field.Type) == types.ExprString(t) {
				return true
			}
		}
	}
	return false
}

func (e *exportedCheck) takesPointer(d *ast.FuncDecl) bool {
	for _, p := range d.Type.Params.List {
		if e.reach(p.Type) == "pointer" {
			return true
		}
	}
	return false
}

// receiver is the name of the type behind a receiver or a pointer.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
