package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"sluice/gpu"
	"sluice/internal/clock"
)

func TestCopyMovesPagesAndSums(t *testing.T) {
	bothModes(t, func(t *testing.T, live bool) {
		r := newRig(t, live, Options{}, 80, 8)
		src, dst := refs(r.l1, 0, 4), []gpu.Ref{{Arena: r.l2, Index: 6}, {Arena: r.l2, Index: 1}, {Arena: r.l2, Index: 3}, {Arena: r.l2, Index: 0}}
		r.stamp(src, 'A')
		sums := make([]uint64, 4)
		var c gpu.Completion
		must(t, r.dev.Copy(r.stream, gpu.Batch{Op: 1, Dst: dst, Src: src, Sums: sums}, &c))
		if out := r.settle(&c); out != (gpu.Outcome{Good: 4}) {
			t.Fatalf("outcome %+v", out)
		}
		for i := range src {
			want, _ := r.dev.Hash(src[i])
			if got, _ := r.dev.Hash(dst[i]); got != want || sums[i] != want {
				t.Errorf("page %d: hash %#x, sum %#x, want %#x", i, got, sums[i], want)
			}
		}
		if r.owner(gpu.Ref{Arena: r.l2, Index: 2}) != 0 {
			t.Error("a page that was not named was touched")
		}
		must(t, r.dev.Copy(r.stream, gpu.Batch{Op: 2, Dst: refs(r.l1, 4, 4), Src: dst, Sums: sums, Check: true}, &c))
		if out := r.settle(&c); out != (gpu.Outcome{Good: 4}) {
			t.Errorf("checked copy back: %+v", out)
		}
	})
}

// A page whose bytes changed ends the copy there; so does a generation that has moved on, wherever
// the reference is stale.
func TestCopyCountsLeadingGoodPages(t *testing.T) {
	bothModes(t, func(t *testing.T, live bool) {
		for _, c := range []struct {
			name   string
			breakf func(r *rig, src, dst []gpu.Ref)
			bad    bool
			want   error
		}{
			{"changed bytes", func(r *rig, src, _ []gpu.Ref) { must(r.t, r.dev.Write(src[2], 5, []byte{0xee})) }, true, gpu.ErrSum},
			{"stale source", func(r *rig, src, _ []gpu.Ref) { src[2].Generation = 9 }, false, gpu.ErrStale},
			{"stale destination", func(r *rig, _, dst []gpu.Ref) {
				must(r.t, r.dev.Assign([]gpu.Ref{{Arena: r.l1, Index: dst[2].Index, Generation: 1}}))
			}, false, gpu.ErrStale},
			{"no such page", func(r *rig, _, dst []gpu.Ref) { dst[2].Index = 99 }, false, gpu.ErrNoPage},
			{"no such arena", func(r *rig, src, _ []gpu.Ref) { src[2].Arena = 99 }, false, gpu.ErrNoArena},
			{"other page size", func(r *rig, _, dst []gpu.Ref) {
				dst[2] = gpu.Ref{Arena: r.arena(gpu.ArenaSpec{Name: "odd", Kind: gpu.Memory, PageBytes: 17, Pages: 1})}
			}, false, gpu.ErrBatch},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, live, Options{}, 16, 4)
				src, dst := refs(r.l2, 0, 4), refs(r.l1, 0, 4)
				r.stamp(src, 'A')
				r.stamp(dst, 'Z')
				sums := make([]uint64, 4)
				for i := range sums {
					sums[i], _ = r.dev.Hash(src[i])
				}
				c.breakf(r, src, dst)
				var done gpu.Completion
				must(t, r.dev.Copy(r.stream, gpu.Batch{Op: 3, Dst: dst, Src: src, Sums: sums, Check: true}, &done))
				out := r.settle(&done)
				if out.Good != 2 || out.BadBytes != c.bad || !errors.Is(out.Err, c.want) {
					t.Errorf("outcome %+v, want 2 good, bad bytes %v, %v", out, c.bad, c.want)
				}
				if a, z := r.owner(dst[1]), r.owner(dst[3]); a != 'A' || z != 'Z' {
					t.Errorf("page 1 is %c and page 3 is %c, want A and Z: the rest is untouched", a, z)
				}
			})
		}
	})
}

func TestMalformedBatches(t *testing.T) {
	r := newRig(t, false, Options{QueueDepth: 2}, 16, 4)
	var c gpu.Completion
	two := refs(r.l1, 0, 2)
	for _, x := range []struct {
		name string
		s    gpu.Stream
		b    gpu.Batch
		c    *gpu.Completion
		want error
	}{
		{"lengths apart", r.stream, gpu.Batch{Dst: two, Src: two[:1]}, &c, gpu.ErrBatch},
		{"sums apart", r.stream, gpu.Batch{Dst: two, Src: two, Sums: make([]uint64, 3)}, &c, gpu.ErrBatch},
		{"check without sums", r.stream, gpu.Batch{Dst: two, Src: two, Check: true}, &c, gpu.ErrBatch},
		{"no completion", r.stream, gpu.Batch{Dst: two, Src: two}, nil, gpu.ErrBatch},
		{"no stream", 0, gpu.Batch{}, &c, gpu.ErrNoStream},
		{"stream too high", 9, gpu.Batch{}, &c, gpu.ErrNoStream},
	} {
		t.Run(x.name, func(t *testing.T) {
			if err := r.dev.Copy(x.s, x.b, x.c); !errors.Is(err, x.want) {
				t.Errorf("error %v, want %v", err, x.want)
			}
			if c.Done() || !c.Begin() {
				t.Error("the completion was touched")
			}
			c.Cancel()
		})
	}
	if err := r.dev.Fill(r.stream, two, 0, nil); !errors.Is(err, gpu.ErrBatch) {
		t.Errorf("fill without a completion gives %v", err)
	}
	must(t, r.dev.Copy(r.stream, gpu.Batch{}, &c))
	if err := r.dev.Copy(r.stream, gpu.Batch{}, &c); !errors.Is(err, gpu.ErrInFlight) {
		t.Errorf("completion used twice gives %v", err)
	}
	var second, third gpu.Completion
	must(t, r.dev.Copy(r.stream, gpu.Batch{}, &second))
	if err := r.dev.Copy(r.stream, gpu.Batch{}, &third); !errors.Is(err, gpu.ErrQueueFull) {
		t.Errorf("full queue gives %v", err)
	}
	if out := r.settle(&second); out != (gpu.Outcome{}) || !c.Done() {
		t.Errorf("empty copy: %+v", out)
	}
	must(t, r.dev.Copy(r.stream, gpu.Batch{}, &third))
	r.settle(&third)
}

// Streams keep their order, ticks do not go back, and equal seeds give equal runs.
func TestVirtualOrder(t *testing.T) {
	run := func(seed uint64) (ends []string) {
		r := newRig(t, false, Options{Delay: SeededDelay(seed, 1, 9)}, 16, 4)
		other, err := r.dev.NewStream("other")
		must(t, err)
		done := make([]gpu.Completion, 20)
		for i := range done {
			s := r.stream
			if i%3 == 0 {
				s = other
			}
			must(t, r.dev.Copy(s, gpu.Batch{Op: uint64(i), Dst: refs(r.l1, 0, 1), Src: refs(r.l2, 0, 1)}, &done[i]))
		}
		reported := make([]bool, len(done))
		for {
			due, ok := r.dev.Next()
			if !ok {
				break
			}
			if n := r.dev.Step(due - 1); n != 0 {
				t.Fatalf("%d operations ended before tick %d", n, due)
			}
			n := r.dev.Step(due)
			for i := range done {
				if done[i].Done() && !reported[i] {
					reported[i] = true
					ends = append(ends, fmt.Sprintf("%d@%d", i, due))
					n--
				}
			}
			if n != 0 {
				t.Fatalf("Step miscounted by %d at tick %d", n, due)
			}
		}
		for i := range done {
			for j := range i {
				if (i%3 == 0) == (j%3 == 0) && tickOf(t, ends, j) > tickOf(t, ends, i) {
					t.Errorf("seed %d: operation %d of a stream ended after operation %d", seed, j, i)
				}
			}
		}
		return ends
	}
	const seed = 11
	first := run(seed)
	if second := run(seed); !reflect.DeepEqual(first, second) {
		t.Errorf("seed %d gave\n%v and\n%v", seed, first, second)
	}
	if other := run(seed + 1); reflect.DeepEqual(first, other) {
		t.Error("another seed changed nothing")
	}
}

func tickOf(t *testing.T, ends []string, op int) int {
	for _, e := range ends {
		var o, tick int
		if _, err := fmt.Sscanf(e, "%d@%d", &o, &tick); err != nil {
			t.Fatal(err)
		}
		if o == op {
			return tick
		}
	}
	t.Fatalf("operation %d never ended", op)
	return 0
}

func TestVirtualDelays(t *testing.T) {
	r := newRig(t, false, Options{Delay: func(kind Op, pages int) uint64 {
		if kind == Load {
			return uint64(10 * pages)
		}
		return 0
	}, Faults: []Fault{{Kind: Backup, DelayTicks: 7}}}, 16, 4)
	r.dev.Step(100)
	var load, backup, move gpu.Completion
	must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: refs(r.l1, 0, 2), Src: refs(r.l2, 0, 2)}, &load))
	s2, err := r.dev.NewStream("backup")
	must(t, err)
	must(t, r.dev.Copy(s2, gpu.Batch{Dst: refs(r.l2, 2, 1), Src: refs(r.l1, 2, 1)}, &backup))
	must(t, r.dev.Copy(s2, gpu.Batch{Dst: refs(r.l2, 2, 1), Src: refs(r.l2, 3, 1)}, &move))
	for _, c := range []struct {
		tick               uint64
		ended              int
		load, backup, move bool
	}{
		{106, 0, false, false, false},
		{107, 2, false, true, true}, // the move was due at once, but is behind the backup
		{50, 0, false, true, true},  // ticks do not go back
		{119, 0, false, true, true},
		{120, 1, true, true, true},
	} {
		if n := r.dev.Step(c.tick); n != c.ended || load.Done() != c.load || backup.Done() != c.backup || move.Done() != c.move {
			t.Errorf("tick %d: %d ended; load %v, backup %v, move %v; want %+v", c.tick, n, load.Done(), backup.Done(), move.Done(), c)
		}
	}
	if _, ok := r.dev.Next(); ok {
		t.Error("an idle device has work due")
	}
}

// Work that becomes due behind a slow operation of its stream counts as due with it, so that streams
// take turns by submission within a tick.
func TestVirtualOrderWithinATick(t *testing.T) {
	delays := []uint64{5, 5, 0}
	r := newRig(t, false, Options{Delay: func(Op, int) uint64 {
		d := delays[0]
		delays = delays[1:]
		return d
	}}, 16, 4)
	other, err := r.dev.NewStream("other")
	must(t, err)
	page := refs(r.l1, 0, 1)
	var first, second, third gpu.Completion
	must(t, r.dev.Fill(r.stream, refs(r.l1, 1, 1), 'x', &first))
	must(t, r.dev.Fill(other, page, '2', &second))
	must(t, r.dev.Fill(r.stream, page, '3', &third))
	if n := r.dev.Step(5); n != 3 {
		t.Fatalf("%d operations ended, want 3", n)
	}
	if got := r.owner(page[0]); got != '3' {
		t.Errorf("the page was filled last by %c, want 3", got)
	}
}

// An event that was recorded on a slow stream and then on a fast one stands for the second.
func TestEventRecordedTwice(t *testing.T) {
	r := newRig(t, false, Options{Delay: func(op Op, _ int) uint64 { return map[Op]uint64{Fill: 5}[op] }}, 16, 2)
	fast, err := r.dev.NewStream("fast")
	must(t, err)
	e, err := r.dev.NewEvent()
	must(t, err)
	var c gpu.Completion
	must(t, r.dev.Fill(r.stream, refs(r.l1, 0, 1), 'x', &c))
	must(t, r.dev.Record(r.stream, e))
	must(t, r.dev.Record(fast, e))
	for tick := range uint64(7) {
		r.dev.Step(tick)
		if ok, err := r.dev.Query(e); !ok || err != nil {
			t.Errorf("tick %d: reached %v, %v", tick, ok, err)
		}
	}
	if !c.Done() {
		t.Error("the slow stream did not end")
	}
}

func TestSeededDelay(t *testing.T) {
	a, b := SeededDelay(5, 3, 6), SeededDelay(5, 3, 6)
	seen := map[uint64]bool{}
	for range 200 {
		x := a(Load, 1)
		if x != b(Load, 1) {
			t.Fatal("equal seeds draw different delays")
		}
		if x < 3 || x > 6 {
			t.Fatalf("delay %d is outside 3 to 6", x)
		}
		seen[x] = true
	}
	if len(seen) != 4 {
		t.Errorf("200 draws gave %d values of 4", len(seen))
	}
	if d := SeededDelay(5, 4, 2)(Load, 1); d != 4 {
		t.Errorf("a reversed range gives %d, want its start", d)
	}
}

func TestEvents(t *testing.T) {
	r := newRig(t, false, Options{Delay: func(Op, int) uint64 { return 2 }}, 16, 2)
	e, err := r.dev.NewEvent()
	must(t, err)
	query := func() bool {
		ok, err := r.dev.Query(e)
		must(t, err)
		return ok
	}
	if !query() {
		t.Error("an event that was never recorded is not reached")
	}
	var c gpu.Completion
	must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: refs(r.l1, 0, 1), Src: refs(r.l2, 0, 1)}, &c))
	must(t, r.dev.Record(r.stream, e))
	if query() {
		t.Error("the event is reached before the work it follows")
	}
	if err := r.dev.Wait(t.Context(), e); !errors.Is(err, gpu.ErrNotReady) {
		t.Errorf("wait on a virtual device gives %v, want ErrNotReady", err)
	}
	if n := r.dev.Step(2); n != 1 || !query() {
		t.Errorf("Step ended %d operations, event %v; the event is no operation", n, query())
	}
	must(t, r.dev.Wait(t.Context(), e))
	for _, bad := range []gpu.Event{0, 2} {
		if _, err := r.dev.Query(bad); !errors.Is(err, gpu.ErrNoEvent) {
			t.Errorf("event %d gives %v", bad, err)
		}
	}
	if err := r.dev.Record(9, e); !errors.Is(err, gpu.ErrNoStream) || !query() {
		t.Errorf("record on no stream gives %v; it must leave the event as it was", err)
	}
}

// Close does not wait for a slow copy, ends what is queued behind it, and frees whoever waits.
func TestLiveCloseEndsWaits(t *testing.T) {
	clk := clock.NewVirtual()
	r := newRig(t, true, Options{Clock: clk, Tick: time.Millisecond, Faults: []Fault{{Kind: Load, DelayTicks: 5}}}, 16, 2)
	var slow, queued gpu.Completion
	load := gpu.Batch{Dst: refs(r.l1, 0, 1), Src: refs(r.l2, 0, 1)}
	must(t, r.dev.Copy(r.stream, load, &slow))
	must(t, r.dev.Copy(r.stream, load, &queued))
	e, err := r.dev.NewEvent()
	must(t, err)
	must(t, r.dev.Record(r.stream, e))
	clk.AwaitPending(1) // the stream lingers on the first load
	waited := make(chan error)
	go func() { waited <- r.dev.Wait(context.Background(), e) }()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.dev.Wait(cancelled, e); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with an ended context gives %v", err)
	}
	must(t, r.dev.Close())
	if err := <-waited; !errors.Is(err, gpu.ErrClosed) {
		t.Errorf("the waiter got %v, want ErrClosed", err)
	}
	for name, c := range map[string]*gpu.Completion{"slow": &slow, "queued": &queued} {
		if out := c.Outcome(); !c.Done() || out.Good != 0 || !errors.Is(out.Err, gpu.ErrClosed) {
			t.Errorf("%s copy: done %v, %+v; want no good page and ErrClosed", name, c.Done(), out)
		}
	}
}

func TestLiveDelay(t *testing.T) {
	clk := clock.NewVirtual()
	r := newRig(t, true, Options{Clock: clk, Tick: time.Millisecond, Faults: []Fault{{Kind: Load, DelayTicks: 5}}}, 16, 2)
	var c gpu.Completion
	must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: refs(r.l1, 0, 1), Src: refs(r.l2, 0, 1)}, &c))
	clk.AwaitPending(1)
	clk.Advance(5*time.Millisecond - 1)
	if c.Done() {
		t.Error("the copy ended before its delay")
	}
	clk.Advance(1)
	if out := r.settle(&c); out != (gpu.Outcome{Good: 1}) {
		t.Errorf("outcome %+v", out)
	}
	if r.dev.Step(1000) != 0 {
		t.Error("Step of a live device ran something")
	}
	if _, ok := r.dev.Next(); ok {
		t.Error("a live device has a next tick")
	}
}

func TestVirtualCloseEndsWhatIsQueued(t *testing.T) {
	r := newRig(t, false, Options{}, 16, 2)
	var c gpu.Completion
	must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: refs(r.l1, 0, 1), Src: refs(r.l2, 0, 1)}, &c))
	must(t, r.dev.Close())
	if out := c.Outcome(); !c.Done() || !errors.Is(out.Err, gpu.ErrClosed) {
		t.Errorf("done %v, %+v; want ErrClosed", c.Done(), out)
	}
	if r.dev.Step(1) != 0 {
		t.Error("a closed device ran something")
	}
}

// Random copies between random pages, on both modes at once: the same outcomes, the same bytes.
func TestModesAgree(t *testing.T) {
	const seed, pages, ops = 3, 6, 400
	broke := errors.New("broke")
	run := func(live bool) (log []string) {
		rng := rand.New(rand.NewPCG(seed, seed))
		r := newRig(t, live, Options{Faults: []Fault{
			{Kind: Load, Page: 1, After: 5, Times: 20, Err: broke},
			{Kind: Backup, Page: 0, After: 5, Times: 20, Corrupt: true},
			{Kind: Move, Page: 2, Times: Forever, Corrupt: true},
		}}, 48, pages)
		r.stamp(refs(r.l1, 0, pages), 'A')
		r.stamp(refs(r.l2, 0, pages), 'B')
		arenas := []gpu.ArenaID{r.l1, r.l2}
		for range ops {
			n := rng.IntN(pages / 2)
			dst := refs(arenas[rng.IntN(2)], rng.IntN(pages/2), n)
			src := refs(arenas[rng.IntN(2)], rng.IntN(pages), n) // may reach past the end
			var c gpu.Completion
			must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: dst, Src: src}, &c))
			log = append(log, fmt.Sprint(r.settle(&c)))
		}
		for _, ref := range append(refs(r.l1, 0, pages), refs(r.l2, 0, pages)...) {
			sum, err := r.dev.Hash(ref)
			must(t, err)
			log = append(log, fmt.Sprint(ref, sum))
		}
		return log
	}
	if a, b := run(true), run(false); !reflect.DeepEqual(a, b) {
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("seed %d: entry %d: live %s, virtual %s", seed, i, a[i], b[i])
			}
		}
	}
}

func TestStreamsDoNotAllocate(t *testing.T) {
	bothModes(t, func(t *testing.T, live bool) {
		r := newRig(t, live, Options{Delay: nil}, 64, 8)
		e, err := r.dev.NewEvent()
		must(t, err)
		dst, src, sums := refs(r.l1, 0, 4), refs(r.l2, 0, 4), make([]uint64, 4)
		var c gpu.Completion
		tick := uint64(0)
		if n := testing.AllocsPerRun(200, func() {
			if err := r.dev.Copy(r.stream, gpu.Batch{Dst: dst, Src: src, Sums: sums}, &c); err != nil {
				t.Error(err)
			}
			if err := r.dev.Record(r.stream, e); err != nil {
				t.Error(err)
			}
			tick++
			r.dev.Step(tick)
			for ok := false; !ok || !c.Done(); runtime.Gosched() {
				ok, _ = r.dev.Query(e)
			}
		}); n != 0 {
			t.Errorf("%v allocations a copy and an event", n)
		}
	})
}
