package host

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sluice/gpu"
)

func TestArenaSpecs(t *testing.T) {
	r := newRig(t, false, Options{}, 16, 4)
	for _, c := range []struct {
		name string
		spec gpu.ArenaSpec
		want error
	}{
		{"no pages", gpu.ArenaSpec{Kind: gpu.Host, PageBytes: 16}, gpu.ErrSpec},
		{"no bytes", gpu.ArenaSpec{Kind: gpu.Host, Pages: 1}, gpu.ErrSpec},
		{"negative", gpu.ArenaSpec{Kind: gpu.Host, Pages: -1, PageBytes: -1}, gpu.ErrSpec},
		{"no kind", gpu.ArenaSpec{Pages: 1, PageBytes: 16}, gpu.ErrSpec},
		{"unknown kind", gpu.ArenaSpec{Kind: 9, Pages: 1, PageBytes: 16}, gpu.ErrSpec},
		{"too many page numbers", gpu.ArenaSpec{Kind: gpu.Host, Pages: 1 << 33, PageBytes: 16}, gpu.ErrSpec},
		{"size overflows", gpu.ArenaSpec{Kind: gpu.Host, Pages: 1 << 31, PageBytes: 1 << 40}, gpu.ErrNoMemory},
		{"more than the machine maps", gpu.ArenaSpec{Kind: gpu.Host, Pages: 1 << 30, PageBytes: 1 << 30}, gpu.ErrNoMemory},
		{"one byte", gpu.ArenaSpec{Kind: gpu.Host, Pages: 3, PageBytes: 1}, nil},
		{"not a multiple of 16", gpu.ArenaSpec{Kind: gpu.Memory, Pages: 3, PageBytes: 50}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, err := r.dev.NewArena(c.spec)
			if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil {
				return
			}
			if got, err := r.dev.Arena(id); err != nil || got != c.spec {
				t.Errorf("Arena gives %+v, %v", got, err)
			}
		})
	}
}

// Pages of odd sizes do not reach into each other.
func TestPagesAreApart(t *testing.T) {
	for _, size := range []int{1, 16, 17, 50} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := newRig(t, false, Options{}, size, 5)
			all := refs(r.l1, 0, 5)
			for i, ref := range all {
				if err := r.dev.Write(ref, 0, bytes.Repeat([]byte{byte(i + 1)}, size)); err != nil {
					t.Fatal(err)
				}
			}
			for i, ref := range all {
				got := make([]byte, size)
				if err := r.dev.Read(ref, 0, got); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i + 1)}, size)) {
					t.Errorf("page %d holds %v, %v", i, got, err)
				}
			}
		})
	}
}

func TestAccessErrors(t *testing.T) {
	r := newRig(t, false, Options{}, 32, 4)
	now := gpu.Ref{Arena: r.l1, Index: 1, Generation: 5}
	if err := r.dev.Assign([]gpu.Ref{now}); err != nil {
		t.Fatal(err)
	}
	old := now
	old.Generation = 4
	for _, c := range []struct {
		name string
		ref  gpu.Ref
		off  int
		n    int
		want error
	}{
		{"good", now, 0, 32, nil},
		{"good tail", now, 30, 2, nil},
		{"nothing at the end", now, 32, 0, nil},
		{"older generation", old, 0, 32, gpu.ErrStale},
		{"generation to come", gpu.Ref{Arena: r.l1, Index: 1, Generation: 6}, 0, 1, gpu.ErrStale},
		{"no arena", gpu.Ref{}, 0, 1, gpu.ErrNoArena},
		{"arena too high", gpu.Ref{Arena: 99}, 0, 1, gpu.ErrNoArena},
		{"page too high", gpu.Ref{Arena: r.l1, Index: 4}, 0, 1, gpu.ErrNoPage},
		{"page far too high", gpu.Ref{Arena: r.l1, Index: 1<<32 - 1}, 0, 1, gpu.ErrNoPage},
		{"past the end", now, 31, 2, gpu.ErrRange},
		{"offset past the end", now, 33, 0, gpu.ErrRange},
		{"negative offset", now, -1, 1, gpu.ErrRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := make([]byte, c.n)
			for call, err := range map[string]error{"write": r.dev.Write(c.ref, c.off, b), "read": r.dev.Read(c.ref, c.off, b)} {
				if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
					t.Errorf("%s: error %v, want %v", call, err, c.want)
				}
			}
		})
	}
	var stale *gpu.StaleError
	if err := r.dev.Write(old, 0, []byte{1}); !errors.As(err, &stale) || stale.Current != 5 || stale.Ref != old {
		t.Errorf("stale write gives %v, want both generations", err)
	}
	if _, err := r.dev.Hash(old); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("stale hash gives %v", err)
	}
}

// A late write of the old owner never lands in the page of the new one (S01, S02).
func TestLateWriteIsRefused(t *testing.T) {
	r := newRig(t, false, Options{}, 16, 2)
	page := gpu.Ref{Arena: r.l1, Index: 0, Generation: 1}
	next := gpu.Ref{Arena: r.l1, Index: 0, Generation: 2}
	must(t, r.dev.Assign([]gpu.Ref{page}))
	r.stamp([]gpu.Ref{page}, 'A')
	must(t, r.dev.Assign([]gpu.Ref{next}))
	r.stamp([]gpu.Ref{next}, 'B')
	if err := r.dev.Write(page, 0, []byte("AAAA")); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("late write gives %v", err)
	}
	if got := r.owner(next); got != 'B' {
		t.Errorf("page carries the stamp of %c", got)
	}
}

func TestAssign(t *testing.T) {
	r := newRig(t, false, Options{}, 16, 4)
	generation := func(i uint32) uint32 {
		g, err := r.dev.Generation(r.l1, i)
		must(t, err)
		return g
	}
	if generation(0) != 0 {
		t.Errorf("a new page has generation %d", generation(0))
	}
	bad := []gpu.Ref{{Arena: r.l1, Index: 0, Generation: 3}, {Arena: r.l1, Index: 9, Generation: 3}, {Arena: r.l1, Index: 1, Generation: 3}}
	if err := r.dev.Assign(bad); !errors.Is(err, gpu.ErrNoPage) {
		t.Errorf("error %v, want ErrNoPage", err)
	}
	if generation(0) != 3 || generation(1) != 0 {
		t.Errorf("generations %d and %d; the pages before the bad one are assigned, those after are not", generation(0), generation(1))
	}
	if err := r.dev.Assign([]gpu.Ref{{Arena: 7}}); !errors.Is(err, gpu.ErrNoArena) {
		t.Errorf("error %v, want ErrNoArena", err)
	}
	if _, err := r.dev.Generation(r.l1, 4); !errors.Is(err, gpu.ErrNoPage) {
		t.Errorf("error %v, want ErrNoPage", err)
	}

	// A page that is touched keeps its generation: assigning another one is the caller's mistake.
	a := r.dev.arenas[r.l1-1]
	held := gpu.Ref{Arena: r.l1, Index: 0, Generation: 3}
	must(t, a.enter(held))
	next := held
	next.Generation = 4
	if err := r.dev.Assign([]gpu.Ref{next}); !errors.Is(err, gpu.ErrBusy) || generation(0) != 3 {
		t.Errorf("error %v and generation %d, want ErrBusy and 3", err, generation(0))
	}
	if err := r.dev.Assign([]gpu.Ref{held}); err != nil {
		t.Errorf("assigning the generation it has: %v", err)
	}
	a.leave(0)
	must(t, r.dev.Assign([]gpu.Ref{next}))
}

func TestHashIsSumOfThePage(t *testing.T) {
	r := newRig(t, false, Options{}, 50, 2)
	b := bytes.Repeat([]byte("sluice"), 9)[:50]
	must(t, r.dev.Write(gpu.Ref{Arena: r.l1}, 0, b))
	if got, err := r.dev.Hash(gpu.Ref{Arena: r.l1}); err != nil || got != gpu.Sum(b) {
		t.Errorf("Hash = %#x, %v, want %#x", got, err, gpu.Sum(b))
	}
}

func TestClosedDevice(t *testing.T) {
	bothModes(t, func(t *testing.T, live bool) {
		r := newRig(t, live, Options{}, 16, 2)
		ev, err := r.dev.NewEvent()
		must(t, err)
		must(t, r.dev.Close())
		ref := gpu.Ref{Arena: r.l1}
		var c gpu.Completion
		_, arenaErr := r.dev.NewArena(gpu.ArenaSpec{Kind: gpu.Host, PageBytes: 1, Pages: 1})
		_, specErr := r.dev.Arena(r.l1)
		_, generationErr := r.dev.Generation(r.l1, 0)
		_, hashErr := r.dev.Hash(ref)
		_, streamErr := r.dev.NewStream("x")
		_, eventErr := r.dev.NewEvent()
		_, queryErr := r.dev.Query(ev)
		for call, err := range map[string]error{
			"NewArena": arenaErr, "Arena": specErr, "Generation": generationErr, "Hash": hashErr,
			"NewStream": streamErr, "NewEvent": eventErr, "Query": queryErr,
			"Assign": r.dev.Assign([]gpu.Ref{ref}), "Write": r.dev.Write(ref, 0, nil), "Read": r.dev.Read(ref, 0, nil),
			"Copy":   r.dev.Copy(r.stream, gpu.Batch{}, &c),
			"Fill":   r.dev.Fill(r.stream, nil, 0, &c),
			"Record": r.dev.Record(r.stream, ev),
			"Wait":   r.dev.Wait(t.Context(), ev),
		} {
			if !errors.Is(err, gpu.ErrClosed) {
				t.Errorf("%s gives %v, want ErrClosed", call, err)
			}
		}
		if err := r.dev.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestOptions(t *testing.T) {
	if _, err := NewVirtual(Options{QueueDepth: -1}); !errors.Is(err, gpu.ErrSpec) {
		t.Errorf("negative depth gives %v", err)
	}
	if _, err := NewLive(Options{Delay: SeededDelay(1, 0, 1)}); !errors.Is(err, gpu.ErrSpec) {
		t.Errorf("delay of a live device gives %v", err)
	}
	if _, err := NewVirtual(Options{Faults: []Fault{{}}}); !errors.Is(err, gpu.ErrSpec) {
		t.Errorf("empty fault gives %v", err)
	}
}

func TestSyncAccessDoesNotAllocate(t *testing.T) {
	r := newRig(t, false, Options{}, 64, 2)
	ref := gpu.Ref{Arena: r.l1}
	b := make([]byte, 64)
	one := []gpu.Ref{ref}
	if n := testing.AllocsPerRun(100, func() {
		err := errors.Join(r.dev.Write(ref, 0, b), r.dev.Read(ref, 0, b), r.dev.Assign(one))
		if _, hashErr := r.dev.Hash(ref); hashErr != nil || err != nil {
			t.Error(err, hashErr)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestErrorsNameThePage(t *testing.T) {
	r := newRig(t, false, Options{}, 32, 4)
	for _, c := range []struct {
		err  error
		want string
	}{
		{r.dev.Write(gpu.Ref{Arena: r.l2, Index: 9}, 0, nil), `page 9 of arena 2 (generation 0); arena "l2" has 4 pages`},
		{r.dev.Write(gpu.Ref{Arena: r.l2, Index: 1}, 30, make([]byte, 5)), `5 bytes at 30 of page 1 of arena 2 (generation 0); pages of arena "l2" have 32 bytes`},
		{r.dev.Write(gpu.Ref{Arena: 8}, 0, nil), "arena 8; the device has 2"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v does not say %q", c.err, c.want)
		}
	}
}

// While a late writer keeps trying, the page is assigned and filled for its next owner: the writer is
// then refused, and no byte of its stamp is left.
func TestAssignAgainstALateWriter(t *testing.T) {
	r := newRig(t, true, Options{}, 4096, 1)
	for round := range uint32(50) {
		old := gpu.Ref{Arena: r.l1, Generation: 2 * round}
		next := gpu.Ref{Arena: r.l1, Generation: 2*round + 1}
		must(t, r.dev.Assign([]gpu.Ref{old}))
		started, ended := make(chan struct{}), make(chan error)
		go func() {
			b := bytes.Repeat([]byte{'A'}, r.size)
			err := r.dev.Write(old, 0, b)
			close(started)
			for err == nil {
				err = r.dev.Write(old, 0, b)
			}
			ended <- err
		}()
		<-started
		err := r.dev.Assign([]gpu.Ref{next})
		for errors.Is(err, gpu.ErrBusy) {
			runtime.Gosched()
			err = r.dev.Assign([]gpu.Ref{next})
		}
		must(t, err)
		r.stamp([]gpu.Ref{next}, 'B')
		if err := <-ended; !errors.Is(err, gpu.ErrStale) {
			t.Fatalf("the late writer got %v, want ErrStale", err)
		}
		if got := r.owner(next); got != 'B' {
			t.Fatalf("round %d: the page carries %c", round, got)
		}
	}
}
