package archtest

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheRepositoryKeepsItsRules(t *testing.T) {
	root := os.DirFS("../..")
	if _, err := fs.Stat(root, "internal/archtest/tree.go"); err != nil {
		t.Fatalf("the root of the module is not two folders up, so nothing was judged: %v", err)
	}
	violations, err := Check(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

// Each case is a small tree with its violations; none where want is empty.
func TestRules(t *testing.T) {
	type tree = map[string]string
	const cuda = "//go:build cuda\n\n"
	cases := []struct {
		name string
		tree tree
		want []string
	}{
		{"pure imports allowed", tree{
			"abi/a.go":              "package abi\nimport (\"encoding/binary\"; \"hash/crc32\"; \"unsafe\")",
			"abi/guest/a.go":        "package guest\nimport \"sluice/abi\"",
			"kvcache/index/a.go":    "package index\nimport (\"hash\"; \"iter\"; \"unicode/utf8\")",
			"plugins/standard/a.go": "package standard\nimport (\"sluice/abi\"; \"sluice/abi/guest\")",
			"runtime/schedule/a.go": "package schedule\nimport (\"sluice/abi\"; \"sluice/plugins/standard\"; \"sluice/kvcache/index\")",
		}, nil},
		{"pure imports of the standard library", tree{
			"abi/a.go":              "package abi\nimport \"os\"",
			"kvcache/index/a.go":    "package index\nimport \"math/rand\"",
			"plugins/standard/a.go": "package standard\nimport \"time\"",
			"runtime/schedule/a.go": "package schedule\n\nimport \"sync\"",
		}, []string{
			"abi/a.go:2: abi must not import os", "kvcache/index/a.go:2: kvcache/index must not import math/rand",
			"plugins/standard/a.go:2: plugins/standard must not import time", "runtime/schedule/a.go:3: runtime/schedule must not import sync",
		}},
		{"a name that only begins like an allowed one", tree{"abi/a.go": "package abi\nimport \"hashing\"\n"},
			[]string{"abi/a.go:2: abi must not import hashing"}},
		{"pure imports of ours", tree{
			"abi/a.go":              "package abi\nimport \"sluice/internal/log\"",
			"kvcache/index/a.go":    "package index\nimport \"sluice/abi\"",
			"plugins/standard/a.go": "package standard\nimport \"sluice/kvcache/index\"",
			"runtime/schedule/a.go": "package schedule\nimport (\n\"sluice/kvcache\"\n\"sluice/internal/clock\"\n\"sluice/abi/gen\"\n)",
		}, []string{
			"abi/a.go:2: abi must not import sluice/internal/log", "kvcache/index/a.go:2: kvcache/index must not import sluice/abi",
			"plugins/standard/a.go:2: plugins/standard must not import sluice/kvcache/index",
			"runtime/schedule/a.go:3: runtime/schedule must not import sluice/kvcache;",
			"runtime/schedule/a.go:4: runtime/schedule must not import sluice/internal/clock",
			"runtime/schedule/a.go:5: runtime/schedule must not import sluice/abi/gen",
		}},
		{"pure subfolders", tree{"runtime/schedule/deep/a.go": "package deep\nimport \"net\""},
			[]string{"runtime/schedule/deep/a.go:2: runtime/schedule must not import net"}},
		{"tests and the generator are free", tree{
			"abi/a_test.go":   "package abi\nimport \"os\"\nfunc f() { go f() }",
			"abi/gen/main.go": "package main\nimport \"os\"\nfunc main() { go main() }",
		}, nil},
		{"goroutine", tree{"kvcache/index/a.go": "package index\nfunc f() {\n\tgo f()\n}"},
			[]string{"kvcache/index/a.go:3: the pure set starts no goroutine"}},
		{"goroutine elsewhere", tree{"kvcache/a.go": "package kvcache\nfunc f() { go f() }"}, nil},
		{"runtime from below", tree{
			"kvcache/a.go":           "package kvcache\nimport \"sluice/runtime/rank\"",
			"collective/tcp/a.go":    "package tcp\nimport \"sluice/runtime\"",
			"gpu/host/a_test.go":     "package host\nimport \"sluice/runtime/model\"",
			"plugins/a.go":           "package plugins\nimport \"sluice/runtime/schedule\"",
			"runtime/rank/a.go":      "package rank\nimport \"sluice/runtime/schedule\"",
			"collective/inproc/a.go": "package inproc\nimport \"runtime\"",
		}, []string{
			"collective/tcp/a.go:2: collective must not import sluice/runtime:", "gpu/host/a_test.go:2: gpu must not import sluice/runtime/model",
			"kvcache/a.go:2: kvcache must not import sluice/runtime/rank", "plugins/a.go:2: plugins must not import sluice/runtime/schedule",
		}},
		{"internal and the root", tree{
			"internal/log/a.go":         "package log\nimport \"sluice/gpu\"",
			"internal/config/a_test.go": "package config\nimport \"sluice\"",
			"sluice.go":                 "package sluice\nimport _ \"embed\"\nimport \"os\"",
		}, []string{"internal/log/a.go:2: internal must not import sluice/gpu", "sluice.go:3: the root package embeds config.toml"}},
		{"decorators of repro", tree{
			"cmd/sluice/internal/ranklocal/a.go": "package ranklocal",
			"cmd/sluice/internal/repro/a.go":     "package repro\nimport \"sluice/cmd/sluice/internal/ranklocal\"",
			"cmd/sluice/internal/other/a.go":     "package other\nimport \"sluice/cmd/sluice/internal/ranklocal\"",
			"runtime/rank/a_test.go":             "package rank\nimport \"sluice/cmd/sluice/internal/ranklocal\"",
		}, []string{"cmd/sluice/internal/other/a.go:2: only cmd/sluice/internal/repro may import", "runtime/rank/a_test.go:2: only cmd/sluice/internal/repro may import"}},
		{"cgo behind its tag", tree{
			"gpu/cuda/doc.go":            "package cuda",
			"gpu/cuda/a.go":              cuda + "package cuda\nimport \"C\"",
			"gpu/cuda/b.go":              "//go:build linux && cuda\n\npackage cuda",
			"gpu/cuda/a_test.go":         cuda + "package cuda_test\nimport \"sluice/gpu/cuda\"",
			"cmd/sluice/backend_cuda.go": cuda + "package main\nimport \"sluice/gpu/cuda\"",
		}, nil},
		{"cgo without a tag", tree{
			"gpu/cuda/a.go":      cuda + "package cuda\nimport \"gorgonia.org/cu\"",
			"gpu/cuda/b.go":      "package cuda",
			"gpu/cuda/c_test.go": "package cuda",
		}, []string{"gpu/cuda/b.go:1: gpu/cuda needs cgo", "gpu/cuda/c_test.go:1: gpu/cuda needs cgo"}},
		{"cgo behind a tag that is set anyway", tree{
			"gpu/cuda/a.go": "//go:build cgo\n\npackage cuda\nimport \"C\"",
			"gpu/cuda/b.go": "//go:build linux && !cuda\n\npackage cuda",
			"gpu/cuda/c.go": "//go:build darwin || cuda\n\npackage cuda",
			"gpu/cuda/d.go": "/*\n//go:build cuda\n*/\npackage cuda",
		}, []string{"gpu/cuda/a.go:1: ", "gpu/cuda/b.go:1: ", "gpu/cuda/c.go:1: ", "gpu/cuda/d.go:1: "}},
		{"cgo from elsewhere", tree{
			"gpu/telemetry/a.go":         "//go:build nvml\n\npackage telemetry\nimport \"github.com/NVIDIA/go-nvml/pkg/nvml\"",
			"cmd/sluice/cmd_serve.go":    "//go:build nvml\n\npackage main\nimport \"sluice/gpu/telemetry\"",
			"cmd/sluice/backend_nvml.go": "package main\nimport \"sluice/gpu/telemetry\"",
			"runtime/rank/a.go":          "//go:build nvml\n\npackage rank\nimport \"sluice/gpu/telemetry\"",
		}, []string{"cmd/sluice/backend_nvml.go:2: sluice/gpu/telemetry needs cgo", "cmd/sluice/cmd_serve.go:4: sluice/gpu/telemetry needs cgo", "runtime/rank/a.go:4: sluice/gpu/telemetry needs cgo"}},
		{"values, handles and append", tree{"kvcache/index/a.go": `package index
var ErrFull error
type Index struct { nodes []int; byKey map[int]int }
type Page struct { Number int; Key [4]uint64 }
type Input struct { Ballot []byte }
func New() *Index { return nil }
func Encode(p Page) []byte { return nil }
func (x *Index) Lookup(k int) (Page, bool, error) { return Page{}, false, nil }
func (x *Index) Pages(dst []Page) []Page { return dst }
func (x *Index) Visit(f func(Page)) {}
func (x *Index) Apply(in Input) (n int) { return 0 }
func (x *Index) inner() *Page { return nil }
func (x *hidden) Top() *Page { return nil }
type hidden struct { Next *Page }
type Effects struct { Pages []Page }
func (e *Effects) First() []Page { return e.Pages[:1] }
`}, nil},
		{"a handle that shows its slices", tree{
			"runtime/schedule/a.go": "package schedule\nfunc New() *State { return nil }\nfunc (s *State) All() []int { return s.Pages }",
			"runtime/schedule/b.go": "package schedule\ntype State struct {\n\tPages []int\n}",
		}, []string{"runtime/schedule/b.go:3: field Pages is a slice in a struct that New returns"}},
		{"ways into the state", tree{"runtime/schedule/a.go": `package schedule
import ("iter"; "unsafe")
type Table map[int]int
type List []int
type State struct {
	Next *State
	Names map[string]int
	Hook func()
	Wake chan int
	Chain [2]*State
	Table
	private *State
}
func (s *State) Pointer() *State { return s }
func (s *State) Map() Table { return nil }
func (s *State) Slice() []int { return nil }
func (s *State) Named(dst []int) List { return nil }
func (s *State) Seq() iter.Seq[int] { return nil }
func (s *State) Func() func() { return nil }
func (s *State) Raw() unsafe.Pointer { return nil }
func (s State) Both() (int, []byte) { return 0, nil }
func Leak(s *State) []int { return nil }
func (s *State) Report() Report { return Report{} }
type Report struct { Inner Inner }
type Inner struct {
	Rows []int
}
var Shared int
`}, []string{
			"runtime/schedule/a.go:6: exported field State.Next is a pointer", "runtime/schedule/a.go:7: exported field State.Names is a map",
			"runtime/schedule/a.go:8: exported field State.Hook is a function", "runtime/schedule/a.go:9: exported field State.Wake is a channel",
			"runtime/schedule/a.go:10: exported field State.Chain is a pointer", "runtime/schedule/a.go:11: struct State embeds a map",
			"runtime/schedule/a.go:14: Pointer returns a pointer (*State)", "runtime/schedule/a.go:15: Map returns a map (Table)",
			"runtime/schedule/a.go:16: Slice returns a slice ([]int)", "runtime/schedule/a.go:17: Named returns a slice (List)",
			"runtime/schedule/a.go:18: Seq returns a function (iter.Seq[int])", "runtime/schedule/a.go:19: Func returns a function (func())",
			"runtime/schedule/a.go:20: Raw returns a pointer (unsafe.Pointer)", "runtime/schedule/a.go:21: Both returns a slice ([]byte)",
			"runtime/schedule/a.go:22: Leak returns a slice ([]int)", "runtime/schedule/a.go:26: field Rows is a slice in a struct that Report returns",
			"runtime/schedule/a.go:28: exported variable Shared",
		}},
		{"skipped folders", tree{
			"abi/testdata/a.go": "package abi\nimport \"os\"", "abi/_old/a.go": "package abi\nimport \"os\"", ".hidden/a.go": "not go",
			"abi/other/go.mod": "module other", "abi/other/a.go": "package other\nimport \"os\"", "abi/_a.go": "not go",
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range c.tree {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			violations, err := Check(root)
			if err != nil {
				t.Fatal(err)
			}
			unmatched := violations
			for _, want := range c.want {
				found := -1
				for i, v := range unmatched {
					if strings.HasPrefix(v.String(), want) {
						found = i
					}
				}
				if found < 0 {
					t.Errorf("missing: %s", want)
					continue
				}
				unmatched = append(append([]Violation(nil), unmatched[:found]...), unmatched[found+1:]...)
			}
			for _, v := range unmatched {
				t.Errorf("unexpected: %s", v)
			}
		})
	}
}

func TestUnreadableSources(t *testing.T) {
	cases := map[string]string{
		"no Go":          "not go",
		"bad build line": "//go:build (\n\npackage a",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Check(fstest.MapFS{"a/a.go": {Data: []byte(text)}}); err == nil || !strings.Contains(err.Error(), "a/a.go") {
				t.Errorf("got %v, want an error that names the file", err)
			}
		})
	}
}
