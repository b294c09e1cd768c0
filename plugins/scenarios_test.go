package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/wasmbin"
)

func echoModule(body []byte) []byte {
	return kittest.Module(kittest.Export{Name: abi.Gate.Export(), Body: body})
}

// TestS18 calls one policy from eight goroutines, each as a rank does: 10,000 calls, of which every fiftieth of an
// instance traps and is recovered from beside the others, and a reload by each goroutine in the middle, which closes what
// the others use too. Every answer belongs to its own inputs.
func TestS18ManyUsersOfOnePolicy(t *testing.T) {
	const users, calls = 8, 10_000
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{})
	module := func(salt byte) []byte {
		wasm := echoModule(kittest.EveryCall(50, kittest.Unreachable(), kittest.Votes(kittest.InByte(8))))
		return append(wasm, 0, 2, 1, salt) // a custom section, so that a reload is of other bytes
	}
	var wait sync.WaitGroup
	for u := range uint64(users) {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(18, u))
			var set *plugins.Set
			traps := uint64(0)
			for i := range calls / users {
				if i == 0 || i == calls/users/2 {
					next, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: module(byte(i % 2))}}, abi.HostInfo{})
					if err != nil {
						t.Error(err)
						return
					}
					if set != nil {
						traps += set.Gate.Stats().Faults[plugins.FaultTrap]
						if err := set.Close(ctx); err != nil {
							t.Error(err)
						}
					}
					set = next
				}
				in := make([]abi.GateRecord, r.IntN(20))
				for k := range in {
					in[k] = abi.GateRecord{ReqKey: r.Uint64(), RawPoll: abi.Poll(r.IntN(5)), Restore: abi.RestoreReady}
				}
				a, err := set.Gate.Run(uint64(i), 1, len(in), len(in), func(b abi.Batch) {
					for k := range in {
						b.PutGate(k, &in[k])
					}
				})
				if err != nil {
					t.Error(err)
					return
				}
				for k := range in {
					if got := a.Batch.GateOut(k).Vote; got != in[k].RawPoll {
						t.Errorf("user %d, call %d, record %d of %d: vote %s, want %s", u, i, k, len(in), got, in[k].RawPoll)
						return
					}
				}
				if err := set.Gate.Refresh(ctx); err != nil {
					t.Error(err)
				}
			}
			s := set.Gate.Stats()
			if traps += s.Faults[plugins.FaultTrap]; traps != 2*(calls/users/2/50) || s.FaultTotal() != s.Faults[plugins.FaultTrap] {
				t.Errorf("user %d: %d traps, %+v; want one in fifty calls and nothing else", u, traps, s)
			}
			if err := set.Close(ctx); err != nil {
				t.Error(err)
			}
			// A call that comes too late is answered natively, and calls no instance.
			if a, err := set.Gate.Run(1, 1, 0, 0, func(abi.Batch) {}); err != nil || !a.Native {
				t.Errorf("a call after the close: %+v, %v", a, err)
			}
		})
	}
	wait.Wait()
	closing(t, host.Close)
	if _, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: module(0)}}, abi.HostInfo{}); err == nil {
		t.Error("a closed host makes a set")
	}
}

// TestS31 loads modules that declare memories around the cap of 64 pages: a larger maximum is cut to the cap, a
// larger start is refused and the refusal names both numbers.
func TestS31DeclaredMemories(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	load := func(min, most uint32) (*plugins.Set, error) {
		m := policyOf(i32(0))
		// The gate asks for 100 pages more and puts what it is told into the first record's vote: 1 for refused.
		m.Bodies[3] = body(outByte(0, 0), op(opLocalGet, 0, opLocalGet, 0, opI32Load, 2, 48, opI32Add), i32(100), op(opGrow, 0), i32(-1), op(opI32Eq, opI32Store8, 0, 0), i32(0))
		m.Memories = []wasmbin.Limit{{Min: min, Max: most, HasMax: true}}
		return host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: m.Encode(), MemoryPages: 64}}, abi.HostInfo{})
	}
	set, err := load(16, 32768)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	if a := runGate(t, set.Gate, gateRecords(1)); a.Fault != nil || a.Batch.GateOut(0).Vote != 1 {
		t.Errorf("growth past the cap: %+v, fault %v; want it refused to the guest", a.Batch.GateOut(0), a.Fault)
	}
	_, err = load(80, 32768)
	if !errors.Is(err, plugins.ErrRejected) || !containsAll(err.Error(), "80", "64", "memory_pages") {
		t.Errorf("a start of 80 pages under a cap of 64: %v", err)
	}
}

func containsAll(s string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// TestS32 loads a Go reactor, a plain module, a command, and a reactor that exits in a call.
func TestS32Initialisation(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	frozen, err := os.ReadFile("../abi/testdata/frozen/v1.0/go.wasm")
	if err != nil {
		t.Fatal(err)
	}
	// initialises counts at 512 how often _initialize has run; the gate's vote is that count.
	initialises := policyOf(code(outWord(0, 512), i32(0)))
	initialises.Functions, initialises.Bodies = append(initialises.Functions, 2), append(initialises.Bodies,
		body(i32(512), i32(512), op(opI32Load, 2, 0), i32(1), op(opI32Add, opI32Store, 2, 0)))
	initialises.Exports = append(initialises.Exports, wasmbin.Export{Name: "_initialize", Index: 4})
	for _, tc := range []struct {
		name string
		wasm []byte
		want func(a plugins.Answer) error
		fix  string // in the refusal
	}{
		{name: "Go reactor", wasm: frozen, want: func(a plugins.Answer) error {
			if a.Fault != nil || a.Batch.GateOut(0).Vote != abi.PollFailed || a.Native {
				return fmt.Errorf("%+v, fault %v", a.Batch.GateOut(0), a.Fault)
			}
			return nil
		}},
		{name: "reactor", wasm: initialises.Encode(), want: func(a plugins.Answer) error {
			if a.Fault != nil || a.Batch.GateOut(0).Vote != 1 {
				return fmt.Errorf("_initialize ran %d times, fault %v", a.Batch.GateOut(0).Vote, a.Fault)
			}
			return nil
		}},
		{name: "plain", wasm: policyOf(i32(0)).Encode(), want: func(a plugins.Answer) error {
			if a.Fault != nil || a.Native {
				return fmt.Errorf("fault %v, native %v", a.Fault, a.Native)
			}
			return nil
		}},
		{name: "command", wasm: changed(func(m *wasmbin.Module) {
			m.Exports = append(m.Exports, wasmbin.Export{Name: "_start", Index: 0})
		}), fix: "-buildmode=c-shared"},
		{name: "exit(0) in a call", wasm: shifted(wasi("proc_exit", 3), code(i32(0), op(opCall, 0), i32(0))), want: func(a plugins.Answer) error {
			if a.Fault == nil || a.Fault.Class != plugins.FaultTrap || !a.Native {
				return fmt.Errorf("fault %v, native %v; want a trap", a.Fault, a.Native)
			}
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: tc.wasm}}, abi.HostInfo{})
			if tc.fix != "" {
				if !errors.Is(err, plugins.ErrRejected) || !strings.Contains(err.Error(), tc.fix) {
					t.Errorf("load: %v, want a refusal that says %q", err, tc.fix)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, set.Close)
			for call := range 3 {
				if err := tc.want(runGate(t, set.Gate, gateRecords(1))); err != nil {
					t.Errorf("call %d: %v", call, err)
				}
				if err := set.Gate.Refresh(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
