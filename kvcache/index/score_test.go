package index

import (
	"errors"
	"testing"
)

// TestNotesForTheScorePolicy notes an owner and finds on a node, splits it, and looks at both halves.
func TestNotesForTheScorePolicy(t *testing.T) {
	x, err := New(Config{PageSize: 1, L1Pages: 16})
	if err != nil {
		t.Fatal(err)
	}
	s := x.Space([]byte("s"))
	insert := func(tokens ...uint32) NodeID {
		t.Helper()
		m := x.Match(s, tokens)
		table := x.AppendPages(nil, L1, m.Node)[:m.Pages]
		table, err := x.Alloc(L1, len(tokens)-m.Pages, Private, table)
		if err != nil {
			t.Fatal(err)
		}
		res, err := x.Insert(s, tokens, table, m.Pages, 1)
		if err != nil {
			t.Fatal(err)
		}
		return res.Node
	}
	a := insert(1, 2, 3, 4)
	before, sum := x.Digest(), x.Checksum()
	if err := errors.Join(x.SetOwner(a, 7), x.NoteFound(a), x.NoteFound(a)); err != nil {
		t.Fatal(err)
	}
	if x.Digest() == before || x.Checksum() == sum {
		t.Error("the notes show neither in the digest nor in the checksum")
	}
	b := insert(1, 2, 9) // splits the node after two pages
	info, _ := x.Node(b)
	up := info.Parent
	if err := x.NoteFound(b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		id    NodeID
		owner uint16
		found uint32
	}{{"lower half", a, 7, 2}, {"upper half", up, 7, 3}, {"the new leaf", b, 0, 1}} {
		if n, ok := x.Node(c.id); !ok || n.Owner != c.owner || n.Found != c.found {
			t.Errorf("%s: owner %d, found %d times; want %d and %d", c.name, n.Owner, n.Found, c.owner, c.found)
		}
	}
	if err := x.SetOwner(99, 1); !errors.Is(err, ErrNode) {
		t.Errorf("owner of no node: %v", err)
	}
	if err := x.NoteFound(99); !errors.Is(err, ErrNode) {
		t.Errorf("no node is found: %v", err)
	}
	if x.Nodes() != 3 {
		t.Errorf("%d nodes, want 3", x.Nodes())
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

// TestUnscoredNodesInTurns walks nodes in windows: each node that waits is shown once a turn, and one with a key only
// where it was used since.
func TestUnscoredNodesInTurns(t *testing.T) {
	x, err := New(Config{PageSize: 1, L1Pages: 16})
	if err != nil {
		t.Fatal(err)
	}
	s := x.Space([]byte("s"))
	x.ResetScores(true)
	var ids []NodeID
	for i := range 5 {
		table, err := x.Alloc(L1, 1, Private, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := x.Insert(s, []uint32{uint32(i)}, table, 0, uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, res.Node)
	}
	var sizes []int
	var all []NodeID
	next := NodeID(0)
	for {
		was := len(all)
		all, next = x.AppendUnscored(all, next, 0, 2)
		if sizes = append(sizes, len(all)-was); next == 0 {
			break
		}
	}
	if len(sizes) != 3 || sizes[0] != 2 || sizes[1] != 2 || sizes[2] != 1 || len(all) != len(ids) {
		t.Errorf("windows of %v, %d nodes of %d", sizes, len(all), len(ids))
	}
	for i, id := range ids {
		if all[i] != id {
			t.Errorf("node %d is shown at place %d, want %d", all[i], i, id)
		}
		if err := x.SetScore(id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got, next := x.AppendUnscored(nil, 0, 4, 9); len(got) != 2 || got[0] != ids[3] || got[1] != ids[4] || next != 0 {
		t.Errorf("used since clock 4: %v, next %d", got, next)
	}
}
