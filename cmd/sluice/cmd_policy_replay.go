package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/abi"
	"sluice/internal/files"
	"sluice/plugins"
	"sluice/plugins/kit"
)

func newPolicyReplayCommand(env *environment) *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "replay BATCHES A.wasm [B.wasm]",
		Short: "Ask one or two policies for answers to recorded batches and show the first tick at which they differ",
		Long: `Ask one or two policies for answers to recorded batches, a file that sluice serve --record wrote, and show the first tick at
which they differ: A from B, or A alone from the answers that were recorded. Exit status 0: they are the same; 1: they
differ; 2: wrong input, a module that is refused or answers nothing of what was recorded included.`,
		Args: wantArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			var files []*policyFile
			for _, path := range args[1:] {
				f := &policyFile{config: config}
				if err := f.read(path); err != nil {
					return err
				}
				files = append(files, f)
			}
			if len(files) == 2 && files[0].name() == files[1].name() {
				files[0].label, files[1].label = files[0].path, files[1].path
			}
			return withHost(c.Context(), env, func(host *plugins.Host) error {
				return replayBatches(c.Context(), env, host, args[0], files)
			})
		},
	}
	cmd.Flags().StringVar(&config, "policy-config", "", "the policies' own configuration, a JSON object")
	return cmd
}

func replayBatches(ctx context.Context, env *environment, host *plugins.Host, path string, policies []*policyFile) (err error) {
	in, err := files.Open(path)
	if err != nil {
		return usage(fmt.Errorf("read the batches: %w", err))
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r, err := kit.NewRecordReader(bufio.NewReaderSize(in, 1<<16))
	if err != nil {
		return usage(fmt.Errorf("%s: %w", path, err))
	}
	var openers [2]kit.Opener
	var answers [2][]abi.Hook
	for i, f := range policies {
		m, err := host.Compile(ctx, f.wasm)
		if err != nil {
			return f.refused(err)
		}
		answers[i] = kit.Hooks(m)
		openers[i] = func() (*kit.Policy, error) { return kit.Open(ctx, kit.Compiled(m), f.options()) }
	}
	if len(policies) == 2 && !slices.ContainsFunc(answers[0], func(h abi.Hook) bool { return slices.Contains(answers[1], h) }) {
		return usage(fmt.Errorf("%s answers %s, %s answers %s: no hook in common; name two policies of one hook", policies[0].path, hookList(answers[0]), policies[1].path, hookList(answers[1])))
	}
	layout := policies[0].layout
	res, err := layout.Replay(ctx, r, openers[0], openers[1])
	if err != nil {
		if errors.Is(err, kit.ErrRecord) || errors.Is(err, plugins.ErrRejected) {
			return usage(fmt.Errorf("%s: %w", path, err))
		}
		return err
	}
	return reportReplay(env, path, policies, &res)
}

func hookList(hooks []abi.Hook) string {
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = h.String()
	}
	return strings.Join(names, ", ")
}

func reportReplay(env *environment, path string, files []*policyFile, res *kit.ReplayResult) error {
	other := "the recorded answers"
	if len(files) == 2 {
		other = files[1].path
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d frames up to tick %d, %d of hooks that are answered\n", path, res.Frames, res.LastTick, res.Asked)
	if res.Cut {
		fmt.Fprintf(&b, "warning: the file ends inside a frame; what comes before was used\n")
	}
	if res.Asked == 0 {
		who := files[0].path + " answers"
		if len(files) == 2 {
			who = files[0].path + " and " + files[1].path + " answer"
		}
		return errors.Join(say(env, b.String()), usage(fmt.Errorf("%s holds no frame of a hook that %s; nothing was compared", path, who)))
	}
	if res.First == nil {
		fmt.Fprintf(&b, "same: %s answers as %s\n", files[0].path, other)
		return say(env, b.String())
	}
	d := res.First
	fmt.Fprintf(&b, "first difference at tick %d, rank %d, %s:\n", d.Tick, d.Rank, d.Hook)
	for _, line := range d.Lines {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	fmt.Fprintf(&b, "the batch, as a vector:\n%s", d.Vector)
	if err := say(env, b.String()); err != nil {
		return err
	}
	return fmt.Errorf("%s and %s differ on %d of %d batches, first at tick %d", files[0].path, other, res.Differ, res.Asked, d.Tick)
}
