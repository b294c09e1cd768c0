package index

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestNewRefusesBadSizes(t *testing.T) {
	for _, c := range []struct {
		name string
		c    Config
		ok   bool
	}{
		{"smallest", Config{PageSize: 1, L1Pages: 1, L2Pages: 0}, true},
		{"generations of its own", Config{PageSize: 1, L1Pages: 1, FirstGeneration: 7}, true},
		{"no page size", Config{PageSize: 0, L1Pages: 1, L2Pages: 0}, false},
		{"no device page", Config{PageSize: 1, L1Pages: 0, L2Pages: 0}, false},
		{"negative host", Config{PageSize: 1, L1Pages: 1, L2Pages: -1}, false},
		{"device beyond page numbers", Config{PageSize: 1, L1Pages: math.MaxInt, L2Pages: 0}, false},
		{"host beyond page numbers", Config{PageSize: 1, L1Pages: 1, L2Pages: math.MaxInt}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, err := New(c.c)
			if (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrConfig) {
				t.Fatalf("error %v", err)
			}
			if c.ok && (x.Config() != c.c || x.Generation(L1, 0) != c.c.FirstGeneration) {
				t.Fatalf("config %+v, first generation %d", x.Config(), x.Generation(L1, 0))
			}
		})
	}
}

// A call with arguments that name nothing says so and changes nothing.
func TestBadArguments(t *testing.T) {
	x, s := newIndex(t, 4, 8, 2)
	node := publish(t, x, s, count(1, 12), 1).Node
	root, err := x.root(s)
	noError(t, err)
	private := must(x.Alloc(L1, 3, Private, nil))(t)
	for _, c := range []struct {
		name string
		call func() error
		want error
	}{
		{"alloc beyond free", func() error { _, err := x.Alloc(L1, 3, Private, nil); return err }, ErrShort},
		{"alloc negative", func() error { _, err := x.Alloc(L1, -1, Private, nil); return err }, ErrRange},
		{"alloc as locked", func() error { _, err := x.Alloc(L1, 1, Locked, nil); return err }, ErrRange},
		{"alloc on no tier", func() error { _, err := x.Alloc(2, 1, Private, nil); return err }, ErrRange},
		{"claim as free", func() error { return x.Claim(L1, private, Free) }, ErrRange},
		{"claim on no tier", func() error { return x.Claim(2, private, Private) }, ErrRange},
		{"move from evictable", func() error { return x.Move(L1, private, Evictable, Free) }, ErrRange},
		{"move to locked", func() error { return x.Move(L1, private, Private, Locked) }, ErrRange},
		{"move on no tier", func() error { return x.Move(2, private, Private, Free) }, ErrRange},
		{"move of a wrong state", func() error { return x.Move(L1, private, Loading, Free) }, ErrPage},
		{"move of a page twice", func() error { return x.Move(L1, []Page{private[0], private[0]}, Private, Free) }, ErrPage},
		{"move outside the tier", func() error { return x.Move(L1, []Page{8}, Private, Free) }, ErrPage},
		{"move of a tree page", func() error { return x.Move(L1, x.AppendPages(nil, L1, node), Private, Free) }, ErrPage},
		{"pin in no space", func() error { _, _, err := x.Pin(9, nil, 0, 1); return err }, ErrSpace},
		{"pin beyond the tokens", func() error { _, _, err := x.Pin(s, count(1, 7), 2, 1); return err }, ErrRange},
		{"pin of negative pages", func() error { _, _, err := x.Pin(s, count(1, 7), -1, 1); return err }, ErrRange},
		{"pin of no node", func() error { _, err := x.PinNode(99, 1); return err }, ErrNode},
		{"unpin of nothing", func() error { return x.Unpin(Receipt{}) }, ErrReceipt},
		{"unpin of a stranger", func() error { return x.Unpin(Receipt{7, 7}) }, ErrReceipt},
		{"insert in no space", func() error { _, err := x.Insert(0, nil, nil, 0, 1); return err }, ErrSpace},
		{"insert with a short table", func() error { _, err := x.Insert(s, count(1, 8), private[:1], 0, 1); return err }, ErrRange},
		{"insert with from beyond", func() error { _, err := x.Insert(s, count(1, 4), private[:1], 2, 1); return err }, ErrRange},
		{"insert of another's prefix", func() error { _, err := x.Insert(s, count(1, 8), private, 1, 1); return err }, ErrPath},
		{"insert of a prefix not held", func() error { _, err := x.Insert(s, count(50, 8), private, 1, 1); return err }, ErrPath},
		{"load of a node on L1", func() error { _, err := x.StartLoad(node); return err }, ErrState},
		{"load of no node", func() error { _, err := x.StartLoad(0); return err }, ErrNode},
		{"backup beyond free", func() error { _, err := x.StartBackup(node); return err }, ErrShort},
		{"backup of a root", func() error { _, err := x.StartBackup(root); return err }, ErrState},
		{"end of no load", func() error { _, err := x.EndLoad(1, 0); return err }, ErrOp},
		{"end of no backup", func() error { return x.EndBackup(1, 0) }, ErrOp},
		{"retry of no rest", func() error { _, err := x.RetryLoad(node); return err }, ErrState},
		{"release of no node", func() error { return x.ReleaseLoad(99) }, ErrNode},
		{"drop of a root", func() error { return x.DropCopies(root) }, ErrState},
		{"score without a policy", func() error { return x.SetScore(node, 1) }, ErrState},
		{"reset with private pages", func() error { return x.Reset() }, ErrBusy},
		{"drop of a full space", func() error { return x.DropSpace(s) }, ErrBusy},
		{"drop of no space", func() error { return x.DropSpace(9) }, ErrSpace},
	} {
		t.Run(c.name, func(t *testing.T) {
			digest, sum := x.Digest(), x.Checksum()
			err := c.call()
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if x.Digest() != digest || x.Checksum() != sum {
				t.Fatal("the failed call changed something")
			}
			noError(t, x.Check())
		})
	}
	var short *ShortError
	_, err = x.Alloc(L1, 7, Private, nil)
	if !errors.As(err, &short) || *short != (ShortError{L1, 7, 2}) {
		t.Fatalf("short error %+v", short)
	}
}

func TestSplitKeepsIDsReceiptsAndOperations(t *testing.T) {
	x, s := newIndex(t, 2, 16, 16)
	tokens := count(1, 16)
	node := publish(t, x, s, tokens, 1).Node
	whole := must(x.PinNode(node, 1))(t)
	save := must(x.StartBackup(node))(t)
	src, dst := x.AppendOp(nil, nil, save)

	part, upper, err := x.Pin(s, tokens, 3, 2)
	noError(t, err)
	noError(t, x.Check())
	info, _ := x.Node(node)
	if info.Parent != upper || info.Start != 3 || info.Pages != 5 || info.Locks != 2 || info.Save != save {
		t.Fatalf("lower half is %+v", info)
	}
	if info, _ := x.Node(upper); info.Pages != 3 || info.Locks != 3 || info.Save != save {
		t.Fatalf("upper half is %+v", info)
	}
	if at, ok := x.Pinned(whole); !ok || at != node {
		t.Fatalf("the lock is at %d, want %d", at, node)
	}
	src2, dst2 := x.AppendOp(nil, nil, save)
	if !slices.Equal(src, src2) || !slices.Equal(dst, dst2) {
		t.Fatalf("the operation copied %v to %v, after the split %v to %v", src, dst, src2, dst2)
	}
	noError(t, x.EndBackup(save, 4))
	if got := x.AppendPages(nil, L2, node); !slices.Equal(got[:4], dst[:4]) || got[4] != NoPage {
		t.Fatalf("L2 numbers after 4 good pages: %v", got)
	}
	noError(t, x.Unpin(whole))
	wantBooks(t, x, L1, Books{Free: 8, Locked: 3, Evictable: 5})
	noError(t, x.Unpin(part))
	wantBooks(t, x, L1, Books{Free: 8, Evictable: 8})
}

// A dead node stays while locked, matches nothing, is adopted by an insertion, or goes with its last lock.
func TestDeadNodes(t *testing.T) {
	x, s := newIndex(t, 4, 8, 8)
	tokens := count(1, 16)
	node := publish(t, x, s, tokens, 1).Node
	toL2(t, x, node)
	a, upper, err := x.Pin(s, tokens, 2, 2)
	noError(t, err)
	noError(t, x.DropCopies(upper))
	if _, ok := x.Node(node); ok {
		t.Fatal("the unlocked dead half is still there")
	}
	if m := x.Match(s, tokens); m.Pages != 0 {
		t.Fatalf("a dead node matches %+v", m)
	}
	wantBooks(t, x, L2, Books{Free: 8})

	table := must(x.Alloc(L1, 1, Private, nil))(t)
	if r := must(x.Insert(s, tokens[:4], table, 0, 3))(t); r.Published != 1 || r.NewNodes != 0 || r.Duplicates != 0 {
		t.Fatalf("insert over a dead node gave %+v", r)
	}
	if m := x.Match(s, tokens); m.L1 != 1 {
		t.Fatalf("after the adoption it matches %+v", m)
	}
	noError(t, x.Unpin(a))
	if _, ok := x.Node(upper); ok {
		t.Fatal("the dead half outlived its last lock")
	}
	wantBooks(t, x, L1, Books{Free: 7, Evictable: 1})
}

func TestEvictionOrder(t *testing.T) {
	build := func(t *testing.T) (*Index, []NodeID) {
		x, s := newIndex(t, 1, 8, 8)
		var ids []NodeID
		for i := range 4 {
			ids = append(ids, publish(t, x, s, []uint32{uint32(i)}, uint64(10-i)).Node)
		}
		return x, ids
	}
	order := func(x *Index, ids []NodeID) []int {
		var gone []int
		for x.Evict(L1, 1) == 1 {
			for i, id := range ids {
				if _, ok := x.Node(id); !ok && !slices.Contains(gone, i) {
					gone = append(gone, i)
				}
			}
		}
		return gone
	}
	for _, c := range []struct {
		name string
		prep func(x *Index, ids []NodeID)
		want []int
	}{
		{"by clock", func(*Index, []NodeID) {}, []int{3, 2, 1, 0}},
		{"touched last goes last", func(x *Index, ids []NodeID) { x.Touch(ids[3], 20) }, []int{2, 1, 0, 3}},
		{"a clock never goes back", func(x *Index, ids []NodeID) { x.Touch(ids[0], 1) }, []int{3, 2, 1, 0}},
		{"equal clocks by id", func(x *Index, ids []NodeID) {
			for _, id := range slices.Backward(ids) {
				x.Touch(id, 30)
			}
		}, []int{0, 1, 2, 3}},
		{"unasked, then by key, then awaiting", func(x *Index, ids []NodeID) {
			x.ResetScores(true)
			x.Touch(ids[3], 20)
			_ = x.SetScore(ids[2], 5)
			_ = x.SetScore(ids[1], -5)
		}, []int{0, 1, 2, 3}},
		{"a new epoch forgets keys", func(x *Index, ids []NodeID) {
			x.ResetScores(true)
			_ = x.SetScore(ids[3], 9)
			x.ResetScores(false)
		}, []int{3, 2, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, ids := build(t)
			c.prep(x, ids)
			noError(t, x.Check())
			if got := order(x, ids); !slices.Equal(got, c.want) {
				t.Fatalf("evicted %v, want %v", got, c.want)
			}
			noError(t, x.Check())
		})
	}
}

// What eviction frees above the usable mark helps nobody, so neither Available nor Evict counts it.
func TestUsableMark(t *testing.T) {
	x, s := newIndex(t, 1, 8, 0)
	publish(t, x, s, count(1, 6), 1)
	x.SetUsable(L1, 4)
	wantBooks(t, x, L1, Books{Evictable: 6, Quarantined: 2})
	if x.Available() != 4 || x.Usable(L1) != 4 {
		t.Fatalf("available %d, usable %d", x.Available(), x.Usable(L1))
	}
	if m := x.Match(s, count(1, 6)); m.Takes != 4 {
		t.Fatalf("match %+v", m)
	}
	if err := x.Move(L1, []Page{7}, Quarantined, Free); !errors.Is(err, ErrPage) {
		t.Fatalf("a cut-off page could be freed: %v", err)
	}
	if n := x.Evict(L1, 6); n != 4 {
		t.Fatalf("evicted %d", n)
	}
	wantBooks(t, x, L1, Books{Free: 4, Quarantined: 4})
	x.SetUsable(L1, 7)
	wantBooks(t, x, L1, Books{Free: 7, Quarantined: 1})
	if got := must(x.Alloc(L1, 7, Private, nil))(t); !slices.Equal(got, []Page{0, 1, 2, 3, 4, 5, 6}) {
		t.Fatalf("handed out %v", got)
	}
}

func TestSpacesComeAndGo(t *testing.T) {
	x, s := newIndex(t, 4, 8, 8)
	if again := x.Space(Key{Namespace: "n", Fingerprint: "f", Layout: "l"}.AppendCanonical(nil)); again != s {
		t.Fatalf("the same key is space %d, then %d", s, again)
	}
	lock, root, err := x.Pin(s, nil, 0, 1)
	noError(t, err)
	if err := x.DropSpace(s); !errors.Is(err, ErrBusy) {
		t.Fatalf("drop of a locked space: %v", err)
	}
	if err := x.Reset(); !errors.Is(err, ErrBusy) {
		t.Fatalf("reset under a lock: %v", err)
	}
	noError(t, x.Unpin(lock))
	noError(t, x.DropSpace(s))
	noError(t, x.Check())
	if _, ok := x.Node(root); ok || x.Match(s, count(1, 4)) != (Match{}) || x.Stats().Spaces != 0 {
		t.Fatal("the space is still there")
	}
	if again := x.Space(Key{Namespace: "n", Fingerprint: "f", Layout: "l"}.AppendCanonical(nil)); again == s {
		t.Fatalf("space id %d was used again", s)
	}
}

func TestResetEmptiesBothTiers(t *testing.T) {
	x, s := newIndex(t, 4, 8, 8)
	toL2(t, x, publish(t, x, s, count(1, 12), 1).Node)
	publish(t, x, s, count(100, 8), 2)
	noError(t, x.Reset())
	wantBooks(t, x, L1, Books{Free: 8})
	wantBooks(t, x, L2, Books{Free: 8})
	if st := x.Stats(); st.Nodes != 0 || st.Removed == 0 {
		t.Fatalf("stats %+v", st)
	}
}

// A short piece of a long edge must not keep the long arrays alive.
func TestSmallPiecesLetGoOfLongArrays(t *testing.T) {
	x, s := newIndex(t, 1, 4096, 0)
	node := publish(t, x, s, count(1, 4096), 1).Node
	lock, upper, err := x.Pin(s, count(1, 4096), 2, 2)
	noError(t, err)
	u, n := &x.nodes[upper], &x.nodes[node]
	if cap(u.tokens) > 8 || cap(u.l1) > 8 {
		t.Fatalf("2 pages keep %d tokens and %d numbers", cap(u.tokens), cap(u.l1))
	}
	if n.back != 4096 {
		t.Fatalf("the long part was copied too (%d)", n.back)
	}
	noError(t, x.Unpin(lock))
	noError(t, x.Check())
}

func TestHotPathsAllocateNothing(t *testing.T) {
	x, s := newIndex(t, 4, 64, 64)
	tokens := count(1, 64)
	node := publish(t, x, s, tokens, 1).Node
	table := x.AppendPages(nil, L1, node)
	ids := make([]NodeID, 0, 8)
	pages := make([]Page, 0, 64)
	clock := uint64(1)
	for _, c := range []struct {
		name string
		call func()
	}{
		{"Match", func() { x.Match(s, tokens) }},
		{"Match of a partial page", func() { x.Match(s, tokens[:63]) }},
		{"Match of nothing", func() { x.Match(s, tokens[1:]) }},
		{"Space", func() { x.Space([]byte("n")) }},
		{"Pin and Unpin", func() { r, _, _ := x.Pin(s, tokens, 16, clock); _ = x.Unpin(r) }},
		{"Touch", func() { clock++; x.Touch(node, clock) }},
		{"Insert of what is there", func() { _, _ = x.Insert(s, tokens, table, 16, clock) }},
		{"Alloc and Move", func() {
			pages, _ = x.Alloc(L1, 32, Private, pages[:0])
			_ = x.Move(L1, pages, Private, Quarantined)
			_ = x.Move(L1, pages, Quarantined, Free)
		}},
		{"views", func() {
			ids = x.AppendPath(ids[:0], node)
			ids = x.AppendUnbacked(ids[:0], node)
			pages = x.AppendPages(pages[:0], L1, node)
			x.Node(node)
			x.Owed(node)
		}},
		{"counters", func() { x.Books(L1); x.Available(); x.Digest(); x.Structure() }},
		{"a backup that fails", func() {
			op, _ := x.StartBackup(node)
			_ = x.EndBackup(op, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			allowed := 0.0
			if c.name == "a backup that fails" {
				allowed = 1 // the node's own list of numbers
			}
			c.call()
			if got := testing.AllocsPerRun(100, c.call); got > allowed {
				t.Fatalf("%v allocations, want %v", got, allowed)
			}
		})
	}
	noError(t, x.Check())
}

// Each mutation leaves its mark in the digest, and two orders of the same calls leave different ones.
func TestDigestSeesOrder(t *testing.T) {
	run := func(first, second int) uint64 {
		x, s := newIndex(t, 4, 16, 0)
		publish(t, x, s, count(first, 8), 1)
		publish(t, x, s, count(second, 8), 1)
		return x.Digest()
	}
	once, again := run(1, 100), run(1, 100)
	if once != again {
		t.Fatal("equal calls, different digests")
	}
	if once == run(100, 1) {
		t.Fatal("another order, the same digest")
	}
}
