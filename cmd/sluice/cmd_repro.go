package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/abi"
	"sluice/cmd/sluice/internal/repro"
	"sluice/internal/config"
	"sluice/internal/log"
	"sluice/plugins"
	"sluice/runtime/rank"
)

func newReproCommand(env *environment) *cobra.Command {
	var asJSON, skipOffsets bool
	var engine string
	cmd := &cobra.Command{
		Use:   "repro",
		Short: "Run the experiment of the original bug report, side by side for four behaviours",
		Long: `Run the experiment of the original bug report in virtual time: one prefill and one decode instance of two ranks,
a prefix cache with a host tier, and one load back that fails on one rank. The columns differ in what the ranks do about it.
Exit status 0 means that the experiment shows what it should, 1 that it does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			native := engine == config.EngineNative
			if !native && engine != config.EngineWasm {
				return usage(fmt.Errorf("--engine %q: must be %s or %s", engine, config.EngineWasm, config.EngineNative))
			}
			logger, err := log.New(env.stderr, "warn", "text")
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			bench := newPolicyBench(cacheDir(config.Default(), env, logger), logger, abi.HostInfo{})
			r, err := repro.Run(repro.Options{SkipOffsets: skipOffsets, Hooks: func(p repro.Policies, r int) (rank.Hooks, error) {
				specs := []plugins.Spec{{Hook: abi.Gate, Builtin: p.Gate, Native: native},
					{Hook: abi.Reserve, Builtin: p.Reserve, Native: native}, {Hook: abi.Admit, Builtin: p.Admit, Native: native}}
				h, _, err := bench.hooks(ctx, p.Gate+","+p.Reserve+","+p.Admit, specs, r)
				return h, err
			}})
			if err := errors.Join(err, bench.close(ctx)); err != nil {
				return err
			}
			if asJSON {
				b, err := json.MarshalIndent(r, "", "  ")
				if err != nil {
					return err
				}
				if err := say(env, string(b)+"\n"); err != nil {
					return err
				}
			} else if err := r.Print(env.stdout); err != nil {
				return err
			}
			return r.Check()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON; its names are in the README")
	cmd.Flags().BoolVar(&skipOffsets, "skip-offsets", false, "leave out the second part, the failure at every offset")
	cmd.Flags().StringVar(&engine, "engine", config.EngineWasm, "run the policies as wasm or native")
	return cmd
}
