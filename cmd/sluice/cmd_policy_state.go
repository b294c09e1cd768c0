package main

import (
	"context"
	"fmt"
	"strings"

	"sluice/plugins"
	"sluice/plugins/kit"
)

// handingOnBatches is how many random batches a policy answers before its state is handed on, and how many after.
const handingOnBatches = 400

// checkHandingOn tries what a change of policies does with a policy that saves its state: a successor that has loaded it
// must answer as the policy itself goes on to.
func (f *checkFlags) checkHandingOn(ctx context.Context, env *environment, m *plugins.Module, v *verdict) error {
	if _, _, named := m.StateSchema(); named != m.HandsOn() {
		if named {
			v.warn("the manifest names a state schema, the module exports no sluice_state_save and sluice_state_load: a change of policies starts the successor from nothing")
		} else {
			v.warn("the module saves its state, its manifest names no schema: no successor loads it; set [state] in manifest.toml")
		}
		return nil
	}
	results, err := f.layout.HandOn(ctx, m, kit.FuzzOptions{Options: f.options(), Seed: f.seed, Runs: handingOnBatches})
	if err != nil {
		return err
	}
	for _, r := range results {
		text := fmt.Sprintf("state    %s: %d bytes after %d batches", r.Class, r.Bytes, handingOnBatches)
		if len(r.Problem) == 0 {
			text += fmt.Sprintf("; a successor that loads them gives the same answers to %d more", r.Batches)
		} else {
			v.problem("a successor does not go on as the policy does: %s", strings.Join(r.Problem, "; "))
		}
		if err := say(env, text+"\n"); err != nil {
			return err
		}
	}
	return nil
}
