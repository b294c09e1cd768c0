package plugins_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins"
)

// heldAnswers are what OnFaultHold answers to inputs.
func heldAnswers(hook abi.Hook) []string {
	switch hook {
	case abi.Gate:
		return []string{"transferring 0", "transferring 0", "transferring 0"}
	case abi.Reserve:
		return []string{"4096"}
	case abi.Admit:
		return []string{"defer 0", "defer 1"}
	}
	_, _, native := inputs(hook)
	return native
}

// ask runs a hook on inputs, with a device of 4096 tokens, and returns the answer in words.
func askHeld(t *testing.T, r *plugins.Runner, tick uint64) (plugins.Answer, []string) {
	t.Helper()
	nOut, encode, _ := inputs(r.Hook())
	a, err := r.Run(tick, 1, 3, nOut, func(b abi.Batch) {
		encode(b)
		if r.Hook() == abi.Reserve {
			b.PutReserveGlobals(&abi.ReserveGlobals{TotalTokens: 4096, PageSize: 1})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, answers(r.Hook(), a, nOut)
}

// With OnFaultHold every kind of fault is answered by nobody, in the same tick and until the successor is in use; score,
// whose faults change nothing, is answered natively.
func TestEveryFaultIsHeld(t *testing.T) {
	ctx := context.Background()
	for _, tc := range faultCases() {
		t.Run(tc.name, func(t *testing.T) {
			host := plugins.NewHost(plugins.Options{})
			defer closing(t, host.Close)
			set, err := host.NewSet(ctx, []plugins.Spec{{Hook: tc.hook, Module: tc.module.bytes(), Name: "bad.wasm", OnFault: plugins.OnFaultHold}}, abi.HostInfo{})
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, set.Close)
			r, want := set.Runner(tc.hook), heldAnswers(tc.hook)
			holds := tc.hook != abi.Score
			for round := range uint64(3) {
				a, got := askHeld(t, r, 10*round)
				if a.Fault == nil || a.Held != holds || a.Native == holds || !slices.Equal(got, want) {
					t.Errorf("round %d: %q, held %v, native %v, fault %v; want %q held", round, got, a.Held, a.Native, a.Fault, want)
				}
				if a, got = askHeld(t, r, 10*round+1); a.Held != holds || !slices.Equal(got, want) {
					t.Errorf("round %d: in the next tick %q, held %v; want %q held", round, got, a.Held, want)
				}
				if err := r.Refresh(ctx); err != nil {
					t.Fatal(err)
				}
				r.Install()
			}
			if s := r.Stats(); holds && (s.Calls != 6 || s.Held != 6 || s.Native != 0 || s.FaultTotal() < 3) {
				t.Errorf("stats %+v", s)
			}
			// Quarantined it is answered natively, whatever it is told to do on a fault.
			r.Disable()
			if a, got := askHeld(t, r, 99); a.Held || !a.Native || tc.hook == abi.Gate && got[1] != "success 0" {
				t.Errorf("quarantined: %q, held %v, native %v", got, a.Held, a.Native)
			}
		})
	}
}

func TestADeclinedTickIsNotHeld(t *testing.T) {
	r := nativeRunner(t, abi.ClassLocal, plugins.NativePolicy{})
	r.SetOnFault(plugins.OnFaultHold)
	if a := wantAnswers(t, r, 1); a.Held || !a.Native || a.Status != abi.StatusDeclined {
		t.Errorf("%+v", a)
	}
	if s := r.Stats(); s.Held != 0 || s.Native != 1 || s.Declined != 1 {
		t.Errorf("stats %+v", s)
	}
	if got := plugins.OnFaultNative.String() + plugins.OnFaultHold.String(); got != "nativehold" {
		t.Errorf("names %q", got)
	}
}

// A raw poll below Success is voted as it is, a failure too; and a hold allocates nothing.
func TestHoldKeepsLowerPolls(t *testing.T) {
	r := brokenRunner(t, lonelySlot(t), abi.Gate)
	r.SetOnFault(plugins.OnFaultHold)
	askHeld(t, r, 0)
	records := gateRecords(15)
	encode := func(b abi.Batch) {
		for i := range records {
			b.PutGate(i, &records[i])
		}
	}
	a, err := r.Run(1, 1, len(records), len(records), encode)
	if err != nil || !a.Held {
		t.Fatalf("%+v, %v", a, err)
	}
	for i, rec := range records {
		o := a.Batch.GateOut(i)
		if want := min(rec.RawPoll, abi.PollTransferring); o.Vote != want || o.Reason != 0 || o.Flags != 0 {
			t.Errorf("raw %v, restore %v: %+v, want vote %v", rec.RawPoll, rec.Restore, o, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if a, err := r.Run(2, 1, len(records), len(records), encode); err != nil || !a.Held {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a held tick allocates %v times", n)
	}
}

func TestHooksOfOneInstanceHoldByThemselves(t *testing.T) {
	slot := lonelySlot(t)
	gate, reserve := brokenRunner(t, slot, abi.Gate), brokenRunner(t, slot, abi.Reserve)
	reserve.SetOnFault(plugins.OnFaultHold)
	if a := wantAnswers(t, gate, 1); a.Fault == nil || !a.Native || a.Held {
		t.Errorf("gate: %+v", a)
	}
	// The gate's fault took reserve's instance with it, and reserve is not back either.
	if a, got := askHeld(t, reserve, 1); a.Fault != nil || !a.Held || strings.Join(got, "") != "4096" {
		t.Errorf("reserve: %q, held %v, fault %v", got, a.Held, a.Fault)
	}
}

// lonelySlot has one instance, whose gate faults, and can make no other.
func lonelySlot(t *testing.T) *plugins.Slot {
	t.Helper()
	made := 0
	slot, err := plugins.NewSlot(context.Background(), abi.ClassLocal, func(context.Context) (plugins.Caller, error) {
		if made++; made > 1 {
			return nil, errors.New("no memory")
		}
		return plugins.NewNative(plugins.NativePolicy{Gate: func(guest.GateBatch) int32 { return -1 }}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func brokenRunner(t *testing.T, slot *plugins.Slot, hook abi.Hook) *plugins.Runner {
	t.Helper()
	r, err := plugins.NewRunner(hook, "p", slot, fallback(t, hook))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
