package archtest

import (
	"go/ast"
	"slices"
	"strings"
)

// pureRule says what of the module one part of the pure set may import.
type pureRule struct {
	top     string
	imports []string
}

func pureRules() []pureRule {
	return []pureRule{
		{"abi", []string{"abi"}},
		{"kvcache/index", []string{"kvcache/index"}},
		{"plugins/standard", []string{"plugins/standard", "abi"}},
		{"runtime/schedule", []string{"runtime/schedule", "abi", "plugins/standard", "kvcache/index"}},
	}
}

// pureStandard lists the packages outside the module that the pure set may import; hash/ stands for all below it too.
func pureStandard() []string {
	return []string{"bytes", "cmp", "encoding/binary", "errors", "fmt", "hash", "iter", "maps", "math", "math/bits",
		"slices", "sort", "strconv", "strings", "unicode/utf8", "unsafe"}
}

// generator is the one folder below the pure set that is no part of it: a program that writes layouts.
const generator = "abi/gen"

func pureDir(dir string) bool {
	if within(dir, generator) {
		return false
	}
	return slices.ContainsFunc(pureRules(), func(r pureRule) bool { return within(dir, r.top) })
}

// layers checks the imports of every file.
func (c *checker) layers() {
	for _, s := range c.sources {
		for _, im := range s.imports {
			dir, own := ours(im.path)
			c.pureImport(s, im, dir, own)
			for _, low := range []string{"kvcache", "collective", "gpu", "plugins"} {
				if own && within(s.dir, low) && within(dir, "runtime") {
					c.report(s, im.line, "%s must not import %s: the host's parts do not know the runtime", low, im.path)
				}
			}
			if own && within(s.dir, "internal") && !s.test && !within(dir, "internal") && dir != "." {
				c.report(s, im.line, "internal must not import %s: every folder imports internal", im.path)
			}
			if s.dir == "." && !s.test && im.path != "embed" {
				c.report(s, im.line, "the root package embeds config.toml and imports nothing else, not %s", im.path)
			}
			if own && within(dir, "cmd/sluice/internal/ranklocal") && s.dir != "cmd/sluice/internal/repro" && s.dir != dir {
				c.report(s, im.line, "only cmd/sluice/internal/repro may import %s: it imposes the fault that the rest rules out", im.path)
			}
		}
	}
}

func (c *checker) pureImport(s source, im imported, dir string, own bool) {
	if s.test || !pureDir(s.dir) {
		return
	}
	for _, rule := range pureRules() {
		if !within(s.dir, rule.top) {
			continue
		}
		if own {
			if !slices.ContainsFunc(rule.imports, func(top string) bool { return within(dir, top) && pureDir(dir) }) {
				c.report(s, im.line, "%s must not import %s; of this module it may import %s", rule.top, im.path, strings.Join(rule.imports, ", "))
			}
			return
		}
		if !slices.Contains(pureStandard(), im.path) && !within(im.path, "hash") {
			c.report(s, im.line, "%s must not import %s; the pure set may import %s", rule.top, im.path, strings.Join(pureStandard(), ", "))
		}
	}
}

// goroutines finds go statements, which would let the scheduler of Go decide an order.
func (c *checker) goroutines(s source) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			c.report(s, c.set.Position(g.Pos()).Line, "the pure set starts no goroutine")
		}
		return true
	})
}
