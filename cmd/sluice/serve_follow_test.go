package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/internal/metrics"
	"sluice/runtime/router"
	"sluice/runtime/server"
)

// followed is a server that reads its configuration from a file, and can be told to read it again.
type followed struct {
	*served
	file   string
	hangup chan os.Signal
}

// native is a configuration of policies that need no compiling; more is put after it.
func native(gate, reserve, more string) string {
	return fmt.Sprintf(`
[policy.gate]
builtin = %q
engine = "native"
[policy.reserve]
builtin = %q
engine = "native"
[policy.admit]
engine = "native"
%s`, gate, reserve, more)
}

func startFollowed(t *testing.T, text string) *followed {
	t.Helper()
	dir := t.TempDir()
	f := &followed{file: filepath.Join(dir, "config.toml"), hangup: make(chan os.Signal)}
	flags := map[string]string{"http.port": "0", "decode.max_total_tokens": "256", "decode.reserved_decode_tokens": "16",
		"decode.idle_tick": "5ms", "log.level": "info", "plugins.cache_dir": filepath.Join(dir, "cache")}
	load := func() (*config.Config, error) {
		b, err := readConfigFile(f.file)
		if err != nil {
			return nil, err
		}
		cfg, _, err := config.Load(config.Sources{FileName: f.file, File: b, Flags: flags})
		return cfg, err
	}
	f.served = &served{t: t, client: &http.Client{Transport: &http.Transport{}}, done: make(chan error, 1), stdout: &lockedBuffer{}, stderr: &lockedBuffer{}}
	f.write(text)
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	started := make(chan string, 1)
	env := &environment{stdin: strings.NewReader(""), stdout: f.stdout, stderr: f.stderr, clock: clock.NewReal()}
	hooks := serveHooks{
		local: func(o *router.LocalOptions) { o.Pace = 50 * time.Microsecond },
		started: func(addr string, reg *metrics.Registry) {
			f.reg = reg
			started <- addr
		},
		hangup: f.hangup, reload: load, configFile: f.file, poll: 2 * time.Millisecond,
	}
	go func() { f.done <- serve(ctx, env, cfg, hooks) }()
	select {
	case addr := <-started:
		f.url = "http://" + addr
	case err := <-f.done:
		t.Fatalf("serve: %v\n%s", err, f.stderr)
	case <-time.After(servePatience):
		t.Fatal("not started")
	}
	t.Cleanup(func() {
		f.end()
		f.client.CloseIdleConnections()
		goleak.VerifyNone(t, leaks)
	})
	return f
}

// write replaces the configuration's file.
func (f *followed) write(text string) { replaceFile(f.t, f.file, []byte(text)) }

func replaceFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// hup has the server read its configuration again, and waits until the log says so many times what came of it.
func (f *followed) hup(says string, times int) {
	f.t.Helper()
	select {
	case f.hangup <- syscall.SIGHUP:
	case <-time.After(servePatience):
		f.t.Fatal("nobody listens")
	}
	f.eventually(says, func() bool { return strings.Count(f.stderr.String(), says) >= times })
}

// active is the policy in use for a hook.
func (f *followed) active(hook string) server.PolicyHook {
	f.t.Helper()
	status, body := f.get("/policies")
	var l server.PolicyList
	if err := json.Unmarshal([]byte(body), &l); err != nil || status != http.StatusOK {
		f.t.Fatalf("/policies: %d, %v in %s", status, err, body)
	}
	for _, k := range l.Sets[0].Hooks {
		if l.Sets[0].State == server.PolicyActive && k.Hook == hook {
			return k
		}
	}
	f.t.Fatalf("no policy for %s in %s", hook, body)
	return server.PolicyHook{}
}

func (f *followed) wantActive(gate, reserve string, epoch float64) {
	f.t.Helper()
	if g, r, e := f.active("gate").Name, f.active("reserve").Name, f.value("policy_epoch"); g != gate || r != reserve || e != epoch {
		f.t.Errorf("gate %s, reserve %s in policy epoch %v; want %s, %s, %v\n%s", g, r, e, gate, reserve, epoch, f.stderr)
	}
}

// A hangup applies what changed in the policies' sections, all of it in one tick or nothing, and names the rest.
func TestServeHangup(t *testing.T) {
	f := startFollowed(t, native("restore-gated", "until-retired", ""))
	f.write(native("pending-only", "none", "[http]\nmax_queue = 77\n[policy]\nquarantine_faults = 9\n"))
	f.hup("the configured policies are in use", 1)
	f.wantActive("pending-only", "none", 1)
	if log := f.stderr.String(); !strings.Contains(log, `keys="http.max_queue, policy.quarantine_faults"`) || !strings.Contains(log, "need a restart") {
		t.Errorf("the log does not name the keys that need a restart:\n%s", log)
	}
	// The same again is no change; what needs a restart still does.
	f.hup("need a restart", 2)

	for _, bad := range []struct{ text, says string }{
		{native("ungated", "none", "[policy.gat]\n"), "not read again"},
		{native("ungated", "none", "") + "[", "not read again"},
		{"", "x"}, // no file
		{strings.Replace(native("ungated", "none", ""), `builtin = "none"`+"\nengine = \"native\"", `path = "missing.wasm"`, 1), "not taken"},
	} {
		if bad.text == "" {
			if err := os.Remove(f.file); err != nil {
				t.Fatal(err)
			}
			f.hup("not read again", 3)
			continue
		}
		f.write(bad.text)
		f.hup(bad.says, 1)
		f.wantActive("pending-only", "none", 1)
	}
	f.write(native("ungated", "none", ""))
	f.hup("the configured policies are in use", 2)
	f.wantActive("ungated", "none", 2)
	if status, a := f.post("/generate", body("hello", 4, "")); status != http.StatusOK || a.Meta.Completion != 4 {
		t.Errorf("a request after it all: %d %+v", status, a)
	}
}

// Who answers on a fault and the quarantine are fixed when the group forms: a hangup names what changed of them, and
// applies the rest of the section.
func TestServeHangupKeepsWhatIsFixed(t *testing.T) {
	section := func(gate, more string) string {
		return strings.Replace(native(gate, "until-retired", ""), "[policy.reserve]", more+"\n[policy.reserve]", 1)
	}
	f := startFollowed(t, section("restore-gated", "on_fault = \"hold\"\nquarantine = { faults = 5 }"))
	f.write(section("pending-only", "quarantine = { faults = 7, window_ticks = 9 }"))
	f.hup("the configured policies are in use", 1)
	f.wantActive("pending-only", "until-retired", 1)
	const keys = `keys="policy.gate.on_fault, policy.gate.quarantine"`
	if log := f.stderr.String(); strings.Count(log, keys) != 1 {
		t.Errorf("the log does not name the keys that need a restart:\n%s", log)
	}
	// Nothing but what is fixed: no switch, and it is still reported. What [policy] says comes to a hook from there.
	f.write(section("pending-only", "on_fault = \"hold\"\nquarantine = { faults = 5, window_ticks = 1000 }") + "[policy]\nquarantine_faults = 4\n")
	f.hup(`keys=policy.quarantine_faults`, 1)
	f.write(section("pending-only", "quarantine = { faults = 5 }"))
	f.hup(`keys=policy.gate.on_fault`, 1)
	f.write(section("ungated", "on_fault = \"hold\"\nquarantine = { faults = 5 }"))
	f.hup("the configured policies are in use", 2)
	f.wantActive("ungated", "until-retired", 2)
	if n := strings.Count(f.stderr.String(), "need a restart"); n != 3 {
		t.Errorf("%d reports of what needs a restart, want 3:\n%s", n, f.stderr)
	}
}

// A module whose file is written anew is taken up; one that is no module is refused, and what runs keeps running.
func TestServeFollowsModules(t *testing.T) {
	first, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	second := append(append([]byte{}, first...), 0, 2, 1, 'x') // the same with a custom section
	sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	path := filepath.Join(t.TempDir(), "policy.wasm")
	replaceFile(t, path, first)
	f := startFollowed(t, fmt.Sprintf("[policy.gate]\npath = %q\n[policy.reserve]\npath = %q\n[policy.admit]\nengine = \"native\"\n", path, path))
	if k := f.active("gate"); k.SHA256 != sum(first) || k.Name != path {
		t.Fatalf("active %+v", k)
	}
	replaceFile(t, path, second)
	f.eventually("the module to be taken up", func() bool { return f.value("policy_epoch") == 1 })
	if g, r := f.active("gate").SHA256, f.active("reserve").SHA256; g != sum(second) || r != sum(second) {
		t.Errorf("gate %s, reserve %s; want both of the new module %s", g, r, sum(second))
	}
	replaceFile(t, path, []byte("no module"))
	f.eventually("the refusal", func() bool { return f.value("policy_refused_total") == 1 })
	if k := f.active("gate"); k.SHA256 != sum(second) || f.value("policy_epoch") != 1 {
		t.Errorf("after the refusal: %+v", k)
	}
	replaceFile(t, path, first)
	f.eventually("the first module again", func() bool { return f.value("policy_epoch") == 2 })
	if k := f.active("gate"); k.SHA256 != sum(first) {
		t.Errorf("active %+v", k)
	}
	if _, ok := f.reg.Value("policy_info", "wasm", "gate", path, path, sum(second)); ok {
		t.Error("the series of the module that left is still there")
	}
	if status, a := f.post("/generate", body("hello", 4, "")); status != http.StatusOK || a.Meta.Completion != 4 {
		t.Errorf("a request after it all: %d %+v", status, a)
	}
}

// The routes of /policies on a real server: a module beside the configuration is staged by its name, used, and left.
func TestServePolicies(t *testing.T) {
	f := startFollowed(t, native("restore-gated", "until-retired", ""))
	module, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, filepath.Join(filepath.Dir(f.file), "trap.wasm"), module)
	change := func(path, body string, want int) server.PolicySet {
		t.Helper()
		resp, err := f.client.Post(f.url+"/policies/"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var s server.PolicySet
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil || resp.StatusCode != want {
			t.Fatalf("%s: %d, %v, %+v", path, resp.StatusCode, err, s)
		}
		return s
	}
	change("rollback", "", http.StatusConflict)
	change("activate", `{"id":"7"}`, http.StatusNotFound)
	change("stage", `{"hook":"gate","path":"/etc/hostname"}`, http.StatusBadRequest)
	change("stage", `{"hook":"gate","path":"trap.wasm","sha256":"00"}`, http.StatusBadRequest)
	change("stage", `{"hook":"gate","path":"trap.wasm","shadow_ticks":1e3}`, http.StatusBadRequest)
	staged := change("stage", fmt.Sprintf(`{"hook":"gate","path":"trap.wasm","sha256":"%x"}`, sha256.Sum256(module)), http.StatusOK)
	f.wantActive("restore-gated", "until-retired", 0)
	if got := change("activate", fmt.Sprintf(`{"id":%q}`, staged.ID), http.StatusOK); got.State != server.PolicyActive || got.Epoch != 1 {
		t.Errorf("activated %+v", got)
	}
	if status, a := f.post("/generate", body("hello", 4, "")); status != http.StatusOK || a.Meta.Completion != 4 {
		t.Errorf("a request under a policy that traps: %d %+v", status, a)
	}
	f.eventually("the trap", func() bool { return f.active("gate").Faults["trap"] > 0 })
	change("rollback", "", http.StatusOK)
	f.wantActive("restore-gated", "until-retired", 2)
}

// What a client has pushed or rolled back to stays until a hangup, which puts back what the configuration says and logs
// why; one that changes nothing says so. A change of another module's file leaves it alone.
func TestServeHangupAfterARollback(t *testing.T) {
	const again, nothing = "after a push or a rollback; the configured ones are applied again", "nothing changed"
	first, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	second := append(append([]byte{}, first...), 0, 2, 1, 'x') // the same with a custom section
	sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	dir := t.TempDir()
	gate, reserve := filepath.Join(dir, "gate.wasm"), filepath.Join(dir, "reserve.wasm")
	replaceFile(t, gate, first)
	replaceFile(t, reserve, first)
	f := startFollowed(t, fmt.Sprintf("[policy.gate]\npath = %q\n[policy.reserve]\npath = %q\n[policy.admit]\nengine = \"native\"\n", gate, reserve))
	wantGate := func(when, hash string, epoch float64) {
		t.Helper()
		if k := f.active("gate"); k.SHA256 != hash || f.value("policy_epoch") != epoch {
			t.Errorf("%s: %+v in epoch %v, want %s in %v\n%s", when, k, f.value("policy_epoch"), hash, epoch, f.stderr)
		}
	}
	f.hup(nothing, 1)
	wantGate("at the start", sum(first), 0)
	replaceFile(t, gate, second)
	f.eventually("the second module", func() bool { return f.value("policy_epoch") == 1 })
	f.eventually("the log", func() bool { return strings.Contains(f.stderr.String(), "the configured policies are in use") })
	if status, _ := f.post("/policies/rollback", ""); status != http.StatusOK {
		t.Fatalf("rollback: %d", status)
	}
	wantGate("after the rollback", sum(first), 2)
	replaceFile(t, reserve, second)
	f.eventually("the other module", func() bool { return f.value("policy_epoch") == 3 })
	f.eventually("the log", func() bool { return strings.Count(f.stderr.String(), "the configured policies are in use") == 2 })
	wantGate("after a change of the other module", sum(first), 3)
	f.hup("the configured policies are in use", 3)
	wantGate("after a hangup", sum(second), 4)
	if log := f.stderr.String(); !strings.Contains(log, again+"\" hooks=[gate]") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	f.hup(nothing, 2)
	if status, _ := f.post("/policies/stage", `{"hook":"gate","builtin":"ungated","engine":"native","shadow_ticks":0}`); status != http.StatusOK {
		t.Fatalf("stage: %d", status)
	}
	if status, _ := f.post("/policies/activate", fmt.Sprintf(`{"id":%q}`, f.sets(server.PolicyStaged)[0].ID)); status != http.StatusOK {
		t.Fatalf("activate: %d", status)
	}
	f.hup("the configured policies are in use", 4)
	wantGate("after a push and a hangup", sum(second), 6)
	f.hup(nothing, 3)
	if n := strings.Count(f.stderr.String(), again); n != 2 {
		t.Errorf("%d times applied again, want 2:\n%s", n, f.stderr)
	}
}

// A policy that is refused is logged once, whether a file or a client brings it, and whatever refuses it.
func TestServeLogsARefusalOnce(t *testing.T) {
	module, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.wasm")
	replaceFile(t, path, module)
	f := startFollowed(t, fmt.Sprintf("[policy.gate]\npath = %q\n[policy.reserve]\nengine = \"native\"\n[policy.admit]\nengine = \"native\"\n", path))
	once := func(when, says string) {
		t.Helper()
		if n := strings.Count(f.stderr.String(), says); n != 1 {
			t.Errorf("%s: logged %d times, want once:\n%s", when, n, f.stderr)
		}
	}
	replaceFile(t, path, []byte("no module at all"))
	// The follower's line comes last.
	f.eventually("the refusal", func() bool { return strings.Contains(f.stderr.String(), "the configured policies were not taken") })
	once("a file", "not a WebAssembly module")
	if status, _ := f.post("/policies/stage", `{"hook":"gate","builtin":"ungatd"}`); status != http.StatusBadRequest {
		t.Errorf("stage: %d", status)
	}
	once("a client", "no gate policy is named")
	if v := f.value("policy_refused_total"); v != 2 {
		t.Errorf("%v refusals are counted, want 2", v)
	}
}

// withShadow is a configuration whose gate has a shadow run.
func withShadow(gate string, ticks int) string {
	return strings.Replace(native(gate, "until-retired", ""), "[policy.gate]\n", fmt.Sprintf("[policy.gate]\nshadow_ticks = %d\n", ticks), 1)
}

// sets lists the sets in a state.
func (f *followed) sets(state string) (out []server.PolicySet) {
	f.t.Helper()
	_, body := f.get("/policies")
	var l server.PolicyList
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		f.t.Fatalf("/policies: %v in %s", err, body)
	}
	for _, s := range l.Sets {
		if s.State == state {
			out = append(out, s)
		}
	}
	return out
}

// works sends requests, whose transfers ask the gate, until cond.
func (f *followed) works(what string, cond func() bool) {
	f.t.Helper()
	f.eventually(what, func() bool {
		if status, a := f.post("/generate", body("hello", 2, "")); status != http.StatusOK || a.Meta.Completion != 2 {
			f.t.Errorf("a request meanwhile: %d %+v", status, a)
		}
		return cond()
	})
}

// A configured change runs in the shadow first where its section says so; a newer one takes its place meanwhile.
func TestServeHangupInShadow(t *testing.T) {
	const first = "the configured policies run in the shadow first"
	f := startFollowed(t, withShadow("restore-gated", 3))
	f.write(withShadow("pending-only", 3))
	f.hup(first, 1)
	f.wantActive("restore-gated", "until-retired", 0)
	f.works("the change after its shadow run", func() bool { return f.value("policy_epoch") == 1 })
	f.eventually("the log", func() bool { return strings.Contains(f.stderr.String(), "the configured policies are in use") })
	f.wantActive("pending-only", "until-retired", 1)
	if log := f.stderr.String(); !strings.Contains(log, `gate="would have differed on 0 of `) {
		t.Errorf("the log does not tell what the shadow run has found:\n%s", log)
	}

	f.write(withShadow("ungated", 1_000_000))
	f.hup(first, 2)
	f.eventually("the shadow run", func() bool { return len(f.sets(server.PolicyStaged)) == 1 })
	f.write(withShadow("restore-gated", 1_000_000))
	f.hup(first, 3)
	f.eventually("the newer one", func() bool {
		staged, dropped := f.sets(server.PolicyStaged), f.sets(server.PolicyDropped)
		return len(staged) == 1 && staged[0].Hooks[0].Name == "restore-gated" && len(dropped) == 1 && dropped[0].Hooks[0].Name == "ungated" && dropped[0].Reason == errSuperseded.Error()
	})
	// Back to what is in use: nothing is to be changed any more.
	f.write(withShadow("pending-only", 1_000_000))
	f.hup("there is a newer change", 2)
	f.eventually("no change", func() bool { return len(f.sets(server.PolicyStaged)) == 0 && len(f.sets(server.PolicyDropped)) == 2 })
	f.wantActive("pending-only", "until-retired", 1)
	// The length alone changes nothing that runs, and the new one holds for what comes next.
	f.write(withShadow("pending-only", 0))
	f.hup("", 0)
	f.write(withShadow("ungated", 0))
	f.hup("the configured policies are in use", 2)
	f.wantActive("ungated", "until-retired", 2)

	// One that fails is not taken.
	module, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, filepath.Join(filepath.Dir(f.file), "trap.wasm"), module)
	f.write(strings.Replace(withShadow("ungated", 100_000), "builtin = \"ungated\"\nengine = \"native\"", `path = "trap.wasm"`, 1))
	f.hup(first, 4)
	f.works("the refusal", func() bool {
		return strings.Contains(f.stderr.String(), "policy refused: its shadow run faulted 3 times within ")
	})
	if n := strings.Count(f.stderr.String(), "its shadow run faulted 3 times within "); n != 1 {
		t.Errorf("the refusal is logged %d times, want once:\n%s", n, f.stderr)
	}
	f.wantActive("ungated", "until-retired", 2)
	if k := f.active("gate"); len(k.Faults) != 0 || k.Native != 0 {
		t.Errorf("in use %+v", k)
	}
	// The end of the server ends a run.
	f.write(withShadow("restore-gated", 100_000))
	f.hup(first, 5)
}

// shadow_ticks of a configuration that was refused do not hold; those of one that changes nothing else do, and the log
// says so.
func TestServeRefusedReloadKeepsShadowTicks(t *testing.T) {
	f := startFollowed(t, withShadow("restore-gated", 0))
	staged := func(ticks int) {
		t.Helper()
		if status, _ := f.post("/policies/stage", `{"hook":"gate","builtin":"pending-only","engine":"native"}`); status != http.StatusOK {
			t.Fatalf("stage: %d", status)
		}
		sets := f.sets(server.PolicyStaged)
		switch run := sets[len(sets)-1].Shadow; {
		case ticks == 0 && run != nil:
			t.Errorf("a push runs %d ticks in the shadow, want none", run.Of)
		case ticks > 0 && (run == nil || run.Of != ticks):
			t.Errorf("a push has the shadow run %+v, want one of %d ticks", run, ticks)
		}
	}
	staged(0)
	f.write(strings.Replace(withShadow("ungated", 7), "builtin = \"ungated\"\nengine = \"native\"", `path = "nope.wasm"`, 1))
	f.hup("the configured policies were not taken", 1)
	staged(0)
	f.write(withShadow("restore-gated", 5))
	f.hup("the configured shadow_ticks hold for what comes next", 1)
	staged(5)
	if !strings.Contains(f.stderr.String(), "gate=5") {
		t.Errorf("the log does not say which shadow_ticks were taken:\n%s", f.stderr)
	}
}

// A module that is written while an earlier version of it is in its shadow run takes that one's place; written back, it
// leaves nothing to do.
func TestServeFollowsModulesInShadow(t *testing.T) {
	first, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	version := func(n byte) []byte { return append(append([]byte{}, first...), 0, 2, 1, n) } // with a custom section
	path := filepath.Join(t.TempDir(), "policy.wasm")
	replaceFile(t, path, first)
	f := startFollowed(t, fmt.Sprintf("[policy.gate]\npath = %q\nshadow_ticks = 1000\n[policy.reserve]\nengine = \"native\"\n[policy.admit]\nengine = \"native\"\n", path))
	staged := func(n byte) func() bool {
		want := fmt.Sprintf("%x", sha256.Sum256(version(n)))
		return func() bool {
			s := f.sets(server.PolicyStaged)
			return len(s) == 1 && s[0].Hooks[0].SHA256 == want
		}
	}
	replaceFile(t, path, version('x'))
	f.eventually("the second", staged('x'))
	replaceFile(t, path, version('y'))
	f.eventually("the third", staged('y'))
	// Pushed out by hand, it is staged again.
	for range 4 {
		if status, _ := f.post("/policies/stage", `{"hook":"admit","builtin":"greedy","engine":"native"}`); status != http.StatusOK {
			t.Errorf("stage: %d", status)
		}
	}
	f.eventually("the third again", func() bool {
		return slices.ContainsFunc(f.sets(server.PolicyStaged), func(s server.PolicySet) bool { return s.Changes[0] == "gate" })
	})
	replaceFile(t, path, first)
	f.eventually("no change", func() bool {
		return !slices.ContainsFunc(f.sets(server.PolicyStaged), func(s server.PolicySet) bool { return s.Changes[0] == "gate" })
	})
	if f.value("policy_epoch") != 0 {
		t.Errorf("policy epoch %v", f.value("policy_epoch"))
	}
}

// What an operator sees of a shadow run over HTTP.
func TestServeShadow(t *testing.T) {
	f := startFollowed(t, native("restore-gated", "until-retired", ""))
	if status, _ := f.post("/policies/stage", `{"hook":"gate","builtin":"ungated","engine":"native","shadow_ticks":100000}`); status != http.StatusOK {
		t.Fatalf("stage: %d", status)
	}
	id := f.sets(server.PolicyStaged)[0].ID
	f.works("ticks", func() bool { return f.sets(server.PolicyStaged)[0].Shadow.Ticks > 3 })
	if s := f.sets(server.PolicyStaged)[0].Shadow; s.State != server.ShadowRunning || s.Of != 100000 || s.Hooks["gate"].Records < 6 {
		t.Errorf("%+v", s)
	}
	if status, _ := f.post("/policies/activate", fmt.Sprintf(`{"id":%q}`, id)); status != http.StatusConflict {
		t.Errorf("activate: %d", status)
	}
	f.wantActive("restore-gated", "until-retired", 0)
	if status, _ := f.post("/policies/activate", fmt.Sprintf(`{"id":%q,"now":true}`, id)); status != http.StatusOK {
		t.Errorf("activate now: %d", status)
	}
	f.wantActive("ungated", "until-retired", 1)
}
