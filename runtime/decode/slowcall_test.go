package decode

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/abi"
	"sluice/internal/clock"
	"sluice/plugins"
)

// stepClock is a clock on which more time passes with every look.
type stepClock struct {
	clock.Clock
	step  time.Duration
	looks atomic.Int64
}

// Now implements clock.Clock.
func (c *stepClock) Now() time.Duration {
	return c.Clock.Now() + time.Duration(c.looks.Add(1))*c.step
}

func newStepClock(step time.Duration) *stepClock {
	return &stepClock{Clock: clock.NewVirtual(), step: step}
}

// newReserveRunner runs a module's reserve.
func newReserveRunner(t *testing.T, body []byte) *plugins.Runner {
	t.Helper()
	host := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() {
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Reserve, Module: reserveModule(body, nil), Name: "slow"}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return set.Reserve
}

// A policy whose every call is slow gives the answers, statuses, fuel, counters and faults that it gives untimed, tick by
// tick, over its traps too; nothing is discarded for its time.
func TestSlowPolicyIsHeeded(t *testing.T) {
	for _, tc := range []struct {
		name   string
		body   []byte
		faults uint64
	}{{"answers", counting(answers(0)), 0}, {"traps on call 7", counting(trapsOnCall(7)), 5}} {
		t.Run(tc.name, func(t *testing.T) {
			plain, timed := newReserveRunner(t, tc.body), newReserveRunner(t, tc.body)
			slow := newSlowCalls(newStepClock(time.Hour), time.Second)
			left, right := newTap(nil, nil, nil), newTap(nil, slow, slog.New(slog.DiscardHandler))
			encode := func(b abi.Batch) { b.PutReserve(0, &abi.ReserveRecord{RestoreTokens: 100}) }
			const ticks = 40
			for tick := uint64(1); tick <= ticks; tick++ {
				a, errA := left.Run(plain, tick, 1, 1, 1, encode)
				b, errB := right.Run(timed, tick, 1, 1, 1, encode)
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				if !reflect.DeepEqual(a, b) {
					t.Errorf("tick %d: %+v, timed %+v", tick, a, b)
				}
				for _, r := range []*plugins.Runner{plain, timed} {
					if err := r.Refresh(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
			}
			was, is := plain.Stats(), timed.Stats()
			if is.SlowCalls != ticks || was.SlowCalls != 0 || is.FaultTotal() != tc.faults || is.Replaced != tc.faults {
				t.Errorf("%+v, timed %+v", was, is)
			}
			is.SlowCalls = 0
			if was != is {
				t.Errorf("%+v, timed %+v", was, is)
			}
			if calls, longest := slow.slow(abi.Reserve); calls != ticks || longest != 3600 {
				t.Errorf("%d slow calls, the longest %v s", calls, longest)
			}
			if calls, longest := slow.slow(abi.Gate); calls != 0 || longest != 0 {
				t.Errorf("of the gate %d, %v s", calls, longest)
			}
		})
	}
}

// The log has one line of a hook in 100 ticks, whichever rank it is of; a group that forms again is heard at once.
func TestSlowCallLines(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	slow := newSlowCalls(newStepClock(7*time.Millisecond), 5*time.Millisecond)
	ranks := [2]*tap{newTap(nil, slow, logger.With("rank", 0)), newTap(nil, slow, logger.With("rank", 1))}
	gate, reserve := newTestRunner(t, abi.Gate), newTestRunner(t, abi.Reserve)
	run := func(k *tap, r *plugins.Runner, tick uint64, n, nOut int, encode func(abi.Batch)) {
		t.Helper()
		if _, err := k.Run(r, tick, 1, n, nOut, encode); err != nil {
			t.Fatal(err)
		}
	}
	for tick := uint64(1000); tick < 1250; tick++ {
		for _, k := range ranks {
			run(k, gate, tick, 3, 3, encodeGates(3))
		}
	}
	run(ranks[1], reserve, 1249, 1, 1, func(abi.Batch) {})
	run(ranks[1], gate, 5, 2, 2, encodeGates(2)) // of a new group
	run(ranks[0], gate, 104, 2, 2, encodeGates(2))
	run(ranks[0], gate, 105, 2, 2, encodeGates(2))
	line := func(hook, policy string, tick, records, omitted, rank int) string {
		return fmt.Sprintf(`level=WARN msg="slow policy call; its answer stands" rank=%d hook=%s policy=%s tick=%d took=7ms limit=5ms records=%d fuel=0 omitted=%d`+"\n",
			rank, hook, policy, tick, records, omitted)
	}
	want := line("gate", "restore-gated", 1000, 3, 0, 0) + line("gate", "restore-gated", 1100, 3, 199, 0) + line("gate", "restore-gated", 1200, 3, 199, 0) +
		line("reserve", "until-retired", 1249, 1, 0, 1) + line("gate", "restore-gated", 5, 2, 99, 1) + line("gate", "restore-gated", 105, 2, 1, 0)
	var got strings.Builder
	for l := range strings.Lines(log.String()) {
		_, rest, _ := strings.Cut(l, " ") // the time
		got.WriteString(rest)
	}
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// A tick allocates nothing, whether its calls are timed, slow, or slow and left out of the log.
func TestSlowCallsAllocateNothing(t *testing.T) {
	for name, step := range map[string]time.Duration{"quick": 0, "slow": time.Second} {
		slow := newSlowCalls(newStepClock(step), time.Millisecond)
		k, r, encode := newTap(nil, slow, slog.New(slog.DiscardHandler)), newTestRunner(t, abi.Gate), encodeGates(40)
		run := func() {
			if _, err := k.Run(r, 9, 1, 40, 40, encode); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations a tick", name, n)
		}
		if calls, _ := slow.slow(abi.Gate); (calls > 100) != (step > 0) {
			t.Errorf("%s: %d slow calls", name, calls)
		}
	}
	if newSlowCalls(clock.NewVirtual(), 0) != nil {
		t.Error("an alarm without a limit")
	}
}

// What is slow on a server shows in its metrics and in /policies, and its requests end as ever.
func TestSlowCallsShow(t *testing.T) {
	r := newSwapRig(t, func(o *Options) {
		o.Clock = &stepClock{Clock: o.Clock, step: 2 * time.Microsecond}
		o.Policies.SlowCall = time.Microsecond
	})
	if tokens, _ := outcome(t, r.submit("slow", 5, 5)); len(tokens) != 5 {
		t.Fatalf("%d tokens, want 5", len(tokens))
	}
	eventually(t, "slow calls", func() bool {
		k := r.active("gate")
		return k.SlowCalls > 0 && k.SlowCalls == k.Calls && len(k.Faults) == 0 && k.Native == 0 && !k.Quarantined && k.Replaced == 0
	})
	if r.value("policy_slow_calls_total", "gate") < 1 || r.value("policy_call_longest_seconds", "gate") <= 0 || r.value("policy_slow_calls_total", "score") != 0 {
		t.Error("the metrics do not show it")
	}
}
