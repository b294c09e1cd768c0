package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
	"sluice/plugins/wasmbin"
)

// evil is text that would forge a line and move the cursor of a terminal: escape sequences of both kinds, and a text that is
// read from right to left.
const evil = "\x1b[2J\u009b31mX\nverdict  forged\r\u202e\x7f"

// wantShowable fails if text has anything that does not print, or a line of evil's.
func wantShowable(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "verdict  forged") {
			t.Errorf("a line was forged in\n%q", text)
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
		t.Errorf("this does not print: %q", text)
	}
}

func evilFile(t *testing.T, wasm []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evil.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever names a module and its manifest have, they stay on their line and are escaped.
func TestTheTextOfModulesIsEscaped(t *testing.T) {
	gate := kittest.Export{Name: "sluice_gate_v1", Body: kittest.Votes(kittest.InByte(8))}
	named := func(name string) []byte {
		return wasmbin.AppendCustom(kittest.ModuleWith(nil, gate, kittest.Export{Name: name, Body: kittest.Const(0)}), name, []byte("x"))
	}
	imports := func(name string) []byte {
		return kittest.ModuleWith([]kittest.Import{{Module: name, Name: name}}, gate)
	}
	section := func(text string) []byte {
		return wasmbin.AppendCustom(kittest.Module(gate), manifest.Section, []byte(text))
	}
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name string
		wasm []byte
	}{
		{"export and section", named(evil)},
		{"markers", named("sluice_abi_" + evil)},
		{"need", named("sluice_need_" + evil)},
		{"long names", named(long)},
		{"long marker", named("sluice_abi_" + long)},
		{"import", imports(evil)},
		{"long import", imports(long)},
		{"manifest's default", section(`{"config":{"a":{"type":"string","default":` + string(quoted) + `}}}`)},
		{"one of a manifest's defaults", section(`{"config":{"a":{"type":"array-of-string","default":["ok",` + string(quoted) + `]}}}`)},
		{"manifest's name", section(`{"name":` + string(quoted) + `}`)},
		{"manifest's key", section(`{"config":{` + string(quoted) + `:{"type":"string"}}}`)},
		{"manifest's reason", section(`{"reasons":{` + string(quoted) + `:"x"}}`)},
		{"manifest's type", section(`{"config":{"a":{"type":` + string(quoted) + `}}}`)},
		{"no manifest", section(evil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := evilFile(t, c.wasm)
			for _, args := range [][]string{{"inspect", path}, {"inspect", "--json", path}, {"check", "--runs", "1", path}, {"manifest", path}, {"fuzz", "--runs", "4", path}} {
				_, out, errs := runCommand(t, nil, append([]string{"policy"}, args...)...)
				wantShowable(t, out+errs)
				if most := 16 << 10; len(out)+len(errs) > most && args[1] != "--json" {
					t.Errorf("%s writes %d bytes", args[0], len(out)+len(errs))
				}
			}
		})
	}
	path := evilFile(t, named(evil))
	out, _ := policyRun(t, exitOK, "inspect", path)
	wantAll(t, out, `export     \x1b[2J\u009b31mX\nverdict  forged\r\u202e\x7f: function`, `custom     \x1b[2J`)
	out, _ = policyRun(t, exitOK, "inspect", "--json", path)
	var in struct{ Exports []struct{ Name string } }
	if err := json.Unmarshal([]byte(out), &in); err != nil || in.Exports[len(in.Exports)-1].Name != evil && !strings.Contains(out, `\u009b31m`) {
		t.Errorf("%v in %s", err, out)
	}
}

// So is what a manifest's file, a vector file and a default say.
func TestTheTextOfAuthorsFilesIsEscaped(t *testing.T) {
	path := evilFile(t, kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Const(0)}))
	for _, toml := range []string{
		"\"" + `\u001b[2J\nverdict  forged` + "\" = 1\n", "name = \"a\x1b[2J\"\n", "a\x1b[2J = 1\n", "name = '''\n\x1b'''\n",
		"[state]\n\"" + `\u001b[2J` + "\" = 1\n", "name = \"" + `\u001b[2J` + "\"\n",
	} {
		_, errs := policyRun(t, exitUsage, "manifest", "--set", textFile(t, "m.toml", toml), path)
		wantShowable(t, errs)
	}
	for _, vectors := range []string{
		`vector "` + `\x1b[2J\nverdict  forged` + "\" gate\nin RawPoll=Success\nout Vote=Transferring\n", "vector \"a\" \x1b[2J\n", "\x1b[2J\n", "vector \"a\" gate\nin \x1b[2J=1\n",
	} {
		code, out, errs := runCommand(t, nil, "policy", "test", path, textFile(t, "v.txt", vectors))
		if code == exitOK {
			t.Errorf("%q is answered as expected", vectors)
		}
		wantShowable(t, out+errs)
	}
	wasm, err := manifest.Write(kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Const(0)}),
		manifest.Manifest{Config: map[string]manifest.Key{"a": {Type: manifest.String, Default: "two\nverdict  forged"}, "b": {Type: manifest.Strings, Default: []string{"x\ny"}}}})
	if err != nil {
		t.Fatal(err)
	}
	out, _ := policyRun(t, exitOK, "inspect", evilFile(t, wasm))
	wantShowable(t, out)
	wantAll(t, out, `"two\nverdict  forged" by default`, `["x\ny"] by default`)
}
