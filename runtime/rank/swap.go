package rank

import (
	"fmt"
	"slices"

	"sluice/runtime/schedule"
)

// swaps are the policies that a rank has beside the ones in use. The rank's goroutine owns them.
type swaps struct {
	epoch   uint64   // of Options.Hooks, the ones in use
	staged  []staged // by epoch, all above the one in use
	retired []uint64 // epochs that were in use or passed over since TakeRetired
}

// staged are the hooks of one policy epoch, ready to answer.
type staged struct {
	epoch uint64
	hooks Hooks
}

// Stage makes h the policies of a policy epoch above all earlier ones. Their instances must be ready: from the next
// ballot on this rank reports the epoch, and once every rank does all of them switch in the same tick. Each rank stages
// the same epochs in the same order, so that a rank that reports one epoch holds those below it too. The hooks belong to
// the rank until TakeRetired or Withdraw gives the epoch back. It is called between ticks, by the goroutine of the rank.
func (r *Rank) Stage(epoch uint64, h Hooks) error {
	if what := h.missing(r.o.Schedule.Score); what != "" {
		return fmt.Errorf("rank %d: policy epoch %d: %s", r.o.Rank, epoch, what)
	}
	if last := r.Ready(); epoch <= last {
		return fmt.Errorf("rank %d: policy epoch %d is not above %d, which is staged or in force; number it higher", r.o.Rank, epoch, last)
	}
	r.swaps.staged = append(r.swaps.staged, staged{epoch, h})
	return nil
}

// Withdraw takes back what was staged as an epoch, and as every epoch above it. It says whether there was such an
// epoch: not where the group has switched to it already, or it was never staged. Before another epoch is staged anywhere
// the withdrawal must be done on every rank, or the lowest epoch ready could be one that some rank holds no more.
func (r *Rank) Withdraw(epoch uint64) bool {
	i := slices.IndexFunc(r.swaps.staged, func(s staged) bool { return s.epoch == epoch })
	if i < 0 {
		return false
	}
	clear(r.swaps.staged[i:])
	r.swaps.staged = r.swaps.staged[:i]
	return true
}

// Ready is the highest policy epoch whose policies this rank has ready; the one in force where none is staged. It is
// what the next ballot reports.
func (r *Rank) Ready() uint64 {
	if n := len(r.swaps.staged); n > 0 {
		return r.swaps.staged[n-1].epoch
	}
	return r.sched.PolicyEpoch()
}

// TakeRetired appends to dst the policy epochs whose hooks the rank uses no more since the last call, in the order in
// which they went. Who staged them may keep the last one warm, to stage it again under a new epoch, and closes the others
// off the tick.
func (r *Rank) TakeRetired(dst []uint64) []uint64 {
	dst = append(dst, r.swaps.retired...)
	r.swaps.retired = r.swaps.retired[:0]
	return dst
}

// flip puts the hooks of the epoch that the group has agreed on in use.
func (r *Rank) flip(f *schedule.Effect) {
	w := &r.swaps
	found := f.Value == w.epoch
	gone := 0
	for i := range w.staged {
		s := &w.staged[i]
		if s.epoch > f.Value {
			break
		}
		gone++
		if s.epoch < f.Value {
			w.retired = append(w.retired, s.epoch)
			continue
		}
		found = true
		w.retired = append(w.retired, w.epoch)
		if s.hooks.of != nil && r.o.Hooks.of != nil && s.hooks.of != r.o.Hooks.of {
			s.hooks.of.takeOver(r.o.Hooks.of)
		}
		w.epoch, r.o.Hooks = s.epoch, s.hooks
		r.log.Info("policies switched", "policy_epoch", f.Value, "tick", r.sched.Tick()-1)
	}
	w.staged = slices.Delete(w.staged, 0, gone)
	if !found {
		// Only a ballot that was altered on its way can bring this about. What is in use goes on; where its answers
		// differ from the other ranks', the digests say so.
		r.counts.EffectErrors++
		r.log.Error("the group has switched to a policy epoch that this rank does not hold", "policy_epoch", f.Value, "in_use", w.epoch)
	}
	r.o.Hooks.Gate.Start(f.Generation)
	r.o.Hooks.Reserve.Start(f.Generation)
	r.o.Hooks.Admit.Start(f.Generation)
	if r.o.Hooks.Score != nil {
		r.o.Hooks.Score.Start(f.Generation)
	}
}
