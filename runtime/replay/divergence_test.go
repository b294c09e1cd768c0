package replay

import (
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/rank"
)

// An admit whose answers depend on the rank is booked as a divergence on every rank, apart from the faults of a policy that
// answers nothing, and quarantined like those. The ranks stay together.
func TestDivergenceIsAFaultOfItsOwn(t *testing.T) {
	cfg := simConfig(2, 4, 64, 0)
	var sets []*plugins.Set
	cfg.Hooks = func(r int) (rank.Hooks, error) {
		set, err := plugins.NewNativeSet(standard.Config{Gate: "restore-gated", Reserve: "until-retired", Admit: "greedy"})
		if err != nil {
			return rank.Hooks{}, err
		}
		set.Admit, err = callerRunner(abi.Admit, "greedy", func() plugins.Caller {
			return plugins.NewNative(plugins.NativePolicy{Admit: func(b guest.AdmitBatch) int32 {
				for i := range b.Candidates() {
					b.Set(i, abi.Verdict(r), i) // rank 0 defers what rank 1 admits
				}
				return int32(abi.StatusOK)
			}})
		})
		sets = append(sets, set)
		p := rank.NewPolicies(set, nil)
		return p.Hooks(), err
	}
	cfg.Refresh = func(r int, _ uint64) error { return sets[r].Admit.Refresh(t.Context()) }
	s := newSim(t, cfg)
	for i := range 12 {
		s.add(1000*i, 8, 2)
		s.steps(4)
	}
	s.untilIdle()
	for r := range 2 {
		n, sched := sets[r].Admit.Stats(), s.ranks[r].Schedule()
		if n.Faults[plugins.FaultDivergence] != 3 || n.FaultTotal() != 3 || sched.Faults(abi.Admit) != 3 || !sched.Quarantined(abi.Admit) {
			t.Errorf("rank %d: %+v, %d faults, quarantined %v; want three divergences and a quarantine", r, n.Faults, sched.Faults(abi.Admit), sched.Quarantined(abi.Admit))
		}
	}
}
