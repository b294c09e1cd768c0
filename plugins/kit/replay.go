package kit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/abi"
	"sluice/plugins/manifest"
)

// ReplayResult is what a replay of recorded batches has found.
type ReplayResult struct {
	Frames   int // read
	Asked    int // of them, compared
	Differ   int // of the asked ones, frames with any difference
	Cut      bool
	First    *Difference // the first one by tick, then by the order of the file
	Hooks    []abi.Hook  // asked
	Skipped  int         // frames of hooks that a policy does not answer, or in which the recorded one was not asked
	LastTick uint64
}

// Difference is a frame that two sides answer differently.
type Difference struct {
	Tick   uint64
	Rank   uint32
	Hook   abi.Hook
	Lines  []string // field by field
	Vector string   // the batch, in the format of vector files
}

// Opener makes a policy as one rank would run it; every rank of a record gets its own.
type Opener func() (*Policy, error)

// Replay asks a policy, and another if b is not nil, for answers to recorded batches, and says where they differ: a from
// b, or a from the recorded answers. Each rank's frames are asked of a policy of its own in the order of the file, so
// that one that keeps state sees what it would have seen. Errors are those of the file and of the policies' instances.
func (l *Layout) Replay(ctx context.Context, r *RecordReader, a, b Opener) (res ReplayResult, err error) {
	p := replayer{layout: l, openA: a, openB: b, ranks: map[uint32]*replayed{}}
	defer func() {
		for _, x := range p.ranks {
			err = errors.Join(err, x.close(ctx))
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return p.res, err
		}
		var f Frame
		err := r.Next(&f)
		switch {
		case errors.Is(err, io.EOF):
			return p.res, nil
		case errors.Is(err, ErrCut):
			p.res.Cut = true
			return p.res, nil
		case err != nil:
			return p.res, err
		}
		p.res.Frames++
		if err := p.frame(&f); err != nil {
			return p.res, fmt.Errorf("frame %d, tick %d, rank %d: %w", p.res.Frames-1, f.Tick, f.Rank, err)
		}
	}
}

// replayed is the policies of one recorded rank.
type replayed struct{ a, b *Policy }

func (x *replayed) close(ctx context.Context) error {
	var errs []error
	for _, p := range []*Policy{x.a, x.b} {
		if p != nil {
			errs = append(errs, p.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

type replayer struct {
	layout       *Layout
	openA, openB Opener
	ranks        map[uint32]*replayed
	res          ReplayResult
}

func (p *replayer) rank(rank uint32) (*replayed, error) {
	x := p.ranks[rank]
	if x != nil {
		return x, nil
	}
	const most = 64
	if len(p.ranks) == most {
		return nil, fmt.Errorf("%w: more than %d ranks", ErrRecord, most)
	}
	x = &replayed{}
	p.ranks[rank] = x
	var err error
	if x.a, err = p.openA(); err != nil {
		return nil, err
	}
	if p.openB != nil {
		x.b, err = p.openB()
	}
	return x, err
}

func (p *replayer) frame(f *Frame) error {
	h, ok := p.layout.Hook(f.Hook)
	if !ok {
		return fmt.Errorf("%w: %s is not in this version of the ABI", ErrRecord, f.Hook)
	}
	d, err := openInput(&h, f)
	if err != nil {
		return err
	}
	p.res.LastTick = max(p.res.LastTick, f.Tick)
	x, err := p.rank(f.Rank)
	if err != nil {
		return err
	}
	if x.a.runners[f.Hook] == nil || x.b != nil && x.b.runners[f.Hook] == nil {
		p.res.Skipped++
		return nil
	}
	got, err := p.ask(x.a, f, d)
	if err != nil {
		return err
	}
	want, words := said{out: f.Answer, status: f.Status, fault: f.Fault}, [2]string{"is", "was recorded as"}
	if x.b == nil && f.Native && f.Fault == "" && f.Status != abi.StatusDeclined {
		p.res.Skipped++ // the policy was not asked, so nothing of it was recorded
		return nil
	}
	if x.b != nil {
		words = [2]string{"by " + x.a.Name() + " is", "by " + x.b.Name() + " is"}
		if want, err = p.ask(x.b, f, d); err != nil {
			return err
		}
	}
	p.res.Asked++
	if !hasHook(p.res.Hooks, f.Hook) {
		p.res.Hooks = append(p.res.Hooks, f.Hook)
	}
	lines := p.layout.compareSaid(&h, got, want, words)
	if len(lines) == 0 {
		return nil
	}
	p.res.Differ++
	if p.res.First == nil || f.Tick < p.res.First.Tick {
		text := p.layout.AppendVector(nil, fmt.Sprintf("tick %d rank %d", f.Tick, f.Rank), &h, f.Tick, d.epoch, d.globals, d.in)
		p.res.First = &Difference{Tick: f.Tick, Rank: f.Rank, Hook: f.Hook, Lines: lines, Vector: string(text)}
	}
	return nil
}

func hasHook(hs []abi.Hook, h abi.Hook) bool {
	for _, x := range hs {
		if x == h {
			return true
		}
	}
	return false
}

func (p *replayer) ask(q *Policy, f *Frame, d input) (said, error) {
	a, err := q.Ask(f.Hook, f.Tick, d.epoch, d.n, d.nOut, d.encode)
	if err != nil {
		return said{}, err
	}
	s := said{out: a.Out, status: a.Status, about: q.manifest()}
	if a.Fault != nil {
		s.fault, s.why, s.status = a.Fault.Class.String(), a.Fault.Error(), 0
	}
	return s, nil
}

func (l *Layout) compareSaid(h *HookLayout, got, want said, words [2]string) []string {
	switch {
	case got.fault != want.fault:
		return []string{fmt.Sprintf("the fault %s %s, %s %s", words[0], orNone(got.fault, got.why), words[1], orNone(want.fault, want.why))}
	case got.fault != "":
		return nil
	case got.status != want.status:
		return []string{fmt.Sprintf("the status %s %d (%s), %s %d (%s)", words[0], got.status, got.status, words[1], want.status, want.status)}
	case got.status == abi.StatusDeclined:
		return nil
	}
	return l.diff(h, got.out, want.out, words, [2]*manifest.Manifest{got.about, want.about}, diffLines)
}

func orNone(class, why string) string {
	switch {
	case class == "":
		return "none"
	case why != "":
		return class + " (" + why + ")"
	}
	return class
}

// input is a recorded batch.
type input struct {
	drawn
	epoch uint64
}

// openInput finds the parts of a frame's input and brings its records to this version's strides: a longer record loses
// its tail, a shorter one is filled with zeros, which mean the old behaviour.
func openInput(h *HookLayout, f *Frame) (input, error) {
	bad := func(format string, args ...any) (input, error) {
		return input{}, fmt.Errorf("%w: %s", ErrRecord, fmt.Sprintf(format, args...))
	}
	if len(f.Input) < abi.HeaderSize {
		return bad("an input of %d bytes has no header", len(f.Input))
	}
	hd := abi.GetHeader(f.Input)
	rest := f.Input[abi.HeaderSize:]
	if hd.Kind != f.Hook || hd.N > abi.MaxRecords {
		return bad("a %s batch of %d records in a frame of %s", hd.Kind, hd.N, f.Hook)
	}
	size := uint64(hd.GlobalsSize) + uint64(hd.N)*uint64(hd.InStride)
	if uint64(len(rest)) != size {
		return bad("%d bytes of globals and records, the header says %d", len(rest), size)
	}
	d := input{epoch: hd.Epoch}
	d.n = int(hd.N)
	d.globals, d.in = make([]byte, h.Globals.Size), make([]byte, d.n*h.In.Size)
	copy(d.globals, rest[:hd.GlobalsSize])
	records := rest[hd.GlobalsSize:]
	for i := range d.n {
		copy(d.in[i*h.In.Size:(i+1)*h.In.Size], records[i*int(hd.InStride):(i+1)*int(hd.InStride)])
	}
	d.nOut = h.Outs(d.n, d.globals)
	if c, ok := h.Globals.field(candidates); ok && c.get(d.globals) > uint64(d.n) {
		return bad("%d candidates of %d records", c.get(d.globals), d.n)
	}
	return d, nil
}
