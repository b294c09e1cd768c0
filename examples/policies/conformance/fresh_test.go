package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/examples/policies/conformance"
)

// guestsVariable names a folder of modules that were just built, one an example and named like it. .ci/guests sets it.
const guestsVariable = "SLUICE_GUESTS"

// TestFreshModules gives each built example its own vectors, the gates the golden ones and the random batches, the modules
// with every hook the golden ones of all hooks, and compares what the talking ones say.
func TestFreshModules(t *testing.T) {
	dir := os.Getenv(guestsVariable)
	if dir == "" {
		t.Skipf("%s names no folder of built examples; .ci/guests builds them", guestsVariable)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no module in %s: %v", dir, err)
	}
	vs := golden(t, abi.Gate)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".wasm")
		t.Run(name, func(t *testing.T) {
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, "hooks-") {
				quiet(t, wasm)
				everyHook(t, wasm)
				return
			}
			if strings.HasPrefix(name, "talker-") {
				runVectors(t, wasm, vs, "restore-gated")
				talks(t, wasm)
				return
			}
			quiet(t, wasm)
			if strings.HasPrefix(name, "gate-") {
				runVectors(t, wasm, vs, "restore-gated")
				sameAsNative(t, name, wasm)
				return
			}
			own, err := conformance.Read(filepath.Join("..", name, "testdata", "vectors.txt"))
			if err != nil {
				t.Fatal(err)
			}
			runVectors(t, wasm, own, "")
		})
	}
}
