package plugins_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the files that tests compare with, instead of comparing")

const shippedPath = "standard/standard.wasm"

// builtWith is the toolchain whose output is committed: the bytes change with its patch version.
const builtWith = "go1.26.8"

// TestShippedModuleReproduces builds the shipped module from its sources and compares it with the committed one.
func TestShippedModuleReproduces(t *testing.T) {
	if runtime.Version() != builtWith {
		t.Logf("not compared: the committed module was built with %s, this is %s", builtWith, runtime.Version())
		return
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Logf("not compared: no go command: %v", err)
		return
	}
	out := filepath.Join(t.TempDir(), "standard.wasm")
	cmd := exec.Command(goTool, "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "./standard/wasm")
	cmd.Env = append(environmentWithout("GOFLAGS", "GOWASM"), "CGO_ENABLED=0", "GOWORK=off", "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	built, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(shippedPath, built, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	committed, err := os.ReadFile(shippedPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(built, committed) {
		t.Errorf("%s has hash %x, its sources give %x: go test ./plugins -run Shipped -rewrite", shippedPath, sha256.Sum256(committed), sha256.Sum256(built))
	}
}

func environmentWithout(names ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		drop := false
		for _, n := range names {
			drop = drop || key == n
		}
		if !drop {
			env = append(env, kv)
		}
	}
	return env
}
