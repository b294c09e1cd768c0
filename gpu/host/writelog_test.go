package host

import (
	"slices"
	"sync"
	"testing"

	"sluice/gpu"
)

func TestWrittenTellsEveryWrite(t *testing.T) {
	d, err := NewVirtual(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l1, _ := d.NewArena(gpu.ArenaSpec{Name: "a", Kind: gpu.Memory, PageBytes: 16, Pages: 8})
	l2, _ := d.NewArena(gpu.ArenaSpec{Name: "b", Kind: gpu.Pinned, PageBytes: 16, Pages: 8})
	s, _ := d.NewStream("s")
	ref := func(a gpu.ArenaID, i uint32) gpu.Ref { return gpu.Ref{Arena: a, Index: i} }
	written := func(mark uint64) ([]uint32, uint64) {
		t.Helper()
		p, now, ok := d.Written(l1, mark, nil)
		if !ok {
			t.Fatalf("the log does not reach back to %d", mark)
		}
		slices.Sort(p)
		return slices.Compact(p), now
	}
	_, mark := written(0)
	if err := d.Write(ref(l1, 3), 0, []byte{1}); err != nil {
		t.Fatal(err)
	}
	var c, f, out gpu.Completion
	if err := d.Copy(s, gpu.Batch{Dst: []gpu.Ref{ref(l1, 5)}, Src: []gpu.Ref{ref(l2, 1)}}, &c); err != nil {
		t.Fatal(err)
	}
	if err := d.Fill(s, []gpu.Ref{ref(l1, 6)}, 1, &f); err != nil {
		t.Fatal(err)
	}
	if err := d.Copy(s, gpu.Batch{Dst: []gpu.Ref{ref(l2, 5)}, Src: []gpu.Ref{ref(l1, 1)}}, &out); err != nil {
		t.Fatal(err)
	}
	if p, _ := written(mark); !slices.Equal(p, []uint32{3}) {
		t.Errorf("before the copies run: %v, want page 3", p)
	}
	d.Step(10)
	p, mark := written(mark)
	if !slices.Equal(p, []uint32{3, 5, 6}) {
		t.Errorf("pages written: %v, want 3, 5 and 6", p)
	}
	if p, _ := written(mark); len(p) != 0 {
		t.Errorf("nothing was written since, got %v", p)
	}
	for range logSize {
		if err := d.Write(ref(l1, 0), 0, []byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok := d.Written(l1, mark, nil); ok {
		t.Error("a log that was overrun says it holds everything")
	}
	if _, _, ok := d.Written(l2, 0, nil); ok {
		t.Error("an arena without a log says nothing was written")
	}
}

func TestWrittenBesideWriters(t *testing.T) {
	d, err := NewVirtual(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l1, _ := d.NewArena(gpu.ArenaSpec{Name: "a", Kind: gpu.Memory, PageBytes: 16, Pages: 4})
	const each = 1000
	var wg sync.WaitGroup
	for w := range uint32(4) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range each {
				if err := d.Write(gpu.Ref{Arena: l1, Index: w}, 0, []byte{1}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	n := [4]int{}
	var mark uint64
	p, now, ok := d.Written(l1, mark, nil)
	if !ok || now != 8*each {
		t.Fatalf("mark %d, ok %v; want %d notes", now, ok, 8*each)
	}
	for _, i := range p {
		n[i]++
	}
	if n != [4]int{2 * each, 2 * each, 2 * each, 2 * each} {
		t.Errorf("notes by page: %v", n)
	}
}
