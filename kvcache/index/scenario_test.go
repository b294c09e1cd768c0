package index

import (
	"errors"
	"slices"
	"testing"
)

func newIndex(t testing.TB, page, l1, l2 int) (*Index, SpaceID) {
	t.Helper()
	x := must(New(Config{PageSize: page, L1Pages: l1, L2Pages: l2}))(t)
	return x, x.Space(Key{Namespace: "n", Fingerprint: "f", Layout: "l"}.AppendCanonical(nil))
}

// count returns n tokens first, first+1, ...
func count(first, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(first + i)
	}
	return out
}

// publish inserts tokens with fresh private pages, gives back what stays private, and returns the node.
func publish(t testing.TB, x *Index, s SpaceID, tokens []uint32, clock uint64) InsertResult {
	t.Helper()
	pages := (len(tokens) + x.pageSize - 1) / x.pageSize
	table := must(x.Alloc(L1, pages, Private, nil))(t)
	r := must(x.Insert(s, tokens, table, 0, clock))(t)
	noError(t, x.Move(L1, table[r.Published:], Private, Free))
	return r
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantBooks(t testing.TB, x *Index, tier Tier, want Books) {
	t.Helper()
	noError(t, x.Check())
	if got := x.Books(tier); got != want {
		t.Fatalf("%s books are %+v, want %+v", tier, got, want)
	}
}

// toL2 leaves the pages of node with an L2 copy only.
func toL2(t testing.TB, x *Index, node NodeID) {
	t.Helper()
	for _, id := range x.AppendUnbacked(nil, node) {
		op := must(x.StartBackup(id))(t)
		info, _ := x.OpInfo(op)
		noError(t, x.EndBackup(op, info.Pages))
	}
	n, _ := x.Node(node)
	x.Evict(L1, n.Start+n.Pages)
}

// S07: pages are no L1 hits before their load is agreed, and the failed tail is freed once.
func TestLoadingPagesAreNoHits(t *testing.T) {
	x, s := newIndex(t, 4, 12, 12)
	prompt := count(1, 24)
	toL2(t, x, publish(t, x, s, prompt, 1).Node)

	lock, node, err := x.Pin(s, prompt, 6, 2)
	noError(t, err)
	op := must(x.StartLoad(node))(t)
	if m := x.Match(s, prompt); m.L1 != 0 || m.Pages != 6 || m.Owed != 0 {
		t.Fatalf("while loading B matches %+v, want 6 pages, none of them on L1, none owed", m)
	}
	wantBooks(t, x, L1, Books{Free: 6, Loading: 6})

	rest := must(x.EndLoad(op, 4))(t)
	if m := x.Match(s, prompt); m.L1 != 4 || m.Pages != 6 {
		t.Fatalf("after 4 good pages B matches %+v", m)
	}
	wantBooks(t, x, L1, Books{Free: 6, Loading: 2, Locked: 4})
	noError(t, x.DropCopies(rest))
	if m := x.Match(s, prompt); m.L1 != 4 || m.Pages != 4 {
		t.Fatalf("after the drop of the bad pages B matches %+v", m)
	}
	if _, err := x.RetryLoad(rest); !errors.Is(err, ErrState) {
		t.Fatalf("retry without a copy: %v", err)
	}
	noError(t, x.ReleaseLoad(rest))
	if err := x.ReleaseLoad(rest); !errors.Is(err, ErrState) {
		t.Fatalf("second release: %v", err)
	}
	wantBooks(t, x, L1, Books{Free: 8, Locked: 4})
	noError(t, x.Unpin(lock))
	wantBooks(t, x, L1, Books{Free: 8, Evictable: 4})
	wantBooks(t, x, L2, Books{Free: 8, Locked: 4}) // mirrors of pages on L1
}

// S07 with copies kept: the rest is retried over the same numbers.
func TestRetryKeepsNumbers(t *testing.T) {
	x, s := newIndex(t, 4, 12, 12)
	prompt := count(1, 24)
	node := publish(t, x, s, prompt, 1).Node
	toL2(t, x, node)
	op := must(x.StartLoad(node))(t)
	_, first := x.AppendOp(nil, nil, op)
	rest := must(x.EndLoad(op, 4))(t)
	if rest != node {
		t.Fatalf("the rest is node %d, want the loaded node %d", rest, node)
	}
	op = must(x.RetryLoad(rest))(t)
	src, dst := x.AppendOp(nil, nil, op)
	if !slices.Equal(dst, first[4:]) || len(src) != 2 {
		t.Fatalf("the retry copies %v to %v, want the last two of %v", src, dst, first)
	}
	if rest := must(x.EndLoad(op, 2))(t); rest != 0 {
		t.Fatalf("rest %d after a whole load", rest)
	}
	wantBooks(t, x, L1, Books{Free: 6, Evictable: 6})
}

// S08: the last sampled token has no KV; the caller passes prompt + output - 1 tokens.
func TestPublishedIsFloorOfWritten(t *testing.T) {
	for prompt := 1; prompt <= 9; prompt++ {
		for output := 1; output <= 9; output++ {
			x, s := newIndex(t, 4, 8, 8)
			all := count(1, prompt+output+4)
			written := prompt + output - 1
			if r := publish(t, x, s, all[:written], 1); r.Published != written/4 {
				t.Fatalf("prompt %d, output %d: published %d, want %d", prompt, output, r.Published, written/4)
			}
			if m := x.Match(s, all); m.L1 != written/4 {
				t.Fatalf("prompt %d, output %d: the next turn hits %d, want %d", prompt, output, m.L1, written/4)
			}
			wantBooks(t, x, L1, Books{Free: 8 - written/4, Evictable: written / 4})
		}
	}
}

// S10, first run: finishing publishes 4 of 5 pages over a locked prefix of 3.
func TestFinishOverLockedPrefix(t *testing.T) {
	x, s := newIndex(t, 4, 10, 0)
	tokens := count(1, 17)
	publish(t, x, s, tokens[:12], 1)
	lock, node, err := x.Pin(s, tokens, 3, 2)
	noError(t, err)
	wantBooks(t, x, L1, Books{Free: 7, Locked: 3})
	table := must(x.Alloc(L1, 2, Private, x.AppendPages(nil, L1, node)))(t)
	r := must(x.Insert(s, tokens, table, 3, 3))(t)
	if r.Published != 4 || r.Duplicates != 0 || r.NewNodes != 1 {
		t.Fatalf("insert gave %+v", r)
	}
	noError(t, x.Move(L1, table[r.Published:], Private, Free))
	noError(t, x.Unpin(lock))
	if err := x.Unpin(lock); !errors.Is(err, ErrReceipt) {
		t.Fatalf("second unlock: %v", err)
	}
	wantBooks(t, x, L1, Books{Free: 6, Evictable: 4})
}

// S10, second run: duplicates are freed and the table re-pointed in the same step.
func TestDuplicatesAreRepointed(t *testing.T) {
	x, s := newIndex(t, 4, 10, 0)
	tokens := count(1, 12)
	a := must(x.Alloc(L1, 3, Private, nil))(t)
	b := must(x.Alloc(L1, 3, Private, nil))(t)
	canonical := slices.Clone(a)
	mine := slices.Clone(b)
	must(x.Insert(s, tokens, a, 0, 1))(t)
	r := must(x.Insert(s, tokens, b, 0, 2))(t)
	if r.Duplicates != 3 || r.NewNodes != 0 || !slices.Equal(b, canonical) {
		t.Fatalf("insert gave %+v and table %v, want the canonical %v", r, b, canonical)
	}
	for _, p := range mine {
		if st, _ := x.PageState(L1, p); st != Free {
			t.Fatalf("duplicate %d is %s", p, st)
		}
	}
	if err := x.Move(L1, mine, Private, Free); !errors.Is(err, ErrPage) {
		t.Fatalf("the duplicates could be freed twice: %v", err)
	}
	wantBooks(t, x, L1, Books{Free: 7, Evictable: 3})
}

// S11 (a): pairs that an untagged encoding mixes up share nothing.
func TestNamespacesShareNothing(t *testing.T) {
	yes := func(name, value string) Field { return Field{name, value, true} }
	no := func(name string) Field { return Field{Name: name} }
	for _, c := range []struct {
		name string
		a, b []Field
	}{
		{"adapter or salt", []Field{yes("adapter", "S"), no("salt")}, []Field{no("adapter"), yes("salt", "S")}},
		{"moved border", []Field{yes("adapter", "a"), yes("salt", "bc")}, []Field{yes("adapter", "ab"), yes("salt", "c")}},
		{"absent or empty", []Field{no("adapter")}, []Field{yes("adapter", "")}},
		{"border of name and value", []Field{yes("a", "bc")}, []Field{yes("ab", "c")}},
		{"one field more", []Field{yes("a", "b")}, []Field{yes("a", "b"), no("c")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := must(New(Config{PageSize: 4, L1Pages: 8}))(t)
			space := func(f []Field) SpaceID {
				return x.Space(Key{Namespace: string(FrameNamespace(nil, f...))}.AppendCanonical(nil))
			}
			publish(t, x, space(c.a), count(1, 8), 1)
			if m := x.Match(space(c.a), count(1, 8)); m.L1 != 2 {
				t.Fatalf("its own space matches %+v", m)
			}
			if m := x.Match(space(c.b), count(1, 8)); m.Pages != 0 {
				t.Fatalf("the other space matches %+v", m)
			}
		})
	}
}

// S11 (b): equal hashes with different tokens are a miss, counted, on each tier.
func TestEqualHashIsNoHit(t *testing.T) {
	for _, tier := range []Tier{L1, L2} {
		t.Run(tier.String(), func(t *testing.T) {
			x, s := newIndex(t, 4, 8, 8)
			x.pageHash = func([]uint32) uint64 { return 1 }
			node := publish(t, x, s, []uint32{1, 2, 3, 4}, 1).Node
			if tier == L2 {
				toL2(t, x, node)
			}
			before := x.Stats().Collisions
			if m := x.Match(s, []uint32{9, 9, 9, 9}); m.Pages != 0 || m.Node == node {
				t.Fatalf("matched %+v", m)
			}
			if got := x.Stats().Collisions - before; got != 1 {
				t.Fatalf("counted %d collisions, want 1", got)
			}
			other := publish(t, x, s, []uint32{9, 9, 9, 9}, 2)
			if other.NewNodes != 1 || other.Duplicates != 0 {
				t.Fatalf("insert of the other page gave %+v", other)
			}
			if m := x.Match(s, []uint32{1, 2, 3, 4}); m.Node != node || m.Pages != 1 {
				t.Fatalf("the first page matches %+v", m)
			}
			noError(t, x.Check())
		})
	}
}

// S33: only whole pages count, for every length around them, and a full hit allocates nothing more.
func TestUnalignedLengths(t *testing.T) {
	for n := 0; n <= 9; n++ {
		x, s := newIndex(t, 4, 16, 16)
		prompt := count(1, n)
		if m := x.Match(s, prompt); m.Pages != 0 {
			t.Fatalf("length %d: an empty tree matches %+v", n, m)
		}
		publish(t, x, s, prompt, 1)
		if m := x.Match(s, prompt); m.Pages != n/4 || m.L1 != n/4 || m.Takes != n/4 {
			t.Fatalf("length %d matches %+v, want %d pages", n, m, n/4)
		}
		if r := publish(t, x, s, prompt, 2); r.Duplicates != n/4 || r.NewNodes != 0 {
			t.Fatalf("length %d: the second run gave %+v", n, r)
		}
		lock, node, err := x.Pin(s, prompt, n/4, 3)
		noError(t, err)
		if root, _ := x.root(s); (node == root) != (n < 4) {
			t.Fatalf("length %d is locked at node %d", n, node)
		}
		wantBooks(t, x, L1, Books{Free: 16 - n/4, Locked: n / 4})
		table := x.AppendPages(nil, L1, node)
		if r := must(x.Insert(s, prompt, table, len(table), 4))(t); r.Published != n/4 || r.Node != node {
			t.Fatalf("length %d: a full hit gave %+v", n, r)
		}
		noError(t, x.Unpin(lock))
		wantBooks(t, x, L1, Books{Free: 16 - n/4, Evictable: n / 4})
	}
}
