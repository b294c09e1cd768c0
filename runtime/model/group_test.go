package model

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// arrival is what one rank brings to a step.
type arrival struct {
	rank   int
	step   uint64
	digest uint64
	items  int
}

// meet has each arrival join on a goroutine of its own, in order: each sits before the next comes.
func meet(t *testing.T, g *Group, c *clock.Virtual, arrivals []arrival) []error {
	t.Helper()
	errs := make([]error, len(arrivals))
	var wg sync.WaitGroup
	for i, a := range arrivals {
		wg.Go(func() {
			partial := slices.Repeat([]uint64{uint64(a.rank + 1)}, a.items)
			errs[i] = g.Join(a.rank, a.step, a.digest, partial, make([]uint32, a.items), time.Second)
		})
		if i < len(g.seats)-1 {
			c.AwaitPending(i + 1)
		}
	}
	if len(arrivals) < len(g.seats) {
		c.Advance(time.Second)
	}
	wg.Wait()
	return errs
}

func TestGroupJoins(t *testing.T) {
	g, err := NewGroup(3, 0, clock.NewVirtual())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for rank := range 3 {
		wg.Go(func() {
			for step := range uint64(500) {
				sums := [][]uint64{{mix(step), 1}, {mix(step + 1), 2}, {mix(step + 2), 3}}
				for i := range sums {
					sums[i][0] %= prime
				}
				got, want := make([]uint32, 2), make([]uint32, 2)
				if err := g.Join(rank, step, step*7, sums[rank], got, time.Hour); err != nil {
					t.Errorf("rank %d, step %d: %v", rank, step, err)
					return
				}
				if err := Join(sums, want, 0); err != nil || !slices.Equal(got, want) {
					t.Errorf("rank %d, step %d: %v, want %v (%v)", rank, step, got, want, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestGroupEndsEveryStep(t *testing.T) {
	cases := []struct {
		name     string
		arrivals []arrival
		err      error
		field    string
		ranks    []int
	}{
		{"digests differ", []arrival{{0, 1, 5, 1}, {1, 1, 6, 1}}, ErrDiffers, "digest", []int{0, 1}},
		{"lengths differ", []arrival{{0, 1, 5, 1}, {1, 1, 5, 2}}, ErrDiffers, "items", []int{0, 1}},
		{"steps differ", []arrival{{0, 1, 5, 1}, {1, 2, 5, 1}}, ErrDiffers, "step", []int{0, 1}},
		{"rank 1 missing", []arrival{{0, 1, 5, 1}}, ErrMissing, "", []int{1}},
		{"rank 0 missing", []arrival{{1, 1, 5, 1}}, ErrMissing, "", []int{0}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := clock.NewVirtual()
			g, err := NewGroup(2, 0, c)
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range meet(t, g, c, tc.arrivals) {
				var e *StepError
				if !errors.As(err, &e) || !errors.Is(err, tc.err) || e.Field != tc.field || !slices.Equal(e.Ranks, tc.ranks) {
					t.Errorf("arrival %d: %v, want %v of field %q and ranks %v", i, err, tc.err, tc.field, tc.ranks)
				}
			}
			// The step does not open again, and the next one works.
			if err := g.Join(0, 1, 5, nil, nil, time.Second); !errors.Is(err, ErrLate) {
				t.Errorf("late rank: %v, want ErrLate", err)
			}
			for i, err := range meet(t, g, c, []arrival{{0, 9, 5, 1}, {1, 9, 5, 1}}) {
				if err != nil {
					t.Errorf("step after the failed one, arrival %d: %v", i, err)
				}
			}
		})
	}
}

func TestGroupClose(t *testing.T) {
	c := clock.NewVirtual()
	g, err := NewGroup(2, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	go func() { errs <- g.Join(0, 1, 5, nil, nil, time.Hour) }()
	c.AwaitPending(1)
	g.Close()
	if err := <-errs; !errors.Is(err, ErrClosed) {
		t.Errorf("waiting rank: %v", err)
	}
	if err := g.Join(1, 1, 5, nil, nil, time.Hour); !errors.Is(err, ErrClosed) {
		t.Errorf("later rank: %v", err)
	}
}

func TestGroupRefusesBadArguments(t *testing.T) {
	for name, f := range map[string]func() error{
		"no rank": func() error { _, err := NewGroup(0, 0, clock.NewVirtual()); return err },
		"vocab":   func() error { _, err := NewGroup(1, 5, clock.NewVirtual()); return err },
		"rank": func() error {
			g, err := NewGroup(1, 0, clock.NewVirtual())
			if err != nil {
				return err
			}
			return g.Join(1, 0, 0, nil, nil, 0)
		},
		"room for tokens": func() error {
			g, err := NewGroup(1, 0, clock.NewVirtual())
			if err != nil {
				return err
			}
			return g.Join(0, 0, 0, make([]uint64, 2), make([]uint32, 1), 0)
		},
	} {
		if err := f(); !errors.Is(err, ErrStep) {
			t.Errorf("%s: %v, want ErrStep", name, err)
		}
	}
	e := &StepError{Step: 4, Field: "digest", Ranks: []int{0, 1}, Values: []uint64{5, 6}, Err: ErrDiffers}
	if want := "step 4: model: ranks brought different batches; rank 0: digest 0x5; rank 1: digest 0x6"; e.Error() != want {
		t.Errorf("%q, want %q", e.Error(), want)
	}
}

func TestGroupAllocatesNothing(t *testing.T) {
	g, err := NewGroup(2, 0, clock.NewReal())
	if err != nil {
		t.Fatal(err)
	}
	const runs = 200
	var wg sync.WaitGroup
	join := func(rank int, step uint64, partial []uint64, dst []uint32) {
		if err := g.Join(rank, step, 1, partial, dst, time.Minute); err != nil {
			panic(fmt.Sprint(err))
		}
	}
	wg.Go(func() {
		partial, dst := make([]uint64, 8), make([]uint32, 8)
		for step := range uint64(runs + 1) { // AllocsPerRun runs once more to warm up
			join(1, step, partial, dst)
		}
	})
	partial, dst, step := make([]uint64, 8), make([]uint32, 8), uint64(0)
	got := testing.AllocsPerRun(runs, func() {
		join(0, step, partial, dst)
		step++
	})
	wg.Wait()
	if got != 0 {
		t.Errorf("%v allocations a step", got)
	}
}
