package decode

import (
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/abi"
	"sluice/internal/clock"
	"sluice/plugins"
)

// slowEvery is in how many ticks one slow call of a hook is logged, whichever rank's it is.
const slowEvery = 100

// slowCalls raise an alarm over policy calls that take long on the clock. They judge nothing: fuel alone says what a policy
// may spend, the same on every rank, and a call that a busy machine has slowed down stands like any other. The ranks of an
// instance share one.
type slowCalls struct {
	clock clock.Clock
	limit time.Duration // a call that takes longer is slow
	hooks [abi.Score + 1]slowTally
}

// slowTally is what is known of one hook, over all ranks and all sets.
type slowTally struct {
	calls   atomic.Uint64 // slow ones
	longest atomic.Int64  // call, in nanoseconds
	logged  atomic.Uint64 // tick of the last line, plus one; 0: there was none
	omitted atomic.Uint64 // slow calls since that line
}

// newSlowCalls is nil, for no alarm, where limit is 0 or less.
func newSlowCalls(c clock.Clock, limit time.Duration) *slowCalls {
	if limit <= 0 {
		return nil
	}
	return &slowCalls{clock: c, limit: limit}
}

// note takes down a call of r that has just been answered. The goroutine of r's rank calls it. It allocates only for a line.
func (s *slowCalls) note(log *slog.Logger, r *plugins.Runner, tick uint64, n int, fuel uint64, took time.Duration) {
	t := &s.hooks[r.Hook()]
	for old := t.longest.Load(); int64(took) > old; old = t.longest.Load() {
		if t.longest.CompareAndSwap(old, int64(took)) {
			break
		}
	}
	if took <= s.limit {
		return
	}
	r.Slow()
	t.calls.Add(1)
	if !t.due(tick) {
		t.omitted.Add(1)
		return
	}
	log.Warn("slow policy call; its answer stands", "hook", r.Hook().String(), "policy", r.Policy(), "tick", tick, "took", took, "limit", s.limit,
		"records", n, "fuel", fuel, "omitted", t.omitted.Swap(0))
}

// due says whether a slow call of this tick is to be logged. The ticks of a group that has formed again begin anew, so only
// those near the last line's are quiet.
func (t *slowTally) due(tick uint64) bool {
	last := t.logged.Load()
	if last > 0 && tick+1 < last+slowEvery && last < tick+1+slowEvery {
		return false
	}
	return t.logged.CompareAndSwap(last, tick+1) // of two ranks in one tick, one logs
}

// slow are the slow calls of a hook and the longest call, in seconds. A nil receiver has counted none.
func (s *slowCalls) slow(h abi.Hook) (calls uint64, longest float64) {
	if s == nil {
		return 0, 0
	}
	t := &s.hooks[h]
	return t.calls.Load(), time.Duration(t.longest.Load()).Seconds()
}
