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
// must answer as the policy itself goes on to. What does not save and load, or names no schema, is checkManifest's.
func (f *checkFlags) checkHandingOn(ctx context.Context, env *environment, m *plugins.Module, v *verdict) error {
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
		if r.Changed != "" {
			v.warn("%s: what a successor has loaded is not what it saves again: %s; right where the load means to change the state, such as one that counts migrations, "+
				"else it loads or saves only a part", r.Class, r.Changed)
		}
		if err := say(env, text+"\n"); err != nil {
			return err
		}
	}
	return nil
}
