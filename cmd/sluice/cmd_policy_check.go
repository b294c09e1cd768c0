package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
)

// checkFlags are those of policy check.
type checkFlags struct {
	policyFile
	runs     int
	seed     uint64
	patience int
	states   bool
}

func newPolicyCheckCommand(env *environment) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check FILE.wasm",
		Short: "Apply the loader's rules, then judge whether the policy is safe and lets every request end",
		Long: `Apply the loader's rules, then judge whether the policy is safe and lets every request end: a gate is shown every
state, and the policy is installed in random groups of one to three ranks in virtual time, with restores that are late
or fail on one rank. In these runs no limit of the host ends a hold. Where nothing is wrong so far, each hook answers random
batches while its memory is watched. Exit status 0: ok, warnings allowed; 1: refused, faulting or not live; 2: wrong input.`,
		Args: wantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.runs < 1 || f.runs > 100_000 || f.patience < 1 || f.patience > 10_000_000 {
				return usage(fmt.Errorf("--runs %d, --patience %d: must be 1 to 100000 and 1 to 10000000", f.runs, f.patience))
			}
			if err := f.read(args[0]); err != nil {
				return err
			}
			return withHost(c.Context(), env, func(host *plugins.Host) error { return f.check(c.Context(), env, host) })
		},
	}
	f.addFlags(cmd, true)
	cmd.Flags().IntVar(&f.runs, "runs", 24, "random runs")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the first run; the others follow it")
	cmd.Flags().IntVar(&f.patience, "patience", 3000, "ticks after the last request within which all must end")
	cmd.Flags().BoolVar(&f.states, "states", false, "show every gate state, not only those that trip a rail")
	return cmd
}

// verdict gathers what a check finds. A problem is why the policy must not run, a warning what its author should know.
type verdict struct {
	problems []string
	warnings []string
	reasons  [256]bool // given by any hook in any answer
}

func (v *verdict) problem(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *verdict) warn(format string, args ...any) {
	v.warnings = append(v.warnings, fmt.Sprintf(format, args...))
}

func (v *verdict) saw(reasons *[256]bool) {
	for r, given := range reasons {
		v.reasons[r] = v.reasons[r] || given
	}
}

// check loads, drives and judges the policy, and prints the report.
func (f *checkFlags) check(ctx context.Context, env *environment, host *plugins.Host) error {
	m, err := host.Compile(ctx, f.wasm)
	if err != nil {
		return f.turnedAway(env, err)
	}
	hooks, err := f.hooks(m)
	if err != nil {
		return err
	}
	set, err := host.NewSet(ctx, f.specs(hooks), f.info(2, 16, 1<<16))
	if err != nil {
		return f.turnedAway(env, err)
	}
	if err := set.Close(ctx); err != nil {
		return err
	}
	var names []string
	for _, h := range hooks {
		names = append(names, h.String())
	}
	if err := say(env, fmt.Sprintf("policy   %s, %d bytes, sha256 %s\nhooks    %s\nload     ok: the loader's rules, and its vectors on both engines\n",
		f.path, len(f.wasm), m.SHA256(), strings.Join(names, ", "))); err != nil {
		return err
	}
	var v verdict
	if slices.Contains(hooks, abi.Gate) {
		if err := f.checkStates(ctx, env, m, &v); err != nil {
			return err
		}
	}
	if err := f.checkRuns(ctx, env, host, hooks, &v); err != nil {
		return err
	}
	if err := f.checkManifest(m, &v); err != nil {
		return err
	}
	if len(v.problems) == 0 {
		if err := f.checkMemory(ctx, env, m, hooks, &v); err != nil {
			return err
		}
		if err := f.checkHandingOn(ctx, env, m, &v); err != nil {
			return err
		}
	}
	return f.conclude(env, &v)
}

// turnedAway tells of a refusal by the loader, which is a verdict and no error of the caller.
func (f *checkFlags) turnedAway(env *environment, err error) error {
	var fault *plugins.Fault
	if !errors.As(err, &fault) || !errors.Is(err, plugins.ErrRejected) {
		return err
	}
	if fault.Policy == "" {
		fault.Policy = f.name()
	}
	return errors.Join(say(env, fmt.Sprintf("policy   %s, %d bytes\nload     refused\n", f.path, len(f.wasm))), err)
}

func (f *checkFlags) checkStates(ctx context.Context, env *environment, m *plugins.Module, v *verdict) error {
	rep, err := driveStates(ctx, &f.policyFile, m)
	if err != nil {
		return err
	}
	v.saw(&rep.reasons)
	text := fmt.Sprintf("states   %d gate states at %d ages: %d answers", gateStates, len(stateAges()), rep.asked)
	if rep.declined > 0 {
		text += fmt.Sprintf(", %d left to the native policy", rep.declined)
	}
	if tripped := railCounts(rep.rails[:]); tripped != "" {
		text += "; rails: " + tripped
		v.warn("gate trips rails: the host overrules it in the states above; %s", tripped)
	}
	if n := len(rep.faults); n > 0 {
		v.problem("fails on %d of %d batches of gate states: %s", n, len(stateAges()), rep.faults[0])
	}
	return say(env, text+"\n"+rep.table(f.states))
}

// totals adds up the runs.
type totals struct {
	runs                             int // begun
	requests, served, native, failed int
	ticks                            uint64
	faults, differed                 uint64
	rails                            map[string]uint64
	ends                             map[string]int
	skipped                          int
	cut                              bool // the last run was ended early for its faults: its requests are not over
}

// checkRuns drives the policy through the random runs, each beside the same run under native policies.
func (f *checkFlags) checkRuns(ctx context.Context, env *environment, host *plugins.Host, hooks []abi.Hook, v *verdict) error {
	sum := totals{runs: f.runs, rails: map[string]uint64{}, ends: map[string]int{}}
	native := func(info abi.HostInfo) (*plugins.Set, error) { return host.NewSet(ctx, nil, info) }
	policy := func(info abi.HostInfo) (*plugins.Set, error) { return host.NewSet(ctx, f.specs(hooks), info) }
	var stuck string
	for i := range f.runs {
		seed := f.seed + uint64(i)
		want, err := drawRun(seed).run(ctx, native, f.patience)
		if err != nil {
			return err
		}
		if want.broken != nil {
			return fmt.Errorf("run of seed %d under native policies: %w; this is a defect of sluice, please report it", seed, want.broken)
		}
		if len(want.stuck) > 0 {
			sum.skipped++ // no policy is to blame for what the native ones cannot end in time
			continue
		}
		l := drawRun(seed)
		l.cfg.Schedule.Score = slices.Contains(hooks, abi.Score)
		got, err := l.run(ctx, policy, f.patience)
		if err != nil {
			return fmt.Errorf("run of seed %d: %w", seed, err)
		}
		sum.add(&want, &got)
		v.saw(&got.trace.reasons)
		if got.broken != nil {
			v.problem("run of seed %d breaks the host: %v; this is a defect of sluice too, please report it", seed, got.broken)
		}
		if len(got.stuck) > 0 && stuck == "" {
			stuck = f.stuckText(seed, &got)
			v.problem("never lets request %d finish in the run of seed %d: it is in the queue %s after %d ticks; %d of %d requests never finish", got.stuck[0], seed, got.where[0],
				got.ticks, len(got.stuck), len(got.stuck)+got.served+got.failed)
		}
		if got.faults > 0 && len(got.faultLines) > 0 && sum.faults == got.faults {
			v.problem("faults in the run of seed %d: %s", seed, got.faultLines[0])
		}
		if stuck != "" || got.broken != nil || got.faults > 0 {
			sum.runs = i + 1
			break
		}
	}
	return f.reportRuns(env, &sum, stuck, v)
}

func (s *totals) add(want, got *liveEnd) {
	s.requests += got.served + got.failed + len(got.stuck)
	s.served += got.served
	s.failed += got.failed
	s.native += want.served
	s.ticks += got.ticks
	s.cut = s.cut || got.cut
	s.faults += got.faults
	s.differed += got.differed
	for k, n := range got.rails {
		if n > want.rails[k] { // what the native policies trip too is none of this one's doing
			s.rails[k] += n
		}
	}
	for k, n := range got.ends {
		s.ends[k] += n
	}
}

func (f *checkFlags) stuckText(seed uint64, end *liveEnd) string {
	return fmt.Sprintf("stuck    request %d of the run of seed %d (%s), its last %d ticks:\n%s", end.stuck[0], seed, drawRun(seed), traceTicks, end.trace.text(end.stuck[0]))
}

// String says what a run is like.
func (l *liveRun) String() string {
	s := &l.cfg.Schedule
	return fmt.Sprintf("%d ranks, pages of %d tokens, %d on the device, %d on the host", s.Ranks, s.PageSize, s.L1Pages, s.L2Pages)
}

func (f *checkFlags) reportRuns(env *environment, sum *totals, stuck string, v *verdict) error {
	var b strings.Builder
	fmt.Fprintf(&b, "runs     %d of %d random runs, from seed %d: %d ticks, ", sum.runs, f.runs, f.seed, sum.ticks)
	if sum.cut {
		b.WriteString("the last run ended early for its faults\n")
	} else {
		fmt.Fprintf(&b, "%d requests, %d served (%d under native policies), %d ended otherwise\n", sum.requests, sum.served, sum.native, sum.failed)
	}
	if sum.skipped > 0 {
		fmt.Fprintf(&b, "         %d runs left out: not over within %d ticks under native policies either; raise --patience\n", sum.skipped, f.patience)
	}
	for _, k := range slices.Sorted(maps.Keys(sum.ends)) {
		fmt.Fprintf(&b, "         %d %s\n", sum.ends[k], k)
	}
	var tripped []string
	for _, k := range slices.Sorted(maps.Keys(sum.rails)) {
		if sum.rails[k] > 0 {
			tripped = append(tripped, fmt.Sprintf("%s %d", k, sum.rails[k]))
		}
	}
	if len(tripped) > 0 {
		fmt.Fprintf(&b, "rails    %s\n", strings.Join(tripped, ", "))
		v.warn("the host overruled answers in the runs: %s", strings.Join(tripped, ", "))
	}
	b.WriteString(stuck)
	switch {
	case sum.faults > 0:
		fmt.Fprintf(&b, "faults   %d, each answered by the native policy\n", sum.faults)
		if len(v.problems) == 0 {
			v.problem("%d faults in the runs", sum.faults)
		}
	case sum.differed > 0:
		v.problem("the ranks' answers of a replicated hook differ in %d ticks: the policy depends on more than its batches", sum.differed)
	}
	switch {
	case sum.requests == 0 && len(v.problems) == 0:
		v.problem("no run came to an end under native policies within %d ticks, so nothing was judged; raise --patience", f.patience)
	case sum.faults > 0: // the run has ended early for them, and which requests were over by then says nothing
	case stuck == "" && sum.served == 0 && sum.native > 0:
		v.problem("lets no request be served: all %d ended otherwise, %d are served under native policies", sum.failed, sum.native)
	case stuck == "" && sum.served < sum.native:
		v.warn("%d requests were served, %d are under native policies", sum.served, sum.native)
	}
	return say(env, b.String())
}

// memoryTicks is how many random batches a hook answers while its memory is watched, or fewer where they take long. The
// second half shows whether growth ends.
const memoryTicks = 4000

// checkMemory has each hook answer many batches: on the compiler, whose host discards an instance that grows too far, and
// on the interpreter, which shows how far it is.
func (f *checkFlags) checkMemory(ctx context.Context, env *environment, m *plugins.Module, hooks []abi.Hook, v *verdict) (err error) {
	ref, err := kit.NewReference(ctx, f.wasm, m.Fuel())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ref.Close(context.WithoutCancel(ctx))) }()
	for _, h := range hooks {
		pages, done, fault, err := f.endureBoth(ctx, m, ref, h)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("memory   %s: %d pages of 64 KiB at the start, %d after %d batches, %d after %d", h, pages[0], pages[1], done[0], pages[2], done[0]+done[1])
		switch {
		case fault != nil:
			v.problem("%v", fault)
		case pages[2] > pages[1]:
			v.warn("%s still grows its memory after %d batches; keep the hot path free of allocation", h, done[0])
		}
		if err := say(env, text+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (f *checkFlags) endureBoth(ctx context.Context, m *plugins.Module, ref *kit.Reference, h abi.Hook) (pages [3]uint32, done [2]int, fault *plugins.Fault, err error) {
	for _, build := range []kit.Build{kit.Compiled(m), ref} {
		p, err := kit.Open(ctx, build, f.options())
		if err != nil {
			return pages, done, nil, err
		}
		pages[0] = p.Pages(h)
		for half := range 2 {
			if done[half], err = f.layout.Endure(ctx, p, h, f.seed, memoryTicks/2); err != nil {
				break
			}
			pages[half+1] = p.Pages(h)
		}
		err = errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		if errors.As(err, &fault) {
			return pages, done, fault, nil
		}
		if err != nil {
			return pages, done, nil, err
		}
	}
	return pages, done, nil, nil
}

func (f *checkFlags) conclude(env *environment, v *verdict) error {
	var b strings.Builder
	for _, w := range v.warnings {
		fmt.Fprintf(&b, "warning  %s\n", w)
	}
	for _, p := range v.problems {
		fmt.Fprintf(&b, "problem  %s\n", p)
	}
	word := "ok"
	switch {
	case len(v.problems) > 0:
		word = "not fit to run"
	case len(v.warnings) > 0:
		word = "ok, with warnings"
	}
	fmt.Fprintf(&b, "verdict  %s\n", word)
	if err := say(env, b.String()); err != nil {
		return err
	}
	if len(v.problems) > 0 {
		return fmt.Errorf("%s: %s", f.path, v.problems[0])
	}
	return nil
}
