package kit_test

import (
	"context"
	"io/fs"
	"os"
	"sync"
	"testing"

	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
)

// root is the module's sources.
func root() fs.FS { return os.DirFS("../..") }

func layout(t testing.TB) *kit.Layout {
	t.Helper()
	text, err := fs.ReadFile(root(), "abi/abi.json")
	if err != nil {
		t.Fatal(err)
	}
	l, err := kit.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// host is one for the whole test process: the shipped module takes a second to compile.
var host = sync.OnceValue(func() *plugins.Host { return plugins.NewHost(plugins.Options{}) })

func gate(body []byte) []byte {
	return kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: body})
}

func compile(t testing.TB, wasm []byte) *plugins.Module {
	t.Helper()
	m, err := host().Compile(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t testing.TB, name string, b kit.Build) *kit.Policy {
	t.Helper()
	p, err := kit.Open(context.Background(), b, kit.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func reference(t testing.TB, wasm []byte) *kit.Reference {
	t.Helper()
	r, err := kit.NewReference(context.Background(), wasm, plugins.DefaultFuel())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// shipped is the bytes of the shipped policies, a Go module.
func shipped(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("../standard/standard.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}
