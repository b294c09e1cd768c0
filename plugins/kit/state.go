package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"sluice/abi"
	"sluice/plugins"
)

// StateResult is what became of a policy's state when it was handed to a fresh instance of the same module.
type StateResult struct {
	Class   abi.Class
	Bytes   int      // of the state
	Batches int      // that both instances then answered
	Problem []string // how the successor differs, empty where it does not
	// Changed is how the state that the successor saves at once differs from the one it has loaded, "" where it does not. A
	// load that changes the state on purpose, to count its migrations say, is no problem: what counts are the answers.
	Changed string
}

// HandOn has an instance of each class answer o.Runs random batches, hands its state to a fresh instance, and has both
// answer as many more, with the same answers if the state is all that the policy remembers. Only a module that saves its
// state and whose manifest names its schema is tried; of any other there is no result.
func (l *Layout) HandOn(ctx context.Context, m *plugins.Module, o FuzzOptions) ([]StateResult, error) {
	schema, _, ok := m.StateSchema()
	if !ok || !m.HandsOn() {
		return nil, nil
	}
	if o.Records == 0 {
		o.Records = 96
	}
	var out []StateResult
	for _, class := range []abi.Class{abi.ClassLocal, abi.ClassReplicated} {
		var hooks []abi.Hook
		for _, h := range Hooks(m) {
			if plugins.ClassOf(h) == class {
				hooks = append(hooks, h)
			}
		}
		if len(hooks) == 0 {
			continue
		}
		r, err := l.handOn(ctx, m, class, hooks, schema, o)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (l *Layout) handOn(ctx context.Context, m *plugins.Module, class abi.Class, hooks []abi.Hook, schema uint32, o FuzzOptions) (res StateResult, err error) {
	res.Class = class
	var pair [2]*plugins.Instance
	defer func() {
		for _, i := range pair {
			if i != nil {
				err = errors.Join(err, i.Close(context.WithoutCancel(ctx)))
			}
		}
	}()
	for i := range pair {
		if pair[i], err = instantiate(ctx, m, class, o.Info, o.Config); err != nil {
			return res, err
		}
	}
	fail := func(format string, args ...any) (StateResult, error) {
		res.Problem = append(res.Problem, fmt.Sprintf(format, args...))
		return res, nil
	}
	answers := func(i *plugins.Instance, run int) ([]byte, abi.Status, error) {
		h, _ := l.Hook(hooks[run%len(hooks)])
		d := l.draw(rand.New(rand.NewPCG(o.Seed, uint64(run))), &h, o.Records)
		b, err := i.Begin(h.Hook, uint64(run)+1, 1, d.n, d.nOut)
		if err != nil {
			return nil, 0, err
		}
		d.encode(b)
		status, err := i.Call(h.Hook)
		if err != nil {
			return nil, 0, err
		}
		b, err = i.Answer()
		return bytes.Clone(b.Out), status, err
	}
	for run := range o.Runs {
		if _, _, err := answers(pair[0], run); err != nil {
			return fail("batch %d of seed %d: %v", run, o.Seed, err)
		}
	}
	state, err := pair[0].SaveState()
	if err != nil {
		return fail("the state is not saved after %d batches: %v", o.Runs, err)
	}
	res.Bytes = len(state)
	if err := pair[1].LoadState(state, schema); err != nil {
		return fail("the state that it saved is not loaded: %v", err)
	}
	again, err := pair[1].SaveState()
	if err != nil {
		return fail("the state is not saved again after it was loaded: %v", err)
	}
	if !bytes.Equal(again, state) {
		res.Changed = fmt.Sprintf("%d bytes %.32x, then %d bytes %.32x", len(state), state, len(again), again)
	}
	for run := o.Runs; run < 2*o.Runs; run++ {
		want, wantStatus, err := answers(pair[0], run)
		if err != nil {
			return fail("batch %d of seed %d: %v", run, o.Seed, err)
		}
		got, gotStatus, err := answers(pair[1], run)
		if err != nil {
			return fail("batch %d of seed %d, after the state was handed on: %v", run, o.Seed, err)
		}
		res.Batches++
		h, _ := l.Hook(hooks[run%len(hooks)])
		if wantStatus != gotStatus {
			return fail("batch %d of seed %d: status %d, with the state handed on %d", run, o.Seed, wantStatus, gotStatus)
		}
		if lines := l.Diff(&h, want, got, [2]string{"is", "with the state handed on is"}, diffLines); len(lines) > 0 {
			res.Problem = append([]string{fmt.Sprintf("batch %d of seed %d: the policy remembers more than it saves and loads", run, o.Seed)}, lines...)
			return res, nil
		}
	}
	return res, nil
}
