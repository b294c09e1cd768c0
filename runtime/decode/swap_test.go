package decode

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// newSwapRig is a rig that makes its policies itself: the shipped ones as plain Go, until a test swaps them.
func newSwapRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	host := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := host.Close(context.Background()); err != nil {
			t.Errorf("close the plugin host: %v", err)
		}
	})
	r := newRig(t, func(o *Options) {
		o.Policies = &PolicyOptions{Host: host, Info: abi.HostInfo{Major: abi.Major, Minor: abi.Minor, MaxRecords: 64, PageSize: 4, Ranks: 2}}
		if change != nil {
			change(o)
		}
	})
	r.ready()
	return r
}

func (r *rig) stage(q server.StageRequest) server.PolicySet {
	r.t.Helper()
	s, err := r.Stage(context.Background(), q)
	if err != nil {
		r.t.Fatalf("stage %s: %v", q.Hook, err)
	}
	return s
}

func (r *rig) activate(id string) server.PolicySet {
	r.t.Helper()
	s, err := r.Activate(context.Background(), id)
	if err != nil {
		r.t.Fatalf("activate %s: %v", id, err)
	}
	return s
}

// swap stages and activates.
func (r *rig) swap(q server.StageRequest) server.PolicySet {
	r.t.Helper()
	return r.activate(r.stage(q).ID)
}

// inState lists the sets of a state.
func (r *rig) inState(state string) (out []server.PolicySet) {
	for _, s := range r.Policies().Sets {
		if s.State == state {
			out = append(out, s)
		}
	}
	return out
}

// active is the policy in use for a hook.
func (r *rig) active(hook string) server.PolicyHook {
	r.t.Helper()
	for _, k := range r.inState(server.PolicyActive)[0].Hooks {
		if k.Hook == hook {
			return k
		}
	}
	r.t.Fatalf("no policy is active for %s", hook)
	return server.PolicyHook{}
}

func module(b []byte, name string) server.StageRequest {
	return server.StageRequest{Hook: "reserve", Module: b, Name: name}
}

func builtin(hook, name string) server.StageRequest {
	return server.StageRequest{Hook: hook, Builtin: name, Engine: "native"}
}

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// instances are the open instances of WebAssembly policies.
func (r *rig) instances() int { return r.policies.o.Host.Live() }

// fewest is how many instances there are of one WebAssembly policy in use on two ranks with its spares, and of its
// predecessor without.
const fewest = 2*2 + 2

// fewInstances waits for the instances that are made and closed beside the ticks.
func (r *rig) fewInstances() {
	r.t.Helper()
	eventually(r.t, "instances to be closed", func() bool { return r.instances() <= fewest })
}

func TestSwapShowsInListAndMetrics(t *testing.T) {
	r := newSwapRig(t, nil)
	if n := r.value("policy_info", "native", "gate", "restore-gated", "restore-gated", ""); n != 1 {
		t.Errorf("policy_info of the start is %v", n)
	}
	staged := r.stage(builtin("gate", "pending-only"))
	if staged.State != server.PolicyStaged || !slices.Equal(staged.Changes, []string{"gate"}) || r.active("gate").Name != "restore-gated" {
		t.Errorf("staged %+v, active %+v", staged, r.active("gate"))
	}
	if got := r.activate(staged.ID); got.State != server.PolicyActive || got.Epoch != 1 {
		t.Errorf("activated %+v", got)
	}
	if g, v := r.active("gate").Name, r.active("reserve").Name; g != "pending-only" || v != "until-retired" {
		t.Errorf("active gate %s, reserve %s", g, v)
	}
	if p := r.inState(server.PolicyPrevious); len(p) != 1 || p[0].Hooks[0].Name != "restore-gated" || len(r.inState(server.PolicyStaged)) != 0 {
		t.Errorf("previous %+v", p)
	}
	if r.value("policy_epoch") != 1 || r.value("policy_swaps_total") != 1 || r.value("policy_refused_total") != 0 {
		t.Errorf("epoch %v, %v swaps, %v refused", r.value("policy_epoch"), r.value("policy_swaps_total"), r.value("policy_refused_total"))
	}
	if _, old := r.reg.Value("policy_info", "native", "gate", "restore-gated", "restore-gated", ""); old || r.value("policy_info", "native", "gate", "pending-only", "pending-only", "") != 1 {
		t.Error("the series of the policy that left is still there, or that of its successor is not")
	}
	outcome(t, r.submit("x", 10, 5))
	eventually(t, "the calls to show", func() bool { return r.active("gate").Calls >= 2 })
	if n := r.value("policy_instances"); n != 0 {
		t.Errorf("%v instances of native policies", n)
	}
	// Two of each rank, the policy and its spare; a swap leaves the one that was in use for a rollback.
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5) // in transfer, so that reserve is asked
	r.swap(module(reserveModule(answers(0), nil), "v1"))
	eventually(t, "its instances", func() bool { return r.value("policy_instances") == 4 })
	r.swap(builtin("reserve", "none"))
	eventually(t, "the spares to go", func() bool { return r.value("policy_instances") == 2 })
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// S25 (i) to (iii), and every other push that must not be taken: what runs is as it was.
func TestRefusedPushes(t *testing.T) {
	v1 := reserveModule(answers(0), refusesConfig())
	flipped := slices.Clone(v1)
	for i := range 4 {
		flipped[len(flipped)-8+i] ^= 0xFF
	}
	r := newSwapRig(t, nil)
	r.swap(server.StageRequest{Hook: "reserve", Module: v1, Name: "v1", SHA256: strings.ToUpper(sum(v1)), Config: []byte(`{ }`)})
	before := r.active("reserve")
	n := 0.0
	for _, c := range []struct {
		name string
		q    server.StageRequest
		want []string
	}{
		{"4 bytes flipped", module(flipped, "v1"), []string{"reserve"}},
		{"no bytes of a module", module([]byte("#!/bin/sh"), "x"), []string{"WebAssembly"}},
		{"without the export", server.StageRequest{Hook: "gate", Module: v1, Name: "v1"}, []string{"sluice_gate_v1"}},
		{"refused config", server.StageRequest{Hook: "reserve", Module: v1, Name: "v1", Config: []byte(`{"token":"hunter2"}`)}, []string{"config", "of 19 bytes with the keys token"}},
		{"config that is no object", server.StageRequest{Hook: "reserve", Module: v1, Config: []byte(`[1]`)}, []string{"JSON object"}},
		{"config with a key twice", server.StageRequest{Hook: "reserve", Module: v1, Config: []byte(`{"a":{"b":1,"b":2}}`)}, []string{"the key a.b twice"}},
		{"config with null", server.StageRequest{Hook: "reserve", Module: v1, Config: []byte(`{"a":null}`)}, []string{"null at a"}},
		{"other hash", server.StageRequest{Hook: "reserve", Module: v1, SHA256: sum(flipped)}, []string{sum(v1), sum(flipped)}},
		{"hash of a builtin", server.StageRequest{Hook: "gate", Builtin: "ungated", SHA256: sum(v1)}, []string{"built in"}},
		{"unknown hook", builtin("gat", "ungated"), []string{`"gat"`, "gate, reserve, admit"}},
		{"unknown builtin", builtin("gate", "ungatd"), []string{"ungatd", "restore-gated"}},
		{"two sources", server.StageRequest{Hook: "gate", Builtin: "ungated", Module: v1}, []string{"give one"}},
		{"no source", server.StageRequest{Hook: "gate"}, []string{"give one"}},
		{"unknown engine", server.StageRequest{Hook: "gate", Builtin: "ungated", Engine: "jit"}, []string{`"jit"`}},
		{"native module", server.StageRequest{Hook: "reserve", Module: v1, Engine: "native"}, []string{"native Go"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.Stage(context.Background(), c.q)
			if !errors.Is(err, server.ErrPolicyRefused) {
				t.Fatalf("error %v, want a refusal", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a value of the configuration is told: %q", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			n++
			if got := r.active("reserve"); got.Name != before.Name || got.SHA256 != before.SHA256 || len(r.inState(server.PolicyStaged)) != 0 || r.value("policy_refused_total") != n {
				t.Errorf("active is %+v, was %+v; %d staged, %v refused", got, before, len(r.inState(server.PolicyStaged)), r.value("policy_refused_total"))
			}
			refused := r.inState(server.PolicyRefused)
			if last := refused[len(refused)-1]; last.Reason != err.Error() || len(refused) > maxGone {
				t.Errorf("%d refusals are remembered, the last %+v", len(refused), last)
			}
		})
	}
	if _, err := r.StageAll(context.Background(), []server.StageRequest{builtin("gate", "ungated"), builtin("gate", "pending-only")}); !errors.Is(err, server.ErrPolicyRefused) {
		t.Errorf("two policies for one hook: %v", err)
	}
	if _, err := r.StageAll(context.Background(), nil); !errors.Is(err, server.ErrPolicyRefused) {
		t.Errorf("nothing at all: %v", err)
	}
	if tokens, _ := outcome(t, r.submit("x", 10, 5)); len(tokens) != 5 || r.value("group_epoch") != 1 {
		t.Errorf("%d tokens in epoch %v after all that", len(tokens), r.value("group_epoch"))
	}
}

// Whatever text a client sends, what is kept, logged and told of a refusal is short and printable.
func TestRefusalsKeepLittleText(t *testing.T) {
	huge := strings.Repeat("\x7f\u009b", 2<<20)
	mod := reserveModule(answers(0), refusesConfig())
	r := newSwapRig(t, nil)
	requests := []server.StageRequest{
		{Hook: huge},
		{Hook: "gate", Builtin: huge},
		{Hook: "gate", Builtin: huge, SHA256: huge},
		{Hook: "gate", Builtin: "ungated", Engine: huge},
		{Hook: "reserve", Module: mod, SHA256: huge},
		{Hook: "reserve", Module: []byte(huge), Name: huge},
		{Hook: "reserve", Module: mod, Config: fmt.Appendf(nil, "{%q:%q}", huge, huge)},
		{Hook: "reserve", Module: mod, Config: fmt.Appendf(nil, "{%q:1e999}", huge)},
		{Hook: "reserve", Module: mod, Config: []byte(huge)},
	}
	for i, q := range requests {
		_, err := r.Stage(context.Background(), q)
		if !errors.Is(err, server.ErrPolicyRefused) || len(err.Error()) > maxReason+3 {
			t.Errorf("request %d: an error of %d bytes, %.100v", i, len(err.Error()), err)
		}
		for _, s := range r.inState(server.PolicyRefused) {
			if strings.ContainsFunc(s.Reason+strings.Join(s.Changes, ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("request %d: %q does not print", i, s.Reason)
			}
		}
	}
	list, err := json.Marshal(r.Policies())
	if err != nil || len(list) > 32<<10 {
		t.Errorf("the policies are %d bytes, %v", len(list), err)
	}
	if n := len(r.log.String()); n > 64<<10 {
		t.Errorf("the log has %d bytes", n)
	}
}

// S25 (iv) to (vi): v2, v2's bytes again, and a hundred alternating pushes.
func TestPushesOfTheSameBytes(t *testing.T) {
	v1, v2 := reserveModule(answers(0), nil), reserveModule(answers(7), nil)
	r := newSwapRig(t, nil)
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5) // in transfer, so that reserve is asked in every tick
	r.swap(module(v1, "v1"))
	r.swap(module(v2, "v2"))
	first := r.active("reserve")
	r.swap(module(v2, "v2"))
	if got := r.active("reserve"); got.SHA256 != first.SHA256 || got.SHA256 != sum(v2) || r.value("policy_epoch") != 3 {
		t.Errorf("%+v after its bytes were pushed again, epoch %v", got, r.value("policy_epoch"))
	}
	for i := range 100 {
		r.swap(module([][]byte{v1, v2}[i%2], fmt.Sprint("v", i%2+1)))
	}
	eventually(t, "the policy to be asked", func() bool { return r.active("reserve").Calls > 0 })
	for _, s := range append(r.inState(server.PolicyActive), r.inState(server.PolicyPrevious)...) {
		if k := s.Hooks[1]; k.Native != 0 || len(k.Faults) != 0 {
			t.Errorf("%s: %+v; want every answer from the policy itself", s.State, k)
		}
	}
	r.wire.set(func(w *wire) { w.slow = false })
	if tokens, _ := outcome(t, live); len(tokens) != 5 || r.value("group_epoch") != 1 {
		t.Errorf("%d tokens, group epoch %v", len(tokens), r.value("group_epoch"))
	}
}

// S24: a policy that traps is answered for in that tick, and a fresh instance goes on; a refused configuration afterwards
// takes nothing away from a push of the same bytes with the old one.
func TestTrapsDoNotLatch(t *testing.T) {
	r := newSwapRig(t, func(o *Options) { o.Schedule.Quarantine = schedule.QuarantineAll(1<<20, 1000) })
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	m := reserveModule(trapsOnCall(5), refusesConfig())
	r.swap(module(m, "traps"))
	eventually(t, "four traps, with the policy's own answers between them", func() bool {
		k := r.active("reserve")
		return k.Faults["trap"] >= 4 && k.Calls-k.Native >= 8
	})
	if k := r.active("reserve"); k.Quarantined || r.value("policy_rank_faults_total", "local", "trap", "traps") < 4 {
		t.Errorf("%+v; quarantined, or its traps are not in the metrics", k)
	}
	if _, err := r.Stage(context.Background(), server.StageRequest{Hook: "reserve", Module: m, Config: []byte(`{"x":1}`)}); !errors.Is(err, server.ErrPolicyRefused) {
		t.Fatalf("refused config: %v", err)
	}
	r.swap(module(m, "again"))
	eventually(t, "the policy's own answers", func() bool { k := r.active("reserve"); return k.Calls-k.Native >= 2 })
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// Who answers on a fault is the group's to say: what is staged, or started with, changes nothing of it.
func TestStagedPoliciesHoldAsTheGroupDoes(t *testing.T) {
	for _, hold := range []bool{true, false} {
		r := newSwapRig(t, func(o *Options) {
			o.Schedule.Quarantine = schedule.QuarantineAll(1<<20, 1000)
			o.Schedule.HoldOnFault[schedule.Lane(abi.Reserve)] = hold
			o.Policies.Specs = []plugins.Spec{{Hook: abi.Reserve, Module: reserveModule(trapsOnCall(5), nil), Name: "first", OnFault: plugins.OnFaultHold}}
		})
		r.wire.set(func(w *wire) { w.slow = true })
		live := r.submit("live", 10, 5)
		for _, name := range []string{"first", "staged"} {
			eventually(t, "answers after a trap of "+name, func() bool {
				k := r.active("reserve")
				return k.Name == name && k.Faults["trap"] >= 2 && k.Held+k.Native >= 2
			})
			if k := r.active("reserve"); k.Held > 0 != hold || k.Native > 0 == hold {
				t.Errorf("hold %v: %+v", hold, k)
			}
			if name == "first" {
				r.swap(module(reserveModule(trapsOnCall(5), nil), "staged"))
			}
		}
		r.wire.set(func(w *wire) { w.slow = false })
		outcome(t, live)
	}
}

// A quarantined policy is out of use until another takes its place, which starts with a clean sheet.
func TestSwapReplacesAQuarantinedPolicy(t *testing.T) {
	r := newSwapRig(t, func(o *Options) { o.Schedule.Quarantine = schedule.QuarantineAll(2, 1000) })
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	r.swap(module(reserveModule(trapsOnCall(4), nil), "bad"))
	eventually(t, "the quarantine", func() bool { return r.active("reserve").Quarantined && r.value("policy_quarantined", "reserve") == 1 })
	r.swap(module(reserveModule(answers(0), nil), "good"))
	eventually(t, "the successor's answers", func() bool { k := r.active("reserve"); return k.Calls > 3 && !k.Quarantined })
	if k := r.active("reserve"); k.Native != 0 || len(k.Faults) != 0 {
		t.Errorf("%+v: the predecessor's record holds against it", k)
	}
	// Back to the bad one: it gets its chance again, and loses it again.
	if _, err := r.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quarantine again", func() bool { return r.active("reserve").Quarantined })
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// What is staged changes its own hook; the others follow what is active when it is activated.
func TestStagedSetsFollowWhatIsActive(t *testing.T) {
	r := newSwapRig(t, nil)
	gate, reserve := r.stage(builtin("gate", "ungated")), r.stage(builtin("reserve", "none"))
	r.activate(reserve.ID)
	r.activate(gate.ID)
	if r.active("gate").Name != "ungated" || r.active("reserve").Name != "none" {
		t.Errorf("gate %s, reserve %s", r.active("gate").Name, r.active("reserve").Name)
	}
	both, err := r.StageAll(context.Background(), []server.StageRequest{builtin("gate", "pending-only"), builtin("admit", "greedy")})
	if err != nil {
		t.Fatal(err)
	}
	epoch := r.value("policy_epoch")
	r.activate(both.ID)
	if r.active("gate").Name != "pending-only" || r.active("admit").Name != "greedy" || r.active("reserve").Name != "none" || r.value("policy_epoch") != epoch+1 {
		t.Errorf("gate %s, admit %s, policy epoch %v", r.active("gate").Name, r.active("admit").Name, r.value("policy_epoch"))
	}
}

func TestStagedSetsAreBounded(t *testing.T) {
	r := newSwapRig(t, nil)
	var ids []string
	for range maxStaged + 2 {
		ids = append(ids, r.stage(builtin("gate", "ungated")).ID)
	}
	dropped := r.inState(server.PolicyDropped)
	if len(dropped) != 2 || dropped[0].ID != ids[0] || dropped[1].ID != ids[1] || !strings.Contains(dropped[0].Reason, "newer ones") || len(dropped[0].Hooks) != 4 {
		t.Errorf("dropped %+v, want %v with a reason", dropped, ids[:2])
	}
	if n := r.value("policy_refused_total"); n != 0 || len(r.inState(server.PolicyRefused)) != 0 {
		t.Errorf("%v refusals, %+v refused, where nothing was wrong", n, r.inState(server.PolicyRefused))
	}
	var left []string
	for _, s := range r.inState(server.PolicyStaged) {
		left = append(left, s.ID)
	}
	if !slices.Equal(left, ids[2:]) {
		t.Errorf("staged %v of %v, want the last %d", left, ids, maxStaged)
	}
	for _, c := range []struct {
		id   string
		want error
		says string
	}{{ids[0], server.ErrPolicyConflict, "dropped"}, {"nonsense", server.ErrPolicyUnknown, "nonsense"}, {"1", server.ErrPolicyConflict, "active already"}} {
		if _, err := r.Activate(context.Background(), c.id); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("activate %q: %v", c.id, err)
		}
	}
	// Both kinds share one bounded list, the latest last.
	for range maxGone {
		if _, err := r.Stage(context.Background(), builtin("gate", "no such")); err == nil {
			t.Fatal("staged a gate that does not exist")
		}
	}
	if n := len(r.inState(server.PolicyDropped)) + len(r.inState(server.PolicyRefused)); n != maxGone || len(r.inState(server.PolicyDropped)) != 0 {
		t.Errorf("%d refused and dropped ones are remembered, want the last %d", n, maxGone)
	}
	r.activate(ids[5])
	if _, err := r.Activate(context.Background(), "1"); !errors.Is(err, server.ErrPolicyConflict) || !strings.Contains(err.Error(), "roll back") {
		t.Errorf("activate the previous set: %v", err)
	}
}

func TestFixedPolicies(t *testing.T) {
	r := newRig(t, nil)
	r.ready()
	ctx := context.Background()
	for name, f := range map[string]func() error{
		"stage":     func() error { _, err := r.Stage(ctx, builtin("gate", "ungated")); return err },
		"activate":  func() error { _, err := r.Activate(ctx, "1"); return err },
		"roll back": func() error { _, err := r.Rollback(ctx); return err },
	} {
		if err := f(); !errors.Is(err, server.ErrPolicyConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l := r.Policies(); len(l.Sets) != 1 || len(l.Sets[0].Hooks) != 4 || l.Sets[0].Hooks[0].Name != "restore-gated" {
		t.Errorf("list %+v", l)
	}
}

func TestPoliciesAfterClose(t *testing.T) {
	r := newSwapRig(t, nil)
	id := r.stage(builtin("gate", "ungated")).ID
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() error{
		func() error { _, err := r.Stage(context.Background(), builtin("gate", "ungated")); return err },
		func() error { _, err := r.Activate(context.Background(), id); return err },
		func() error { _, err := r.Rollback(context.Background()); return err },
	} {
		if err := f(); !errors.Is(err, server.ErrStopping) {
			t.Errorf("after the close: %v", err)
		}
	}
	if l := r.Policies(); len(l.Sets) != 1 {
		t.Errorf("list %+v", l)
	}
}

// Ten thousand swaps under load leave nothing behind: no instance, whose memory the heap does not show, no goroutine, and
// nothing on the heap.
func TestTenThousandSwaps(t *testing.T) {
	swaps := 10_000
	if testing.Short() || raceEnabled {
		swaps = 1000
	}
	r := newSwapRig(t, func(o *Options) {
		o.Deadline = patience
		o.Logger = slog.New(slog.DiscardHandler)
	})
	stop, loaded := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				loaded <- n
				return
			default:
			}
			s, err := r.Submit(context.Background(), prompt(fmt.Sprint(n), 9, 4))
			if err != nil {
				t.Errorf("submit: %v", err)
				continue
			}
			if tokens, last := outcome(t, s); len(tokens) != 4 || last.Finish.Type != server.FinishLength {
				t.Errorf("request %d: %d tokens, %+v", n, len(tokens), last.Finish)
			}
		}
	}()
	modules := []server.StageRequest{module(reserveModule(answers(0), nil), "a"), module(reserveModule(answers(7), nil), "b"), builtin("reserve", "none")}
	most := 0
	var mem [2]runtime.MemStats
	var goroutines [2]int
	settle := func(i int) {
		r.fewInstances()
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&mem[i])
		goroutines[i] = runtime.NumGoroutine()
	}
	for i := range swaps {
		if i == swaps/10 {
			settle(0)
		}
		if i%10 == 9 {
			if _, err := r.Rollback(context.Background()); err != nil {
				t.Fatalf("swap %d: %v", i, err)
			}
			continue
		}
		r.swap(modules[i%3])
		most = max(most, r.instances())
	}
	settle(1)
	close(stop)
	n := <-loaded
	if n == 0 || r.value("policy_swaps_total") != float64(swaps) || r.value("policy_epoch") != float64(swaps) || r.value("group_epoch") != 1 {
		t.Errorf("%d requests beside %v swaps, policy epoch %v, group epoch %v", n, r.value("policy_swaps_total"), r.value("policy_epoch"), r.value("group_epoch"))
	}
	if grown := int64(mem[1].HeapAlloc) - int64(mem[0].HeapAlloc); grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes from swap %d to swap %d", grown, swaps/10, swaps)
	}
	// Those of the two sets, and what is being made or closed beside them.
	if most == 0 || most > 4*fewest {
		t.Errorf("%d instances at a time, want some, and %d at most", most, 4*fewest)
	}
	if goroutines[1] > goroutines[0]+2 {
		t.Errorf("%d goroutines, then %d", goroutines[0], goroutines[1])
	}
	t.Logf("%d swaps beside %d requests: at most %d instances, heap %d and %d KiB, goroutines %d and %d", swaps, n, most, mem[0].HeapAlloc>>10, mem[1].HeapAlloc>>10, goroutines[0], goroutines[1])
}
