package replay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/collective"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// asked is what a gate policy was shown of one request, and what it said.
type asked struct {
	raw     abi.Poll
	restore abi.RestoreStatus
	vote    abi.Poll
	staged  bool
}

// TestBothReceivePathsPassTheOneGate runs requests whose data is there before their restores are, on the direct path
// and through the staging ring, with policies that say Success to everything or Failed to everything. Every lane of
// every ballot is what the gate makes of raw poll, vote and restore status; a raw Success beside a pending restore is
// Transferring, whatever the policy says.
func TestBothReceivePathsPassTheOneGate(t *testing.T) {
	for _, shards := range []int{2, 1} {
		for _, vote := range []abi.Poll{abi.PollSuccess, abi.PollFailed, abi.PollBootstrapping} {
			t.Run(fmt.Sprintf("prefill shards %d/vote %v", shards, vote), func(t *testing.T) {
				var shown [2][]asked
				honest := true // while the prefix is brought into the host tier
				cfg := simConfig(2, 4, 16, 40)
				cfg.PrefillShards, cfg.RingPages = shards, 8
				cfg.Schedule.HoldTicks, cfg.Schedule.Quarantine = 60, schedule.QuarantineAll(1000, 1000)
				cfg.Hooks = nativesWith(func(r int) plugins.NativePolicy {
					return plugins.NativePolicy{Gate: func(b guest.GateBatch) int32 {
						shown[r] = shown[r][:0]
						for i := range b.Len() {
							in := b.At(i)
							say := vote
							if honest {
								say = in.RawPoll()
							}
							b.SetVote(i, say)
							shown[r] = append(shown[r], asked{in.RawPoll(), in.Restore(), say, in.Flags()&abi.GateFlagStaged != 0})
						}
						return int32(abi.StatusOK)
					}}
				})
				var s *sim
				early, lanes := 0, 0
				cfg.Edit = func(k *rank.Rank, own, _ *collective.Vector) {
					if s == nil {
						return
					}
					r := slices.Index(s.ranks, k)
					n := k.Schedule().NumTransfer()
					if n > 0 && n != len(shown[r]) {
						t.Fatalf("tick %d, rank %d: %d entries have lanes, the gate was shown %d", s.tick, r, n, len(shown[r]))
					}
					for i := range n {
						a, got := shown[r][i], lane(k, own, i)
						want, _ := schedule.Clamp(a.raw, a.vote, a.restore)
						lanes++
						if got != want {
							t.Errorf("tick %d, rank %d: raw %v, restore %v, vote %v: the lane is %v, want %v", s.tick, r, a.raw, a.restore, a.vote, got, want)
						}
						if a.raw == abi.PollSuccess && a.restore == abi.RestorePending {
							early++
							if got != schedule.Transferring {
								t.Errorf("tick %d, rank %d: raw Success beside a pending restore is %v in the ballot", s.tick, r, got)
							}
						}
						if a.raw >= abi.PollTransferring && a.staged != (shards != 2) {
							t.Errorf("staged %v with %d prefill shards", a.staged, shards)
						}
					}
				}
				s = newSim(t, cfg)
				s.warm(0, 8)
				s.demote()
				honest = false
				s.script.chunk = func(transfer.Key, int) transfer.Chunk { return transfer.Chunk{At: 3 * time.Millisecond} }
				for r := range 2 {
					s.inject(r, host.Fault{Kind: host.Load, DelayTicks: 20 + 5*r})
				}
				a := s.add(0, 18, 3)
				s.until("its end", s.done(a))
				switch vote {
				case abi.PollFailed:
					// Failed on a healthy request fails it, with the policy's reason or that it gave up.
					s.wantEnd(a, schedule.FinishFailed, abi.ReasonGiveUp)
				default:
					s.wantEnd(a, schedule.FinishLength, abi.ReasonNone)
					s.wantTokens(a, 3)
				}
				s.untilIdle()
				if early < 20 {
					t.Errorf("%d lanes of %d were those of early data: the test does not bite", early, lanes)
				}
			})
		}
	}
}
