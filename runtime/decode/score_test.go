package decode

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/server"
)

// An instance that was started with plain LRU has no lanes for a score policy: a push of one is refused and says what to
// do, and one of lru changes nothing and is taken. An instance that asks score takes any.
func TestScoreIsPushedOnlyWhereItIsAsked(t *testing.T) {
	for _, c := range []struct {
		name    string
		asked   bool
		policy  string
		refused bool
	}{{"plain lru, lfu", false, "lfu", true}, {"plain lru, lru", false, "lru", false}, {"asked, lfu", true, "lfu", false}} {
		t.Run(c.name, func(t *testing.T) {
			r := newSwapRig(t, func(o *Options) {
				o.Schedule.Score = c.asked
				o.Policies.Specs = []plugins.Spec{{Hook: abi.Score, Builtin: "lru", Native: true}}
			})
			r.ready()
			s, err := r.Stage(context.Background(), builtin("score", c.policy))
			if c.refused {
				if !errors.Is(err, server.ErrPolicyRefused) || !strings.Contains(err.Error(), "[policy.score]") {
					t.Errorf("error %v, want a refusal that names the section", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Activate(context.Background(), s.ID); err != nil {
				t.Fatal(err)
			}
			if got := r.active("score").Name; got != c.policy {
				t.Errorf("in use is %q, want %q", got, c.policy)
			}
		})
	}
}
