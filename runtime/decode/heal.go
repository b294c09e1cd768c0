package decode

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/collective"
	"sluice/runtime/schedule"
)

// A group is made equal again at most healLimit times in healWindow ticks; more often, something makes it part
// again each time, and it is formed anew from empty state.
const (
	healLimit  = 3
	healWindow = 1000
)

// heal makes the ranks equal again after an exchange that found them parted and applied nothing. All ranks come
// here in the same tick, since all read the same reduced header or get the same shape error. What cannot be healed
// is returned with its cause, and ends the group.
func (g *group) heal(ctx context.Context, m *member, cause error) error {
	var mismatch *schedule.Mismatch
	var shape *collective.ShapeError
	if !errors.As(cause, &mismatch) && !errors.As(cause, &shape) {
		return cause
	}
	m.heals = slices.DeleteFunc(m.heals, func(at uint64) bool { return m.turns-at >= healWindow })
	if len(m.heals) >= healLimit {
		return fmt.Errorf("%w (after %d resyncs in %d ticks)", cause, healLimit, healWindow)
	}
	m.heals = append(m.heals, m.turns)
	m.r.BeginResync()
	for !m.r.ResyncDone() {
		if err := m.ex.Min(ctx, m.r.FillResync()); err != nil {
			return fmt.Errorf("%w; resync: %w", cause, err)
		}
		m.r.TakeResync()
	}
	if err := m.r.FinishResync(); err != nil {
		return fmt.Errorf("%w; resync: %w", cause, err)
	}
	g.in.policies.resynced()
	if m.rank != 0 {
		return nil
	}
	g.in.o.Logger.Error("the ranks had diverged and are equal again", "epoch", m.r.Schedule().Epoch(), "error", cause)
	if m.r.Schedule().NumPeers() == 0 {
		for _, p := range g.f.Peers {
			g.leader.Add(schedule.AppendPeer(nil, p.ID, p.Incarnation))
		}
	}
	g.deliver(m)
	return nil
}
