package server

import "fmt"

// States of a [ShadowRun].
const (
	ShadowRunning = "running"
	ShadowDone    = "done"      // it has seen all its ticks
	ShadowRefused = "refused"   // it failed, and its set was refused for that
	ShadowCut     = "cut_short" // its set was activated before, or dropped, or the server stops
)

// ShadowRun is what a staged set would have answered in place of the policies in use, on the batches that they were
// given. All counts are sums over the ranks.
type ShadowRun struct {
	State    string                `json:"state"`
	Ticks    int                   `json:"ticks"` // seen on the rank that has seen the fewest; only ticks count in which a hook was asked
	Of       int                   `json:"of"`
	Restarts int                   `json:"restarts,omitempty"` // it began anew: the group has formed again, or other policies came into use
	Hooks    map[string]ShadowHook `json:"hooks"`              // those that the set changes
}

// ShadowHook is what a shadow run has found for one hook.
type ShadowHook struct {
	Records         uint64            `json:"records"`        // answers compared
	Differed        uint64            `json:"differed"`       // of those, the ones that differ
	Skipped         uint64            `json:"skipped"`        // batches that came while too many waited, and were not compared
	Native          uint64            `json:"native_answers"` // batches that the native policy answered in the place of the one in use
	Declined        uint64            `json:"declined"`       // batches that the shadow left to the native policy
	Faults          map[string]uint64 `json:"faults"`         // of the shadow, by class; the native answer was compared
	FirstDifference *ShadowDifference `json:"first_difference,omitempty"`
	Fuel            *ShadowFuel       `json:"fuel,omitempty"` // of metered policies
}

// ShadowDifference is one answer that differs.
type ShadowDifference struct {
	Tick   uint64 `json:"tick"`
	Rank   int    `json:"rank"`
	Key    uint64 `json:"key,omitempty"` // of the request, or for score of the node; 0 for reserve, whose answer is about no single one
	Field  string `json:"field"`
	Live   string `json:"live"` // what the policy in use answered
	Shadow string `json:"shadow"`
}

// String is the difference in words.
func (d *ShadowDifference) String() string {
	key := ""
	if d.Key != 0 {
		key = fmt.Sprintf(", key %d", d.Key)
	}
	return fmt.Sprintf("tick %d, rank %d%s: %s is %s, would have been %s", d.Tick, d.Rank, key, d.Field, d.Live, d.Shadow)
}

// ShadowFuel is what calls spent: the median of the latest ones, and the most. 0: none was metered.
type ShadowFuel struct {
	Median     uint64 `json:"p50"`
	Most       uint64 `json:"max"`
	LiveMedian uint64 `json:"live_p50"`
	LiveMost   uint64 `json:"live_max"`
}
