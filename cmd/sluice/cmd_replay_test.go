package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/clock"
)

const (
	syntheticTrace = "../../runtime/replay/testdata/synthetic.jsonl"
	frozenGate     = "../../abi/testdata/frozen/v1.0/go.wasm" // takes no settings
)

// runHere runs a command line with a cache directory of its own and returns what it printed.
func runHere(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs strings.Builder
	env := &environment{args: args, environ: []string{"XDG_CACHE_HOME=" + cacheHome(t)}, stdin: strings.NewReader(""),
		stdout: &out, stderr: &errs, clock: clock.NewReal()}
	status = run(context.Background(), env)
	return out.String(), errs.String(), status
}

func cacheHome(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReplayPrintsTheDocumentedJSON(t *testing.T) {
	first, errs, status := runHere(t, "replay", "--trace", syntheticTrace, "--json", "--verify")
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	var a, b map[string]any
	if err := json.Unmarshal([]byte(first), &a); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"requests", "served", "failed", "ticks", "collectives", "input_tokens", "output_tokens", "hit_tokens", "evicted_tokens", "uncached_tokens",
		"restores", "retractions", "rails", "policies", "digest", "virtual_seconds", "wall_seconds"} {
		if _, ok := a[name]; !ok {
			t.Errorf("the JSON has no %q", name)
		}
	}
	if a["served"] != a["requests"] || a["ticks"] != a["collectives"] {
		t.Errorf("served %v of %v, %v collectives in %v ticks", a["served"], a["requests"], a["collectives"], a["ticks"])
	}
	gate, ok := a["policies"].(map[string]any)["gate"].(map[string]any)
	if !ok || gate["name"] != "restore-gated" || gate["engine"] != "wasm" || len(gate["sha256"].(string)) != 64 || gate["faults"] != 0.0 {
		t.Errorf("gate: %v", gate)
	}
	native, _, _ := runHere(t, "replay", "--trace", syntheticTrace, "--json", "--engine", "native")
	if err := json.Unmarshal([]byte(native), &b); err != nil {
		t.Fatal(err)
	}
	if a["digest"] != b["digest"] {
		t.Errorf("wasm and native policies decided differently: %v and %v", a["digest"], b["digest"])
	}
}

// Several policies of a hook are runs of their own, each what it is alone, shown side by side.
func TestReplaySideBySide(t *testing.T) {
	digest := func(args ...string) string {
		out, errs, status := runHere(t, append([]string{"replay", "--trace", syntheticTrace, "--json"}, args...)...)
		var r struct{ Digest string }
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Digest == "" {
			t.Fatalf("%v: status %d, %v, stderr %q", args, status, err, errs)
		}
		return r.Digest
	}
	alone := []string{digest("--policy", "gate="+frozenGate, "--policy", "reserve=none"), digest("--policy", "gate=ungated", "--policy", "reserve=until-retired")}
	args := []string{"replay", "--trace", syntheticTrace, "--policy", "gate=" + frozenGate, "--policy", "gate=ungated", "--policy", "reserve=none", "--policy", "reserve=until-retired"}
	out, errs, status := runHere(t, append(args, "--json")...)
	var r struct {
		Columns []struct {
			Name, Digest     string
			Served, Requests int
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || len(r.Columns) != 2 {
		t.Fatalf("status %d, %v, stderr %q: %s", status, err, errs, out)
	}
	for i, name := range []string{filepath.Base(frozenGate) + " none", "ungated until-retired"} {
		if c := r.Columns[i]; c.Name != name || c.Digest != alone[i] || c.Served == 0 {
			t.Errorf("column %d: %+v, want %q with the digest %s of the run alone", i, c, name, alone[i])
		}
	}
	text, _, _ := runHere(t, args...)
	for _, want := range []string{"ungated until-retired", "hit %", "policy faults", alone[0][:shortDigest], alone[1][:shortDigest]} {
		if !strings.Contains(text, want) {
			t.Errorf("the table has no %q:\n%s", want, text)
		}
	}
}

// Modules of the same base name are told apart by their paths; of one file given twice, by nothing but its tables.
func TestReplayNamesTwins(t *testing.T) {
	wasm, err := os.ReadFile(frozenGate)
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Base(frozenGate)
	twin := filepath.Join(t.TempDir(), base)
	if err := os.WriteFile(twin, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ policies, configs, want []string }{
		{[]string{frozenGate, twin, "ungated"}, nil, []string{frozenGate, twin, "ungated"}},
		{[]string{frozenGate, frozenGate}, nil, []string{base, base}},
		{[]string{frozenGate, twin}, []string{`{"a":1}`, `{"a":2}`}, []string{frozenGate + `{"a":1}`, twin + `{"a":2}`}},
	} {
		var f replayFlags
		for _, p := range c.policies {
			f.policies = append(f.policies, "gate="+p)
		}
		for _, table := range c.configs {
			f.configs = append(f.configs, "gate="+table)
		}
		columns, err := f.columns()
		if err != nil || len(columns) != len(c.want) {
			t.Fatalf("%v: %d columns, %v", c.policies, len(columns), err)
		}
		for i, want := range c.want {
			if columns[i].name != want {
				t.Errorf("%v: column %d is %q, want %q", c.policies, i, columns[i].name, want)
			}
		}
	}
}

// A module that always traps: every hook goes by its own rule, and a hold ends with it.
func TestReplayOfFaultyPolicies(t *testing.T) {
	path := trapModule(t)
	run := func(onFault string) map[string]map[string]any {
		out, errs, status := runHere(t, "replay", "--trace", syntheticTrace, "--json", "--verify", "--policy", "gate="+path, "--policy", "admit="+path,
			"--on-fault", "gate="+onFault, "--on-fault", "admit="+onFault, "--quarantine", "gate=5/100000", "--quarantine", "admit=2/100000")
		var r struct {
			Requests, Served int
			Policies         map[string]map[string]any
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK {
			t.Fatalf("on fault %s: status %d, %v, stderr %q", onFault, status, err, errs)
		}
		says := map[string]string{"native": "a policy failed and its native fallback answered", "hold": "a policy failed and nothing was decided in its place"}[onFault]
		if r.Served != r.Requests || r.Requests == 0 || strings.Count(errs, says) != 2 {
			t.Errorf("on fault %s: served %d of %d, stderr %q", onFault, r.Served, r.Requests, errs)
		}
		return r.Policies
	}
	for _, onFault := range []string{"native", "hold"} {
		p := run(onFault)
		for hook, want := range map[string]float64{"gate": 5, "admit": 2} {
			if k := p[hook]; k["faults"] != want || k["quarantined"] != true {
				t.Errorf("on fault %s: %s has %v faults, quarantined %v; want %v, true", onFault, hook, k["faults"], k["quarantined"], want)
			}
		}
	}
}

func TestReplayInputErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.wasm")
	if err := os.WriteFile(text, []byte("not a module"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no trace":      {nil, "--trace is needed"},
		"missing trace": {[]string{"--trace", "nowhere.jsonl"}, "nowhere.jsonl"},
		"not a trace":   {[]string{"--trace", text}, "line 1"},
		"unknown hook":  {[]string{"--trace", syntheticTrace, "--policy", "sort=lru"}, `no hook is named "sort"`},
		"uneven columns": {[]string{"--trace", syntheticTrace, "--policy", "gate=ungated", "--policy", "gate=pending-only", "--policy", "admit=greedy", "--policy", "admit=greedy",
			"--policy", "admit=fifo-headroom"}, "2 policies for gate and 3 for admit"},
		"uneven configs": {[]string{"--trace", syntheticTrace, "--policy", "gate=" + frozenGate, "--policy", "gate=" + frozenGate, "--policy", "gate=ungated",
			"--policy-config", "gate={}", "--policy-config", "gate={}"}, "--policy-config is given 2 times for gate, --policy 3 times"},
		"config for a shipped one": {[]string{"--trace", syntheticTrace, "--policy", "gate=" + frozenGate, "--policy", "gate=ungated",
			"--policy-config", "gate={}", "--policy-config", `gate={"a":"hunter2"}`}, "ungated is a shipped policy"},
		"unknown policy":   {[]string{"--trace", syntheticTrace, "--policy", "gate=open"}, "open"},
		"config for none":  {[]string{"--trace", syntheticTrace, "--policy", "score=lfu", "--policy-config", `score={"a":"hunter2"}`}, "for which --policy names a module"},
		"config unnamed":   {[]string{"--trace", syntheticTrace, "--policy-config", "hunter2"}, "want HOOK=JSON"},
		"config refused":   {[]string{"--trace", syntheticTrace, "--policy", "gate=" + frozenGate, "--policy-config", `gate={"a":1}`}, "refuses its configuration"},
		"config no table":  {[]string{"--trace", syntheticTrace, "--policy", "gate=" + frozenGate, "--policy-config", `gate=["hunter2"]`}, "no JSON object"},
		"not a module":     {[]string{"--trace", syntheticTrace, "--policy", "gate=" + text}, "not_wasm"},
		"missing module":   {[]string{"--trace", syntheticTrace, "--policy", "gate=nowhere.wasm"}, "nowhere.wasm"},
		"on-fault hook":    {[]string{"--trace", syntheticTrace, "--on-fault", "sort=hold"}, `--on-fault "sort=hold": want HOOK=native or HOOK=hold`},
		"on-fault who":     {[]string{"--trace", syntheticTrace, "--on-fault", "gate=wait"}, `--on-fault "gate=wait": want HOOK=native or HOOK=hold`},
		"quarantine of 0":  {[]string{"--trace", syntheticTrace, "--quarantine", "gate=0/10"}, `--quarantine "gate=0/10": want HOOK=FAULTS/TICKS`},
		"a long window":    {[]string{"--trace", syntheticTrace, "--quarantine", "gate=3/1000000001"}, `within 1 to 1000000000 ticks`},
		"quarantine":       {[]string{"--trace", syntheticTrace, "--quarantine", "gate=3"}, `--quarantine "gate=3": want HOOK=FAULTS/TICKS`},
		"ratio":            {[]string{"--trace", syntheticTrace, "--l2-ratio", "65"}, "--l2-ratio 65"},
		"several at once":  {[]string{"--limit", "-1", "--ranks", "9"}, "--ranks 9"},
		"unknown argument": {[]string{"--trace", syntheticTrace, "x"}, "unknown"},
	} {
		out, errs, status := runHere(t, append([]string{"replay"}, c.args...)...)
		if status != exitUsage || out != "" || !strings.Contains(errs, c.want) || strings.Contains(errs, "hunter2") {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want 2 and %q", name, status, out, errs, c.want)
		}
	}
}

func TestReproPrintsTheDocumentedJSON(t *testing.T) {
	out, errs, status := runHere(t, "repro", "--json", "--skip-offsets")
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	var r struct {
		Columns []struct {
			Name               string            `json:"name"`
			DecodeAlive        bool              `json:"decode_alive"`
			CollectivesPerTick float64           `json:"collectives_per_tick"`
			Rails              map[string]uint64 `json:"rails"`
			Rounds             []struct {
				Offered, Served, Retried int
				Failed                   []map[string]any
				LoadBackTokens           []uint64 `json:"load_back_tokens"`
			} `json:"rounds"`
		} `json:"columns"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range r.Columns {
		names = append(names, c.Name)
		if c.Name == "rank-local" {
			if c.DecodeAlive || c.Rounds[1].Served != 0 {
				t.Errorf("rank-local survived: %+v", c)
			}
			continue
		}
		if !c.DecodeAlive || c.CollectivesPerTick != 1 || len(c.Rounds) != 4 || c.Rounds[1].Served != 24 || c.Rounds[1].Retried != 1 || c.Rounds[3].LoadBackTokens[1] != 72000 {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	if got := strings.Join(names, " "); got != "rank-local ungated pending-only restore-gated" {
		t.Errorf("columns %q", got)
	}
}
