package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"sluice/abi"
)

// FuzzOptions say how a module is fuzzed.
type FuzzOptions struct {
	Options
	Runs    int    // batches, 1 or more
	Seed    uint64 // with the number of a run it gives that run's batch
	Records int    // most input records of a batch; 0: 96
}

// FuzzResult is what fuzzing has found.
type FuzzResult struct {
	Runs     int // batches asked
	Records  int // input records in them
	Declined int
	Failure  *FuzzFailure // the first one, nil if there is none
}

// FuzzFailure is a batch that a policy fails on, or answers differently on two engines.
type FuzzFailure struct {
	Run    int
	Hook   abi.Hook
	Lines  []string // what happened, field by field
	Vector string   // the batch, in the format of vector files
}

// Fuzz asks a module for answers to random batches and stops at the first one on which it faults, gives no well-formed
// answer, or differs in answer, status or fuel: from reference, which is the same module on another engine, and from itself in a second instance
// that has seen the same batches. reference may be nil. The order of runs matters to a policy that keeps state, so a
// failure is repeated with the same seed and at least as many runs.
func (l *Layout) Fuzz(ctx context.Context, m, reference Build, o FuzzOptions) (res FuzzResult, err error) {
	if o.Runs < 1 {
		return res, fmt.Errorf("%d runs, must be 1 or more", o.Runs)
	}
	if o.Records == 0 {
		o.Records = 96
	}
	sides := []*side{{what: "the compiler", build: m}, {what: "a second instance", build: m}}
	if reference != nil {
		sides = append(sides, &side{what: "the interpreter", build: reference})
	}
	defer func() {
		for _, s := range sides {
			if s.policy != nil {
				err = errors.Join(err, s.policy.Close(ctx))
			}
		}
	}()
	for _, s := range sides {
		if s.policy, err = Open(ctx, s.build, o.Options); err != nil {
			return res, err
		}
	}
	hooks := Hooks(m)
	for run := range o.Runs {
		if err := ctx.Err(); err != nil {
			return res, err
		}
		h, ok := l.Hook(hooks[run%len(hooks)])
		if !ok {
			return res, fmt.Errorf("%w: %s is not in it", ErrLayout, hooks[run%len(hooks)])
		}
		d := l.draw(rand.New(rand.NewPCG(o.Seed, uint64(run))), &h, o.Records)
		res.Runs, res.Records = run+1, res.Records+d.n
		lines, declined, err := l.fuzzOne(sides, &h, &d, uint64(run))
		if err != nil {
			return res, err
		}
		if declined {
			res.Declined++
		}
		if len(lines) > 0 {
			text := l.AppendVector(nil, fmt.Sprintf("fuzz seed %d run %d", o.Seed, run), &h, uint64(run)+1, 1, d.globals, d.in)
			res.Failure = &FuzzFailure{Run: run, Hook: h.Hook, Lines: lines, Vector: string(text)}
			return res, nil
		}
	}
	return res, nil
}

// side is one of the builds that must agree.
type side struct {
	what   string
	build  Build
	policy *Policy
}

func (l *Layout) fuzzOne(sides []*side, h *HookLayout, d *drawn, run uint64) (lines []string, declined bool, err error) {
	var first Answer
	var out []byte
	var spent uint64
	for i, s := range sides {
		a, err := s.policy.Ask(h.Hook, run+1, 1, d.n, d.nOut, d.encode)
		if err != nil {
			return nil, false, err
		}
		if i == 0 {
			first, out, spent = a, bytes.Clone(a.Out), s.policy.Spent(h.Hook)
			if a.Fault != nil {
				return []string{a.Fault.Error()}, false, nil
			}
			continue
		}
		switch {
		case a.Fault != nil:
			return []string{fmt.Sprintf("%s fails where the compiler answers: %v", s.what, a.Fault)}, false, nil
		case a.Status != first.Status:
			return []string{fmt.Sprintf("status on the compiler is %d, on %s %d", first.Status, s.what, a.Status)}, false, nil
		case s.policy.Spent(h.Hook) != spent:
			return []string{fmt.Sprintf("fuel on the compiler is %d, on %s %d", spent, s.what, s.policy.Spent(h.Hook))}, false, nil
		}
		if lines := l.Diff(h, out, a.Out, [2]string{"on the compiler is", "on " + s.what + " is"}, diffLines); len(lines) > 0 {
			return lines, false, nil
		}
	}
	return nil, first.Declined(), nil
}
