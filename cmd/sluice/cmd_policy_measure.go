package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/standard"
)

// benchSeed draws the batches of policy bench, so that two runs measure the same ones.
const benchSeed = 1

// enduredTicks is after how many ticks policy bench looks at the memory, or after fewer where they take long.
const enduredTicks = 10_000

func newPolicyBenchCommand(env *environment) *cobra.Command {
	var f policyFile
	cmd := &cobra.Command{
		Use:   "bench FILE.wasm...",
		Short: "Measure time, fuel, metering, allocations and memory, beside the native shipped policy",
		Long: fmt.Sprintf(`Measure each policy on random batches of several sizes, the same for all: its time beside that of the shipped default policy
of the hook in plain Go, its fuel, what metering adds to its own time, the host's allocations, and the memory after %d
ticks. Times are the best of several samples; compare within one run. A policy that spends much fuel is called fewer times.
How far it is goes to standard error, where that is a terminal or it takes more than 10 s.`, enduredTicks),
		Args: wantArgs(1, 64),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			far := newProgress(env)
			for _, path := range args {
				if err := f.read(path); err != nil {
					return err
				}
				if err := f.withPolicy(ctx, env, func(host *plugins.Host, p *kit.Policy) error { return f.bench(ctx, env, host, p, far) }); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.addFlags(cmd, true)
	return cmd
}

func (f *policyFile) bench(ctx context.Context, env *environment, host *plugins.Host, p *kit.Policy, far *progress) (err error) {
	m, err := host.Compile(ctx, f.wasm)
	if err != nil {
		return f.refused(err)
	}
	hooks, err := f.hooks(m)
	if err != nil {
		return err
	}
	natives, err := host.NewSet(ctx, nil, f.info(2, 16, 1<<16))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, natives.Close(context.WithoutCancel(ctx))) }()
	for _, h := range hooks {
		if err := f.benchHook(ctx, env, m, p, natives, h, far); err != nil {
			return fmt.Errorf("%s: %s: %w", f.path, h, err)
		}
	}
	return f.endure(ctx, env, m, hooks, far)
}

func (f *policyFile) benchHook(ctx context.Context, env *environment, m *plugins.Module, p *kit.Policy, natives *plugins.Set, h abi.Hook, far *progress) (err error) {
	ask, err := kit.NativeAsker(h, natives)
	if err != nil {
		return err
	}
	without, with, err := kit.NewMeteringPair(ctx, f.wasm, m.Fuel())
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, without.Close(context.WithoutCancel(ctx)), with.Close(context.WithoutCancel(ctx)))
	}()
	// The metered and the plain one run in a host of their own, the same for both.
	sides := []kit.Side{{Ask: p.Asker(h), Spent: func() uint64 { return p.Spent(h) }}, {Ask: ask}}
	for _, b := range []kit.Build{without, with} {
		bare, err := kit.Open(ctx, b, f.options())
		if err != nil {
			return err
		}
		sides = append(sides, kit.Side{Ask: bare.Asker(h)})
	}
	all, err := f.layout.Bench(ctx, h, sides, benchSeed, env.clock.Now, func(n int) { far.say("%s: %s: batches of %d records", f.name(), h, n) })
	if err != nil {
		return err
	}
	rows, native, plain, metered := all[0], all[1], all[2], all[3]
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s beside %s in plain Go; host's encoding and checks included\n", h, f.name(), standard.Default(h))
	fmt.Fprintf(&b, "%8s %12s %13s %7s %10s %13s %12s\n", "records", "ns/record", "native ns/rec", "ratio", "metering", "fuel/record", "allocs/call")
	for i, r := range rows {
		ratio, metering := "-", "-"
		if native[i].NSPerRecord > 0 {
			ratio = fmt.Sprintf("%.1f", r.NSPerRecord/native[i].NSPerRecord)
		}
		if plain[i].NSPerRecord > 0 {
			metering = fmt.Sprintf("%+.0f%%", 100*(metered[i].NSPerRecord/plain[i].NSPerRecord-1))
		}
		fmt.Fprintf(&b, "%8d %12.1f %13.1f %7s %10s %13.1f %12.1f\n", r.Records, r.NSPerRecord, native[i].NSPerRecord, ratio, metering, float64(r.Fuel)/float64(r.Records), r.Allocs)
	}
	return say(env, b.String())
}

// endure looks at the memory on the interpreter, which is the same as the compiler's: the same instructions ran.
func (f *policyFile) endure(ctx context.Context, env *environment, m *plugins.Module, hooks []abi.Hook, far *progress) (err error) {
	ref, err := kit.NewReference(ctx, f.wasm, m.Fuel())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ref.Close(context.WithoutCancel(ctx))) }()
	p, err := kit.Open(ctx, ref, f.options())
	if err != nil {
		return err
	}
	for _, h := range hooks {
		before := p.Pages(h)
		far.say("%s: %s: memory over up to %d ticks, on the interpreter", f.name(), h, enduredTicks)
		ticks, err := f.layout.Endure(ctx, p, h, benchSeed, enduredTicks)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", f.path, h, err)
		}
		after := p.Pages(h)
		if err := say(env, fmt.Sprintf("%s: memory after %d ticks: %d pages of 64 KiB, %d more than at the start\n", h, ticks, after, after-before)); err != nil {
			return err
		}
	}
	return nil
}

func newPolicyFuzzCommand(env *environment) *cobra.Command {
	var f policyFile
	o := kit.FuzzOptions{}
	cmd := &cobra.Command{
		Use:   "fuzz FILE.wasm",
		Short: "Ask for answers to random batches: no fault, well-formed, the same on both engines",
		Long: `Ask for answers to random batches of every hook that the module answers: no fault, well-formed, and the same answers and
fuel on compiler and interpreter and in a second instance. It stops at the first batch that fails and prints it as a vector.
Exit status 0: none failed; 1: one did; 2: wrong input, a module that is refused included.`,
		Args: wantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.Runs < 1 || o.Runs > 1<<24 {
				return usage(fmt.Errorf("--runs %d: must be 1 to %d", o.Runs, 1<<24))
			}
			if err := f.read(args[0]); err != nil {
				return err
			}
			return withHost(c.Context(), env, func(host *plugins.Host) error { return f.fuzz(c.Context(), env, host, o) })
		},
	}
	f.addFlags(cmd, false)
	cmd.Flags().IntVar(&o.Runs, "runs", 1000, "batches to ask")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the batches")
	return cmd
}

func (f *policyFile) fuzz(ctx context.Context, env *environment, host *plugins.Host, o kit.FuzzOptions) (err error) {
	m, err := host.Compile(ctx, f.wasm)
	if err != nil {
		return f.refused(err)
	}
	ref, err := kit.NewReference(ctx, f.wasm, m.Fuel())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ref.Close(context.WithoutCancel(ctx))) }()
	o.Options = f.options()
	res, err := f.layout.Fuzz(ctx, kit.Compiled(m), ref, o)
	if err != nil {
		return f.refused(err)
	}
	if res.Failure == nil {
		return say(env, fmt.Sprintf("ok: %d batches, %d records, seed %d, %d declined; same answers and fuel on compiler and interpreter\n",
			res.Runs, res.Records, o.Seed, res.Declined))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", res.Failure.Vector)
	for _, line := range res.Failure.Lines {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	if err := say(env, b.String()); err != nil {
		return err
	}
	return fmt.Errorf("%s: batch %d of seed %d, above: %s; repeat with: sluice policy fuzz --seed %d --runs %d %s", f.path, res.Failure.Run, o.Seed,
		res.Failure.Lines[0], o.Seed, res.Failure.Run+1, f.path)
}
