package archtest

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is the import path of the repository's root.
const module = "sluice"

// Violation is one breach of a rule.
type Violation struct {
	// Place is FILE:LINE, the file with slashes and relative to the root.
	Place string
	// Text says which rule is broken, and how.
	Text string
}

// String is "PLACE: TEXT".
func (v Violation) String() string { return v.Place + ": " + v.Text }

// source is one parsed file.
type source struct {
	dir     string // of the root: "."
	name    string
	test    bool
	tree    *ast.File
	imports []imported
	build   constraint.Expr // nil where the file has no //go:build line
}

type imported struct {
	path string
	line int
}

// checker is the state of one Check.
type checker struct {
	set     *token.FileSet
	sources []source
	found   []Violation
}

// Check judges every Go file under root, except in testdata, hidden and vendored folders and nested modules. It returns
// the violations by place, or an error when a file cannot be read or parsed.
func Check(root fs.FS) ([]Violation, error) {
	c := &checker{set: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, name)
		}
		if path.Ext(name) != ".go" || strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		return c.read(root, name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the sources: %w", err)
	}
	c.layers()
	c.cgo()
	for _, s := range c.sources {
		if pureDir(s.dir) && !s.test {
			c.goroutines(s)
		}
	}
	for _, dir := range []string{"runtime/schedule", "kvcache/index"} {
		c.exported(dir)
	}
	slices.SortStableFunc(c.found, func(a, b Violation) int { return strings.Compare(a.Place, b.Place) })
	return c.found, nil
}

func skipDir(root fs.FS, name string) error {
	base := path.Base(name)
	if name == "." {
		return nil
	}
	switch {
	case base == "testdata", base == "vendor", base == "node_modules", base == "target",
		strings.HasPrefix(base, "."), strings.HasPrefix(base, "_"):
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func (c *checker) read(root fs.FS, name string) error {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	tree, err := parser.ParseFile(c.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s := source{dir: path.Dir(name), name: name, test: strings.HasSuffix(name, "_test.go"), tree: tree}
	for _, spec := range tree.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		s.imports = append(s.imports, imported{p, c.set.Position(spec.Pos()).Line})
	}
	for _, group := range tree.Comments {
		for _, line := range group.List {
			if line.Pos() < tree.Package && constraint.IsGoBuild(line.Text) {
				if s.build, err = constraint.Parse(line.Text); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	c.sources = append(c.sources, s)
	return nil
}

func (c *checker) report(s source, line int, text string, args ...any) {
	c.found = append(c.found, Violation{fmt.Sprintf("%s:%d", s.name, line), fmt.Sprintf(text, args...)})
}

// within reports whether dir is top or lies below it.
func within(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// ours returns the folder of an import of this module.
func ours(importPath string) (dir string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}
