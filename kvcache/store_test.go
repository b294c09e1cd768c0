package kvcache

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sluice/gpu"
	"sluice/gpu/host"
)

// rig is one rank: a virtual device with stamped pages, and a Store.
type rig struct {
	t      testing.TB
	dev    *host.Device
	l1, l2 gpu.ArenaID
	store  *Store
	tick   uint64
}

const (
	pageBytes  = 48
	pageTokens = 4
	tierPages  = 16
)

func newRig(t testing.TB, ho host.Options, so Options) *rig {
	t.Helper()
	dev, err := host.NewVirtual(ho)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	r := &rig{t: t, dev: dev}
	r.l1 = r.arena(gpu.Memory, pageBytes)
	r.l2 = r.arena(gpu.Pinned, pageBytes)
	so.Device, so.L1, so.L2, so.PageTokens = dev, r.l1, r.l2, pageTokens
	if r.store, err = New(so); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) arena(kind gpu.Kind, size int) gpu.ArenaID {
	r.t.Helper()
	id, err := r.dev.NewArena(gpu.ArenaSpec{Name: kind.String(), Kind: kind, PageBytes: size, Pages: tierPages})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func pages(arena gpu.ArenaID, index ...uint32) []gpu.Ref {
	out := make([]gpu.Ref, len(index))
	for i, p := range index {
		out[i] = gpu.Ref{Arena: arena, Index: p}
	}
	return out
}

func (r *rig) stamp(refs []gpu.Ref, who byte) {
	r.t.Helper()
	for i, ref := range refs {
		if err := r.dev.Write(ref, 0, bytes.Repeat([]byte{who, byte(i)}, pageBytes/2)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// stamps is the owners of pages, one letter a page.
func (r *rig) stamps(refs []gpu.Ref) string {
	r.t.Helper()
	var out strings.Builder
	for _, ref := range refs {
		b := make([]byte, 1)
		if err := r.dev.Read(ref, 0, b); err != nil {
			r.t.Fatal(err)
		}
		out.WriteByte(b[0])
	}
	return out.String()
}

// step advances one tick and polls.
func (r *rig) step() []Result {
	r.tick++
	r.dev.Step(r.tick)
	return r.store.Poll(nil)
}

// backup stamps L1 pages, writes them through and waits for the end.
func (r *rig) backup(src, dst []gpu.Ref, who byte) {
	r.t.Helper()
	r.stamp(src, who)
	r.store.StartBackup(900, src, dst)
	if res := r.step(); len(res) != 1 || res[0].Good != len(src) || res[0].Err != nil {
		r.t.Fatalf("backup: %+v", res)
	}
}

func TestBackupAndLoadBack(t *testing.T) {
	for _, unchecked := range []bool{false, true} {
		t.Run(fmt.Sprintf("unchecked=%v", unchecked), func(t *testing.T) {
			r := newRig(t, host.Options{}, Options{Unchecked: unchecked})
			src, mid, dst := pages(r.l1, 0, 1, 2), pages(r.l2, 9, 4, 7), pages(r.l1, 5, 8, 6)
			r.stamp(src, 'A')
			r.stamp(dst, 'Z')
			r.store.StartBackup(1, src, mid)
			if got := r.store.Poll(nil); len(got) != 0 || r.store.Outstanding() != 1 {
				t.Fatalf("before any step: %+v, %d outstanding", got, r.store.Outstanding())
			}
			if got := r.step(); len(got) != 1 || got[0] != (Result{Op: 1, Kind: Backup, Good: 3}) {
				t.Fatalf("backup: %+v", got)
			}
			r.store.StartLoad(2, mid, dst)
			if got := r.step(); len(got) != 1 || got[0] != (Result{Op: 2, Kind: Load, Good: 3}) {
				t.Fatalf("load: %+v", got)
			}
			for i := range src {
				want, _ := r.dev.Hash(src[i])
				if got, _ := r.dev.Hash(dst[i]); got != want {
					t.Errorf("page %d came back other than it left", i)
				}
			}
			r.store.StartSave(3, src[:1], mid[:1])
			if got := r.step(); len(got) != 1 || got[0] != (Result{Op: 3, Kind: Save, Good: 1}) {
				t.Fatalf("save: %+v", got)
			}
			want := Counters{LoadBackTokens: 3 * pageTokens, BackupTokens: 3 * pageTokens, SaveTokens: pageTokens}
			if got := r.store.Counters(); got != want || r.store.Outstanding() != 0 {
				t.Errorf("counters %+v, want %+v; %d outstanding", got, want, r.store.Outstanding())
			}
		})
	}
}

// S03: of three pages the third cannot be loaded. Two are good, the third keeps the stamp of its last
// owner and is not counted, and the L2 copy is still there for the next try.
func TestFailedLoadIsNotCountedAsLoaded(t *testing.T) {
	broke := errors.New("copy engine error")
	r := newRig(t, host.Options{Rank: 1, Faults: []host.Fault{{Kind: host.Load, Rank: 1, Page: 2, Err: broke}}}, Options{})
	mid, dst := pages(r.l2, 0, 1, 2), pages(r.l1, 3, 4, 5)
	r.backup(pages(r.l1, 0, 1, 2), mid, 'A')
	r.stamp(dst, 'Z')
	r.store.StartLoad(7, mid, dst)
	got := r.step()
	if len(got) != 1 || got[0].Op != 7 || got[0].Good != 2 || got[0].BadBytes || !errors.Is(got[0].Err, broke) {
		t.Fatalf("load: %+v, want 2 good and the fault", got)
	}
	if s := r.stamps(dst); s != "AAZ" {
		t.Errorf("L1 carries %s, want AAZ", s)
	}
	c := r.store.Counters()
	if c.LoadBackTokens != 2*pageTokens || c.FailedLoads != 1 || c.ChecksumFailures != 0 {
		t.Errorf("counters %+v", c)
	}
	r.store.StartLoad(8, mid, dst)
	if got := r.step(); len(got) != 1 || got[0].Good != 3 || got[0].Err != nil {
		t.Errorf("second try: %+v", got)
	}
}

// Bytes that change on the way out, at rest, or on the way in are found when the page comes back.
func TestBadBytesAreFound(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []host.Fault
		rot    bool
	}{
		{"on the way out", []host.Fault{{Kind: host.Backup, Page: 1, Corrupt: true}}, false},
		{"at rest", nil, true},
		{"on the way in", []host.Fault{{Kind: host.Load, Page: 1, Corrupt: true}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, unchecked := range []bool{false, true} {
				r := newRig(t, host.Options{Faults: c.faults}, Options{Unchecked: unchecked})
				mid, dst := pages(r.l2, 0, 1, 2), pages(r.l1, 3, 4, 5)
				r.backup(pages(r.l1, 0, 1, 2), mid, 'A')
				if c.rot {
					if err := r.dev.Write(mid[1], 20, []byte{'x'}); err != nil {
						t.Fatal(err)
					}
				}
				r.store.StartLoad(7, mid, dst)
				got := r.step()[0]
				if unchecked {
					if got != (Result{Op: 7, Kind: Load, Good: 3}) {
						t.Errorf("unchecked: %+v; nobody looked, so nobody can tell", got)
					}
					continue
				}
				if got.Good != 1 || !got.BadBytes || !errors.Is(got.Err, gpu.ErrSum) {
					t.Errorf("checked: %+v, want 1 good page and bad bytes", got)
				}
				if n := r.store.Counters(); n.ChecksumFailures != 1 || n.FailedLoads != 1 || n.LoadBackTokens != pageTokens {
					t.Errorf("counters %+v", n)
				}
			}
		})
	}
}

// S38: an operation that cannot start takes its place in the order, with no good page, and the ones
// after it are untouched.
func TestOperationThatCannotStartStillEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(r *rig)
		want  error
	}{
		{"lengths apart", func(r *rig) { r.store.StartLoad(2, pages(r.l2, 0, 1), pages(r.l1, 8)) }, ErrPages},
		{"source in the wrong tier", func(r *rig) { r.store.StartLoad(2, pages(r.l1, 0), pages(r.l1, 8)) }, ErrPages},
		{"destination in the wrong tier", func(r *rig) { r.store.StartLoad(2, pages(r.l2, 0), pages(r.l2, 8)) }, ErrPages},
		{"backup the wrong way", func(r *rig) { r.store.StartBackup(2, pages(r.l2, 0), pages(r.l1, 8)) }, ErrPages},
		{"save the wrong way", func(r *rig) { r.store.StartSave(2, pages(r.l2, 0), pages(r.l1, 8)) }, ErrPages},
		{"never backed up", func(r *rig) { r.store.StartLoad(2, pages(r.l2, 12, 0), pages(r.l1, 8, 9)) }, ErrNoSum},
		{"no such L2 page", func(r *rig) { r.store.StartLoad(2, pages(r.l2, 99), pages(r.l1, 8)) }, ErrNoSum},
		{"no such L1 page", func(r *rig) { r.store.StartLoad(2, pages(r.l2, 0), pages(r.l1, 99)) }, gpu.ErrNoPage},
		{"backup to no such page", func(r *rig) { r.store.StartBackup(2, pages(r.l1, 0), pages(r.l2, 99)) }, gpu.ErrNoPage},
		{"stale destination", func(r *rig) {
			r.store.StartLoad(2, pages(r.l2, 0), []gpu.Ref{{Arena: r.l1, Index: 8, Generation: 3}})
		}, gpu.ErrStale},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, host.Options{}, Options{})
			mid := pages(r.l2, 0, 1)
			r.backup(pages(r.l1, 0, 1), mid, 'A')
			r.store.StartLoad(1, mid, pages(r.l1, 4, 5))
			c.start(r)
			r.store.StartLoad(3, mid, pages(r.l1, 6, 7))
			got := map[uint64]Result{}
			order := ""
			for range 3 {
				for _, res := range append(r.store.Poll(nil), r.step()...) {
					got[res.Op] = res
					order += fmt.Sprint(res.Op)
				}
			}
			if len(order) != 3 {
				t.Fatalf("results came for %q, want each of 1, 2, 3 once", order)
			}
			if got[1].Good != 2 || got[1].Err != nil || got[3].Good != 2 || got[3].Err != nil {
				t.Errorf("the others: %+v and %+v", got[1], got[3])
			}
			if got[2].Good != 0 || !errors.Is(got[2].Err, c.want) {
				t.Errorf("got %+v, want no good page and %v", got[2], c.want)
			}
			if r.store.Outstanding() != 0 {
				t.Errorf("%d outstanding when idle", r.store.Outstanding())
			}
		})
	}
}

func TestFullQueueAndClosedDeviceEndOperations(t *testing.T) {
	r := newRig(t, host.Options{QueueDepth: 1}, Options{})
	r.store.StartBackup(1, pages(r.l1, 0), pages(r.l2, 0))
	r.store.StartBackup(2, pages(r.l1, 1), pages(r.l2, 1))
	got := r.step()
	if len(got) != 2 || got[0].Op != 1 || got[0].Good != 1 || got[1].Op != 2 || got[1].Good != 0 || !errors.Is(got[1].Err, gpu.ErrQueueFull) {
		t.Errorf("got %+v, want 1 good and 2 refused by the full queue", got)
	}
	r.store.StartLoad(3, pages(r.l2, 0), pages(r.l1, 0))
	if err := r.dev.Close(); err != nil {
		t.Fatal(err)
	}
	r.store.StartLoad(4, pages(r.l2, 0), pages(r.l1, 0))
	for _, res := range r.store.Poll(nil) {
		if res.Good != 0 || !errors.Is(res.Err, gpu.ErrClosed) {
			t.Errorf("got %+v, want ErrClosed", res)
		}
	}
	if r.store.Outstanding() != 0 {
		t.Errorf("%d outstanding", r.store.Outstanding())
	}
}

// A load whose third page was never backed up brings the two before it.
func TestLoadIsCutShortAtAPageWithoutASum(t *testing.T) {
	r := newRig(t, host.Options{}, Options{})
	r.backup(pages(r.l1, 0, 1), pages(r.l2, 0, 1), 'A')
	dst := pages(r.l1, 4, 5, 6)
	r.stamp(dst, 'Z')
	r.store.StartLoad(1, pages(r.l2, 0, 1, 2), dst)
	got := r.step()
	if len(got) != 1 || got[0].Good != 2 || got[0].BadBytes || !errors.Is(got[0].Err, ErrNoSum) {
		t.Errorf("got %+v, want 2 good pages and ErrNoSum", got)
	}
	if s := r.stamps(dst); s != "AAZ" {
		t.Errorf("L1 carries %s, want AAZ", s)
	}
}

// The sum belongs to a generation: a page that was given to another node, or whose next backup has
// not ended well, has none.
func TestSumsFollowGenerations(t *testing.T) {
	broke := errors.New("broke")
	r := newRig(t, host.Options{}, Options{})
	r.backup(pages(r.l1, 0), pages(r.l2, 0), 'A')
	next := []gpu.Ref{{Arena: r.l2, Index: 0, Generation: 1}}
	if err := r.dev.Assign(next); err != nil {
		t.Fatal(err)
	}
	load := func(src []gpu.Ref) error {
		r.store.StartLoad(1, src, pages(r.l1, 5))
		return r.step()[0].Err
	}
	if err := load(next); !errors.Is(err, ErrNoSum) {
		t.Errorf("new generation: %v, want ErrNoSum", err)
	}
	if err := load(pages(r.l2, 0)); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("old generation: %v, want ErrStale", err)
	}
	r.backup(pages(r.l1, 0), next, 'B')
	if err := load(next); err != nil {
		t.Errorf("after its backup: %v", err)
	}
	if err := r.dev.Inject(host.Fault{Kind: host.Backup, Err: broke}); err != nil {
		t.Fatal(err)
	}
	r.store.StartBackup(2, pages(r.l1, 1), next)
	if got := r.step()[0]; got.Good != 0 || !errors.Is(got.Err, broke) {
		t.Fatalf("backup: %+v", got)
	}
	if err := load(next); !errors.Is(err, ErrNoSum) {
		t.Errorf("after a failed backup: %v, want ErrNoSum", err)
	}
	if n := r.store.Counters(); n.FailedBackups != 1 {
		t.Errorf("counters %+v", n)
	}
}

// Results come in the order of starts, even where a later operation, on the other stream, ended first.
func TestPollOrder(t *testing.T) {
	delays := map[host.Op]uint64{host.Load: 5, host.Backup: 2}
	r := newRig(t, host.Options{Delay: func(op host.Op, _ int) uint64 { return delays[op] }}, Options{})
	src, mid := pages(r.l1, 0), pages(r.l2, 0)
	r.store.StartBackup(1, src, mid)
	r.tick = 1
	r.step()
	r.store.StartLoad(2, mid, pages(r.l1, 3))
	r.store.StartBackup(3, src, pages(r.l2, 1))
	r.store.StartLoad(4, mid, pages(r.l1, 4))
	log := ""
	for r.store.Outstanding() > 0 && r.tick < 20 {
		for _, res := range r.step() {
			log += fmt.Sprintf("%d@%d ", res.Op, r.tick)
		}
	}
	if want := "3@4 2@7 4@7 "; log != want {
		t.Errorf("results %q, want %q", log, want)
	}
}

func TestCallersReferencesAreCopied(t *testing.T) {
	r := newRig(t, host.Options{}, Options{})
	src, mid := pages(r.l1, 0, 1), pages(r.l2, 0, 1)
	r.stamp(src, 'A')
	r.store.StartBackup(1, src, mid)
	clear(src)
	clear(mid)
	if got := r.step(); len(got) != 1 || got[0].Good != 2 {
		t.Errorf("got %+v; the caller may reuse its slices once Start has returned", got)
	}
}

func TestBadOptions(t *testing.T) {
	r := newRig(t, host.Options{}, Options{})
	odd := r.arena(gpu.Pinned, 17)
	good := Options{Device: r.dev, L1: r.l1, L2: r.l2, PageTokens: 4}
	for _, c := range []struct {
		name string
		edit func(o *Options)
		want string
	}{
		{"no device", func(o *Options) { o.Device = nil }, "no device"},
		{"no tokens", func(o *Options) { o.PageTokens = 0 }, "page of 0 tokens"},
		{"negative room", func(o *Options) { o.Operations = -1 }, "room for -1 operations"},
		{"no L1", func(o *Options) { o.L1 = 77 }, "L1: gpu: no such arena"},
		{"no L2", func(o *Options) { o.L2 = 0 }, "L2: gpu: no such arena"},
		{"swapped", func(o *Options) { o.L1, o.L2 = o.L2, o.L1 }, "L1 is a pinned arena and L2 a device one"},
		{"sizes apart", func(o *Options) { o.L2 = odd }, "pages of L1 have 48 bytes, those of L2 17"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := good
			c.edit(&o)
			if _, err := New(o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrOptions that says %q", err, c.want)
			}
		})
	}
	if _, err := New(good); err != nil {
		t.Errorf("good options: %v", err)
	}
}

func TestFailuresAreLogged(t *testing.T) {
	var out bytes.Buffer
	r := newRig(t, host.Options{}, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	r.backup(pages(r.l1, 0), pages(r.l2, 0), 'A')
	if out.Len() != 0 {
		t.Errorf("a good operation logged %q", out.String())
	}
	r.store.StartLoad(31, pages(r.l2, 0, 5), pages(r.l1, 1, 2))
	r.step()
	for _, want := range []string{"tier copy failed", "kind=load_back", "op=31", "good_pages=1", "pages=2", "never backed up"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log %q lacks %q", out.String(), want)
		}
	}
}

func TestOperationsDoNotAllocate(t *testing.T) {
	r := newRig(t, host.Options{}, Options{Operations: 4})
	src, mid, dst := pages(r.l1, 0, 1, 2), pages(r.l2, 0, 1, 2), pages(r.l1, 3, 4, 5)
	results := make([]Result, 0, 8)
	round := func() {
		r.store.StartBackup(1, src, mid)
		r.store.StartSave(2, src, mid)
		r.tick++
		r.dev.Step(r.tick)
		results = r.store.Poll(results[:0])
		r.store.StartLoad(3, mid, dst)
		r.store.StartLoad(4, mid, dst)
		r.tick++
		r.dev.Step(r.tick)
		results = r.store.Poll(results)
	}
	for range 4 {
		round() // each operation of the pool gets its buffers
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for four operations", n)
	}
	for _, res := range results {
		if res.Good != 3 || res.Err != nil {
			t.Errorf("got %+v", res)
		}
	}
}

// More operations than there is room for are taken all the same.
func TestMoreOperationsThanRoom(t *testing.T) {
	r := newRig(t, host.Options{}, Options{Operations: 2})
	for op := range uint64(9) {
		r.store.StartBackup(op, pages(r.l1, uint32(op)), pages(r.l2, uint32(op)))
	}
	got := r.step()
	for i, res := range got {
		if res.Op != uint64(i) || res.Good != 1 {
			t.Errorf("result %d is %+v", i, res)
		}
	}
	if len(got) != 9 {
		t.Errorf("%d results of 9", len(got))
	}
}

func TestKindNames(t *testing.T) {
	for k, want := range map[Kind]string{Load: "load_back", Backup: "backup", Save: "save", 0: "kind(0)"} {
		if k.String() != want {
			t.Errorf("kind %d is %q, want %q", uint8(k), k, want)
		}
	}
}
