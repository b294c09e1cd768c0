package kit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
)

// The description and the host's codec tell the same sizes, fields and names.
func TestLayoutIsTheCodecs(t *testing.T) {
	l := layout(t)
	if l.Major != abi.Major || l.Minor != abi.Minor || l.HeaderSize != abi.HeaderSize || l.Align != abi.Align {
		t.Errorf("version %d.%d, header %d, align %d", l.Major, l.Minor, l.HeaderSize, l.Align)
	}
	for _, h := range l.Hooks {
		if h.Name != h.Hook.String() || h.Export != h.Hook.Export() || h.Class != plugins.ClassOf(h.Hook).String() {
			t.Errorf("hook %+v", h)
		}
		want := abi.BatchSize(h.Hook, 1, 0) - abi.BatchSize(h.Hook, 0, 0)
		if align := (h.In.Size + abi.Align - 1) &^ (abi.Align - 1); align != want {
			t.Errorf("%s: an input record has %d bytes, the batch grows by %d", h.Name, h.In.Size, want)
		}
	}
	if _, err := l.HookNamed("gat"); err == nil || !strings.Contains(err.Error(), "gate") {
		t.Errorf("unknown hook: %v", err)
	}
	if _, ok := l.Hook(99); ok {
		t.Error("hook 99 is there")
	}
}

func TestBadDescriptions(t *testing.T) {
	good, err := fs.ReadFile(root(), "abi/abi.json")
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, to string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("%q is not in the description", old)
		}
		return strings.Replace(string(good), old, to, 1)
	}
	for name, text := range map[string]string{
		"no JSON":             "{",
		"nothing":             "{}",
		"a field outside":     replace(`{"name": "RawPoll", "off": 8`, `{"name": "RawPoll", "off": 800`),
		"a field of no width": replace(`{"name": "RawPoll", "off": 8, "type": "u8"`, `{"name": "RawPoll", "off": 8, "type": "text"`),
		"another number":      replace(`"kind": 1,`, `"kind": 2,`),
		"no output records":   replace(`"hook": "Gate", "role": "out"`, `"hook": "Gate", "role": "none"`),
	} {
		if _, err := kit.ParseLayout([]byte(text)); !errors.Is(err, kit.ErrLayout) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the description says of imports is what the loader does: each one named is taken, no other is.
func TestDescriptionOfTheHostIsTrue(t *testing.T) {
	d := layout(t).Describe()
	if _, err := json.Marshal(d); err != nil {
		t.Fatal(err)
	}
	if len(d.Hooks) < 3 || d.Hooks[0].InStride != abi.GateStride || d.Majors[0] != abi.Major || d.Version != "1.0-rc" || d.Limits.MaxRecords != abi.MaxRecords {
		t.Errorf("%+v", d)
	}
	params := map[string]string{"args_get": "ii", "args_sizes_get": "ii", "clock_time_get": "ili", "environ_get": "ii", "environ_sizes_get": "ii",
		"fd_write": "iiii", "poll_oneoff": "iiii", "random_get": "ii", "sched_yield": ""}
	try := func(module, name string) error {
		wasm := kittest.ModuleWith([]kittest.Import{{Module: module, Name: name, Params: params[name]}}, kittest.Export{Name: "sluice_gate_v1", Body: kittest.Const(0)})
		_, err := host().Compile(context.Background(), wasm)
		return err
	}
	for _, name := range d.Imports {
		module, field, _ := strings.Cut(name, ".")
		if field == "proc_exit" {
			continue // returns nothing, which the test's modules cannot say; the shipped module imports it
		}
		if err := try(module, field); err != nil {
			t.Errorf("%s is said to be allowed: %v", name, err)
		}
	}
	for _, name := range []string{"fd_read", "path_open", "sock_send"} {
		if err := try("wasi_snapshot_preview1", name); !errors.Is(err, plugins.ErrRejected) {
			t.Errorf("%s is not said to be allowed: %v", name, err)
		}
	}
}
