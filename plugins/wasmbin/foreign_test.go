package wasmbin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// anotherProcess runs a test of this binary in a process of its own, on the same seeds.
func anotherProcess(t *testing.T, test string, args ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "-test.run="+test, fmt.Sprintf("-seed=%d", *seedFlag), fmt.Sprintf("-rounds=%d", *rounds))
	if out, err := exec.CommandContext(t.Context(), self, args...).CombinedOutput(); err != nil {
		t.Fatalf("another process: %v\n%s", err, out)
	}
}

// guests are the modules of the repository by name: the shipped one, the frozen ones, and the examples where .ci/guests has
// just built them.
func guests(t testing.TB) map[string][]byte {
	t.Helper()
	patterns := []string{shippedPath, "../../abi/testdata/frozen/*/*.wasm"}
	if dir := os.Getenv("SLUICE_GUESTS"); dir != "" {
		patterns = append(patterns, filepath.Join(dir, "*.wasm"))
	}
	all := map[string][]byte{}
	for _, p := range patterns {
		paths, err := filepath.Glob(p)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no module at %s: %v", p, err)
		}
		for _, path := range paths {
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = wasm
		}
	}
	return all
}

func TestMeteredGuestsAreValid(t *testing.T) {
	tools := findWasmTools(t)
	for name, wasm := range guests(t) {
		m, err := Decode(wasm)
		if err == nil {
			err = Verify(m, shippedLimits(m))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for what, b := range map[string][]byte{"read": wasm, "written again": m.Encode(), "metered": metered(t, m, DefaultCosts()), "metered exactly": metered(t, m, exact())} {
			if err := tools.validate(t, b, supported); err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// What is malformed here is invalid everywhere, and of what is admitted, metering keeps the valid valid and the invalid
// invalid, so that the engine's judgement of the metered module is one of the module. The hostile corpus and damaged
// modules show it.
func TestJudgementsOfInvalidModules(t *testing.T) {
	tools := findWasmTools(t)
	malformed, valid, invalid := 0, 0, 0
	judge := func(what string, wasm []byte) {
		m, err := Decode(wasm)
		if err == nil {
			err = Verify(m, shippedLimits(m))
		}
		var e *Error
		if errors.As(err, &e) {
			if e.Rule != RuleMalformed {
				return
			}
			malformed++
			if tools.validate(t, wasm, everyFeature) == nil {
				t.Errorf("%s: a valid module is called malformed: %v", what, err)
			}
			return
		}
		m.Customs = nil
		before, after := tools.validate(t, m.Encode(), supported), tools.validate(t, metered(t, m, DefaultCosts()), supported)
		if (before == nil) != (after == nil) {
			t.Errorf("%s: valid is told of the module by %v, of the metered one by %v", what, before, after)
		}
		if before == nil {
			valid++
		} else {
			invalid++
		}
	}
	paths, err := filepath.Glob("../testdata/hostile/*.wasm")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no hostile corpus: %v", err)
	}
	for _, path := range paths {
		wasm, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		judge(path, wasm)
	}
	for _, s := range smithShapes() {
		for _, seed := range seeds() {
			wasm := tools.smith(t, seed, s.args...)
			if len(wasm) < 16 {
				continue
			}
			r := rand.New(rand.NewPCG(seed, 0xDA))
			for range 4 {
				judge(fmt.Sprintf("shape %s, -seed %d", s.name, seed), damaged(r, wasm))
			}
		}
	}
	t.Logf("%d malformed; admitted: %d valid, %d invalid", malformed, valid, invalid)
	if *seedFlag == 0 && (malformed == 0 || valid == 0 || invalid == 0) {
		t.Error("one of the three was never seen")
	}
}

// A module that needs features which no policy may use is refused by name, never as malformed and never with a panic.
func TestFeaturesAreRefusedByName(t *testing.T) {
	tools := findWasmTools(t)
	refused := map[string]int{}
	for _, seed := range seeds() {
		for _, args := range [][]string{nil, {"--max-imports=0", "--min-funcs=2"}, {"--max-imports=0", "--max-types=1", "--simd-enabled=false", "--min-memories=1"}} {
			wasm := tools.smith(t, seed, args...)
			if wasm == nil {
				continue
			}
			if _, rule := readForeign(t, fmt.Sprintf("smith %v, -seed %d", args, seed), wasm, DefaultLimits()); rule != "" {
				refused[rule]++
			}
		}
	}
	t.Logf("refused by rule %v", refused)
	if *seedFlag == 0 && refused[RuleFeature] == 0 {
		t.Error("nothing needed a feature")
	}
}

// Mutants of the repository's small guests are valid modules: each is admitted, and then metered to a valid one, or refused
// by name.
func TestMutatedGuests(t *testing.T) {
	tools := findWasmTools(t)
	admitted, refused := 0, map[string]int{}
	for name, wasm := range guests(t) {
		if len(wasm) > 1<<16 {
			continue
		}
		for _, seed := range seeds() {
			what := fmt.Sprintf("%s, -seed %d", name, seed)
			// Statuses above 1 are mutations that the tool cannot do.
			mutant, err := tools.run(t, wasm, "mutate", fmt.Sprint("--seed=", seed), "-")
			if s := status(t, err); s == 1 {
				t.Fatalf("%s: %v", what, err)
			} else if s != 0 {
				continue
			}
			m, rule := readForeign(t, what, mutant, DefaultLimits())
			if m == nil {
				refused[rule]++
				continue
			}
			admitted++
			if err := tools.validate(t, metered(t, m, DefaultCosts()), supported); err != nil {
				t.Errorf("%s: the metered mutant is invalid: %v", what, err)
			}
		}
	}
	t.Logf("%d mutants admitted, refused by rule %v", admitted, refused)
	if *seedFlag == 0 && admitted < *rounds {
		t.Error("too few mutants are admitted to show anything")
	}
}
