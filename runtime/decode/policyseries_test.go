package decode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/manifest"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// versionOf is a policy that counts and logs, answers with status 3, and traps now and then; each version has bytes of its own.
func versionOf(t *testing.T, m manifest.Manifest) []byte {
	t.Helper()
	m.Counters = []string{"held"}
	wasm, err := manifest.Write(reserveModule(counting(slices.Concat(trapsOnCall(7), []byte{0x41, 3, 0x6A})), nil), m)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// policySeries watches the series of one policy, none of which may ever go down while it is there.
type policySeries struct {
	*rig
	policy string
	before map[string]float64
}

func (s *policySeries) scrape(when string) {
	s.t.Helper()
	for _, labels := range [][]string{
		{"policy_counter_total", "local", "held", s.policy},
		{"policy_log_lines_total", "local", s.policy},
		{"policy_log_dropped_total", "local", s.policy, "rate"},
		{"policy_instances_replaced_total", "local", s.policy},
		{"policy_rank_faults_total", "local", "trap", s.policy},
		{"policy_own_status_answers_total", "local", s.policy},
	} {
		v, there := s.reg.Value(labels[0], labels[1:]...)
		if there && v < s.before[labels[0]] {
			s.t.Fatalf("%s: %s was %v and is %v", when, labels[0], s.before[labels[0]], v)
		}
		if there {
			s.before[labels[0]] = v
		}
	}
}

// more waits until the policy has been called some more, and watches the series meanwhile.
func (s *policySeries) more(when string) {
	s.t.Helper()
	s.scrape(when)
	want := s.before["policy_counter_total"] + 20
	eventually(s.t, when, func() bool { s.scrape(when); return s.before["policy_counter_total"] >= want })
}

// unhurried keeps a busy machine from ending the group, and with it the request in transfer for which reserve is asked.
func unhurried(o *Options) { o.Deadline = patience }

// panicOnce has rank 1 panic in its next tick.
func (r *rig) panicOnce() {
	over := false // of rank 1 alone
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 1 && !over {
			over = true
			panic("once")
		}
	})
}

// A series of a policy's metrics never goes down while its labels stay: over switches between modules of its name, their
// closing, a time in which none of them is there, and the end of a group.
func TestPolicySeriesNeverGoDown(t *testing.T) {
	const name = "srv/pace.wasm"
	v1, v2 := versionOf(t, manifest.Manifest{Version: "1"}), versionOf(t, manifest.Manifest{Version: "2"})
	r := newSwapRig(t, func(o *Options) {
		unhurried(o)
		o.Schedule.Quarantine = schedule.QuarantineAll(1<<20, 1000)
		o.Logger = slog.New(slog.DiscardHandler)
		o.Policies.Specs = []plugins.Spec{{Hook: abi.Reserve, Module: v1, Name: name}}
	})
	r.wire.set(func(w *wire) { w.slow = true })
	r.submit("live", 10, 5)
	s := &policySeries{rig: r, policy: name, before: map[string]float64{}}
	push := func(m []byte) server.PolicySet { return r.swap(module(m, name)) }
	s.more("v1")
	push(v2)
	s.more("v2")
	if _, err := r.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.more("v1 by a rollback")
	for i := range 6 {
		push([][]byte{v2, v1}[i%2])
		s.more(fmt.Sprintf("switch %d", i))
	}
	for range 3 {
		r.swap(builtin("reserve", "none"))
		r.swap(builtin("reserve", "pending-only"))
	}
	push(v2)
	s.more("v2 after others")
	r.panicOnce()
	eventually(t, "the group to form again", func() bool { return r.value("group_epoch") == 2 })
	r.submit("again", 10, 5)
	s.more("v2 in the next group")
	push(v1)
	s.more("v1 in the next group")
	r.wire.set(func(w *wire) { w.slow = false })
}

// Answers with a status of the policy's own are answers, and are counted.
func TestOwnStatusIsCounted(t *testing.T) {
	r := newSwapRig(t, unhurried)
	r.wire.set(func(w *wire) { w.slow = true })
	live := r.submit("live", 10, 5)
	r.swap(module(reserveModule(answers(7), nil), "seven"))
	eventually(t, "answers", func() bool { return r.active("reserve").OwnStatus >= 4 })
	if k := r.active("reserve"); k.OwnStatus != k.Calls || k.Native != 0 || k.Declined != 0 {
		t.Errorf("%+v; want every call answered with a status of its own", k)
	}
	if r.value("policy_own_status_answers_total", "local", "seven") < 4 || r.value("policy_own_status_answers_total", "replicated", "fifo-headroom") != 0 {
		t.Error("the metric does not show that")
	}
	r.swap(module(reserveModule(answers(0), nil), "zero"))
	eventually(t, "answers", func() bool { return r.active("reserve").Calls >= 4 })
	if k := r.active("reserve"); k.OwnStatus != 0 {
		t.Errorf("%+v; a status of 0 is none of its own", k)
	}
	r.wire.set(func(w *wire) { w.slow = false })
	outcome(t, live)
}

// The same of policies that the seats bring with each group.
func TestPolicySeriesOfSeatsNeverGoDown(t *testing.T) {
	ctx := context.Background()
	h := plugins.NewHost(plugins.Options{})
	var sets []*plugins.Set
	r := newRig(t, func(o *Options) {
		form := o.Form
		unhurried(o)
		o.Schedule.Quarantine = schedule.QuarantineAll(1<<20, 1000)
		o.Form = func(ctx context.Context, epoch uint64) (*Formation, error) {
			f, err := form(ctx, epoch)
			if err != nil {
				return nil, err
			}
			for i := range f.Seats {
				set, err := h.NewSet(ctx, []plugins.Spec{{Hook: abi.Reserve, Module: versionOf(t, manifest.Manifest{}), Name: "seat"}}, abi.HostInfo{Major: abi.Major, Ranks: 2})
				if err != nil {
					return nil, err
				}
				sets = append(sets, set) // by New, and by the one goroutine that forms groups after it
				f.Seats[i].Policies = rank.NewPolicies(set, nil)
			}
			return f, nil
		}
	})
	t.Cleanup(func() {
		err := r.Close(ctx)
		for _, set := range sets {
			err = errors.Join(err, set.Close(ctx))
		}
		if err = errors.Join(err, h.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	r.ready()
	r.wire.set(func(w *wire) { w.slow = true })
	r.submit("live", 10, 5)
	s := &policySeries{rig: r, policy: "seat", before: map[string]float64{}}
	s.more("the first group")
	r.panicOnce()
	eventually(t, "the group to form again", func() bool { return r.value("group_epoch") == 2 })
	r.submit("again", 10, 5)
	s.more("the second group")
	r.wire.set(func(w *wire) { w.slow = false })
}

// What is kept of policies that are gone is bounded, whatever is pushed: the oldest are forgotten, and names of counters
// that no version in use has.
func TestPastCountsAreBounded(t *testing.T) {
	var p pastCounts
	var sum [numHooks]plugins.Stats
	sum[1].Lines = 1
	info := func(i int) []plugins.Info { return []plugins.Info{{Hook: abi.Reserve, Name: fmt.Sprint(i)}} }
	kept := policyNames{}
	kept.add(info(0))
	for i := range 3 * maxPastPolicies {
		p.add(info(i), &sum)
		p.trim(kept)
	}
	if len(p.of) != maxPastPolicies+1 || len(p.left) != maxPastPolicies {
		t.Errorf("%d policies are kept, %d of them in no set", len(p.of), len(p.left))
	}
	for i, want := range map[int]uint64{0: 1, 3*maxPastPolicies - 1: 1, 2 * maxPastPolicies: 1, 2*maxPastPolicies - 1: 0} {
		if got := p.of[keyOf(&info(i)[0])].lines; got != want {
			t.Errorf("%d lines of policy %d, want %d", got, i, want)
		}
	}
	// One that is back is not forgotten with those that left when it did.
	back := info(2 * maxPastPolicies)
	kept.add(back)
	for i := range maxPastPolicies {
		p.add(info(1000+i), &sum)
		p.trim(kept)
	}
	if p.of[keyOf(&back[0])].lines != 1 || len(p.of) != maxPastPolicies+2 {
		t.Errorf("%+v of the one that is back, %d are kept", p.of[keyOf(&back[0])], len(p.of))
	}
	p.add(info(5000), &[numHooks]plugins.Stats{})
	if p.trim(kept); len(p.of) != maxPastPolicies+2 {
		t.Errorf("a policy that never counted takes room: %d are kept", len(p.of))
	}

	k := keyOf(&back[0])
	many := map[string]uint64{"0": 7}
	for i := range maxPastCounters {
		many[fmt.Sprint("old", i)] = 1
	}
	p.of[k] = policyCount{counters: many}
	if p.trim(kept); len(p.of[k].counters) != 1 || p.of[k].counters["0"] != 7 {
		t.Errorf("%d names are kept", len(p.of[k].counters))
	}
}
