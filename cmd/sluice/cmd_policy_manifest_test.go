package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
)

// textFile writes a file into a folder of its own.
func textFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPolicyManifestPrintsAndSets(t *testing.T) {
	wasm := wasmFile(t, "x.wasm", kittest.Votes(kittest.InByte(8)))
	before, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	_, errs := policyRun(t, exitBroken, "manifest", wasm)
	wantAll(t, errs, "has no manifest", "--set manifest.toml")
	toml := textFile(t, "manifest.toml", "name = \"x\"\nversion = \"2\"\nauthor = \"A\"\nlicence = \"MIT\"\ndescription = \"One.\\nTwo.\"\n"+
		"source_sha256 = \""+strings.Repeat("ab", 32)+"\"\ncounters = [\"held\"]\n"+
		"[reasons]\n77 = \"too far\"\n[state]\nschema = 3\nloads = [1]\n[fuel]\nbase = 100\nper_record = 5\n"+
		"[config.ticks]\ntype = \"integer\"\nmax = 9\ndefault = 4\ndoc = \"Ticks.\"\n[config.mode]\ntype = \"string\"\nrequired = true\n")
	out, _ := policyRun(t, exitOK, "manifest", "--set", toml, wasm)
	wantAll(t, out, wasm+"\n", "sha256 ")
	after, err := os.ReadFile(wasm)
	if err != nil || !strings.HasPrefix(string(after), string(before)) {
		t.Errorf("other sections changed, %v", err)
	}
	out, _ = policyRun(t, exitOK, "manifest", wasm)
	var m map[string]any
	if err := json.Unmarshal([]byte(out), &m); err != nil || m["name"] != "x" || m["reasons"].(map[string]any)["77"] != "too far" {
		t.Errorf("%v\n%s", err, out)
	}
	out, _ = policyRun(t, exitOK, "inspect", wasm)
	wantAll(t, out, "manifest   x 2, A, MIT\n", "about      One.\nabout      Two.\n", "sources    sha256 abab", "reason     77: too far\n", "counter    0: held\n",
		"state      schema 3, loads 1, 3\n", "setting    mode: a text in quotes, required\n", "setting    ticks: an integer, at most 9, 4 by default; Ticks.\n", "fuel hint  100, and 5 a record\n")
	out, _ = policyRun(t, exitOK, "inspect", "--json", wasm)
	wantAll(t, out, `"77": "too far"`)

	// Setting again replaces it and keeps the hash of the sources; another file leaves this one as it is.
	key := filepath.Join(t.TempDir(), "key")
	policyRun(t, exitOK, "keygen", key)
	policyRun(t, exitOK, "sign", "--key", key, wasm)
	other := filepath.Join(t.TempDir(), "y.wasm")
	out, _ = policyRun(t, exitOK, "manifest", "--set", textFile(t, "m.toml", `name = "y"`), "-o", other, wasm)
	if strings.Contains(out, "sign again") {
		t.Errorf("a signature of another file counts: %s", out)
	}
	out, _ = policyRun(t, exitOK, "manifest", other)
	wantAll(t, out, `"y"`, strings.Repeat("ab", 32))
	if strings.Contains(out, "reasons") {
		t.Errorf("the old manifest shows in %s", out)
	}
	out, _ = policyRun(t, exitOK, "manifest", "--set", toml, wasm)
	wantAll(t, out, "x.wasm.sig is of the bytes before; sign again")
}

func TestPolicyManifestRefuses(t *testing.T) {
	wasm := wasmFile(t, "x.wasm", kittest.Votes(kittest.InByte(8)))
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"a misspelt key", []string{"--set", textFile(t, "manifest.toml", "nmae = \"x\""), wasm}, []string{"manifest.toml", "nmae is no key", "did you mean name?"}},
		{"no such file", []string{"--set", "none.toml", wasm}, []string{"none.toml", "sluice policy new"}},
		{"broken TOML", []string{"--set", textFile(t, "manifest.toml", "name = "), wasm}, []string{"line 1"}},
		{"no module", []string{"--set", textFile(t, "manifest.toml", "name = \"x\""), textFile(t, "x.wasm", "MZ")}, []string{"no policy"}},
		{"-o alone", []string{"-o", "y.wasm", wasm}, []string{"give --set"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := policyRun(t, exitUsage, append([]string{"manifest"}, c.args...)...)
			wantAll(t, errs, c.want...)
		})
	}
}

// A folder's manifest goes into the module with the hash of its sources, and a build of the same sources elsewhere gives
// the same bytes.
func TestPolicyBuildEmbedsTheManifest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain in PATH")
	}
	var built [2][]byte
	for i := range built {
		dir := filepath.Join(t.TempDir(), "my-gate")
		policyRun(t, exitOK, "new", dir)
		path := filepath.Join(dir, "manifest.toml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, "\n[reasons]\n64 = \"too old\"\n"...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // what the first build has made is no source of the second
			code, out, errs := runCommand(t, buildEnv(), "policy", "build", dir)
			if code != exitOK {
				t.Fatalf("status %d\n%s%s", code, out, errs)
			}
		}
		wasm := filepath.Join(dir, "my-gate.wasm")
		if built[i], err = os.ReadFile(wasm); err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Read(built[i])
		if err != nil || m == nil {
			t.Fatalf("%+v, %v", m, err)
		}
		want, err := manifest.SourceHash(os.DirFS(dir))
		if err != nil || m.Name != "my-gate" || m.Version != "0.1.0" || m.Reasons[64] != "too old" || m.SourceSHA256 != want {
			t.Errorf("%+v, %v, sources %s", m, err, want)
		}
		if err := os.WriteFile(path, []byte("source_sha256 = \""+want+"\""), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errs := runCommand(t, buildEnv(), "policy", "build", dir)
		if code != exitUsage || !strings.Contains(errs, "source_sha256 is written by the build; remove it") {
			t.Errorf("status %d, %s", code, errs)
		}
	}
	if string(built[0]) != string(built[1]) {
		t.Error("two folders with the same sources give two modules")
	}
}

func TestPolicyCheckComparesTheManifest(t *testing.T) {
	for _, c := range []struct {
		name string
		toml string
		want []string
		not  []string
	}{
		{"nothing to name", "", nil, []string{"reason", "state is never carried"}},
		{"a schema without exports", "[state]\nschema = 1", []string{"warning  the manifest names the state schema 1", "sluice_state_save nor sluice_state_load"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			wasm := wasmFile(t, "x.wasm", kittest.Votes(kittest.InByte(8)))
			if c.toml != "" {
				policyRun(t, exitOK, "manifest", "--set", textFile(t, "manifest.toml", c.toml), wasm)
			}
			out, _ := policyRun(t, exitOK, "check", "--runs", "2", wasm)
			wantAll(t, out, c.want...)
			for _, n := range c.not {
				if strings.Contains(out, n) {
					t.Errorf("%q in\n%s", n, out)
				}
			}
		})
	}
	fails := wasmFile(t, "x.wasm", kittest.Fails(77))
	out, _ := policyRun(t, exitBroken, "check", "--runs", "2", fails)
	wantAll(t, out, "warning  the reason 77 has no text", "failed: policy reason 77")
	policyRun(t, exitOK, "manifest", "--set", textFile(t, "manifest.toml", "[reasons]\n77 = \"too far\""), fails)
	out, _ = policyRun(t, exitBroken, "check", "--runs", "2", fails)
	wantAll(t, out, "failed: too far")
	if strings.Contains(out, "reason 77") {
		t.Errorf("the number shows in\n%s", out)
	}
}

func TestReplayShowsAPolicysReasons(t *testing.T) {
	fails := wasmFile(t, "x.wasm", kittest.Fails(77))
	policyRun(t, exitOK, "manifest", "--set", textFile(t, "manifest.toml", "[reasons]\n77 = \"too far\""), fails)
	out, errs, status := runHere(t, "replay", "--trace", syntheticTrace, "--limit", "20", "--policy", "gate="+fails)
	if status != exitOK {
		t.Fatalf("status %d, %s", status, errs)
	}
	wantAll(t, out, "failed        20: too far")
}

func TestStateWarnings(t *testing.T) {
	named := &manifest.Manifest{State: manifest.State{Schema: 4}}
	for _, c := range []struct {
		save, load bool
		about      *manifest.Manifest
		want       string
	}{
		{false, false, nil, ""}, {false, false, &manifest.Manifest{}, ""}, {true, true, named, ""},
		{true, true, nil, "no schema is named"}, {true, false, named, "export both"}, {false, true, nil, "export both"}, {false, false, named, "schema 4"},
	} {
		got := stateWarning(c.save, c.load, c.about)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("save %v, load %v, %+v: %q, want %q", c.save, c.load, c.about, got, c.want)
		}
	}
}
