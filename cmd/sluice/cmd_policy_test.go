package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/internal/clock"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
)

// buildEnv is the environment of the commands that run a toolchain: offline.
func buildEnv() []string { return append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off") }

// wasmFile writes a gate module.
func wasmFile(t *testing.T, name string, body []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: body}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func policyRun(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, out, errs := runCommand(t, nil, append([]string{"policy"}, args...)...)
	if code != want {
		t.Fatalf("%q: status %d, want %d\nstdout:\n%s\nstderr:\n%s", args, code, want, out, errs)
	}
	return out, errs
}

func wantAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in\n%s", p, text)
		}
	}
}

func TestPolicyABI(t *testing.T) {
	out, _ := policyRun(t, exitOK, "abi", "--json")
	var d kit.HostDescription
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Hooks) < 3 || d.Hooks[0].Name != "gate" || d.Hooks[0].Export != abi.Gate.Export() || d.Minors["1"] != abi.Minor || len(d.Imports) != 10 {
		t.Errorf("%+v", d)
	}
	out, _ = policyRun(t, exitOK, "abi")
	wantAll(t, out, "policy ABI 1.", "hook gate", "sluice_admit_v1", "import   wasi_snapshot_preview1.fd_write")
}

// A policy that is started, built, checked and tested needs no network, no module sluice and no edit; what its build makes
// is the same in another folder.
func TestPolicyNewBuildCheckTest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain in PATH")
	}
	cache := []string{"XDG_CACHE_HOME=" + t.TempDir()} // of compiled modules
	do := func(want int, args ...string) string {
		t.Helper()
		environ := cache
		if args[0] == "build" {
			environ = buildEnv()
		}
		code, out, errs := runCommand(t, environ, append([]string{"policy"}, args...)...)
		if code != want {
			t.Fatalf("%q: status %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out
	}
	for _, hook := range kit.TemplateHooks("go") {
		t.Run(hook, func(t *testing.T) {
			name := "my-" + hook
			var built [2][]byte
			for i := range built {
				dir := filepath.Join(t.TempDir(), name)
				wantAll(t, do(exitOK, "new", "--lang", "go", "--hook", hook, dir), "sluice policy build")
				wantAll(t, do(exitOK, "build", dir), "GOOS=wasip1 GOARCH=wasm go build -trimpath", name+".wasm\n", "sha256 ")
				wasm := filepath.Join(dir, name+".wasm")
				var err error
				if built[i], err = os.ReadFile(wasm); err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					continue
				}
				native := exec.Command("go", "test", "./...")
				native.Dir, native.Env = dir, buildEnv()
				if out, err := native.CombinedOutput(); err != nil {
					t.Errorf("go test: %v\n%s", err, out)
				}
				out := do(exitOK, "check", "--runs", "8", wasm)
				wantAll(t, out, "hooks    "+hook, "load     ok", "verdict  ok\n")
				if strings.Contains(out, "warning") {
					t.Errorf("the template draws warnings:\n%s", out)
				}
				vectors := filepath.Join(dir, "vectors.txt")
				wantAll(t, do(exitOK, "test", wasm, vectors), "ok: ")
				before, _ := os.ReadFile(vectors)
				wantAll(t, do(exitOK, "test", "--rewrite", wasm, vectors), "rewritten")
				if after, _ := os.ReadFile(vectors); !bytes.Equal(before, after) {
					t.Errorf("the template's vectors are not what its policy answers:\n%s", after)
				}
			}
			if !bytes.Equal(built[0], built[1]) {
				t.Error("two folders give two modules")
			}
		})
	}
}

// toolchainsVariable says that the other languages' toolchains are here, so that a missing one is a failure. .ci/guests
// sets it.
const toolchainsVariable = "SLUICE_TOOLCHAINS"

// The other languages' templates build where their toolchain is, and say what is missing where it is not. What they answer
// is what the Go template's vectors say, so one rule a hook stands in every language.
func TestPolicyNewInOtherLanguages(t *testing.T) {
	for _, language := range kit.Languages()[1:] {
		for _, hook := range kit.TemplateHooks(language) {
			t.Run(language+"/"+hook, func(t *testing.T) { newInOtherLanguage(t, language, hook) })
		}
	}
}

func newInOtherLanguage(t *testing.T, language, hook string) {
	name := "my-" + hook
	dir := filepath.Join(t.TempDir(), name)
	policyRun(t, exitOK, "new", "--lang", language, "--hook", hook, dir)
	code, _, errs := runCommand(t, nil, "policy", "build", dir)
	if code != exitUsage || !strings.Contains(errs, "is not in PATH; install ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("with no PATH: status %d, %s", code, errs)
	}
	code, out, errs := runCommand(t, buildEnv(), "policy", "build", dir)
	if code == exitUsage && strings.Contains(errs, "is not in PATH") || language == "rust" && strings.Contains(errs, "rustup target add") {
		if os.Getenv(toolchainsVariable) != "" {
			t.Fatal(errs)
		}
		t.Skip(strings.TrimSpace(errs))
	}
	if code != exitOK {
		t.Fatalf("status %d\n%s%s", code, out, errs)
	}
	wasm, vectors := filepath.Join(dir, name+".wasm"), filepath.Join(dir, "vectors.txt")
	out, _ = policyRun(t, exitOK, "check", "--runs", "4", wasm)
	wantAll(t, out, "hooks    "+hook+"\n", "verdict  ok\n")
	wantAll(t, first(policyRun(t, exitOK, "test", wasm, vectors)), "ok: ")
	before, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	policyRun(t, exitOK, "test", "--rewrite", wasm, vectors)
	if after, err := os.ReadFile(vectors); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the template's vectors are not what its policy answers: %v\n%s", err, after)
	}
}

func first(a, _ string) string { return a }

func TestPolicyNewRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"a bad name", []string{"new", "Bad.Name"}, "cannot be a module's"},
		{"a bad language", []string{"new", "--lang", "cobol", "x"}, "use go, c, rust, assemblyscript, zig"},
		{"a bad hook", []string{"new", "--hook", "gat", "x"}, "use admit, gate, reserve, score"},
		{"a path to a bad name", []string{"new", filepath.Join(full, "Bad.Name")}, `the name "Bad.Name" cannot be a module's`},
		{"a name that Go keeps", []string{"new", "sort"}, "use another, my-sort say"},
		{"a very long name", []string{"new", strings.Repeat("n", 1000)}, `"` + strings.Repeat("n", 60) + `"… cannot be a module's`},
		{"an empty name", []string{"new", ""}, "the name is empty; give a name"},
		{"a file", []string{"new", filepath.Join(full, "x")}, "is, or lies below, a file; name another folder"},
		{"below a file", []string{"new", filepath.Join(full, "x", "y")}, "is, or lies below, a file; name another folder"},
		{"two names", []string{"new", "a", "b"}, "write sluice policy new NAME | PATH, or see"},
		{"an argument of abi", []string{"abi", "x"}, `1 arguments for "abi"; write sluice policy abi`},
		{"no policy to build", []string{"build", t.TempDir()}, "no policy here: want go.mod"},
		{"no folder to build", []string{"build", filepath.Join(full, "nope")}, "no policy here: want go.mod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := policyRun(t, exitUsage, c.args...)
			if !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("got %q, want %q", errs, c.want)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "gate-x")
	policyRun(t, exitOK, "new", dir)
	if _, errs := policyRun(t, exitUsage, "new", dir); !strings.Contains(errs, "exists and is not empty") {
		t.Errorf("a second time: %s", errs)
	}
}

// A name makes a folder here, a path makes it there, and an empty folder may be the one. The last element names the policy.
func TestPolicyNewMakesTheFolder(t *testing.T) {
	here := filepath.Join(t.TempDir(), "here")
	if err := os.Mkdir(here, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	for _, c := range []struct{ arg, folder, name string }{
		{"mine", "mine", "mine"},
		{"./deep/er/yours", "deep/er/yours", "yours"},
		{"../beside/", "../beside", "beside"},
		{filepath.Join(here, "whole"), "whole", "whole"},
	} {
		wantAll(t, first(policyRun(t, exitOK, "new", c.arg)), "next: cd "+filepath.Clean(c.arg)+" && sluice policy build")
		text, err := os.ReadFile(filepath.Join(here, filepath.FromSlash(c.folder), "go.mod"))
		if err != nil || !strings.HasPrefix(string(text), "module "+c.name+"\n") {
			t.Errorf("%s: %v, %s", c.arg, err, text)
		}
	}
	empty := filepath.Join(here, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(empty)
	policyRun(t, exitOK, "new", "--lang", "c", ".")
	if text, err := os.ReadFile(filepath.Join(empty, "README.md")); err != nil || !strings.HasPrefix(string(text), "# empty\n") {
		t.Errorf("an empty folder: %v, %s", err, text)
	}
}

// A build that fails says so, after the compiler's own words.
func TestPolicyBuildThatFails(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain in PATH")
	}
	dir := filepath.Join(t.TempDir(), "broken")
	policyRun(t, exitOK, "new", dir)
	if err := os.WriteFile(filepath.Join(dir, "more.go"), []byte("package main\n\nvar x int = \"text\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runCommand(t, buildEnv(), "policy", "build", dir)
	if code != exitBroken || !strings.Contains(out, "go build") || !strings.Contains(errs, "more.go") || !strings.Contains(errs, "the command above ended with exit status 1") {
		t.Errorf("status %d\n%s%s", code, out, errs)
	}
}

func TestPolicyTestShowsWhatDiffers(t *testing.T) {
	wasm := wasmFile(t, "hold.wasm", kittest.Votes(kittest.Const(3)))
	vectors := filepath.Join(t.TempDir(), "v.txt")
	write := func(text string) {
		if err := os.WriteFile(vectors, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("vector \"ready\" gate\nin RawPoll=Success Restore=Ready\nout Vote=Success\n")
	out, errs := policyRun(t, exitBroken, "test", wasm, vectors)
	wantAll(t, out, "v.txt:1: ready", "out 0: Vote is Transferring, want Success")
	wantAll(t, errs, "1 of 1 vectors")
	policyRun(t, exitOK, "test", "--rewrite", wasm, vectors)
	wantAll(t, first(policyRun(t, exitOK, "test", wasm, vectors)), "ok: 1 vectors")
	write("vector \"ready\" gate\nin Raw=1\n")
	_, errs = policyRun(t, exitUsage, "test", wasm, vectors)
	wantAll(t, errs, "v.txt: vectors: line 2: GateRecord has no field \"Raw\"")
	write(strings.Repeat("garbage", 100_000))
	if _, errs = policyRun(t, exitUsage, "test", wasm, vectors); len(errs) > 1000 {
		t.Errorf("an error of %d bytes", len(errs))
	}
	policyRun(t, exitUsage, "test", wasm, filepath.Join(t.TempDir(), "none.txt"))
}

func TestPolicyBench(t *testing.T) {
	wasm := wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8)))
	out, _ := policyRun(t, exitOK, "bench", wasm)
	wantAll(t, out, "gate: raw.wasm beside restore-gated in plain Go", "fuel/record", "\n       1 ", "\n      16 ", "\n     256 ", "\n    1024 ",
		"memory after 10000 ticks: 8 pages of 64 KiB, 0 more than at the start")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 7 && slices.Contains([]string{"1", "16", "256", "1024"}, f[0]) && f[6] != "0.0" {
			t.Errorf("a call allocates: %s", line)
		}
	}
	_, errs := policyRun(t, exitBroken, "bench", wasmFile(t, "trap.wasm", kittest.Unreachable()))
	wantAll(t, errs, "trap{unreachable}")
	_, errs = policyRun(t, exitUsage, "bench", "--hook", "admit", wasm)
	wantAll(t, errs, "does not export sluice_admit_v1")
	_, errs = policyRun(t, exitUsage, "bench", "--hook", "admin", wasm)
	wantAll(t, errs, `no hook is named "admin"`)
}

func TestPolicyBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, &environment{args: []string{"policy", "bench", wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8)))},
		stdin: strings.NewReader(""), stdout: &out, stderr: &errs, clock: clock.NewVirtual()})
	if code != exitBroken || errs.String() != "sluice: interrupted\n" {
		t.Errorf("status %d, %q", code, errs.String())
	}
}

// What does not write to a terminal hears nothing for a while.
func TestProgress(t *testing.T) {
	var errs bytes.Buffer
	clk := clock.NewVirtual()
	p := newProgress(&environment{stderr: &errs, clock: clk})
	p.say("at %d", 0)
	clk.Advance(quietFor - 1)
	p.say("at %d", 1)
	clk.Advance(1)
	p.say("at %d", 2)
	if errs.String() != "at 2\n" {
		t.Errorf("%q", errs.String())
	}
	for path, want := range map[string]bool{os.DevNull: true, filepath.Join(t.TempDir(), "file"): false} {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got := terminal(f); got != want {
			t.Errorf("%s is a character device: %v", path, got)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPolicyFuzz(t *testing.T) {
	wantAll(t, first(policyRun(t, exitOK, "fuzz", "--runs", "50", "--seed", "9", wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8))))),
		"ok: 50 batches", "seed 9", "same answers and fuel on compiler and interpreter")
	bad := wasmFile(t, "bad.wasm", kittest.Votes(kittest.Const(9)))
	out, errs := policyRun(t, exitBroken, "fuzz", "--seed", "9", bad)
	wantAll(t, out, "vector \"fuzz seed 9 run ", "illegal_answer", "vote is 9")
	wantAll(t, errs, "repeat with: sluice policy fuzz --seed 9 --runs ")
	policyRun(t, exitUsage, "fuzz", "--runs", "0", bad)
}

func TestPolicyInspect(t *testing.T) {
	wasm := wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8)))
	out, _ := policyRun(t, exitOK, "inspect", wasm)
	wantAll(t, out, "hooks      gate", "markers    sluice_abi_1", "memory     pages of 64 KiB: 8, no maximum", "export     sluice_gate_v1: function (i32) -> (i32)")
	out, _ = policyRun(t, exitOK, "inspect", "--json", wasm)
	var in kit.Inspection
	if err := json.Unmarshal([]byte(out), &in); err != nil || in.Hooks[0] != "gate" || len(in.SHA256) != 64 {
		t.Errorf("%+v, %v", in, err)
	}
	broken := filepath.Join(t.TempDir(), "x.wasm")
	if err := os.WriteFile(broken, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs := policyRun(t, exitUsage, "inspect", broken)
	wantAll(t, errs, "5 bytes, sha256 2cf24dba")
}

func TestPolicySignAndVerify(t *testing.T) {
	dir := t.TempDir()
	key, wasm := filepath.Join(dir, "key"), wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8)))
	public, _ := policyRun(t, exitOK, "keygen", key)
	public = strings.TrimSpace(public)
	if st, err := os.Stat(key); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", st, err)
	}
	if text, err := os.ReadFile(key); err != nil || !strings.HasPrefix(public, "ed25519:") || !strings.Contains(string(text), public) {
		t.Errorf("public %q, %v", public, err)
	}
	if _, errs := policyRun(t, exitUsage, "keygen", key); !strings.Contains(errs, "may hold a key") {
		t.Errorf("a second key: %s", errs)
	}
	if _, errs := policyRun(t, exitUsage, "verify", "--key", public, wasm); !strings.Contains(errs, "sign the module") {
		t.Errorf("unsigned: %s", errs)
	}
	policyRun(t, exitOK, "sign", "--key", key, wasm)
	wantAll(t, first(policyRun(t, exitOK, "verify", "--key", public, wasm)), "signed by "+public)
	if _, errs := policyRun(t, exitUsage, "verify", "--key", key, wasm); !strings.Contains(errs, "secret key") {
		t.Errorf("the secret key as a trusted one: %s", errs)
	}
	text := filepath.Join(dir, "text.wasm")
	if err := os.WriteFile(text, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := policyRun(t, exitUsage, "sign", "--key", key, text); !strings.Contains(errs, "no policy to sign") {
		t.Errorf("signing what is no module: %s", errs)
	}
	other := filepath.Join(dir, "other")
	stranger, _ := policyRun(t, exitOK, "keygen", other)
	if _, errs := policyRun(t, exitBroken, "verify", "--key", strings.TrimSpace(stranger), wasm); !strings.Contains(errs, "made with the key "+public) {
		t.Errorf("another key: %s", errs)
	}
	module, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wasm, append(module, 0, 1, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := policyRun(t, exitBroken, "verify", "--key", public, wasm); !strings.Contains(errs, "of a module with sha256") {
		t.Errorf("another module: %s", errs)
	}
	for _, args := range [][]string{{"sign", wasm}, {"verify", wasm}, {"sign", "--key", wasm, wasm}, {"verify", "--key", "ed25519:x", wasm}, {"verify", "--key", wasm, wasm},
		{"sign", "--key", filepath.Join(dir, "none"), wasm}} {
		policyRun(t, exitUsage, args...)
	}
}

func TestPolicyReplay(t *testing.T) {
	raw, hold := wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8))), wasmFile(t, "hold.wasm", kittest.Votes(kittest.Const(3)))
	var out bytes.Buffer
	w, err := kit.NewRecordWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for tick := range uint64(5) {
		n := 2
		buf := make([]byte, abi.BatchSize(abi.Gate, n, n))
		b, err := abi.Begin(buf, abi.Gate, tick, 1, n, n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			// From tick 3 on a finished transfer is in the batch.
			b.PutGate(i, &abi.GateRecord{ReqKey: uint64(i), RawPoll: abi.PollTransferring + abi.Poll(tick/3)})
			abi.PutGateOut(b.Out[i*abi.GateOutStride:], &abi.GateOut{Vote: b.GateIn(i).RawPoll})
		}
		if err := w.Append(&kit.Frame{Tick: tick, Hook: abi.Gate, Input: slices.Concat(b.Header, b.Globals, b.In), Answer: b.Out}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "batches")
	write := func(data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(out.Bytes())
	wantAll(t, first(policyRun(t, exitOK, "replay", file, raw)), "5 frames up to tick 4", "same: "+raw+" answers as the recorded answers")
	text, errs := policyRun(t, exitBroken, "replay", file, hold)
	wantAll(t, text, "first difference at tick 3, rank 0, gate:", "out 0: Vote is Transferring, was recorded as Success", "in ReqKey=1 RawPoll=Success")
	wantAll(t, errs, "differ on 2 of 5 batches, first at tick 3")
	text, _ = policyRun(t, exitBroken, "replay", file, hold, raw)
	wantAll(t, text, "Vote by hold.wasm is Transferring, by raw.wasm is Success")
	twin := wasmFile(t, "raw.wasm", kittest.Votes(kittest.Const(3)))
	text, _ = policyRun(t, exitBroken, "replay", file, twin, raw)
	wantAll(t, text, "Vote by "+twin+" is Transferring, by "+raw+" is Success")
	wantAll(t, first(policyRun(t, exitOK, "replay", file, raw, raw)), "same: ")
	other := filepath.Join(t.TempDir(), "reserve.wasm")
	if err := os.WriteFile(other, kittest.Module(kittest.Export{Name: "sluice_reserve_v1", Body: kittest.Const(0)}), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = policyRun(t, exitUsage, "replay", file, raw, other)
	wantAll(t, errs, raw+" answers gate, "+other+" answers reserve: no hook in common")
	write(out.Bytes()[:out.Len()-1])
	wantAll(t, first(policyRun(t, exitOK, "replay", file, raw)), "warning: the file ends inside a frame", "4 frames")
	write([]byte("no record"))
	_, errs = policyRun(t, exitUsage, "replay", file, raw)
	wantAll(t, errs, "does not begin with")
	write(out.Bytes()[:8])
	_, errs = policyRun(t, exitUsage, "replay", file, raw)
	wantAll(t, errs, "nothing was compared")
}
