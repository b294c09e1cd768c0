package decode

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// newShadowRig is newSwapRig with a group that ends for no stall of the machine: traffic then goes on until the test ends it.
func newShadowRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	return newSwapRig(t, func(o *Options) {
		o.Deadline = patience
		if change != nil {
			change(o)
		}
	})
}

// inShadow is a request to stage with a shadow run of so many ticks.
func inShadow(q server.StageRequest, ticks int) server.StageRequest {
	q.ShadowTicks = &ticks
	return q
}

// set is what the list shows of a set.
func (r *rig) set(id string) server.PolicySet {
	r.t.Helper()
	for _, s := range r.Policies().Sets {
		if s.ID == id {
			return s
		}
	}
	r.t.Fatalf("no set %s is listed", id)
	return server.PolicySet{}
}

// shadowOf is a set's shadow run.
func (r *rig) shadowOf(id string) server.ShadowRun {
	r.t.Helper()
	s := r.set(id)
	if s.Shadow == nil {
		r.t.Fatalf("%+v has no shadow run", s)
	}
	return *s.Shadow
}

// inTransfer has one request stay in transfer, so that gate and reserve are asked in every tick, until the end.
func (r *rig) inTransfer(t *testing.T) {
	t.Helper()
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("in transfer", 10, 5)
	t.Cleanup(func() {
		r.wire.set(func(w *wire) { w.slow = false })
		outcome(t, live)
	})
}

func TestShadowOfTheSamePolicy(t *testing.T) {
	r := newShadowRig(t, nil)
	r.inTransfer(t)
	plain := r.stage(builtin("gate", "ungated"))
	if plain.Shadow != nil {
		t.Errorf("a run of 0 ticks: %+v", plain.Shadow)
	}
	s := r.stage(inShadow(builtin("gate", "restore-gated"), 50))
	if s.Shadow == nil || s.Shadow.Of != 50 || s.Shadow.State != server.ShadowRunning && s.Shadow.State != server.ShadowDone {
		t.Fatalf("staged %+v", s.Shadow)
	}
	if err := r.WaitShadow(context.Background(), s.ID); err != nil {
		t.Fatal(err)
	}
	run := r.shadowOf(s.ID)
	gate := run.Hooks["gate"]
	// One request on two ranks.
	if run.State != server.ShadowDone || run.Ticks != 50 || len(run.Hooks) != 1 || gate.Differed != 0 || gate.Records != 100 || gate.FirstDifference != nil || gate.Fuel != nil {
		t.Errorf("%+v", run)
	}
	if got := r.value("policy_shadow_records_total", "gate"); got != float64(gate.Records) || r.value("policy_shadow_differed_total", "gate") != 0 {
		t.Errorf("the metric has %v records, the run %d", got, gate.Records)
	}
	if !strings.Contains(r.log.String(), fmt.Sprintf("would have differed on 0 of %d records", gate.Records)) {
		t.Errorf("the log does not tell:\n%s", r.log)
	}
	if n := r.active("gate").Calls; n == 0 {
		t.Error("the policy in use was not asked")
	}
	if got := r.activate(s.ID); got.State != server.PolicyActive || got.Shadow != nil {
		t.Errorf("activated %+v", got)
	}
}

// seen is one gate record as a rank's policies were shown it.
type seen struct {
	tick uint64
	rank int
	rec  abi.GateRecord
	vote abi.Poll
}

// gateTape takes down what a gate is shown and answers.
type gateTape struct {
	mu   sync.Mutex
	seen []seen
}

func (p *gateTape) rank(i int) rank.Recorder { return &rankTape{of: p, rank: i} }

type rankTape struct {
	of   *gateTape
	rank int
}

func (p *rankTape) Run(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	var recs []abi.GateRecord
	a, err := r.Run(tick, epoch, n, nOut, func(b abi.Batch) {
		encode(b)
		for i := 0; r.Hook() == abi.Gate && i < n; i++ {
			recs = append(recs, b.GateIn(i))
		}
	})
	if r.Hook() == abi.Gate && err == nil {
		p.of.mu.Lock()
		defer p.of.mu.Unlock()
		for i := range recs {
			p.of.seen = append(p.of.seen, seen{tick, p.rank, recs[i], a.Batch.GateOut(i).Vote})
		}
	}
	return a, err
}

// A gate that holds what has arrived for 20 ticks would differ on exactly the records that are younger, and the first
// one is named.
func TestShadowFindsTheDifferences(t *testing.T) {
	var tape gateTape
	r := newShadowRig(t, func(o *Options) {
		o.Policies.Recorder = tape.rank
	})
	r.beforeTick(func(rank int, _ uint64) { // the ranks wait for the shadow, so that nothing is skipped
		for {
			lanes := r.policies.taps[rank].lanes.Load()
			if lanes == nil || (*lanes)[0].put.Load()-(*lanes)[0].got.Load() < laneBatches/2 {
				return
			}
			runtime.Gosched()
		}
	})
	m := hookModule("sluice_gate_v1", holds(20), nil)
	s := r.stage(inShadow(server.StageRequest{Hook: "gate", Module: m, Name: "holds"}, 1<<20))
	work := func(rid string) {
		t.Helper()
		if tokens, _ := outcome(t, r.submit(rid, 10, 5)); len(tokens) != 5 {
			t.Errorf("%s: %d tokens", rid, len(tokens))
		}
	}
	for i := range 5 {
		work(fmt.Sprint("young ", i)) // arrives at once
	}
	r.wire.set(func(w *wire) { w.slow = true })
	old := r.submit("old", 10, 5)
	aged := func() bool {
		tape.mu.Lock()
		defer tape.mu.Unlock()
		return len(tape.seen) > 0 && tape.seen[len(tape.seen)-1].rec.AgeTicks > 25
	}
	eventually(t, "an old transfer", aged)
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, old)
	r.idle()
	var records, differed uint64
	var first *seen
	tape.mu.Lock()
	for i := range tape.seen {
		k := &tape.seen[i]
		records++
		if k.rec.RawPoll == abi.PollSuccess && k.rec.AgeTicks < 20 && k.vote == abi.PollSuccess {
			differed++
			if first == nil || k.tick < first.tick || k.tick == first.tick && k.rank < first.rank {
				first = k
			}
		}
	}
	tape.mu.Unlock()
	if differed < 10 || records < differed+50 {
		t.Fatalf("%d records and %d differences are expected: the traffic tests nothing", records, differed)
	}
	var gate server.ShadowHook
	eventually(t, "the shadow to catch up", func() bool {
		gate = r.shadowOf(s.ID).Hooks["gate"]
		return gate.Records == records
	})
	want := server.ShadowDifference{Tick: first.tick, Rank: first.rank, Key: first.rec.ReqKey, Field: "vote", Live: "success", Shadow: "transferring"}
	if gate.Differed != differed || gate.Skipped != 0 || gate.FirstDifference == nil || *gate.FirstDifference != want {
		t.Errorf("%d of %d differ, first %+v; want %d, %+v", gate.Differed, gate.Records, gate.FirstDifference, differed, want)
	}
	if gate.Fuel == nil || gate.Fuel.Median == 0 || gate.Fuel.Most < gate.Fuel.Median || gate.Fuel.LiveMost != 0 || len(gate.Faults) != 0 || gate.Declined != 0 {
		t.Errorf("fuel %+v, faults %v, %d declined", gate.Fuel, gate.Faults, gate.Declined)
	}
	if says := fmt.Sprintf("tick %d, rank %d, key %d: vote is success, would have been transferring", want.Tick, want.Rank, want.Key); want.String() != says {
		t.Errorf("in words: %q, want %q", want.String(), says)
	}
	if a := r.active("gate"); a.Name != "restore-gated" || a.Native != 0 {
		t.Errorf("in use %+v", a)
	}
}

// A policy that fails in the shadow is refused, and what runs has not noticed. A hundred of them leave nothing behind.
func TestShadowThatTraps(t *testing.T) {
	r := newShadowRig(t, func(o *Options) { o.Schedule.Quarantine = schedule.QuarantineAll(3, 1000) })
	r.inTransfer(t)
	bad := module(reserveModule(trapsOnCall(4), nil), "bad")
	push := func() string {
		s := r.stage(inShadow(bad, 1<<20))
		if err := r.WaitShadow(context.Background(), s.ID); !errors.Is(err, server.ErrPolicyRefused) && !errors.Is(err, server.ErrPolicyConflict) {
			t.Fatalf("the run ended with %v, want a refusal", err)
		}
		return s.ID
	}
	id := push()
	set := r.set(id)
	if set.State != server.PolicyRefused || !strings.HasPrefix(set.Reason, "its shadow run faulted 3 times within 1000 ticks, which would quarantine it, first: ") || !strings.Contains(set.Reason, `policy "bad": reserve: trap`) {
		t.Errorf("%s: %q", set.State, set.Reason)
	}
	run := set.Shadow
	if k := run.Hooks["reserve"]; run.State != server.ShadowRefused || k.Faults["trap"] < 3 || k.Faults["trap"] > 6 || k.Records == 0 || k.Differed > k.Records {
		t.Errorf("%+v", run)
	}
	if _, err := r.Activate(context.Background(), id); !errors.Is(err, server.ErrPolicyConflict) || !strings.Contains(err.Error(), "was refused: its shadow run faulted") {
		t.Errorf("activate it all the same: %v", err)
	}
	var mem [2]runtime.MemStats
	var goroutines [2]int
	settle := func(i int) {
		eventually(t, "the refused sets to be closed", func() bool {
			r.policies.mu.Lock()
			defer r.policies.mu.Unlock()
			return len(r.policies.dead) == 0 && len(r.policies.staged) == 0
		})
		eventually(t, "their instances to be closed", func() bool { return r.instances() == 0 })
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&mem[i])
		goroutines[i] = runtime.NumGoroutine()
	}
	for i := range 101 {
		if i == 1 {
			settle(0)
		}
		push()
	}
	settle(1)
	if grown := int64(mem[1].HeapAlloc) - int64(mem[0].HeapAlloc); grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes over 100 pushes", grown)
	}
	if goroutines[1] > goroutines[0]+2 {
		t.Errorf("%d goroutines, then %d", goroutines[0], goroutines[1])
	}
	if a := r.active("reserve"); a.Name != "until-retired" || len(a.Faults) != 0 || a.Native != 0 || a.Calls == 0 || a.Quarantined {
		t.Errorf("in use %+v", a)
	}
	if r.value("policy_faults_total", "reserve") != 0 || r.value("policy_refused_total") != 102 || r.value("policy_epoch") != 0 || r.value("group_epoch") != 1 {
		t.Errorf("%v faults, %v refused", r.value("policy_faults_total", "reserve"), r.value("policy_refused_total"))
	}
	t.Logf("100 pushes: heap %d and %d KiB, goroutines %d and %d", mem[0].HeapAlloc>>10, mem[1].HeapAlloc>>10, goroutines[0], goroutines[1])
}

// The ranks do not wait for a shadow: not for a slow one, and not for one that does not move at all.
func TestShadowThatIsSlow(t *testing.T) {
	r := newShadowRig(t, nil)
	r.inTransfer(t)
	s := r.stage(inShadow(module(reserveModule(counts(), nil), "slow"), 1<<20))
	eventually(t, "skipped batches", func() bool { k := r.shadowOf(s.ID).Hooks["reserve"]; return k.Skipped > 0 && k.Records > 0 })
	// It holds its own lock for a batch; one that never lets go stands for the slowest.
	r.policies.mu.Lock()
	run := r.policies.staged[0].shadow
	r.policies.mu.Unlock()
	run.mu.Lock()
	from := r.value("ticks_total")
	eventually(t, "ticks", func() bool { return r.value("ticks_total") > from+20*laneBatches })
	run.mu.Unlock()
	k := r.shadowOf(s.ID).Hooks["reserve"]
	if k.Skipped < 18*laneBatches || k.Differed != 0 || len(k.Faults) != 0 {
		t.Errorf("%+v", k)
	}
	if a := r.active("reserve"); a.Native != 0 || r.value("group_epoch") != 1 {
		t.Errorf("in use %+v", a)
	}
}

// A run that was cut short for an activation that then did not happen begins anew.
func TestShadowAfterAFailedActivation(t *testing.T) {
	r := newShadowRig(t, nil)
	id := r.stage(inShadow(builtin("gate", "ungated"), 200)).ID
	p := r.policies
	if err := p.take(context.Background()); err != nil {
		t.Fatal(err)
	}
	s, cut, err := p.find(id, true)
	if err != nil || !cut || r.shadowOf(id).State != server.ShadowCut {
		t.Fatalf("cut %v, %v, run %+v", cut, err, r.shadowOf(id))
	}
	p.resume(s)
	p.give()
	if run := r.shadowOf(id); run.State != server.ShadowRunning || run.Of != 200 {
		t.Errorf("run %+v, want it to begin anew", run)
	}
	if _, err := r.Activate(context.Background(), id); !errors.Is(err, server.ErrPolicyConflict) {
		t.Errorf("activate before the new run is over: %v", err)
	}
	if _, err := r.ActivateNow(context.Background(), id); err != nil {
		t.Error(err)
	}
}

// A shadow is refused for what would quarantine it, and not for faults that lie far apart.
func TestShadowFaultsWithinTheWindow(t *testing.T) {
	limit := schedule.Quarantine{Faults: 3, Window: 100}
	for _, c := range []struct {
		name  string
		ticks []uint64
		want  int // the fault that is one too many, counted from 1; 0: none is
	}{
		{"far apart", []uint64{1, 100, 200, 300, 400, 500}, 0},
		{"just within", []uint64{1, 50, 100}, 3},
		{"just without", []uint64{1, 50, 101}, 0},
		{"the same tick on two ranks", []uint64{7, 7, 7, 8}, 0},
		{"out of order", []uint64{300, 200, 260, 240}, 4},
		{"the last ones", []uint64{1, 1000, 1001, 1002}, 4},
	} {
		var h hookCount
		got := 0
		for i, tick := range c.ticks {
			if h.faulted(tick, limit) {
				got = i + 1
				break
			}
		}
		if got != c.want {
			t.Errorf("%s: refused at fault %d, want %d", c.name, got, c.want)
		}
	}
	var h hookCount
	for tick := range uint64(100_000) {
		h.faulted(1000*tick, limit)
	}
	if len(h.faultTicks) > limit.Faults+lagTicks {
		t.Errorf("%d fault ticks are kept", len(h.faultTicks))
	}
}

// A set is activated once its run is over, or when it is to be cut short; a rollback asks for no run.
func TestActivateInShadow(t *testing.T) {
	r := newShadowRig(t, nil)
	s := r.stage(inShadow(builtin("gate", "ungated"), 200))
	_, err := r.Activate(context.Background(), s.ID)
	says := fmt.Sprintf(`its shadow run has seen 0 of 200 ticks; wait for it, or send {"id": %q, "now": true}`, s.ID)
	if !errors.Is(err, server.ErrPolicyConflict) || !strings.HasSuffix(err.Error(), says) {
		t.Errorf("error %v, want %q", err, says)
	}
	if n := r.value("policy_refused_total"); n != 0 || r.set(s.ID).State != server.PolicyStaged || r.shadowOf(s.ID).State != server.ShadowRunning {
		t.Errorf("%v refused, %+v", n, r.set(s.ID))
	}
	waited := make(chan error, 1)
	go func() { waited <- r.WaitShadow(context.Background(), s.ID) }()
	if got, err := r.ActivateNow(context.Background(), s.ID); err != nil || got.State != server.PolicyActive {
		t.Fatalf("now: %+v, %v", got, err)
	}
	if err := <-waited; err != nil && !strings.Contains(err.Error(), "is active already") { // it began to wait too late
		t.Errorf("who waited for the run: %v", err)
	}
	other := r.stage(inShadow(builtin("reserve", "none"), 200))
	if got, err := r.Rollback(context.Background()); err != nil || got.ID != "1" || r.active("gate").Name != "restore-gated" {
		t.Errorf("rollback: %+v, %v", got, err)
	}
	if got, err := r.Rollback(context.Background()); err != nil || got.ID != s.ID {
		t.Errorf("rollback to a set whose run was cut short: %+v, %v", got, err)
	}
	if run := r.shadowOf(other.ID); run.State != server.ShadowRunning || run.Restarts != 0 {
		t.Errorf("the run of another hook: %+v", run)
	}
	gone, cancel := context.WithCancelCause(context.Background())
	cancel(errStep)
	if err := r.WaitShadow(gone, other.ID); !errors.Is(err, errStep) {
		t.Errorf("wait for a caller that has gone: %v", err)
	}
	if err := r.Drop(context.Background(), other.ID, "superseded"); err != nil {
		t.Fatal(err)
	}
	if got := r.set(other.ID); got.State != server.PolicyDropped || got.Reason != "superseded" || got.Shadow.State != server.ShadowCut {
		t.Errorf("dropped %+v", got)
	}
	for name, f := range map[string]func(string) error{
		"wait": func(id string) error { return r.WaitShadow(context.Background(), id) },
		"drop": func(id string) error { return r.Drop(context.Background(), id, "x") },
	} {
		if err := f(other.ID); !errors.Is(err, server.ErrPolicyConflict) || !strings.Contains(err.Error(), "was dropped: superseded") {
			t.Errorf("%s a dropped one: %v", name, err)
		}
		if err := f("99"); !errors.Is(err, server.ErrPolicyUnknown) {
			t.Errorf("%s an unknown one: %v", name, err)
		}
	}
}

// Where those who stage do not say, the hook's own number holds; of several hooks the largest does.
func TestShadowTicksOfTheHooks(t *testing.T) {
	r := newShadowRig(t, func(o *Options) { o.Policies.ShadowTicks = map[abi.Hook]int{abi.Gate: 30, abi.Score: 70} })
	of := func(qs ...server.StageRequest) int {
		t.Helper()
		s, err := r.StageAll(context.Background(), qs)
		if err != nil {
			t.Fatal(err)
		}
		if s.Shadow == nil {
			return 0
		}
		return s.Shadow.Of
	}
	r.SetShadowTicks(abi.Admit, 50)
	r.SetShadowTicks(abi.Hook(200), 50)
	for _, c := range []struct{ got, want int }{
		{of(builtin("gate", "ungated")), 30},
		{of(builtin("reserve", "none")), 0},
		{of(builtin("gate", "ungated"), builtin("admit", "greedy"), builtin("reserve", "none")), 50},
		{of(inShadow(builtin("gate", "ungated"), 0)), 0},
		{of(inShadow(builtin("gate", "ungated"), 0), builtin("admit", "greedy")), 50},
		{of(inShadow(builtin("reserve", "none"), 7)), 7},
		{of(builtin("score", "lru")), 0}, // never asked here, so there would be nothing to wait for
	} {
		if c.got != c.want {
			t.Errorf("%d ticks, want %d", c.got, c.want)
		}
	}
	r.SetShadowTicks(abi.Gate, 0)
	if got := of(builtin("gate", "ungated")); got != 0 {
		t.Errorf("%d ticks after they were set to 0", got)
	}
	if _, err := r.Stage(context.Background(), inShadow(builtin("gate", "ungated"), server.MaxShadowTicks+1)); !errors.Is(err, server.ErrPolicyRefused) || !strings.Contains(err.Error(), "allowed is 0 to") {
		t.Errorf("too many ticks: %v", err)
	}
}

// Several runs go on side by side; one more set than are kept drops the oldest with its run.
func TestSeveralShadows(t *testing.T) {
	r := newShadowRig(t, nil)
	r.inTransfer(t)
	var ids []string
	for i := range maxStaged + 1 {
		q := module(reserveModule(answers(0), nil), "r")
		if i%2 == 1 {
			q = builtin("gate", "ungated")
		}
		ids = append(ids, r.stage(inShadow(q, 1<<20)).ID)
	}
	if got := r.set(ids[0]); got.State != server.PolicyDropped || got.Shadow.State != server.ShadowCut {
		t.Errorf("the oldest: %+v", got)
	}
	for _, id := range ids[1:] {
		eventually(t, "every run to move", func() bool { return r.shadowOf(id).Ticks > 10 })
	}
	lanes := func() int {
		all := r.policies.taps[0].lanes.Load()
		if all == nil {
			return 0
		}
		return len(*all)
	}
	if lanes() != maxStaged {
		t.Errorf("%d lanes, want %d", lanes(), maxStaged)
	}
	// Other policies in use for gate: the runs that watch it begin anew, the others go on.
	if _, err := r.ActivateNow(context.Background(), ids[1]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a run that begins anew", func() bool { run := r.shadowOf(ids[3]); return run.Restarts == 1 && run.Ticks > 0 })
	if run := r.shadowOf(ids[2]); run.Restarts != 0 {
		t.Errorf("the run of another hook began anew: %+v", run)
	}
	for _, id := range ids[2:] {
		if err := r.Drop(context.Background(), id, "enough"); err != nil {
			t.Error(err)
		}
	}
	if lanes() != 0 {
		t.Errorf("%d lanes are left", lanes())
	}
}

// A run goes on with the next group, from the start.
func TestShadowThroughGroups(t *testing.T) {
	r := newShadowRig(t, nil)
	r.wire.set(func(w *wire) { w.slow = true })
	r.submit("first", 10, 5)
	var once atomic.Bool
	r.beforeTick(func(rank int, _ uint64) {
		lanes := r.policies.taps[rank].lanes.Load()
		if rank == 1 && lanes != nil && (*lanes)[0].put.Load() > 20 && once.CompareAndSwap(false, true) {
			panic("scripted, while the run is under way")
		}
	})
	s := r.stage(inShadow(module(reserveModule(answers(0), nil), "same"), 400))
	eventually(t, "group epoch 2", func() bool { return r.value("group_epoch") == 2 })
	r.ready()
	eventually(t, "the run to begin anew", func() bool { return r.shadowOf(s.ID).Restarts == 1 })
	if run := r.shadowOf(s.ID); run.State != server.ShadowRunning || run.Ticks != 0 {
		t.Errorf("with nothing in transfer: %+v", run)
	}
	live := r.submit("second", 10, 5)
	if err := r.WaitShadow(context.Background(), s.ID); err != nil {
		t.Fatal(err)
	}
	if k := r.shadowOf(s.ID).Hooks["reserve"]; k.Records != 800 || k.Differed != 0 {
		t.Errorf("%+v", k)
	}
	r.activate(s.ID)
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
	// One that is under way at the end of the instance ends with it.
	r.stage(inShadow(builtin("gate", "ungated"), 1<<20))
}
