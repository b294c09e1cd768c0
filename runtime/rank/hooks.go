package rank

import (
	"sluice/abi"
	"sluice/runtime/schedule"
)

// Hook answers the batches of one policy hook on one rank.
type Hook interface {
	// Ask has encode fill a fresh batch and returns it answered. valid is false when the policy faulted; for gate and
	// reserve the answers are then the native policy's, or hold what they can, for admit and score they count for nothing.
	Ask(tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (b abi.Batch, valid bool)
	// Generation is the generation of the instance that is ready to answer.
	Generation() uint64
	// Discard throws the instance away; its successor is to be made ready as generation g, off the tick. diverged says
	// that its answer was valid and not that of the other ranks.
	Discard(g uint64, diverged bool)
	// Disable makes the native policy answer until Start.
	Disable()
	// Start has the instance answer as generation g from the next Ask on. It comes with every policy epoch.
	Start(g uint64)
}

// Hooks are the policies of one rank. Score is needed only where the schedule asks it.
type Hooks struct {
	Gate, Reserve, Admit, Score Hook

	of *Policies // whose they are; nil where no state can be handed on
}

// missing says which hook is needed and not there, empty where none is.
func (h *Hooks) missing(score bool) string {
	switch {
	case h.Gate == nil || h.Reserve == nil || h.Admit == nil:
		return "gate, reserve and admit are all needed"
	case score && h.Score == nil:
		return "score is needed too: the schedule asks it"
	}
	return ""
}

// askReserve fills the budget lane. With nothing in transfer there is nothing to hold back and nobody is asked.
func (r *Rank) askReserve(b *schedule.Ballot) {
	s := r.sched
	n := len(r.polls)
	if n == 0 {
		s.SetHook(b, abi.Reserve, true)
		s.SetBudget(b, 0)
		return
	}
	answer, valid := r.o.Hooks.Reserve.Ask(s.Tick(), s.PolicyEpoch(), n, 1, r.encodeReserve)
	s.SetHook(b, abi.Reserve, valid)
	if s.SetBudget(b, answer.ReserveOut().HeldTokens) {
		r.counts.Rails[schedule.OverCapacity]++
	}
}

func (r *Rank) askAdmit(b *schedule.Ballot) {
	s := r.sched
	n, nOut := s.AdmitBatch()
	r.prop.Admit = r.prop.Admit[:0]
	valid := true
	if n > 0 && s.PolicyAnswers(abi.Admit) {
		answer, ok := r.o.Hooks.Admit.Ask(s.Tick(), s.PolicyEpoch(), n, nOut, r.encodeAdmit)
		if valid = ok; ok {
			r.prop.Admit = append(r.prop.Admit, answer.Out...)
		}
	}
	s.SetHook(b, abi.Admit, valid)
	s.SetAdmit(b, r.prop.Admit, r.o.Hooks.Admit.Generation())
}

// askScore has the score policy give keys to the nodes that the schedule shows, where it shows any.
func (r *Rank) askScore(b *schedule.Ballot) {
	if !r.o.Schedule.Score {
		return
	}
	s := r.sched
	r.prop.Score = r.prop.Score[:0]
	valid := true
	if n := s.ScoreBatch(); n > 0 && s.PolicyAnswers(abi.Score) {
		answer, ok := r.o.Hooks.Score.Ask(s.Tick(), s.PolicyEpoch(), n, n, r.encodeScore)
		if valid = ok; ok {
			r.prop.Score = append(r.prop.Score, answer.Out...)
		}
	}
	s.SetHook(b, abi.Score, valid)
	s.SetScore(b, r.prop.Score, r.o.Hooks.Score.Generation())
}
