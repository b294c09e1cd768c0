package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"sluice/abi"
	"sluice/internal/config"
	"sluice/internal/log"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/replay"
	"sluice/runtime/schedule"
)

func runReplay(cmd *cobra.Command, env *environment, f *replayFlags) error {
	if err := f.check(); err != nil {
		return usage(err)
	}
	columns, err := f.columns()
	if err != nil {
		return usage(err)
	}
	trace, err := f.read(env)
	if err != nil {
		return usage(err)
	}
	logger, err := log.New(env.stderr, "warn", "text")
	if err != nil {
		return err
	}
	results := make([]*replay.Result, len(columns))
	for i := range columns {
		if results[i], err = f.run(cmd.Context(), env, logger, &columns[i], trace); err != nil {
			if len(columns) > 1 {
				err = fmt.Errorf("%s: %w", columns[i].name, err)
			}
			return err
		}
	}
	switch {
	case f.asJSON && len(columns) == 1:
		return sayJSON(env, results[0])
	case f.asJSON:
		return sayJSON(env, replayColumns(columns, results))
	}
	return printReplay(env.stdout, columns, results)
}

// run replays the trace under the policies of a column.
func (f *replayFlags) run(ctx context.Context, env *environment, logger *slog.Logger, c *column, trace []replay.TraceRequest) (*replay.Result, error) {
	bench := newPolicyBench(cacheDir(config.Default(), env, logger), logger,
		abi.HostInfo{PageSize: uint32(f.o.PageSize), TotalTokens: uint64(f.o.L1Tokens), Ranks: uint32(f.o.Ranks)})
	o := f.o
	o.Score = slices.ContainsFunc(c.specs, func(s plugins.Spec) bool { return s.Hook == abi.Score && !plainLRU(&s) })
	var infos []plugins.Info
	var sets []*plugins.Set
	var first *plugins.Set // rank 0's
	o.ReasonText = func(k schedule.FinishKind, r abi.Reason) string { return rank.ReasonText(first, k, r) }
	o.Hooks = func(r int) (rank.Hooks, error) {
		h, set, err := bench.hooks(ctx, "replay", c.specs, r)
		sets = append(sets, set)
		if err == nil && r == 0 {
			infos, first = set.Infos(), set
		}
		if errors.Is(err, plugins.ErrRejected) {
			err = usage(err)
		}
		return h, err
	}
	// A policy that failed is back in the next tick, as it soon is where it runs for real.
	o.Refresh = func(r int, _ uint64) error {
		for _, h := range configured() {
			if err := sets[r].Runner(h).Refresh(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	start := env.clock.Now()
	res, err := replay.Run(trace, o)
	wall := env.clock.Now() - start
	if err := errors.Join(err, bench.close(ctx)); err != nil {
		return nil, err
	}
	res.WallSeconds = wall.Seconds()
	for _, i := range infos {
		p := res.Policies[i.Hook.String()]
		p.Name, p.SHA256, p.Engine = i.Name, i.SHA256, i.Engine.String()
		res.Policies[i.Hook.String()] = p
		if p.Faults > 0 {
			who := "a policy failed and its native fallback answered"
			if o.HoldOnFault[schedule.Lane(i.Hook)] {
				who = "a policy failed and nothing was decided in its place"
			}
			logger.Warn(who, "hook", i.Hook.String(), "policy", i.Name, "ticks", p.Faults, "quarantined", p.Quarantined)
		}
	}
	return res, nil
}

// replayColumn is one run of several in the JSON report.
type replayColumn struct {
	Name string `json:"name"` // the policies that the columns differ in
	*replay.Result
}

func replayColumns(columns []column, results []*replay.Result) any {
	out := struct {
		Columns []replayColumn `json:"columns"`
	}{}
	for i := range columns {
		out.Columns = append(out.Columns, replayColumn{columns[i].name, results[i]})
	}
	return out
}

func sayJSON(env *environment, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return say(env, string(b)+"\n")
}
