package schedule

import (
	"slices"

	"sluice/abi"
)

// flip is step 10: the lowest policy epoch that every rank has ready, if above the one in force. Every rank holds the
// instances of that epoch, so they are in use from the next tick on, with a clean sheet: what their predecessors did is
// not theirs to answer for. The judgement of this tick's answers comes before, and is the predecessors'.
func (s *Scheduler) flip(b *Ballot, e *Effects) {
	ready := slices.Min(b.U64[fieldReady*s.cfg.Ranks : (fieldReady+1)*s.cfg.Ranks])
	if ready <= s.policyEpoch {
		return
	}
	s.policyEpoch = ready
	g := s.generation() + 1
	for h := range s.hooks {
		k := &s.hooks[h]
		k.quarantined, k.down, k.generation = false, false, g
		k.faults, k.rails, k.passed = k.faults[:0], k.rails[:0], 0
	}
	s.resetScores()
	s.note(0x65706f63, ready)
	e.add(Effect{Kind: EffectPolicyEpoch, Value: ready, Generation: g})
}

// generation is the latest generation that any hook's instance has had, or is wanted in.
func (s *Scheduler) generation() uint64 {
	g := uint64(1)
	for h := range s.hooks {
		g = max(g, s.hooks[h].generation)
	}
	return g
}

// hookOf is the hook of a validity lane.
func hookOf(lane int) abi.Hook {
	return [numHooks]abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score}[lane]
}
