package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins"
)

var (
	procExit = testImport{"wasi_snapshot_preview1", "proc_exit", typeTake}
	fdWrite  = testImport{"wasi_snapshot_preview1", "fd_write", typeWrite}
	clockGet = testImport{"wasi_snapshot_preview1", "clock_time_get", typeClock}
	random   = testImport{"wasi_snapshot_preview1", "random_get", typeArena}
)

// fill overwrites the batch from its first byte on.
func fill(n int32) []byte { return code(op(opLocalGet, 0), i32(255), i32(n), op(0xFC, 0x0B, 0)) }

// shout writes "oops" to the standard error through import 0.
func shout() []byte {
	word := func(at, v int32) []byte { return code(i32(at), i32(v), op(opI32Store, 2, 0)) }
	return code(word(600, 640), word(604, 4), word(640, 0x73706F6F), i32(2), i32(600), i32(1), i32(620), op(opCall, 0, opDrop))
}

// faultCase is a policy that fails in one way.
type faultCase struct {
	name   string
	hook   abi.Hook
	module guestModule
	class  plugins.FaultClass
	words  []string
}

func faultCases() []faultCase {
	return []faultCase{
		{"trap", abi.Gate, guestModule{gate: op(opUnreachable)}, plugins.FaultTrap, []string{"trap{unreachable}"}},
		{"load outside the memory", abi.Gate, guestModule{gate: code(i32(-4), op(opI32Load, 2, 0))}, plugins.FaultTrap, []string{"out of bounds"}},
		{"trap after words", abi.Gate, guestModule{gate: code(shout(), op(opUnreachable)), imports: []testImport{fdWrite}}, plugins.FaultTrap, []string{"unreachable", "oops"}},
		{"exit 0", abi.Gate, guestModule{gate: code(i32(0), op(opCall, 0), i32(0)), imports: []testImport{procExit}}, plugins.FaultTrap, []string{"exit 0"}},
		{"exit 3", abi.Reserve, guestModule{reserve: code(i32(3), op(opCall, 0), i32(0)), imports: []testImport{procExit}}, plugins.FaultTrap, []string{"exit 3"}},
		{"bad batch", abi.Gate, guestModule{gate: i32(-1)}, plugins.FaultBadStatus, []string{"bad_status{-1}", "bad batch"}},
		{"unknown status", abi.Reserve, guestModule{reserve: i32(-6)}, plugins.FaultBadStatus, []string{"-6"}},
		{"lowest status", abi.Admit, guestModule{admit: i32(-1 << 31)}, plugins.FaultBadStatus, []string{"-2147483648"}},
		{"status 256", abi.Gate, guestModule{gate: i32(256)}, plugins.FaultBadStatus, []string{"256"}},
		{"vote 5", abi.Gate, guestModule{gate: code(outByte(8, 5), i32(0))}, plugins.FaultIllegalAnswer, []string{"gate record 1", "vote is 5"}},
		{"unknown flag", abi.Gate, guestModule{gate: code(outByte(2, 2), i32(0))}, plugins.FaultIllegalAnswer, []string{"flags is 2"}},
		{"reserve tail", abi.Reserve, guestModule{reserve: code(outByte(15, 1), i32(0))}, plugins.FaultIllegalAnswer, []string{"reserved bytes"}},
		{"no permutation", abi.Admit, guestModule{admit: i32(0)}, plugins.FaultIllegalAnswer, []string{"admit record 1", "order is 0"}},
		{"verdict 3", abi.Admit, guestModule{admit: code(outByte(0, 3), outByte(12, 1), i32(0))}, plugins.FaultIllegalAnswer, []string{"verdict is 3"}},
		{"admit tail", abi.Admit, guestModule{admit: code(outByte(12, 1), outByte(2, 1), i32(0))}, plugins.FaultIllegalAnswer, []string{"reserved bytes"}},
		{"scribbles over its batch and traps", abi.Gate, guestModule{gate: code(fill(160), op(opUnreachable))}, plugins.FaultTrap, []string{"unreachable"}},
		{"scribbles over its batch", abi.Gate, guestModule{gate: code(fill(208), i32(0))}, plugins.FaultIllegalAnswer, []string{"vote is 255"}},
		{"grows without end", abi.Gate, guestModule{gate: code(i32(900), op(opGrow, 0, opDrop), i32(0))}, plugins.FaultMemoryGrowth, []string{"908 pages", "from 8 in its first call;"}},
		{"grows and stops", abi.Gate, guestModule{gate: code(i32(900), op(opGrow, 0, opDrop, opUnreachable))}, plugins.FaultMemoryGrowth, []string{"unreachable"}},
	}
}

// inputs is a batch of three records of a hook, and what the hook's default native policy answers.
func inputs(hook abi.Hook) (nOut int, encode func(abi.Batch), want []string) {
	switch hook {
	case abi.Gate:
		return 3, func(b abi.Batch) {
			b.PutGate(0, &abi.GateRecord{RawPoll: abi.PollSuccess, Restore: abi.RestorePending})
			b.PutGate(1, &abi.GateRecord{RawPoll: abi.PollSuccess, Restore: abi.RestoreReady})
			b.PutGate(2, &abi.GateRecord{RawPoll: abi.PollSuccess, Restore: abi.RestoreFailed})
		}, []string{"transferring 0", "success 0", "failed 1"}
	case abi.Reserve:
		return 1, func(b abi.Batch) {
			b.PutReserve(0, &abi.ReserveRecord{RestoreTokens: 100})
			b.PutReserve(1, &abi.ReserveRecord{RestoreTokens: 20, Restore: abi.RestoreFailed})
			b.PutReserve(2, &abi.ReserveRecord{RestoreTokens: 3, SetAside: 1})
		}, []string{"120"}
	case abi.Score:
		return 3, func(b abi.Batch) {
			b.PutScore(0, &abi.ScoreRecord{NodeKey: 1, LastUse: 7})
			b.PutScore(1, &abi.ScoreRecord{NodeKey: 2, LastUse: 5, Hits: 9})
			b.PutScore(2, &abi.ScoreRecord{NodeKey: 3, LastUse: 6})
		}, []string{"7", "5", "6"}
	}
	return 2, func(b abi.Batch) {
		b.PutAdmitGlobals(&abi.AdmitGlobals{Candidates: 2, FreeTokens: 100, FreeRows: 2, FreeSlots: 2, PageSize: 1})
		b.PutAdmit(0, &abi.AdmitRecord{Flags: abi.AdmitFlagReady, NeedTokens: 90})
		b.PutAdmit(1, &abi.AdmitRecord{Flags: abi.AdmitFlagReady, NeedTokens: 90})
		b.PutAdmit(2, &abi.AdmitRecord{Kind: abi.AdmitRunning})
	}, []string{"admit 0", "defer 1"}
}

// answers writes an answer in the words of inputs.
func answers(hook abi.Hook, a plugins.Answer, n int) []string {
	var words []string
	for i := range n {
		switch hook {
		case abi.Gate:
			o := a.Batch.GateOut(i)
			words = append(words, fmt.Sprintf("%s %d", o.Vote, o.Reason))
		case abi.Reserve:
			words = append(words, fmt.Sprint(a.Batch.ReserveOut().HeldTokens))
		case abi.Admit:
			o := a.Batch.AdmitOut(i)
			words = append(words, fmt.Sprintf("%s %d", o.Verdict, o.Order))
		case abi.Score:
			words = append(words, fmt.Sprint(a.Batch.ScoreKey(i)))
		}
	}
	return words
}

func wantAnswers(t *testing.T, r *plugins.Runner, tick uint64) plugins.Answer {
	t.Helper()
	nOut, encode, want := inputs(r.Hook())
	a, err := r.Run(tick, 1, 3, nOut, encode)
	if err != nil {
		t.Fatal(err)
	}
	if got := answers(r.Hook(), a, nOut); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("tick %d: %q, want %q", tick, got, want)
	}
	return a
}

func TestEveryFaultIsAnsweredNativelyInTheSameTick(t *testing.T) {
	ctx := context.Background()
	for _, tc := range faultCases() {
		t.Run(tc.name, func(t *testing.T) {
			host := plugins.NewHost(plugins.Options{})
			defer closing(t, host.Close)
			set, err := host.NewSet(ctx, []plugins.Spec{{Hook: tc.hook, Module: tc.module.bytes(), Name: "bad.wasm"}}, abi.HostInfo{})
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, set.Close)
			r := set.Runner(tc.hook)
			for round := range uint64(3) {
				if !r.Active() {
					t.Fatalf("round %d: the policy is not in use", round)
				}
				a := wantAnswers(t, r, 10*round)
				if a.Fault == nil || a.Fault.Class != tc.class || !a.Native || a.Fault.Hook != tc.hook {
					t.Fatalf("round %d: native %v, fault %v, want %v", round, a.Native, a.Fault, tc.class)
				}
				for _, w := range append(tc.words, "bad.wasm", tc.hook.String(), tc.class.String()) {
					if !strings.Contains(a.Fault.Error(), w) {
						t.Errorf("%q does not say %q", a.Fault, w)
					}
				}
				if errors.Is(a.Fault, abi.ErrIllegalAnswer) != (tc.class == plugins.FaultIllegalAnswer) {
					t.Errorf("%v wraps the wrong error", a.Fault)
				}
				if r.Active() || !r.Wanted() || r.Ready() {
					t.Errorf("the instance is not discarded: active %v, wanted %v, ready %v", r.Active(), r.Wanted(), r.Ready())
				}
				// Until the successor is there, the native policy answers and nothing is a fault.
				if a := wantAnswers(t, r, 10*round+1); a.Fault != nil || !a.Native {
					t.Errorf("without an instance: native %v, fault %v", a.Native, a.Fault)
				}
				if err := r.Refresh(ctx); err != nil {
					t.Fatal(err)
				}
				if !r.Ready() || r.Wanted() {
					t.Errorf("after a refresh: ready %v, wanted %v", r.Ready(), r.Wanted())
				}
				r.Install()
			}
			s := r.Stats()
			if s.Calls != 6 || s.Native != 6 || s.Faults[tc.class] != 3 || s.FaultTotal() != 3 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

func TestNativeFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy guest.GateFunc
		class  plugins.FaultClass
		word   string
	}{
		{"index out of range", func(b guest.GateBatch) int32 { b.SetVote(b.Len(), 0); return 0 }, plugins.FaultTrap, "panic"},
		{"panic", func(guest.GateBatch) int32 { panic("no\nway") }, plugins.FaultTrap, "no"},
		{"status", func(guest.GateBatch) int32 { return -4 }, plugins.FaultBadStatus, "no capacity"},
		{"vote", func(b guest.GateBatch) int32 { b.SetVote(2, 9); return 0 }, plugins.FaultIllegalAnswer, "vote is 9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := nativeRunner(t, abi.ClassLocal, plugins.NativePolicy{Gate: tc.policy})
			a := wantAnswers(t, r, 1)
			if a.Fault == nil || a.Fault.Class != tc.class || !strings.Contains(a.Fault.Error(), tc.word) {
				t.Errorf("fault %v", a.Fault)
			}
		})
	}
}

// nativeRunner makes a runner of plain functions over the default native fallback of the one hook that p answers.
func nativeRunner(t *testing.T, class abi.Class, p plugins.NativePolicy) *plugins.Runner {
	t.Helper()
	hook := abi.Gate
	switch {
	case p.Reserve != nil:
		hook = abi.Reserve
	case p.Admit != nil:
		hook = abi.Admit
	}
	slot, err := plugins.NewSlot(context.Background(), class, func(context.Context) (plugins.Caller, error) { return plugins.NewNative(p), nil })
	if err != nil {
		t.Fatal(err)
	}
	r, err := plugins.NewRunner(hook, "p", slot, fallback(t, hook))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStatuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int32
		native bool
	}{
		{"ok", 0, false},
		{"the policy's own", 7, false},
		{"the highest of its own", 255, false},
		{"declined", int32(abi.StatusDeclined), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := plugins.NewHost(plugins.Options{})
			defer closing(t, host.Close)
			module := guestModule{gate: code(outByte(0, 2), i32(tc.status))}
			set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: module.bytes()}}, abi.HostInfo{})
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, set.Close)
			_, encode, _ := inputs(abi.Gate)
			a, err := set.Gate.Run(1, 1, 3, 3, encode)
			if err != nil || a.Fault != nil || a.Native != tc.native || int32(a.Status) != tc.status {
				t.Fatalf("%+v, %v", a, err)
			}
			want := abi.PollWaitingForInput
			if tc.native {
				want = abi.PollTransferring
			}
			if got := a.Batch.GateOut(0).Vote; got != want {
				t.Errorf("vote %s, want %s", got, want)
			}
			s := set.Gate.Stats()
			if s.FaultTotal() != 0 || (s.Declined == 1) != tc.native || (s.Native == 1) != tc.native || (s.Custom == 1) != (tc.status > 0) {
				t.Errorf("stats %+v", s)
			}
			if !set.Gate.Active() {
				t.Error("the instance was discarded")
			}
		})
	}
}

// A guest that grows moves its memory: the answer must be read where it is now.
func TestAnswersAreReadAfterTheMemoryMoved(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	module := guestModule{gate: code(i32(4), op(opGrow, 0, opDrop), outByte(0, 3), outByte(8, 2), i32(0))}
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: module.bytes()}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	for tick := range uint64(5) {
		_, encode, _ := inputs(abi.Gate)
		a, err := set.Gate.Run(tick, 1, 3, 3, encode)
		if err != nil || a.Fault != nil {
			t.Fatalf("tick %d: %v, %v", tick, err, a.Fault)
		}
		if got := answers(abi.Gate, a, 3); strings.Join(got, ", ") != "transferring 0, waiting for input 0, failed 0" {
			t.Errorf("tick %d: %q", tick, got)
		}
	}
}

// The guest's clock is a function of the tick, and its entropy is none.
func TestStubsAreDeterministic(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	clock := code(i32(0), op(opI64Const, 0), i32(512), op(opCall, 0, opDrop), outWord(4, 512))
	dice := code(i32(700), i32(-1), op(opI32Store, 2, 0), i32(700), i32(4), op(opCall, 1, opDrop), outWord(12, 700))
	module := guestModule{gate: code(clock, dice, i32(0)), imports: []testImport{clockGet, random}}
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: module.bytes()}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	_, encode, _ := inputs(abi.Gate)
	for _, tick := range []uint64{0, 1, 41, 41} {
		a, err := set.Gate.Run(tick, 1, 3, 3, encode)
		if err != nil || a.Fault != nil {
			t.Fatal(err, a.Fault)
		}
		if got, want := a.Batch.GateOut(0).Aux, uint32(1_000_000*(tick+1)); got != want {
			t.Errorf("tick %d: the clock shows %d ns, want %d", tick, got, want)
		}
		if got := a.Batch.GateOut(1).Aux; got != 0 {
			t.Errorf("tick %d: entropy %#x", tick, got)
		}
	}
}

func TestBatchesThatOutgrowTheArena(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: guestModule{gate: i32(0)}.bytes()}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	shipped, err := sharedHost().NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Builtin: "ungated"}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, shipped.Close)
	for _, tc := range []struct {
		name  string
		r     *plugins.Runner
		n     int
		fault bool
	}{
		{"fits the fixed arena", set.Gate, 5000, false},
		{"leaves the fixed arena", set.Gate, 20000, true},
		{"a Go guest", shipped.Gate, 5000, false},
		{"a Go guest, more", shipped.Gate, 20000, false},
		{"a Go guest, less again", shipped.Gate, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := gateRecords(tc.n)
			a := runGate(t, tc.r, in)
			if (a.Fault != nil) != tc.fault {
				t.Fatalf("fault %v", a.Fault)
			}
			if tc.r == shipped.Gate {
				for i := range in {
					if got := a.Batch.GateOut(i).Vote; got != in[i].RawPoll {
						t.Fatalf("record %d: vote %s, want %s", i, got, in[i].RawPoll)
					}
				}
			}
		})
	}
	if _, err := set.Gate.Run(1, 1, abi.MaxRecords+1, 1, func(abi.Batch) {}); !errors.Is(err, abi.ErrBatchSize) {
		t.Errorf("more records than a batch can have: %v", err)
	}
}
