package plugins_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
)

func TestModulesThatAreRefused(t *testing.T) {
	exit := testImport{"wasi_snapshot_preview1", "proc_exit", typeTake}
	good := i32(0)
	for _, tc := range []struct {
		name   string
		module guestModule
		raw    []byte
		rule   string
		words  []string
	}{
		{name: "not WebAssembly", raw: []byte("#!/bin/sh\n"), rule: "not_wasm", words: []string{"not a WebAssembly module"}},
		{name: "empty", raw: []byte{}, rule: "not_wasm"},
		{name: "no marker", module: guestModule{gate: good, marker: "-"}, rule: "marker", words: []string{"export sluice_abi_1"}},
		{name: "newer major", module: guestModule{gate: good, marker: "sluice_abi_2"}, rule: "newer_major", words: []string{"ABI 2", "speaks 1", "update sluice"}},
		{name: "two markers", module: guestModule{gate: good, extra: []string{"sluice_abi_2"}}, rule: "marker", words: []string{"sluice_abi_1, sluice_abi_2"}},
		{name: "nonsense marker", module: guestModule{gate: good, marker: "sluice_abi_x"}, rule: "marker"},
		{name: "unknown import", module: guestModule{gate: good, imports: []testImport{{"env", "now", typeNothing}}}, rule: "import", words: []string{`"now"`, `"env"`, "remove it"}},
		{name: "files", module: guestModule{gate: good, imports: []testImport{{"wasi_snapshot_preview1", "fd_read", typeTake}}}, rule: "import", words: []string{"fd_read", "no files"}},
		{name: "AssemblyScript abort", module: guestModule{gate: good, imports: []testImport{{"env", "abort", typeTake}}}, rule: "import", words: []string{"--use abort="}},
		{name: "command", module: guestModule{gate: good, start: "_start"}, rule: "command", words: []string{"-buildmode=c-shared"}},
		{name: "unknown need", module: guestModule{gate: good, extra: []string{"sluice_need_floats"}}, rule: "need", words: []string{`"floats"`}},
		{name: "memory not exported", module: guestModule{gate: good, noMemory: true}, rule: "memory", words: []string{"exactly one memory"}},
		{name: "no hook", module: guestModule{}, rule: "export", words: []string{"answers no hook"}},
		{name: "arena of another type", module: guestModule{gate: good, arenaType: typeEntry, arena: i32(0)}, rule: "signature", words: []string{"sluice_arena", "(i32 i32)"}},
		{name: "import of another type", module: guestModule{gate: good, imports: []testImport{{exit.module, exit.name, typeNothing}}}, rule: "start"},
		{name: "refused arena", module: guestModule{gate: good, arena: i32(0)}, rule: "arena", words: []string{"refuses an arena"}},
		{name: "misaligned arena", module: guestModule{gate: good, arena: i32(1032)}, rule: "arena", words: []string{"aligned"}},
		{name: "arena outside the memory", module: guestModule{gate: good, arena: i32(1 << 30)}, rule: "arena", words: []string{"not"}},
		{name: "trap in arena", module: guestModule{gate: good, arena: op(opUnreachable)}, rule: "arena", words: []string{"unreachable"}},
		{name: "refused configuration", module: guestModule{gate: good, configure: i32(-3)}, rule: "config", words: []string{"of 11 bytes with the keys limit"}},
		{name: "configure says unsupported", module: guestModule{gate: good, configure: i32(-2)}, rule: "configure", words: []string{"unsupported minor"}},
		{name: "trap in configure", module: guestModule{gate: good, configure: op(opUnreachable)}, rule: "configure", words: []string{"unreachable"}},
		{name: "does not answer the hook", module: guestModule{reserve: good}, rule: "export", words: []string{"sluice_gate_v1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := plugins.NewHost(plugins.Options{})
			defer closing(t, host.Close)
			wasm := tc.raw
			if wasm == nil {
				wasm = tc.module.bytes()
			}
			set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: "x.wasm", Config: []byte(`{"limit":1}`)}}, abi.HostInfo{})
			if err == nil {
				closing(t, set.Close)
			}
			if len(wasm) == 0 {
				tc.rule, tc.words = "builtin", []string{"give builtin or path"}
			}
			wantRefusal(t, err, tc.rule, append(tc.words, "x.wasm", "gate")...)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func wantRefusal(t *testing.T, err error, rule string, words ...string) {
	t.Helper()
	var f *plugins.Fault
	if !errors.As(err, &f) || !errors.Is(err, plugins.ErrRejected) || f.Class != plugins.FaultLoadRejected || f.Kind != rule {
		t.Fatalf("error %v, want a refusal by rule %s", err, rule)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	host := sharedHost()
	wasm := guestModule{gate: i32(0)}.bytes()
	for _, tc := range []struct {
		name  string
		specs []plugins.Spec
		rule  string
		words []string
	}{
		{"unknown builtin", []plugins.Spec{{Hook: abi.Reserve, Builtin: "all"}}, "builtin", []string{`"all"`, "until-retired"}},
		{"unknown native builtin", []plugins.Spec{{Hook: abi.Gate, Builtin: "all", Native: true}}, "builtin", []string{`"all"`, "restore-gated"}},
		{"two for a hook", []plugins.Spec{{Hook: abi.Gate, Builtin: "ungated"}, {Hook: abi.Gate, Builtin: "ungated"}}, "hook", []string{"two policies"}},
		{"no such hook", []plugins.Spec{{Hook: 5, Builtin: "lru"}}, "hook", []string{"hook 5"}},
		{"both", []plugins.Spec{{Hook: abi.Gate, Builtin: "ungated", Module: wasm}}, "builtin", []string{"both"}},
		{"neither", []plugins.Spec{{Hook: abi.Gate}}, "builtin", []string{"give builtin or path"}},
		{"a native module", []plugins.Spec{{Hook: abi.Gate, Module: wasm, Native: true}}, "engine", []string{`engine = "wasm"`}},
		{"a table for a builtin", []plugins.Spec{{Hook: abi.Gate, Builtin: "ungated", Config: []byte(`{"x":1}`)}}, "config", []string{"with the keys x"}},
		{"a table for a native builtin", []plugins.Spec{{Hook: abi.Gate, Builtin: "ungated", Native: true, Config: []byte(`{"x":1}`)}}, "config", []string{"with the keys x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := host.NewSet(context.Background(), tc.specs, abi.HostInfo{})
			wantRefusal(t, err, tc.rule, tc.words...)
		})
	}
}

func TestAClosedHostLoadsNothing(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	closing(t, host.Close)
	if _, err := host.Compile(context.Background(), guestModule{gate: i32(0)}.bytes()); err == nil {
		t.Error("a closed host compiles")
	}
}

func TestAModuleIsCompiledOnce(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	wasm := guestModule{gate: i32(0)}.bytes()
	a, err := host.Compile(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	b, err := host.Compile(context.Background(), append([]byte{}, wasm...))
	if err != nil || a != b {
		t.Errorf("the same bytes give another module, %v", err)
	}
	if !a.Has(abi.Gate) || a.Has(abi.Admit) || a.Has(9) || len(a.SHA256()) != 64 || a.Engine() != plugins.EngineCompiler {
		t.Errorf("gate %v, admit %v, hash %s, engine %v", a.Has(abi.Gate), a.Has(abi.Admit), a.SHA256(), a.Engine())
	}
}
