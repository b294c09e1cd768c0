package replay

import (
	"fmt"
	"slices"

	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// staging is a set of policies that becomes ready on a rank at a tick: compiling and instantiating are simulated
// operations, done outside virtual time.
type staging struct {
	rank  int
	tick  uint64
	epoch uint64
	hooks rank.Hooks
}

// Flip is a rank's switch to a policy epoch.
type Flip struct {
	Rank       int
	Tick       uint64
	Epoch      uint64
	Generation uint64 // of the instances in use from then on
}

// StageAt has policies become ready on a rank at the start of a tick, as a policy epoch; see rank.Rank.Stage. The group
// switches in the tick in which the last rank reports them.
func (w *World) StageAt(rank int, tick, epoch uint64, h rank.Hooks) {
	w.staging = append(w.staging, staging{rank, tick, epoch, h})
}

// Flips are the switches to other policies so far, of all ranks, in order. The list is the World's.
func (w *World) Flips() []Flip { return w.flips }

// stage hands a rank what is ready there by now.
func (w *World) stage(r int) error {
	for {
		i := slices.IndexFunc(w.staging, func(s staging) bool { return s.rank == r && s.tick <= w.tick })
		if i < 0 {
			return nil
		}
		s := w.staging[i]
		w.staging = slices.Delete(w.staging, i, i+1)
		if err := w.ranks[r].Stage(s.epoch, s.hooks); err != nil {
			return fmt.Errorf("tick %d: %w", w.tick, err)
		}
	}
}

// noteFlip notes a rank's switch. A resync repeats the epoch in force, which is none.
func (w *World) noteFlip(r int, f *schedule.Effect) {
	for _, e := range slices.Backward(w.flips) {
		if e.Rank == r {
			if e.Epoch == f.Value {
				return
			}
			break
		}
	}
	if f.Value > 0 {
		w.flips = append(w.flips, Flip{r, w.tick, f.Value, f.Generation})
	}
}
