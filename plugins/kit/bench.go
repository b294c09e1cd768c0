package kit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"sluice/abi"
	"sluice/plugins"
)

// BenchRow is the cost of one batch size.
type BenchRow struct {
	Records     int     // input records a call
	NSPerRecord float64 // best of several samples; 0 under a clock that stands still
	NSPerCall   float64
	Allocs      float64 // of the host, a call
	Fuel        uint64  // of one call; 0 for a native policy
}

// benchSamples of benchWork records each are taken; the best one counts, since a neighbour only ever adds. A sample of
// expensive calls has fewer of them: as many as spend benchFuel, or one.
const (
	benchSamples = 15
	benchWork    = 1 << 15
	benchFuel    = 1 << 25
)

// within is how many of some calls that spend fuel units each a sample has.
func within(calls int, fuel uint64) int {
	if fuel == 0 {
		return calls
	}
	return int(min(uint64(calls), max(benchFuel/fuel, 1)))
}

// BenchSizes are the batch sizes that Bench measures.
func BenchSizes() []int { return []int{1, 16, 256, 1024} }

// Ask answers one batch; both a Policy's and a Runner's way of asking fit.
type Ask func(tick uint64, n, nOut int, encode func(abi.Batch)) error

// Asker makes an Ask of a policy.
func (p *Policy) Asker(hook abi.Hook) Ask {
	return func(tick uint64, n, nOut int, encode func(abi.Batch)) error {
		a, err := p.Ask(hook, tick, 1, n, nOut, encode)
		if err == nil && a.Fault != nil {
			err = a.Fault
		}
		return err
	}
}

// NativeAsker makes an Ask of the shipped default policy of a hook in plain Go, for comparison.
func NativeAsker(hook abi.Hook, set *plugins.Set) (Ask, error) {
	r := set.Runner(hook)
	if r == nil {
		return nil, fmt.Errorf("no native policy answers %s", hook)
	}
	return func(tick uint64, n, nOut int, encode func(abi.Batch)) error {
		a, err := r.Run(tick, 1, n, nOut, encode)
		if err == nil && a.Fault != nil {
			err = a.Fault
		}
		return err
	}, nil
}

// Side is one of those that Bench measures beside each other.
type Side struct {
	Ask   Ask
	Spent func() uint64 // the fuel of the last call; nil: not told
}

// Bench measures the answers of all sides to one batch of each size, drawn from seed, host's encoding and checks included.
// The sides take turns, so that a neighbour of the process is none of one side's alone. now is a monotonic clock; begin, if
// not nil, is told of each size before it is measured. The rows are those of each side, in the order of BenchSizes. An
// error is the failure of a policy, or ctx's.
func (l *Layout) Bench(ctx context.Context, hook abi.Hook, sides []Side, seed uint64, now func() time.Duration, begin func(records int)) ([][]BenchRow, error) {
	h, ok := l.Hook(hook)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not in it", ErrLayout, hook)
	}
	rows := make([][]BenchRow, len(sides))
	tick := uint64(0)
	for _, n := range BenchSizes() {
		if begin != nil {
			begin(n)
		}
		d := l.drawExactly(rand.New(rand.NewPCG(seed, uint64(n))), &h, n)
		encode := d.encode
		one := func(s *Side) error {
			tick++
			return s.Ask(tick, d.n, d.nOut, encode)
		}
		fuel := uint64(0) // of one call, the most of any side
		best := make([]time.Duration, len(sides))
		for i := range sides {
			row := BenchRow{Records: n}
			for range 4 {
				if err := one(&sides[i]); err != nil {
					return nil, err
				}
			}
			if sides[i].Spent != nil {
				row.Fuel = sides[i].Spent()
				fuel = max(fuel, row.Fuel)
			}
			best[i] = -1
			rows[i] = append(rows[i], row)
		}
		calls := within(max(benchWork/n, 16), fuel)
		for range benchSamples {
			for i := range sides {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				start := now()
				for range calls {
					if err := one(&sides[i]); err != nil {
						return nil, err
					}
				}
				if took := now() - start; best[i] < 0 || took < best[i] {
					best[i] = took
				}
			}
		}
		for i := range sides {
			row := &rows[i][len(rows[i])-1]
			row.NSPerCall = float64(best[i].Nanoseconds()) / float64(calls)
			row.NSPerRecord = row.NSPerCall / float64(n)
			var err error
			if row.Allocs, err = allocs(ctx, within(allocCalls, fuel), func() error { return one(&sides[i]) }); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// allocCalls is how many calls one sample of allocs has.
const allocCalls = 64

// allocs counts the heap allocations of a call. Those of the runtime's own work may be counted too, so the smallest of
// some samples is the call's.
func allocs(ctx context.Context, calls int, one func() error) (float64, error) {
	const samples = 5
	var before, after runtime.MemStats
	best := -1.0
	for range samples {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&before)
		for range calls {
			if err := one(); err != nil {
				return 0, err
			}
		}
		runtime.ReadMemStats(&after)
		if got := float64(after.Mallocs-before.Mallocs) / float64(calls); best < 0 || got < best {
			best = got
		}
	}
	if best < 1.0/8 { // a stray allocation of another goroutine, not one a call
		best = 0
	}
	return best, nil
}

// drawExactly is draw with a fixed number of records, all of them candidates.
func (l *Layout) drawExactly(r *rand.Rand, h *HookLayout, n int) drawn {
	d := l.draw(r, h, 0)
	d.n, d.in = n, make([]byte, n*h.In.Size)
	for i := range n {
		l.fill(r, &h.In, d.in[i*h.In.Size:(i+1)*h.In.Size])
	}
	if f, ok := h.Globals.field(candidates); ok {
		f.put(d.globals, uint64(n))
	}
	d.nOut = h.Outs(n, d.globals)
	return d
}

// EndureFuel is for how much work Endure goes on: a minute or less on an interpreter. What an ordinary policy spends in
// thousands of ticks is far below it.
const EndureFuel = 1 << 30

// Endure has a policy answer ticks batches of up to 64 records, or as many as spend EndureFuel, and says how many they
// were. The error is the first fault.
func (l *Layout) Endure(ctx context.Context, p *Policy, hook abi.Hook, seed uint64, ticks int) (done int, err error) {
	h, ok := l.Hook(hook)
	if !ok {
		return 0, fmt.Errorf("%w: %s is not in it", ErrLayout, hook)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var batches []drawn
	for range 32 {
		batches = append(batches, l.draw(r, &h, 64))
	}
	spent := uint64(0)
	for tick := range ticks {
		if err := ctx.Err(); err != nil {
			return tick, err
		}
		if spent >= EndureFuel {
			return tick, nil
		}
		d := &batches[tick%len(batches)]
		a, err := p.Ask(hook, uint64(tick)+1, 1, d.n, d.nOut, d.encode)
		if err != nil {
			return tick, err
		}
		if a.Fault != nil {
			return tick, errors.Join(fmt.Errorf("tick %d of %d", tick+1, ticks), a.Fault)
		}
		spent += p.Spent(hook)
	}
	return ticks, nil
}
