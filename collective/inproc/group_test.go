package inproc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/collective"
	"sluice/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = 2 * time.Second

func newGroup(t testing.TB, n int, clk clock.Clock) *Group {
	t.Helper()
	g, err := New(n, deadline, clk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func vector(s collective.Shape) *collective.Vector {
	v := new(collective.Vector)
	v.Reset(s)
	return v
}

// together runs f for each rank on a goroutine of its own, and returns what each gave.
func together(n int, f func(r int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { errs[r] = f(r) })
	}
	wg.Wait()
	return errs
}

func TestExchangesReduce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			g := newGroup(t, n, clock.NewReal())
			const ticks = 300
			s := collective.Shape{U64: 2, U32: 1, U8: n, Leader: 3}
			ranks := make([]*Rank, n)
			for r, err := range together(n, func(r int) error {
				ranks[r] = g.Rank(r)
				var v collective.Vector
				for tick := range ticks {
					v.Reset(s)
					v.U64[0] = uint64(tick)
					v.U64[1] = uint64(tick + n - r) // smallest on the last rank
					v.U32[0] = uint32(r + tick)     // smallest on rank 0
					v.U8[r] = byte(r)
					if r == 0 {
						copy(v.Leader, []byte{1, 2, byte(tick)})
					}
					if err := ranks[r].Min(context.Background(), &v); err != nil {
						return err
					}
					ok := v.U64[0] == uint64(tick) && v.U64[1] == uint64(tick+1) && v.U32[0] == uint32(tick) &&
						v.Leader[0] == 1 && v.Leader[2] == byte(tick)
					for i, b := range v.U8 {
						ok = ok && b == byte(i)
					}
					if !ok {
						return fmt.Errorf("tick %d: wrong ballot %v", tick, v)
					}
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			for r, x := range ranks {
				want := collective.Counters{Exchanges: ticks, Bytes: ticks * uint64(s.Bytes())}
				if got := x.Counters(); got != want {
					t.Errorf("rank %d counted %+v, want %+v", r, got, want)
				}
			}
		})
	}
}

// The parked path alone, which a machine with a processor a rank seldom takes.
func TestExchangesReduceWithoutSpinning(t *testing.T) {
	g := newGroup(t, 4, clock.NewReal())
	g.spins = 0
	for r, err := range together(4, func(r int) error {
		ex := g.Rank(r)
		var v collective.Vector
		for tick := range 500 {
			v.Reset(collective.Shape{U64: 1})
			v.U64[0] = uint64(tick + r)
			if err := ex.Min(context.Background(), &v); err != nil {
				return err
			}
			if v.U64[0] != uint64(tick) {
				return fmt.Errorf("tick %d: got %d", tick, v.U64[0])
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Reference: gloo with lengths apart aborts, hangs, or returns wrong values as right. Here every
// rank gets the same error in that exchange, keeps its lanes, and the next exchange works.
func TestLengthApart(t *testing.T) {
	for _, c := range []struct{ a, b int }{{3, 4}, {4, 3}, {64, 65}, {256, 255}, {255, 256}, {0, 4}} {
		t.Run(fmt.Sprintf("%d and %d", c.a, c.b), func(t *testing.T) {
			g := newGroup(t, 2, clock.NewReal())
			errs := together(2, func(r int) error {
				ex, v := g.Rank(r), vector(collective.Shape{U8: []int{c.a, c.b}[r]})
				for i := range v.U8 {
					v.U8[i] = byte(r)
				}
				first := ex.Min(context.Background(), v)
				for i := range v.U8 {
					if v.U8[i] != byte(r) {
						return fmt.Errorf("lane %d changed", i)
					}
				}
				v.Reset(collective.Shape{U8: 1})
				if err := ex.Min(context.Background(), v); err != nil {
					return fmt.Errorf("next exchange: %w", err)
				}
				return first
			})
			var shapes *collective.ShapeError
			if !errors.As(errs[0], &shapes) || errs[0] != errs[1] {
				t.Fatalf("errors %v and %v, want one ShapeError", errs[0], errs[1])
			}
			if shapes.Shapes[0].U8 != c.a || shapes.Shapes[1].U8 != c.b {
				t.Errorf("error names %v", shapes.Shapes)
			}
		})
	}
}

// A rank that skips one vote, or is a tick behind, is missing from the others' exchange: they name it
// by the deadline, and when it comes it is told the same.
func TestRankThatDoesNotCome(t *testing.T) {
	for _, c := range []struct {
		name    string
		ranks   int
		missing []int
	}{
		{"one of two", 2, []int{1}},
		{"rank 0 of two", 2, []int{0}},
		{"two of four", 4, []int{1, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := clock.NewVirtual()
			g := newGroup(t, c.ranks, clk)
			absent := map[int]bool{}
			for _, r := range c.missing {
				absent[r] = true
			}
			// One good exchange first, so that the number in the error is not the initial one.
			for r, err := range together(c.ranks, func(r int) error {
				return g.Rank(r).Min(context.Background(), vector(collective.Shape{U8: 2}))
			}) {
				if err != nil {
					t.Fatalf("rank %d: %v", r, err)
				}
			}
			got := make(chan error, c.ranks)
			waiting := 0
			for r := range c.ranks {
				if absent[r] {
					continue
				}
				waiting++
				go func() { got <- g.Rank(r).Min(context.Background(), vector(collective.Shape{U8: 2})) }()
			}
			clk.AwaitPending(waiting)
			clk.Advance(deadline - 1)
			select {
			case err := <-got:
				t.Fatalf("a rank returned before the deadline: %v", err)
			default:
			}
			clk.Advance(1)
			first := <-got
			for range waiting - 1 {
				if err := <-got; err != first {
					t.Errorf("ranks got %v and %v, want one error", first, err)
				}
			}
			var late *collective.TimeoutError
			if !errors.As(first, &late) {
				t.Fatalf("error is %v, want a TimeoutError", first)
			}
			if fmt.Sprint(late.Missing) != fmt.Sprint(c.missing) || late.Exchange != 1 || late.Epoch != 0 || late.Deadline != deadline {
				t.Errorf("error is %+v, want missing %v in exchange 1 of epoch 0", late, c.missing)
			}
			for r := range c.ranks {
				if err := g.Rank(r).Min(context.Background(), vector(collective.Shape{U8: 2})); err != first {
					t.Errorf("rank %d, coming late, got %v, want the same error", r, err)
				}
			}
			if clk.Pending() != 0 {
				t.Errorf("%d timers are still armed", clk.Pending())
			}
		})
	}
}

func TestReset(t *testing.T) {
	clk := clock.NewVirtual()
	g := newGroup(t, 2, clk)
	old := g.Rank(1)
	got := make(chan error)
	go func() { got <- g.Rank(0).Min(context.Background(), vector(collective.Shape{U8: 1})) }()
	clk.AwaitPending(1)
	clk.Advance(deadline)
	if err := <-got; err == nil {
		t.Fatal("the exchange did not break")
	}
	if err := g.Reset(0); err == nil {
		t.Error("a group re-formed under its own epoch")
	}
	if err := g.Reset(5); err != nil {
		t.Fatal(err)
	}
	if g.Epoch() != 5 {
		t.Errorf("epoch %d, want 5", g.Epoch())
	}
	if err := old.Min(context.Background(), vector(collective.Shape{U8: 1})); !errors.Is(err, collective.ErrReformed) {
		t.Errorf("a rank of the old epoch got %v, want ErrReformed", err)
	}
	// The rank that timed out parks again: nothing of the broken exchange may wake it.
	go func() { got <- g.Rank(0).Min(context.Background(), vector(collective.Shape{U8: 1})) }()
	clk.AwaitPending(1)
	if err := g.Rank(1).Min(context.Background(), vector(collective.Shape{U8: 1})); err != nil {
		t.Errorf("rank 1 after Reset: %v", err)
	}
	if err := <-got; err != nil {
		t.Errorf("rank 0 after Reset: %v", err)
	}
}

func TestEndsOfAWait(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(g *Group, cancel context.CancelFunc)
		want error // of the rank that waits
		next error // of a rank that comes after, as errors.Is sees it
	}{
		{"closed", func(g *Group, _ context.CancelFunc) { _ = g.Close() }, collective.ErrClosed, collective.ErrClosed},
		{"re-formed", func(g *Group, _ context.CancelFunc) { _ = g.Reset(1) }, collective.ErrReformed, collective.ErrReformed},
		{"context ends", func(_ *Group, cancel context.CancelFunc) { cancel() }, context.Canceled, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := clock.NewVirtual()
			g := newGroup(t, 2, clk)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			other := g.Rank(1)
			got := make(chan error)
			go func() { got <- g.Rank(0).Min(ctx, vector(collective.Shape{U8: 1})) }()
			clk.AwaitPending(1)
			c.end(g, cancel)
			if err := <-got; !errors.Is(err, c.want) {
				t.Errorf("waiting rank got %v, want %v", err, c.want)
			}
			if err := other.Min(context.Background(), vector(collective.Shape{U8: 1})); !errors.Is(err, c.next) {
				t.Errorf("next rank got %v, want %v", err, c.next)
			}
			if clk.Pending() != 0 {
				t.Errorf("%d timers are still armed", clk.Pending())
			}
		})
	}
}

// A rank whose context has ended already must not leave the others waiting for the deadline.
func TestRankThatLeavesIsNamed(t *testing.T) {
	clk := clock.NewVirtual()
	g := newGroup(t, 3, clk)
	got := make(chan error)
	go func() { got <- g.Rank(0).Min(context.Background(), vector(collective.Shape{U8: 1})) }()
	clk.AwaitPending(1)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	mine := g.Rank(2).Min(gone, vector(collective.Shape{U8: 1}))
	theirs := <-got
	var left *collective.LeaveError
	if !errors.As(mine, &left) || mine != theirs {
		t.Fatalf("errors %v and %v, want one LeaveError", mine, theirs)
	}
	if left.Rank != 2 || left.Exchange != 0 {
		t.Errorf("error is %+v, want rank 2 in exchange 0", left)
	}
}

func TestWrongUse(t *testing.T) {
	clk := clock.NewVirtual()
	g := newGroup(t, 2, clk)
	for _, c := range []struct {
		name string
		rank int
		v    *collective.Vector
		want string
	}{
		{"rank below", -1, vector(collective.Shape{}), "rank -1 of a group of 2: there is no such rank"},
		{"rank above", 2, vector(collective.Shape{}), "rank 2 of a group of 2: there is no such rank"},
		{"no vector", 0, nil, "without a vector"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := g.Rank(c.rank)
			var wrong *collective.RankError
			if err := x.Min(context.Background(), c.v); !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want a RankError that says %q", err, c.want)
			}
			if x.Counters() != (collective.Counters{}) {
				t.Errorf("counted %+v", x.Counters())
			}
		})
	}
	t.Run("came twice", func(t *testing.T) {
		got := make(chan error)
		go func() { got <- g.Rank(0).Min(context.Background(), vector(collective.Shape{U8: 1})) }()
		clk.AwaitPending(1)
		var wrong *collective.RankError
		if err := g.Rank(0).Min(context.Background(), vector(collective.Shape{U8: 1})); !errors.As(err, &wrong) {
			t.Errorf("error %v, want a RankError", err)
		}
		if err := g.Rank(1).Min(context.Background(), vector(collective.Shape{U8: 1})); err != nil {
			t.Errorf("the exchange did not survive: %v", err)
		}
		if err := <-got; err != nil {
			t.Errorf("the exchange did not survive: %v", err)
		}
	})
	for _, c := range []struct {
		name     string
		n        int
		deadline time.Duration
		clk      clock.Clock
	}{
		{"no ranks", 0, deadline, clk},
		{"too many ranks", MaxRanks + 1, deadline, clk},
		{"no deadline", 2, 0, clk},
		{"no clock", 2, deadline, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(c.n, c.deadline, c.clk); err == nil {
				t.Error("New took it")
			}
		})
	}
}

func TestExchangeDoesNotAllocate(t *testing.T) {
	for _, c := range []struct {
		name  string
		spins int
	}{{"spinning", 1 << 30}, {"parking", 0}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, 2, clock.NewReal())
			g.spins = c.spins
			s := collective.Shape{U64: 16, U8: 256}
			done := make(chan error)
			go func() {
				ex, v := g.Rank(1), vector(s)
				for {
					v.Reset(s)
					if err := ex.Min(context.Background(), v); err != nil {
						done <- err
						return
					}
				}
			}()
			ex, v := g.Rank(0), vector(s)
			n := testing.AllocsPerRun(200, func() {
				v.Reset(s)
				if err := ex.Min(context.Background(), v); err != nil {
					t.Error(err)
				}
			})
			_ = g.Close()
			if err := <-done; !errors.Is(err, collective.ErrClosed) {
				t.Errorf("the other rank got %v", err)
			}
			if n != 0 {
				t.Errorf("%v allocations an exchange, both ranks together", n)
			}
		})
	}
}

func TestSpinLimit(t *testing.T) {
	if spinLimit(2, 2) == 0 {
		t.Error("two ranks on two processors do not spin")
	}
	if spinLimit(4, 2) != 0 {
		t.Error("four ranks on two processors spin, and keep each other from running")
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		for _, lanes := range []int{64, 256, 1024} {
			b.Run(fmt.Sprintf("ranks=%d/lanes=%d", ranks, lanes), func(b *testing.B) {
				g := newGroup(b, ranks, clock.NewReal())
				s := collective.Shape{U8: lanes}
				var wg sync.WaitGroup
				for r := 1; r < ranks; r++ {
					wg.Go(func() {
						ex, v := g.Rank(r), vector(s)
						for ex.Min(context.Background(), v) == nil {
						}
					})
				}
				ex, v := g.Rank(0), vector(s)
				b.ReportAllocs()
				for b.Loop() {
					if err := ex.Min(context.Background(), v); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				_ = g.Close()
				wg.Wait()
				b.ReportMetric(float64(runtime.GOMAXPROCS(0)), "procs")
			})
		}
	}
}

// A rank that skips a vote is in step as far as shapes go. The gathered header, a lane a rank, shows
// both ranks which of them is ahead in the very exchange; and in the end the skipped vote is one
// exchange that a rank does not come to, which the others learn by the deadline.
func TestVoteSkipped(t *testing.T) {
	clk := clock.NewVirtual()
	g := newGroup(t, 2, clk)
	const ticks, skipped = 4, 2
	seen := [2][]string{}
	errs := make(chan error, 2)
	for r := range 2 {
		go func() {
			ex := g.Rank(r)
			var v collective.Vector
			for tick := range uint64(ticks) {
				if r == 1 && tick == skipped {
					continue
				}
				v.Reset(collective.Shape{U64: 2})
				v.U64[r] = tick
				if err := ex.Min(context.Background(), &v); err != nil {
					errs <- err
					return
				}
				seen[r] = append(seen[r], fmt.Sprint(v.U64))
			}
			errs <- nil
		}()
	}
	if err := <-errs; err != nil {
		t.Fatalf("the rank that skipped got %v", err)
	}
	clk.AwaitPending(1)
	clk.Advance(deadline)
	var late *collective.TimeoutError
	if err := <-errs; !errors.As(err, &late) || fmt.Sprint(late.Missing) != "[1]" || late.Exchange != 3 {
		t.Errorf("the rank left alone got %v, want rank 1 missing from exchange 3", err)
	}
	want := "[[0 0] [1 1] [2 3]]"
	if a, b := fmt.Sprint(seen[0]), fmt.Sprint(seen[1]); a != want || b != want {
		t.Errorf("ranks saw %s and %s, want %s", a, b, want)
	}
}
