package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakePolicies is a PolicyEngine that notes what it is asked for.
type fakePolicies struct {
	mu     sync.Mutex
	staged []StageRequest
	calls  []string
	err    error
}

func (p *fakePolicies) note(call string) (PolicySet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
	return PolicySet{ID: "4", State: PolicyStaged, Changes: []string{"gate"}}, p.err
}

func (p *fakePolicies) Policies() PolicyList {
	return PolicyList{Epoch: 3, Sets: []PolicySet{{ID: "2", State: PolicyActive, Epoch: 3, Hooks: []PolicyHook{
		{Hook: "gate", Name: "x.wasm", SHA256: "ab", Engine: "compiler", Calls: 9, Native: 1, OwnStatus: 3, Faults: map[string]uint64{"trap": 1}, Quarantined: true, SlowCalls: 3,
			Replaced: 1, LogLines: 5, LogDropped: 2, Counters: map[string]uint64{"held": 7}}}}}}
}

func (p *fakePolicies) Stage(_ context.Context, q StageRequest) (PolicySet, error) {
	p.mu.Lock()
	p.staged = append(p.staged, q)
	p.mu.Unlock()
	return p.note("stage " + q.Hook)
}

func (p *fakePolicies) Activate(_ context.Context, id string) (PolicySet, error) {
	return p.note("activate " + id)
}

func (p *fakePolicies) ActivateNow(_ context.Context, id string) (PolicySet, error) {
	return p.note("activate now " + id)
}

func (p *fakePolicies) Rollback(context.Context) (PolicySet, error) { return p.note("rollback") }

func (p *fakePolicies) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// last is the last request staged.
func (p *fakePolicies) last(t *testing.T) StageRequest {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.staged) == 0 {
		t.Fatal("nothing was staged")
	}
	return p.staged[len(p.staged)-1]
}

func (p *fakePolicies) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

func newPolicyServer(t *testing.T, dirs ...string) (*testServer, *fakePolicies) {
	t.Helper()
	p := &fakePolicies{}
	return newTestServer(t, func(o *Options) { o.Policies, o.PolicyDirs = p, dirs }), p
}

func TestPoliciesRoutes(t *testing.T) {
	s, p := newPolicyServer(t)
	a := s.call("GET", "/policies", "")
	want := `{"policy_epoch":3,"policies":[{"id":"2","state":"active","policy_epoch":3,"hooks":[{"hook":"gate","name":"x.wasm","sha256":"ab","engine":"compiler",` +
		`"calls":9,"native_answers":1,"held_answers":0,"declined":0,"own_status_answers":3,"faults":{"trap":1},"quarantined":true,"slow_calls":3,"instances_replaced":1,"log_lines":5,"log_dropped":2,"counters":{"held":7}}]}]}`
	if a.status != 200 || strings.TrimSpace(a.body) != want {
		t.Errorf("list: %d %s", a.status, a.body)
	}
	body := fmt.Sprintf(`{"hook":"reserve","module_base64":%q,"sha256":"cd","engine":"wasm","config":{"b":1, "a":[2]}}`, base64.StdEncoding.EncodeToString([]byte("bytes")))
	if a := s.call("POST", "/policies/stage", body); a.status != 200 || strings.TrimSpace(a.body) != `{"id":"4","state":"staged","changes":["gate"]}` {
		t.Errorf("stage: %d %s", a.status, a.body)
	}
	if q := p.last(t); q.Hook != "reserve" || string(q.Module) != "bytes" || q.SHA256 != "cd" || q.Engine != "wasm" || string(q.Config) != `{"b":1, "a":[2]}` || q.Signature != nil {
		t.Errorf("staged %+v", q)
	}
	if a := s.call("POST", "/policies/stage", `{"hook":"gate","builtin":"ungated"}`); a.status != 200 || p.last(t).Builtin != "ungated" || p.last(t).Config != nil || p.last(t).ShadowTicks != nil {
		t.Errorf("builtin: %d, %+v", a.status, p.last(t))
	}
	if a := s.call("POST", "/policies/activate", `{"id":"4"}`); a.status != 200 {
		t.Errorf("activate: %d %s", a.status, a.body)
	}
	for _, body := range []string{"", "{}"} {
		if a := s.call("POST", "/policies/rollback", body); a.status != 200 {
			t.Errorf("rollback with body %q: %d %s", body, a.status, a.body)
		}
	}
	if a := s.call("POST", "/policies/stage", `{"hook":"gate","builtin":"ungated","shadow_ticks":200}`); a.status != 200 || p.last(t).ShadowTicks == nil || *p.last(t).ShadowTicks != 200 {
		t.Errorf("shadow_ticks: %d, %+v", a.status, p.last(t))
	}
	for _, body := range []string{`{"id":"4","now":true}`, `{"now":false,"id":"5"}`} {
		if a := s.call("POST", "/policies/activate", body); a.status != 200 {
			t.Errorf("activate %s: %d %s", body, a.status, a.body)
		}
	}
	if got := strings.Join(p.calls, ", "); got != "stage reserve, stage gate, activate 4, rollback, rollback, stage gate, activate now 4, activate 5" {
		t.Errorf("calls: %s", got)
	}
	if a := s.call("GET", "/policies/stage", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("GET of stage: %d", a.status)
	}
	plain := newTestServer(t, nil)
	if a := plain.call("GET", "/policies", ""); a.status != http.StatusNotFound {
		t.Errorf("without a policy engine: %d", a.status)
	}
}

func TestPolicyErrors(t *testing.T) {
	s, p := newPolicyServer(t)
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{fmt.Errorf("%w: gate: no such export", ErrPolicyRefused), 400, "policy_refused"},
		{fmt.Errorf("%w: nothing is staged", ErrPolicyUnknown), 404, "policy_unknown"},
		{fmt.Errorf("%w: rank [1] lags", ErrPolicyConflict), 409, "policy_conflict"},
		{errors.New("something else"), 500, ""},
		{fmt.Errorf("late: %w", ErrStopping), 503, "stopping"},
	} {
		p.set(c.err)
		for path, body := range map[string]string{"stage": `{"hook":"gate","builtin":"ungated"}`, "activate": `{"id":"9"}`, "rollback": ""} {
			a := s.call("POST", "/policies/"+path, body)
			var got struct {
				Error struct{ Message, Type string }
			}
			if err := json.Unmarshal([]byte(a.body), &got); err != nil {
				t.Fatalf("%s: %v in %s", path, err, a.body)
			}
			if a.status != c.status || got.Error.Type != c.kind || c.status != 503 && got.Error.Message != c.err.Error() {
				t.Errorf("%s with %v: %d %s", path, c.err, a.status, a.body)
			}
		}
	}
}

// Bodies that are malformed never reach the engine, and the answer says what is wrong and where.
func TestPolicyBodies(t *testing.T) {
	s, p := newPolicyServer(t)
	large := `{"hook":"gate","module_base64":"` + strings.Repeat("A", maxPolicyBody) + `"}`
	for _, c := range []struct {
		name, path, body string
		status           int
		says             string
	}{
		{"not JSON", "stage", "{", 400, "not valid JSON"},
		{"empty", "stage", "", 400, "the body is empty"},
		{"a list", "stage", "[]", 400, "want an object"},
		{"unknown field", "stage", `{"hook":"gate","buildin":"ungated"}`, 400, "buildin"},
		{"twice", "stage", `{"hook":"gate","hook":"gate"}`, 400, "given twice"},
		{"not base64", "stage", `{"hook":"gate","module_base64":"?"}`, 400, "not base64"},
		{"config no object", "stage", `{"hook":"gate","builtin":"ungated","config":[1]}`, 400, "config (line 1, offset 44): want an object, got a list"},
		{"config a string", "stage", `{"hook":"gate","builtin":"ungated","config":"hunter2"}`, 400, "want an object, got a string"},
		{"config a number", "stage", `{"hook":"gate","builtin":"ungated","config":7712345}`, 400, "want an object, got a number"},
		{"a large config", "stage", `{"hook":"gate","builtin":"ungated","config":{"a":"` + strings.Repeat("x", 64<<10) + `"}}`, 400, "has 65544 bytes, at most 65536 are allowed"},
		{"builtin and path", "stage", `{"hook":"gate","builtin":"ungated","path":"x.wasm"}`, 400, "2 of builtin, path and module_base64 are given; give one"},
		{"path and module", "stage", `{"hook":"gate","path":"x.wasm","module_base64":"AAAA"}`, 400, "give one"},
		{"signature not base64", "stage", `{"hook":"gate","module_base64":"AAAA","signature_base64":"?"}`, 400, "not base64"},
		{"signature too large", "stage", `{"hook":"gate","module_base64":"AAAA","signature_base64":"` + strings.Repeat("A", 8<<10) + `"}`, 400, "6144 bytes"},
		{"signature of a path", "stage", `{"hook":"gate","path":"x.wasm","signature_base64":"AAAA"}`, 400, "PATH.sig"},
		{"signature of a builtin", "stage", `{"hook":"gate","builtin":"ungated","signature_base64":"AAAA"}`, 400, "goes with module_base64"},
		{"no folder for paths", "stage", `{"hook":"gate","path":"/etc/passwd"}`, 400, "module_base64"},
		{"too large", "stage", large, 413, "by its path"},
		{"a long hook", "stage", `{"hook":"` + strings.Repeat("\x7f", maxPolicyText+1) + `"}`, 400, "hook (line 1, offset 8): has 513 bytes, at most 512"},
		{"a huge hook", "stage", `{"hook":"` + strings.Repeat("\x7f", 15<<20) + `"}`, 400, "hook (line 1, offset 8): has more than 512 bytes"},
		{"a long builtin", "stage", `{"hook":"gate","builtin":"` + strings.Repeat("x", 600) + `"}`, 400, "builtin"},
		{"a long path", "stage", `{"hook":"gate","path":"` + strings.Repeat("x", 600) + `"}`, 400, "has 600 bytes"},
		{"a long hash", "stage", `{"hook":"gate","builtin":"ungated","sha256":"` + strings.Repeat("0", 600) + `"}`, 400, "has 600 bytes"},
		{"a long engine", "stage", `{"hook":"gate","builtin":"ungated","engine":"` + strings.Repeat("x", 600) + `"}`, 400, "has 600 bytes"},
		{"a long id", "activate", `{"id":"` + strings.Repeat("4", 600) + `"}`, 400, "has 600 bytes"},
		{"a long unknown field", "stage", `{"` + strings.Repeat("\x7f", 1<<20) + `":1}`, 400, "no such field"},
		{"no id", "activate", `{}`, 400, "id is empty"},
		{"id a number", "activate", `{"id":4}`, 400, "want a string"},
		{"unknown field of activate", "activate", `{"name":"4"}`, 400, "there are id and now"},
		{"shadow_ticks in words", "stage", `{"hook":"gate","builtin":"ungated","shadow_ticks":"200"}`, 400, "want a whole number 0..1000000000"},
		{"shadow_ticks below 0", "stage", `{"hook":"gate","builtin":"ungated","shadow_ticks":-1}`, 400, "want a whole number 0..1000000000"},
		{"now a number", "activate", `{"id":"4","now":1}`, 400, "want true or false"},
		{"too large for activate", "activate", `{"id":"` + strings.Repeat("4", 9<<20) + `"}`, 413, "the id alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.call("POST", "/policies/"+c.path, c.body)
			if len(a.body) > 4<<10 {
				t.Errorf("an answer of %d bytes", len(a.body))
			}
			if strings.Contains(a.body, "hunter") || strings.Contains(a.body, "7712345") {
				t.Errorf("a value of the configuration in %s", a.body)
			}
			if m := a.message(t); a.status != c.status || !strings.Contains(m, c.says) {
				t.Errorf("%d %s, want %d and %q", a.status, m, c.status, c.says)
			}
		})
	}
	// The larger bound is this route's alone, and it holds.
	fits := `{"hook":"gate","module_base64":"` + strings.Repeat("A", 12<<20) + `"}`
	if a := s.call("POST", "/policies/stage", fits); a.status != 200 || len(p.last(t).Module) != 9<<20 {
		t.Errorf("12 MiB: %d %s", a.status, a.body)
	}
	if a := s.call("POST", "/generate", fits); a.status != 413 {
		t.Errorf("12 MiB to /generate: %d", a.status)
	}
	if p.count() != 1 {
		t.Errorf("%d calls reached the engine, want 1", p.count())
	}
}

// A path is read only within the folders given, and never through a link that leaves them.
func TestPolicyPaths(t *testing.T) {
	base := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("bytes of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two, outside := write("one/a.wasm"), write("two/deep/b.wasm"), write("outside/c.wasm")
	link := func(to, name string) string {
		path := filepath.Join(base, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inside, leaving := link("a.wasm", "one/link.wasm"), link(outside, "one/leaving.wasm")
	link(filepath.Join(base, "outside"), "one/folder")
	if err := os.WriteFile(filepath.Join(base, "one/empty.wasm"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, p := newPolicyServer(t, filepath.Join(base, "one"), filepath.Join(base, "two"))
	write("one/a.wasm.sig")
	write("one/signed-outside.wasm")
	link(write("outside/c.sig"), "one/signed-outside.wasm.sig")
	write("one/signed-by-folder.wasm")
	link(".", "one/signed-by-folder.wasm.sig")
	write("one/signed-at-length.wasm")
	if err := os.WriteFile(filepath.Join(base, "one/signed-at-length.wasm.sig"), make([]byte, maxSignatureFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want, sig string }{
		{"absolute", one, "bytes of one/a.wasm", "bytes of one/a.wasm.sig"},
		{"below the second", two, "bytes of two/deep/b.wasm", ""},
		{"relative to the first", "a.wasm", "bytes of one/a.wasm", "bytes of one/a.wasm.sig"},
		{"a link within", inside, "bytes of one/a.wasm", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.call("POST", "/policies/stage", fmt.Sprintf(`{"hook":"gate","path":%q}`, c.path))
			if q := p.last(t); a.status != 200 || string(q.Module) != c.want || q.Name != c.path || string(q.Signature) != c.sig {
				t.Errorf("%d %s: %+v", a.status, a.body, q)
			}
		})
	}
	taken := p.count()
	for _, c := range []struct{ name, path, says string }{
		{"outside", outside, "none of the folders"},
		{"outside by dots", filepath.Join(base, "one") + "/../outside/c.wasm", "none of the folders"},
		{"relative dots", "../outside/c.wasm", "none of the folders"},
		{"a link that leaves", leaving, "cannot be read"},
		{"a folder that is a link", filepath.Join(base, "one/folder/c.wasm"), "cannot be read"},
		{"the folder itself", filepath.Join(base, "one"), "regular file"},
		{"an empty file", "empty.wasm", "0 bytes"},
		{"no such file", "none.wasm", "none.wasm"},
		{"a signature that is a link that leaves", "signed-outside.wasm", "signed-outside.wasm.sig\" cannot be read"},
		{"a signature that is a folder", "signed-by-folder.wasm", "regular file"},
		{"a signature that is too large", "signed-at-length.wasm", "4097 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.call("POST", "/policies/stage", fmt.Sprintf(`{"hook":"gate","path":%q}`, c.path))
			if strings.Contains(a.body, "hunter") || strings.Contains(a.body, "7712345") {
				t.Errorf("a value of the configuration in %s", a.body)
			}
			if m := a.message(t); a.status != 400 || !strings.Contains(m, c.says) {
				t.Errorf("%d %s, want 400 and %q", a.status, m, c.says)
			}
		})
	}
	if p.count() != taken {
		t.Error("a refused path reached the engine")
	}
}

// A page of another site cannot have a visitor's browser change policies.
func TestPoliciesFromAnotherSite(t *testing.T) {
	s, p := newPolicyServer(t)
	for _, c := range []struct {
		header, value string
		status        int
	}{{"Origin", "https://elsewhere.example", 403}, {"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-origin", 200}, {"Origin", s.url, 200}} {
		req, err := http.NewRequest("POST", s.url+"/policies/rollback", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.header, c.value)
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != c.status {
			t.Errorf("%s %q: %d, want %d", c.header, c.value, resp.StatusCode, c.status)
		}
	}
	if p.count() != 2 {
		t.Errorf("%d calls reached the engine, want 2", p.count())
	}
}

func TestPoliciesWhileStopping(t *testing.T) {
	s, p := newPolicyServer(t)
	s.calls.stop()
	if a := s.call("POST", "/policies/rollback", ""); a.status != 503 || p.count() != 0 {
		t.Errorf("%d %s, %d calls", a.status, a.body, p.count())
	}
}

// stuckPolicies hold every Stage until they are let go.
type stuckPolicies struct {
	fakePolicies
	inside, let chan struct{}
}

func (p *stuckPolicies) Stage(ctx context.Context, q StageRequest) (PolicySet, error) {
	p.inside <- struct{}{}
	<-p.let
	return p.fakePolicies.Stage(ctx, q)
}

// No more than maxStaging modules are held while one is staged; who comes later is told to come again, and the other calls
// go on.
func TestStagingIsBounded(t *testing.T) {
	p := &stuckPolicies{inside: make(chan struct{}), let: make(chan struct{})}
	s := newTestServer(t, func(o *Options) { o.Policies = p })
	const body = `{"hook":"gate","builtin":"ungated"}`
	answers := make(chan int)
	for range maxStaging {
		go func() { answers <- s.call("POST", "/policies/stage", body).status }()
		<-p.inside
	}
	resp, err := s.client.Post(s.url+"/policies/stage", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(text), "policy_busy") {
		t.Errorf("%d, Retry-After %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), text)
	}
	if a := s.call("POST", "/policies/rollback", ""); a.status != 200 {
		t.Errorf("rollback meanwhile: %d %s", a.status, a.body)
	}
	close(p.let)
	for range maxStaging {
		if got := <-answers; got != 200 {
			t.Errorf("who waited: %d", got)
		}
	}
	go func() { <-p.inside }()
	if a := s.call("POST", "/policies/stage", body); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

func TestShadowRunAsJSON(t *testing.T) {
	run := ShadowRun{State: ShadowRunning, Ticks: 57, Of: 200, Hooks: map[string]ShadowHook{"gate": {Records: 9, Differed: 2, Skipped: 1, Faults: map[string]uint64{},
		FirstDifference: &ShadowDifference{Tick: 5, Rank: 1, Key: 7, Field: "vote", Live: "success", Shadow: "transferring"}}}}
	b, err := json.Marshal(PolicySet{ID: "4", State: PolicyStaged, Shadow: &run})
	want := `{"id":"4","state":"staged","shadow":{"state":"running","ticks":57,"of":200,"hooks":{"gate":{"records":9,"differed":2,"skipped":1,"native_answers":0,"declined":0,` +
		`"faults":{},"first_difference":{"tick":5,"rank":1,"key":7,"field":"vote","live":"success","shadow":"transferring"}}}}}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}
