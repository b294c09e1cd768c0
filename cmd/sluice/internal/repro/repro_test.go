package repro

import (
	"strings"
	"testing"

	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/rank"
)

func nativeHooks(p Policies, _ int) (rank.Hooks, error) {
	set, err := plugins.NewNativeSet(standard.Config{Gate: p.Gate, Reserve: p.Reserve, Admit: p.Admit})
	if err != nil {
		return rank.Hooks{}, err
	}
	return rank.NewPolicies(set, nil).Hooks(), nil
}

func TestTheReportedFaultAndItsAbsence(t *testing.T) {
	r, err := Run(Options{Hooks: nativeHooks, EveryTick: !testing.Short()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	for _, o := range r.Offsets {
		// The failing rank's own shard is in flight exactly before its raw Success.
		if freed := o.PagesFreedUnderWriter > 0; o.Name == RankLocal && freed != (o.Offset < 0) {
			t.Errorf("%s at offset %d: %d pages freed under a writer", o.Name, o.Offset, o.PagesFreedUnderWriter)
		}
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil || !strings.Contains(text.String(), "round 2 served (load back fails)   0/24            24/24, 1 retry") {
		t.Errorf("printed: %v\n%s", err, &text)
	}
}
