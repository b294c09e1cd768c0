package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit/kittest"
	"sluice/runtime/schedule"
)

// The verdicts on gates that lie, hold, fail, leak and break.
func TestPolicyCheckVerdicts(t *testing.T) {
	for _, c := range []struct {
		name string
		body []byte
		code int
		want []string // on standard output
		not  []string
		errs string
	}{
		{"raw", kittest.Votes(kittest.InByte(8)), exitOK,
			[]string{"rails: success_while_pending 25, success_after_failure 25", "success_while_pending ", "warning  ", "verdict  ok, with warnings"}, []string{"problem"}, ""},
		{"always Success", kittest.Votes(kittest.Const(4)), exitOK,
			[]string{"rails: vote_above_poll 300, success_while_pending 25, success_after_failure 25", "raw success           restore pending  votes success, which counts as Transferring",
				"rails    success_after_failure", "verdict  ok, with warnings"}, []string{"problem"}, ""},
		{"declines", kittest.Const(-5), exitOK, []string{"375 left to the native policy", "verdict  ok\n"}, []string{"warning", "problem"}, ""},
		{"holds everything", kittest.Votes(kittest.Const(3)), exitBroken,
			[]string{"problem  never lets request 1 finish in the run of seed 1: it is in the queue transfer after ", " requests never finish", "verdict  not fit to run"}, []string{"with it"}, "never lets request 1 finish"},
		{"fails everything", kittest.Votes(kittest.Const(0)), exitBroken,
			[]string{"problem  lets no request be served", "failed_before_terminal"}, []string{"stuck"}, "lets no request be served"},
		{"panics", kittest.Unreachable(), exitBroken,
			[]string{"problem  fails on 5 of 5 batches of gate states", "the last run ended early for its faults", "faults in the run of seed 1", "each answered by the native policy"}, []string{"stuck", "lets no request be served"}, "trap{unreachable}"},
		{"answers badly", kittest.Votes(kittest.Const(7)), exitBroken, []string{"illegal_answer", "vote is 7"}, nil, "illegal_answer"},
		{"never returns", kittest.Spin(), exitBroken, []string{"out_of_fuel"}, nil, "out_of_fuel"},
		{"leaks", append(append([]byte{}, kittest.Leak(1)[:5]...), kittest.Votes(kittest.InByte(8))...), exitBroken, []string{"problem", "memory_growth"}, nil, "memory_growth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs := policyRun(t, c.code, "check", "--runs", "6", "--patience", "1500", wasmFile(t, "x.wasm", c.body))
			wantAll(t, out, c.want...)
			for _, n := range c.not {
				if strings.Contains(out, n) {
					t.Errorf("%q in\n%s", n, out)
				}
			}
			if !strings.Contains(errs, c.errs) || (c.errs == "") != (errs == "") {
				t.Errorf("stderr %q, want %q", errs, c.errs)
			}
		})
	}
}

// The trace of a request that is held shows its last 20 ticks, with poll, restore and vote of every rank, those that repeat
// the one before as one line, and the same seed gives the same report.
func TestPolicyCheckTrace(t *testing.T) {
	wasm := wasmFile(t, "hold.wasm", kittest.Votes(kittest.Const(3)))
	out, _ := policyRun(t, exitBroken, "check", "--seed", "1", "--patience", "500", wasm)
	_, rest, ok := strings.Cut(out, "its last 20 ticks:\n")
	if !ok {
		t.Fatalf("no trace in\n%s", out)
	}
	ranks := drawRun(1).cfg.Schedule.Ranks
	var lines []string
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "    tick ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 {
		t.Fatalf("%d lines of trace, want 2:\n%s", len(lines), out)
	}
	if got := strings.Count(lines[0], "poll success, restore ready, age "); got != ranks || strings.Count(lines[0], "vote transferring") != ranks {
		t.Errorf("%d ranks of %d in %q", got, ranks, lines[0])
	}
	var first, from, to, age, next, oldest int
	if n, err := fmt.Sscanf(lines[0], "    tick %d | rank 0: poll success, restore ready, age %d,", &first, &age); n != 2 {
		t.Fatalf("%q: %v", lines[0], err)
	}
	if _, err := fmt.Sscanf(lines[1], "    tick %d to %d: the same, age %d to %d\n", &from, &to, &next, &oldest); err != nil || from != first+1 || to != first+traceTicks-1 ||
		next != age+1 || oldest != age+traceTicks-1 {
		t.Errorf("%q follows %q: %v", lines[1], lines[0], err)
	}
	if again, _ := policyRun(t, exitBroken, "check", "--seed", "1", "--patience", "500", wasm); again != out {
		t.Errorf("the same seed gives another report:\n%s\n%s", out, again)
	}
}

// Admit and reserve policies are driven too: one that defers everything never lets a request in, and the trace shows what
// admit was asked; one that holds every token back starves the group.
func TestPolicyCheckOtherHooks(t *testing.T) {
	write := func(export string, body []byte) string {
		path := filepath.Join(t.TempDir(), "x.wasm")
		if err := os.WriteFile(path, kittest.Module(kittest.Export{Name: export, Body: body}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Zeros are no order of two candidates, so the answer must set one: byte 4 of each record is its index.
	index := []byte{0x20, 1, 0x41, 0, 0x6C, 0x20, 0, 0x20, 0, 0x28, 2, 48, 0x6A, 0x20, 1, 0x41, 8, 0x6C, 0x6A, 0x20, 1, 0x3A, 0, 4}
	deferAll := kittest.Votes(index)
	out, _ := policyRun(t, exitBroken, "check", "--runs", "3", "--patience", "300", write("sluice_admit_v1", deferAll))
	wantAll(t, out, "hooks    admit", "never lets request 1 finish", "in the queue prealloc", "verdict defer, order 0")
	out, _ = policyRun(t, exitOK, "check", "--runs", "3", write("sluice_reserve_v1", kittest.Const(0)))
	wantAll(t, out, "hooks    reserve", "verdict  ok")
}

func TestPolicyCheckInputErrors(t *testing.T) {
	wasm := wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8)))
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no file", []string{"check", filepath.Join(t.TempDir(), "none.wasm")}, exitUsage, "which sluice policy build makes"},
		{"a folder", []string{"check", t.TempDir()}, exitUsage, "is a folder"},
		{"no argument", []string{"check"}, exitUsage, "0 arguments for \"check\"; write sluice policy check FILE.wasm, or see"},
		{"no runs", []string{"check", "--runs", "0", wasm}, exitUsage, "--runs 0"},
		{"no patience", []string{"check", "--patience", "0", wasm}, exitUsage, "--patience 0"},
		{"a hook it lacks", []string{"check", "--hook", "admit", wasm}, exitUsage, "does not export sluice_admit_v1"},
		{"a device", []string{"check", "/dev/zero"}, exitUsage, "/dev/zero is no regular file"},
		{"a configuration with a key twice", []string{"check", "--policy-config", `{"a":{"b":1,"b":2}}`, wasm}, exitUsage, "--policy-config holds the key a.b twice"},
		{"a configuration that is none", []string{"check", "--policy-config", "[1]", wasm}, exitUsage, "--policy-config is no JSON object"},
		{"nothing", nil, exitUsage, "policy needs a command: abi, bench, build"},
		{"an unknown command", []string{"chek"}, exitUsage, `policy has no command "chek"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := policyRun(t, c.code, c.args...)
			if !strings.Contains(errs, c.want) {
				t.Errorf("got %q, want %q", errs, c.want)
			}
		})
	}
}

// What the loader refuses, check refuses with the same rule, as a verdict.
func TestPolicyCheckRefusals(t *testing.T) {
	good := kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Const(0)})
	for name, c := range map[string]struct {
		wasm []byte
		want string
	}{
		"no module": {[]byte("hello"), "load_rejected{not_wasm}"},
		"one byte":  {[]byte{0}, "load_rejected{not_wasm}"},
		"cut":       {good[:len(good)-2], "load_rejected{not_wasm}"},
		"no hook":   {kittest.Module(), "load_rejected{export}"},
		"a need":    {kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Const(0)}, kittest.Export{Name: "sluice_need_warp", Body: kittest.Const(0)}), "load_rejected{need}"},
		"an import": {kittest.ModuleWith([]kittest.Import{{Module: "env", Name: "abort"}}, kittest.Export{Name: "sluice_gate_v1", Body: kittest.Const(0)}), "load_rejected{import}"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.wasm")
			if err := os.WriteFile(path, c.wasm, 0o600); err != nil {
				t.Fatal(err)
			}
			out, errs := policyRun(t, exitBroken, "check", path)
			wantAll(t, out, "load     refused")
			wantAll(t, errs, c.want)
			if _, errs := policyRun(t, exitUsage, "fuzz", path); !strings.Contains(errs, c.want) {
				t.Errorf("fuzz: %s", errs)
			}
		})
	}
}

// The runs are a fair judge: they end under native policies, and meet restores that are late and that fail, or the verdict
// would be about nothing.
func TestLiveRunsMeetRestores(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer func() {
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	pending, failedRestores, several := 0, 0, 0
	for seed := uint64(1); seed <= 24; seed++ {
		l := drawRun(seed)
		end, err := l.run(context.Background(), func(info abi.HostInfo) (*plugins.Set, error) {
			return host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Builtin: "ungated", Native: true}}, info)
		}, 3000)
		if err != nil || end.broken != nil || len(end.stuck) > 0 || end.served == 0 || end.faults > 0 || end.differed > 0 {
			t.Fatalf("seed %d: %+v, %v", seed, end, err)
		}
		if l.cfg.Schedule.Ranks > 1 {
			several++
		}
		pending += int(end.rails[schedule.SuccessWhilePending.String()])
		failedRestores += int(end.rails[schedule.SuccessAfterFailure.String()])
	}
	if pending == 0 || failedRestores == 0 || several < 12 {
		t.Errorf("%d lanes with a pending restore, %d with a failed one, %d runs of several ranks", pending, failedRestores, several)
	}
}

// The gate's states are all of them, each once.
func TestGateStatesAreAll(t *testing.T) {
	met := map[[3]uint8]int{}
	for _, r := range stateBatch(7) {
		met[[3]uint8{uint8(r.RawPoll), uint8(r.Restore), uint8(r.PrevVote)}]++
	}
	if len(met) != 75 {
		t.Errorf("%d states", len(met))
	}
}

// Only ticks that read the same are one line: not those with a gap, another vote, or another age than the next.
func TestTraceCollapsesWhatRepeats(t *testing.T) {
	tr := newTracer(2)
	add := func(rank int, tick uint64, age uint32, vote abi.Poll) {
		tr.add(rank, 7, seen{tick: tick, hook: abi.Gate, gate: abi.GateRecord{ReqKey: 7, RawPoll: abi.PollSuccess, Restore: abi.RestoreReady, AgeTicks: age, TransferredPages: uint32(tick)},
			vote: abi.GateOut{Vote: vote}})
	}
	for rank := range 2 {
		for tick := uint64(1); tick <= 4; tick++ {
			add(rank, tick, uint32(tick)+10*uint32(rank), abi.PollTransferring)
		}
		add(rank, 5, 5+10*uint32(rank), abi.PollSuccess)
		add(rank, 6, 0, abi.PollSuccess)
		add(rank, 8, 2, abi.PollSuccess)
	}
	admit := func(tick uint64) {
		tr.add(0, 7, seen{tick: tick, hook: abi.Admit, admit: abi.AdmitRecord{ReqKey: 7, WaitTicks: uint32(tick)}})
	}
	admit(10)
	admit(11)
	admit(12)
	admit(13)
	const one = "poll success, restore ready, age "
	line := func(tick, a, b int, vote string) string {
		return fmt.Sprintf("    tick %d | rank 0: %s%d, vote %s | rank 1: %s%d, vote %s\n", tick, one, a, vote, one, b, vote)
	}
	want := line(1, 1, 11, "transferring") + "    tick 2 to 4: the same, age 2 to 4; age 12 to 14\n" + line(5, 5, 15, "success") + line(6, 0, 0, "success") + line(8, 2, 2, "success") +
		"    tick 10 | rank 0: new, waits 10 ticks, needs 0 and 0 of 0 tokens, reserve held 0 last: verdict defer, order 0\n    tick 11 to 13: the same, waits 11 to 13 ticks\n"
	if got := tr.text(7); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A successor whose load changes the state on purpose is told of, and fit to run; a missing schema is told of once.
func TestPolicyCheckHandsTheStateOn(t *testing.T) {
	write := func(exports []kittest.Export, schema bool) string {
		path := filepath.Join(t.TempDir(), "x.wasm")
		if err := os.WriteFile(path, kittest.Module(exports...), 0o600); err != nil {
			t.Fatal(err)
		}
		if schema {
			policyRun(t, exitOK, "manifest", "--set", textFile(t, "manifest.toml", "[state]\nschema = 1"), path)
		}
		return path
	}
	out, _ := policyRun(t, exitOK, "check", "--runs", "2", write(kittest.CountsLoads(abi.Score.Export(), 1), true))
	wantAll(t, out, "a successor that loads them gives the same answers to 400 more", "warning  replicated: what a successor has loaded is not what it saves again: 4 bytes ", "verdict  ok, with warnings")
	if strings.Contains(out, "nil") || strings.Contains(out, "problem") {
		t.Errorf("got\n%s", out)
	}
	forgets := kittest.Remembers(abi.Score.Export(), 1)
	forgets[2].Body = kittest.Const(0)
	out, _ = policyRun(t, exitBroken, "check", "--runs", "2", write(forgets, true))
	wantAll(t, out, "problem  a successor does not go on as the policy does: batch 400 of seed 1", "verdict  not fit to run")
	out, _ = policyRun(t, exitOK, "check", "--runs", "2", write(kittest.Remembers(abi.Score.Export(), 1), false))
	if n := strings.Count(out, "schema"); n != 2 || strings.Count(out, "warning  ") != 1 { // "no schema is named ...; give [state] a schema"
		t.Errorf("%d times schema in\n%s", n, out)
	}
}
