package host

import (
	"bytes"
	"errors"
	"testing"

	"sluice/gpu"
)

func TestFaults(t *testing.T) {
	broke := errors.New("device fell off the bus")
	bothModes(t, func(t *testing.T, live bool) {
		for _, c := range []struct {
			name  string
			fault Fault
			check bool
			good  int
			bad   bool
			want  error
			last  byte // stamp of page 2 in L1 after the load
		}{
			{"cannot run", Fault{Kind: Load, Rank: 3, Page: 2, Err: broke}, true, 2, false, broke, 'Z'},
			{"corrupt, checked", Fault{Kind: Load, Rank: 3, Page: 2, Corrupt: true}, true, 2, true, gpu.ErrSum, '?'},
			{"corrupt, not checked", Fault{Kind: AnyOp, Rank: AnyRank, Page: 2, Corrupt: true}, false, 4, false, nil, '?'},
			{"other rank", Fault{Kind: Load, Rank: 0, Err: broke}, true, 4, false, nil, 'A'},
			{"other kind", Fault{Kind: Backup, Rank: 3, Err: broke}, true, 4, false, nil, 'A'},
			{"beyond the batch", Fault{Kind: Load, Rank: 3, Page: 4, Err: broke}, true, 4, false, nil, 'A'},
			{"not its turn", Fault{Kind: Load, Rank: 3, After: 1, Err: broke}, true, 4, false, nil, 'A'},
			{"by operation", Fault{Kind: Load, Rank: 3, Match: func(b gpu.Batch) bool { return b.Op == 7 }, Err: broke}, true, 0, false, broke, 'Z'},
			{"another operation", Fault{Kind: Load, Rank: 3, Match: func(b gpu.Batch) bool { return b.Op == 8 }, Err: broke}, true, 4, false, nil, 'A'},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, live, Options{Rank: 3}, 16, 4)
				src, dst := refs(r.l2, 0, 4), refs(r.l1, 0, 4)
				r.stamp(src, 'A')
				r.stamp(dst, 'Z')
				must(t, r.dev.Inject(c.fault))
				b := gpu.Batch{Op: 7, Dst: dst, Src: src, Check: c.check}
				if c.check {
					b.Sums = make([]uint64, 4)
					for i := range b.Sums {
						b.Sums[i], _ = r.dev.Hash(src[i])
					}
				}
				var done gpu.Completion
				must(t, r.dev.Copy(r.stream, b, &done))
				out := r.settle(&done)
				if out.Good != c.good || out.BadBytes != c.bad || !errors.Is(out.Err, c.want) || (c.want == nil) != (out.Err == nil) {
					t.Errorf("outcome %+v, want %d good, bad bytes %v, %v", out, c.good, c.bad, c.want)
				}
				if got := r.owner(dst[2]); got != c.last {
					t.Errorf("page 2 is %c, want %c", got, c.last)
				}
			})
		}
	})
}

// A backup that is broken on the way out keeps the sum of what it read, so that the load finds it.
func TestCorruptBackupIsFoundByTheLoad(t *testing.T) {
	r := newRig(t, false, Options{Faults: []Fault{{Kind: Backup, Page: 1, Corrupt: true}}}, 64, 4)
	src, mid, dst := refs(r.l1, 0, 2), refs(r.l2, 0, 2), refs(r.l1, 2, 2)
	r.stamp(src, 'A')
	sums := make([]uint64, 2)
	var c gpu.Completion
	must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: mid, Src: src, Sums: sums}, &c))
	if out := r.settle(&c); out != (gpu.Outcome{Good: 2}) {
		t.Fatalf("backup: %+v", out)
	}
	must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: dst, Src: mid, Sums: sums, Check: true}, &c))
	if out := r.settle(&c); out.Good != 1 || !out.BadBytes {
		t.Errorf("load: %+v, want 1 good page and bad bytes", out)
	}
}

func TestFaultCounts(t *testing.T) {
	broke := errors.New("broke")
	for _, c := range []struct {
		name  string
		fault Fault
		want  string // one letter an operation: x = hit
	}{
		{"once", Fault{Kind: Move, Err: broke}, "x......."},
		{"after two", Fault{Kind: Move, After: 2, Err: broke}, "..x....."},
		{"three times after one", Fault{Kind: Move, After: 1, Times: 3, Err: broke}, ".xxx...."},
		{"forever after five", Fault{Kind: Move, After: 5, Times: Forever, Err: broke}, ".....xxx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false, Options{Faults: []Fault{c.fault}}, 16, 2)
			got := ""
			for range len(c.want) {
				var done gpu.Completion
				must(t, r.dev.Copy(r.stream, gpu.Batch{Dst: refs(r.l1, 0, 1), Src: refs(r.l1, 1, 1)}, &done))
				if out := r.settle(&done); out.Err != nil {
					got += "x"
				} else {
					got += "."
				}
			}
			if got != c.want {
				t.Errorf("hits %s, want %s", got, c.want)
			}
		})
	}
}

func TestWriteAndFillFaults(t *testing.T) {
	broke := errors.New("broke")
	r := newRig(t, false, Options{}, 16, 4)
	page := refs(r.l1, 0, 1)
	must(t, r.dev.Inject(Fault{Kind: Write, Err: broke, Match: func(b gpu.Batch) bool { return b.Dst[0].Index == 0 }}))
	if err := r.dev.Write(refs(r.l1, 1, 1)[0], 0, []byte{1}); err != nil {
		t.Errorf("write of another page: %v", err)
	}
	if err := r.dev.Write(page[0], 0, []byte{1}); !errors.Is(err, broke) {
		t.Errorf("write: %v, want the fault", err)
	}
	must(t, r.dev.Inject(Fault{Kind: Write, Corrupt: true}))
	must(t, r.dev.Write(page[0], 0, make([]byte, 16)))
	got := make([]byte, 16)
	must(t, r.dev.Read(page[0], 0, got))
	if bytes.Equal(got, make([]byte, 16)) {
		t.Error("the write was not corrupted")
	}
	must(t, r.dev.Inject(Fault{Kind: Fill, Page: 1, Err: broke}))
	var c gpu.Completion
	must(t, r.dev.Fill(r.stream, refs(r.l1, 0, 3), 'F', &c))
	if out := r.settle(&c); out.Good != 1 || !errors.Is(out.Err, broke) {
		t.Errorf("fill: %+v, want 1 good page", out)
	}
	must(t, r.dev.Inject(Fault{Kind: Fill, Page: 2, Corrupt: true}))
	must(t, r.dev.Fill(r.stream, refs(r.l1, 0, 3), 'G', &c))
	if out := r.settle(&c); out != (gpu.Outcome{Good: 3}) {
		t.Errorf("fill: %+v", out)
	}
	if a, b := r.owner(refs(r.l1, 0, 1)[0]), r.owner(refs(r.l1, 2, 1)[0]); a != 'G' || b != '?' {
		t.Errorf("filled pages are %c and %c, want G and ?", a, b)
	}
	must(t, r.dev.Fill(r.stream, []gpu.Ref{{Arena: r.l1, Index: 77}}, 0, &c))
	if out := r.settle(&c); !errors.Is(out.Err, gpu.ErrNoPage) {
		t.Errorf("fill of no page: %+v", out)
	}
}

func TestFaultsThatMakeNoSense(t *testing.T) {
	virtual := newRig(t, false, Options{}, 16, 1).dev
	live := newRig(t, true, Options{}, 16, 1).dev
	for _, c := range []struct {
		name string
		dev  *Device
		f    Fault
	}{
		{"does nothing", virtual, Fault{Kind: Load}},
		{"unknown kind", virtual, Fault{Kind: 77, Corrupt: true}},
		{"negative page", virtual, Fault{Page: -1, Corrupt: true}},
		{"negative after", virtual, Fault{After: -1, Corrupt: true}},
		{"negative delay", virtual, Fault{DelayTicks: -1}},
		{"negative times", virtual, Fault{Times: -2, Corrupt: true}},
		{"negative rank", virtual, Fault{Rank: -2, Corrupt: true}},
		{"delayed write", virtual, Fault{Kind: Write, DelayTicks: 1}},
		{"live delay without a clock", live, Fault{Kind: Load, DelayTicks: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.dev.Inject(c.f); !errors.Is(err, gpu.ErrSpec) {
				t.Errorf("error %v, want ErrSpec", err)
			}
		})
	}
}

func TestOpNames(t *testing.T) {
	for op, want := range map[Op]string{AnyOp: "any", Load: "load", Backup: "backup", Move: "move", Fill: "fill", Write: "write", 42: "op(42)"} {
		if op.String() != want {
			t.Errorf("op %d is %q, want %q", uint8(op), op, want)
		}
	}
}
