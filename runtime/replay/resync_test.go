package replay

import (
	"fmt"
	"testing"
	"time"

	"sluice/abi"
	"sluice/collective"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// A bug is imposed on rank 1: it reads another value in its copy of one reduced ballot. The group must notice in the
// next exchange, lose only the requests it cannot agree on, and serve on.
func TestAGroupSurvivesADivergence(t *testing.T) {
	const leaderFixed = 264 // time and urgent slot
	for name, edit := range map[string]func(r *rank.Rank, v *collective.Vector) bool{
		"another token": func(r *rank.Rank, v *collective.Vector) bool {
			if r.Schedule().NumStep() == 0 {
				return false
			}
			v.Leader[leaderFixed] ^= 1
			return true
		},
		"a failed transfer": func(r *rank.Rank, v *collective.Vector) bool {
			if r.Schedule().NumTransfer() == 0 {
				return false
			}
			v.U32[r.Schedule().NumHandshake()] = uint32(schedule.Failed)<<28 | uint32(abi.ReasonTransferFailed)<<16
			return true
		},
		"an abort": func(r *rank.Rank, v *collective.Vector) bool {
			if r.Schedule().NumStep() == 0 {
				return false
			}
			v.Leader[8], v.Leader[16] = 1, byte(r.Schedule().Step(0).Request)
			return true
		},
		"an operation that ended early": func(r *rank.Rank, v *collective.Vector) bool {
			n := r.Schedule().NumOperations()
			if n == 0 || v.U32[len(v.U32)-n] != 0 {
				return false
			}
			v.U32[len(v.U32)-n] = 1
			return true
		},
	} {
		for _, hold := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hold %v", name, hold), func(t *testing.T) { survives(t, edit, hold) })
		}
	}
}

// survives has one rank's copy of a ballot edited once. hold: nothing is admitted until the successors of the instances
// that a resync discards answer.
func survives(t *testing.T, edit func(r *rank.Rank, v *collective.Vector) bool, hold bool) {
	var held [schedule.NumHooks]bool
	held[schedule.Lane(abi.Admit)] = hold
	done, skip := false, 16 // requests of every stage are there by then
	second := false
	w, err := New(WorldConfig{
		Schedule: schedule.Config{Ranks: 2, PageSize: 4, L1Pages: 48, L2Pages: 96, MaxRunning: 8, MetadataSlots: 16, MaxNewTokens: 64,
			MaxQueue: 64, Overcommit: 1, HoldTicks: 100, StarveTicks: 100, AdmitWindow: 16, Operations: 16, LoadFailures: 3,
			Quarantine: schedule.QuarantineAll(3, 100), HoldOnFault: held, IngressSlice: 4096, EOS: schedule.NoToken, AdmitNative: "greedy"},
		Model: model.Shape{Layers: 1, BytesPerTokenLayer: 8, PageSize: 4, Shards: 2}, Vocab: 151936, Tick: time.Millisecond,
		Hooks: func(int) (rank.Hooks, error) {
			set, err := plugins.NewNativeSet(standard.Config{Admit: "greedy"})
			if err != nil {
				return rank.Hooks{}, err
			}
			return rank.NewPolicies(set, nil).Hooks(), nil
		},
		Delay:  func(int) host.Delay { return func(host.Op, int) uint64 { return 3 } },
		Script: transfer.Pace{Total: 3 * time.Millisecond}.Script(), TransferTicks: 500, DrainTicks: 100, Resync: true,
		Edit: func(r *rank.Rank, own, v *collective.Vector) {
			// The imposed bug is the second rank's alone.
			if skip--; second && !done && skip < 0 {
				done = edit(r, v)
			}
			second = !second
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var ids []uint64
	for i := range 6 {
		tokens := make([]uint32, 10+i)
		for k := range tokens {
			tokens[k] = uint32(1000*(i/2) + k)
		}
		ids = append(ids, w.Submit(Request{Namespace: "n", Tokens: tokens, Limit: 12}))
		if _, err := w.Run(4, func() bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := w.Run(2000, func() bool { return w.Live() == 0 && w.Idle() }); err != nil || !ok {
		t.Fatalf("not over: %v", err)
	}
	if !done || w.Resyncs != 1 {
		t.Fatalf("imposed: %v, resyncs: %d, want one", done, w.Resyncs)
	}
	served := 0
	for _, id := range ids {
		switch o := w.Outcome(id); {
		case o.Ends[0].Kind == schedule.FinishLength:
			served++
		case o.Ends[0].Kind == schedule.FinishFailed:
		default:
			t.Errorf("request %d ended as %+v", id, o.Ends)
		}
	}
	if served == 0 {
		t.Error("nothing survived")
	}
	for r := range 2 {
		s := w.Rank(r).Schedule()
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		if b := s.Books(0); b.Free+b.Evictable != b.Total() {
			t.Errorf("rank %d: %+v with nothing queued", r, b)
		}
		if s.Digest() != w.Rank(0).Schedule().Digest() {
			t.Errorf("rank %d still differs", r)
		}
	}
	if w.FreedUnderWriter != 0 {
		t.Errorf("%d pages were freed under a writer", w.FreedUnderWriter)
	}
	again := w.Submit(Request{Namespace: "n", Tokens: []uint32{1, 2, 3, 4, 5}, Limit: 3})
	if ok, err := w.Run(200, func() bool { return w.Outcome(again).Done() }); err != nil || !ok || w.Outcome(again).Ends[0].Kind != schedule.FinishLength {
		t.Errorf("a request after it: %+v, %v", w.Outcome(again), err)
	}
}
