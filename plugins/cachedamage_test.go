package plugins

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sluice/abi"
)

// A cache whose files are cut or overwritten costs one compilation, not the compiler or the module.
func TestADamagedCacheIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	ctx := context.Background()
	load := func() {
		t.Helper()
		h := NewHost(Options{CacheDir: dir})
		m, err := h.Shipped(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Engine() != EngineCompiler || !m.Has(abi.Gate) {
			t.Errorf("engine %v", m.Engine())
		}
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	files := func() (out []string) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	load()
	whole := files()
	if len(whole) == 0 {
		t.Fatal("nothing was cached")
	}
	for name, damage := range map[string]func([]byte) []byte{
		"cut":         func(b []byte) []byte { return b[:len(b)/2] },
		"empty":       func([]byte) []byte { return nil },
		"overwritten": func(b []byte) []byte { return append([]byte("no machine code"), b[15:]...) },
		"flipped":     func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
	} {
		for _, path := range files() {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, damage(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		load()
		if got := files(); len(got) != len(whole) {
			t.Errorf("%s: %d files in the cache after the next load, want %d", name, len(got), len(whole))
		}
	}
}

// A module that no engine compiles is refused, and what others have in the cache stays.
func TestARefusedModuleLeavesTheCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	ctx := context.Background()
	h := NewHost(Options{CacheDir: dir})
	if _, err := h.Shipped(ctx); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	h.prepare = func([]byte, uint32) ([]byte, error) { return []byte("\x00asm\x01\x00\x00\x00\x01"), nil }
	if _, err := h.Compile(ctx, []byte("no module")); err == nil {
		t.Error("it is compiled")
	}
	if after := count(); before == 0 || after != before {
		t.Errorf("%d files in the cache, %d before", after, before)
	}
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}
