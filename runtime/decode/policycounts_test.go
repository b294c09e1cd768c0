package decode

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/plugins"
	"sluice/plugins/manifest"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// counting raises the policy's counter 0 by one and logs one line, and goes on with a body. The arenas of hookModule lie
// across each other, so what the line says is anything.
func counting(body []byte) []byte {
	return slices.Concat(
		[]byte{0x41, 0x80, 0x12, 0x41, 0x80, 0x12, 0x29, 3, 0, 0x42, 1, 0x7C, 0x37, 3, 0}, // i64 at 2304 += 1
		[]byte{0x41, 0x80, 0x10, 0x41, 0x80, 0x10, 0x28, 2, 0, 0x41, 1, 0x6A, 0x36, 2, 0}, // i32 at 2048 += 1
		body)
}

// What a policy counts is in /policies and the metrics, goes on over its traps, and over every switch that leaves it in
// use; it goes where the policy goes.
func TestPolicyCounters(t *testing.T) {
	r := newSwapRig(t, func(o *Options) {
		o.Schedule.Quarantine = schedule.QuarantineAll(1<<20, 1000)
		o.Logger = slog.New(slog.DiscardHandler)
	})
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	m := module(reserveModule(counting(trapsOnCall(5)), nil), "counts")
	r.swap(m)
	wait := func(what string, more float64) float64 {
		t.Helper()
		var n float64
		eventually(t, what, func() bool {
			n, _ = r.reg.Value("policy_counter_total", "local", "0", "counts")
			return n >= more
		})
		return n
	}
	n := wait("counts over two traps of each rank", 25)
	k := r.active("reserve")
	if called := k.Calls - k.Native + k.Faults["trap"]; k.Counters["0"] != called || k.LogLines != called || k.LogDropped != 0 || k.Replaced != k.Faults["trap"] || k.Replaced < 4 {
		t.Errorf("%d calls of the policy: %+v", called, k)
	}
	if r.value("policy_instances_replaced_total", "local", "counts") < 4 || r.value("policy_log_lines_total", "local", "counts") < n ||
		r.value("policy_log_dropped_total", "local", "counts", "rate") != 0 || r.value("policy_log_dropped_total", "local", "counts", "lost") != 0 {
		t.Error("the metrics of instances and lines do not show that")
	}
	for i, gate := range []string{"pending-only", "restore-gated", "pending-only", "ungated"} {
		r.swap(builtin("gate", gate))
		after := r.value("policy_counter_total", "local", "0", "counts")
		if after < n {
			t.Fatalf("swap %d: %v, then %v", i, n, after)
		}
		if n = wait("more counts", after+5); r.active("reserve").Name != "counts" {
			t.Fatalf("swap %d: %+v is active", i, r.active("reserve"))
		}
	}
	if _, err := r.Rollback(context.Background()); err != nil || r.value("policy_counter_total", "local", "0", "counts") < n {
		t.Errorf("rollback: %v, %v, then %v", err, n, r.value("policy_counter_total", "local", "0", "counts"))
	}
	r.swap(builtin("reserve", "none"))
	if _, there := r.reg.Value("policy_counter_total", "local", "0", "counts"); there {
		t.Error("the counter of a policy that is not in use is still there")
	}
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// Policies in use have a spare, those that were left have none, and get one when they come back.
func TestPoliciesThatWereLeftHaveNoSpare(t *testing.T) {
	r := newSwapRig(t, nil)
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	r.swap(module(reserveModule(answers(0), nil), "v1"))
	spared := func() bool {
		r.policies.mu.Lock()
		defer r.policies.mu.Unlock()
		for _, k := range r.policies.active.ranks {
			if k.Wanted() {
				return false
			}
		}
		return r.policies.active.infos[1].Name == "v1" // the only one that has instances
	}
	called := func(calls uint64) {
		t.Helper()
		eventually(t, "calls", func() bool { return r.active("reserve").Calls >= calls })
		eventually(t, "the spares", spared)
	}
	called(4)
	r.swap(builtin("reserve", "none"))
	if _, err := r.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	called(r.active("reserve").Calls + 4)
	r.swap(builtin("gate", "ungated"))
	if err := r.policies.take(context.Background()); err != nil {
		t.Fatal(err)
	}
	for rank, k := range r.policies.previous.ranks {
		reserve := k.Set().Reserve
		if !reserve.Active() || k.Wanted() {
			t.Errorf("rank %d: active %v, wanted %v", rank, reserve.Active(), k.Wanted())
		}
		if err := reserve.Discard(context.Background()); err != nil {
			t.Fatal(err)
		}
		if reserve.Ready() || !k.Wanted() {
			t.Errorf("rank %d has a spare beside its instance", rank)
		}
	}
	r.policies.give()
	if _, err := r.Rollback(context.Background()); err != nil || r.inState(server.PolicyPrevious)[0].Hooks[1].Name != "v1" {
		t.Errorf("rollback: %v", err)
	}
	called(r.active("reserve").Calls + 4)
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// A policy is called by its manifest's name in metrics and log, so that its versions continue one series wherever they
// are from; /policies shows where that is, and who the module says that it is.
func TestPoliciesAreCalledByTheirManifest(t *testing.T) {
	var log shared
	r := newSwapRig(t, func(o *Options) {
		unhurried(o)
		o.Schedule.Quarantine = schedule.QuarantineAll(1<<20, 1000)
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	s := &policySeries{rig: r, policy: "pace", before: map[string]float64{}}
	v1 := versionOf(t, manifest.Manifest{Name: "pace", Version: "1.0", Author: "A", Licence: "MIT", SourceSHA256: strings.Repeat("0a", 32)})
	v2 := versionOf(t, manifest.Manifest{Name: "pace", Version: "2.0"})
	r.swap(module(v1, "srv/pace.wasm"))
	s.more("v1, of a path")
	want := server.PolicyManifest{Name: "pace", Version: "1.0", Author: "A", Licence: "MIT", SourceSHA256: strings.Repeat("0a", 32)}
	if k := r.active("reserve"); k.Name != "srv/pace.wasm" || k.Manifest == nil || *k.Manifest != want {
		t.Errorf("%+v with %+v, want %+v", k, k.Manifest, want)
	}
	if k := r.active("gate"); k.Manifest != nil {
		t.Errorf("a shipped policy has %+v", k.Manifest)
	}
	n := s.before["policy_counter_total"]
	r.swap(module(v2, ""))
	if s.scrape("v2, of bytes"); s.before["policy_counter_total"] < n {
		t.Error("v2 begins a series of its own")
	}
	s.more("v2, of bytes")
	if k := r.active("reserve"); k.Name != sum(v2)[:12] || *k.Manifest != (server.PolicyManifest{Name: "pace", Version: "2.0"}) {
		t.Errorf("%+v with %+v", k, k.Manifest)
	}
	if r.value("policy_info", "wasm", "reserve", sum(v2)[:12], "pace", sum(v2)) != 1 {
		t.Error("policy_info does not join the two names")
	}
	for _, line := range []string{"policy=pace hook=reserve class=local tick=", `fault="policy \"pace\": reserve: trap{unreachable}`} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log has no %s: %s", line, log.String())
		}
	}
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// shared is a buffer that ranks write to while a test reads it.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A line of a policy's log names the rank whose instance said it; beyond the limit they are counted.
func TestPolicyLinesNameTheRank(t *testing.T) {
	var log shared
	r := newSwapRig(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	r.swap(module(reserveModule(counting(answers(0)), nil), "talks"))
	limited := func() bool {
		n, _ := r.reg.Value("policy_log_dropped_total", "local", "talks", "rate")
		return n >= 40
	}
	eventually(t, "lines that the limit keeps back", limited)
	if k := r.active("reserve"); k.LogDropped < 40 || k.LogLines < 2*plugins.DefaultLogBurst || k.LogLines > k.LogDropped+4*plugins.DefaultLogBurst {
		t.Errorf("%+v", k)
	}
	for _, rank := range []string{"rank=0 ", "rank=1 "} {
		found := false
		for l := range strings.Lines(log.String()) {
			found = found || strings.Contains(l, `level=DEBUG msg="policy log" `+rank) && strings.Contains(l, "policy=talks hook=reserve class=local tick=")
		}
		if !found {
			t.Errorf("no line has %s: %s", rank, log.String())
		}
	}
	if !strings.Contains(log.String(), "suppressed=9") {
		t.Error("no line says how many were kept back")
	}
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}
