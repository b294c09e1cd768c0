package conformance_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins/kit"
)

// written names the shipped policy whose rule the modules with every hook write down for a hook.
func written() map[abi.Hook]string {
	return map[abi.Hook]string{abi.Gate: "restore-gated", abi.Reserve: "until-retired", abi.Admit: "greedy", abi.Score: "lfu"}
}

// releaseHooks lists the hooks of each released ABI version. They never change, so a new version is a new line.
func releaseHooks() map[string][]abi.Hook {
	return map[string][]abi.Hook{"v1.0": {abi.Gate, abi.Admit, abi.Reserve, abi.Score}}
}

// exports lists the hooks that a module answers, by number.
func exports(t *testing.T, wasm []byte) []abi.Hook {
	t.Helper()
	m, err := sharedHost().Compile(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	return kit.Hooks(m)
}

// answersAsWritten gives a module the golden vectors of some hooks.
func answersAsWritten(t *testing.T, wasm []byte, hooks []abi.Hook) {
	t.Helper()
	for _, hook := range hooks {
		t.Run(hook.String(), func(t *testing.T) { runVectors(t, wasm, golden(t, hook), written()[hook]) })
	}
}

// everyHook wants a module that answers every hook which has golden vectors, as the shipped policies do.
func everyHook(t *testing.T, wasm []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden vectors: %v", err)
	}
	hooks := exports(t, wasm)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if !slices.ContainsFunc(hooks, func(h abi.Hook) bool { return h.String() == name }) {
			t.Errorf("the module does not answer %s", name)
		}
	}
	answersAsWritten(t, wasm, hooks)
}

func frozenHooks(t *testing.T, f func(t *testing.T, name string, wasm []byte)) {
	t.Helper()
	frozenFiles(t, f, "hooks-c", "hooks-rust", "hooks-assemblyscript", "hooks-zig")
}

// A frozen module with every hook answers every hook of its release.
func TestFrozenModulesExportTheHooksOfTheirRelease(t *testing.T) {
	frozenHooks(t, func(t *testing.T, name string, wasm []byte) {
		want, ok := releaseHooks()[filepath.Dir(name)]
		if !ok {
			t.Fatalf("releaseHooks has no line for %s", filepath.Dir(name))
		}
		if got := exports(t, wasm); !slices.Equal(got, want) {
			t.Errorf("answers %v, want %v; where the release is not out yet, .ci/guests --freeze builds its modules again", got, want)
		}
	})
}

// What a frozen module with every hook exports, it answers as the shipped policies do whose rules it writes down.
func TestFrozenModulesAnswerTheGoldenVectorsOfEveryHook(t *testing.T) {
	frozenHooks(t, func(t *testing.T, _ string, wasm []byte) {
		hooks := exports(t, wasm)
		if len(hooks) == 0 {
			t.Fatal("the module answers no hook")
		}
		answersAsWritten(t, wasm, hooks)
	})
}
