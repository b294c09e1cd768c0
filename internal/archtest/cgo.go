package archtest

import (
	"path"
	"strings"
)

// needsCgo reports whether an import brings C into the build.
func needsCgo(importPath string) bool {
	return importPath == "C" || within(importPath, "gorgonia.org/cu") || within(importPath, "github.com/NVIDIA/go-nvml")
}

// cgo checks that every package that needs cgo stands behind a build tag and is reached from one place.
func (c *checker) cgo() {
	packages := map[string]bool{}
	for _, s := range c.sources {
		for _, im := range s.imports {
			if needsCgo(im.path) {
				packages[s.dir] = true
			}
		}
	}
	for _, s := range c.sources {
		if packages[s.dir] && path.Base(s.name) != "doc.go" && !tagged(s) {
			c.report(s, 1, "%s needs cgo, so every file of it but doc.go stands behind a build tag of its own", s.dir)
		}
		for _, im := range s.imports {
			dir, own := ours(im.path)
			if !own || !packages[dir] || s.dir == dir {
				continue
			}
			base := path.Base(s.name)
			if s.dir != "cmd/sluice" || !strings.HasPrefix(base, "backend_") || !tagged(s) {
				c.report(s, im.line, "%s needs cgo; only cmd/sluice/backend_<tag>.go, behind its tag, may import it", im.path)
			}
		}
	}
}

// tagged reports whether a file stays out of every ordinary build, on any system and with or without cgo: its build line
// must ask for a tag that only a person sets.
func tagged(s source) bool {
	if s.build == nil {
		return false
	}
	ordinary := func(cgo bool, system, machine string) bool {
		return s.build.Eval(func(tag string) bool {
			switch tag {
			case system, machine, "gc", "unix":
				return true
			case "cgo":
				return cgo
			}
			return strings.HasPrefix(tag, "go1.")
		})
	}
	for _, cgo := range []bool{false, true} {
		for _, system := range []string{"linux", "darwin"} {
			for _, machine := range []string{"amd64", "arm64"} {
				if ordinary(cgo, system, machine) {
					return false
				}
			}
		}
	}
	return true
}
