package nodes_test

import (
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/examples/policies/nodes"
)

// record is r as a policy sees it.
func record(t *testing.T, r abi.ScoreRecord) guest.ScoreRecord {
	t.Helper()
	buf := make([]byte, abi.BatchSize(abi.Score, 1, 1))
	b, err := abi.Begin(buf, abi.Score, 1, 1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.PutScore(0, &r)
	v, ok := guest.OpenScore(buf)
	if !ok {
		t.Fatal("the batch is none")
	}
	return v.At(0)
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		name string
		info abi.HostInfo
		want int
	}{
		{"an unknown cache", abi.HostInfo{}, 1024},
		{"512 pages", abi.HostInfo{PageSize: 64, TotalTokens: 512 * 64}, 1024},
		{"513 pages", abi.HostInfo{PageSize: 64, TotalTokens: 513 * 64}, 2048},
		{"many pages", abi.HostInfo{PageSize: 1, TotalTokens: 1 << 60}, 65536},
	} {
		if got := nodes.New[int](c.info).Len(); got != c.want {
			t.Errorf("%s: %d places, want %d", c.name, got, c.want)
		}
	}
}

// TestKnown shows one node, then another record under its name or place.
func TestKnown(t *testing.T) {
	first := abi.ScoreRecord{NodeKey: 7, Tokens: 64, DepthTokens: 32, Hits: 2, Class: abi.ScoreAwaiting}
	for _, c := range []struct {
		name string
		r    abi.ScoreRecord
		want bool
	}{
		{"used again", abi.ScoreRecord{NodeKey: 7, Tokens: 64, DepthTokens: 32, Hits: 3, Class: abi.ScoreKeyed}, true},
		{"the lower half of a split", abi.ScoreRecord{NodeKey: 7, Tokens: 16, DepthTokens: 80, Hits: 2, Class: abi.ScoreKeyed}, true},
		{"the name came back with a new node", abi.ScoreRecord{NodeKey: 7, Tokens: 64, DepthTokens: 32, Class: abi.ScoreAwaiting}, false},
		{"a new policy epoch", abi.ScoreRecord{NodeKey: 7, Tokens: 64, DepthTokens: 32, Hits: 2, Class: abi.ScoreNever}, false},
		{"the name came back with the upper half of a split", abi.ScoreRecord{NodeKey: 7, Tokens: 48, DepthTokens: 32, Hits: 3, Class: abi.ScoreKeyed}, false},
		{"the same end, and longer", abi.ScoreRecord{NodeKey: 7, Tokens: 96, Hits: 3, Class: abi.ScoreKeyed}, false},
		{"fewer hits", abi.ScoreRecord{NodeKey: 7, Tokens: 64, DepthTokens: 32, Hits: 1, Class: abi.ScoreKeyed}, false},
		{"another name in the same place", abi.ScoreRecord{NodeKey: 7 + 1024, Tokens: 64, DepthTokens: 32, Hits: 2, Class: abi.ScoreKeyed}, false},
		{"a name in another place", abi.ScoreRecord{NodeKey: 8, Tokens: 64, DepthTokens: 32, Hits: 2, Class: abi.ScoreKeyed}, false},
	} {
		table := nodes.New[int](abi.HostInfo{})
		s, known := table.At(record(t, first))
		if known || *s != 0 {
			t.Fatalf("a new node is known as %d", *s)
		}
		*s = 5
		s, known = table.At(record(t, c.r))
		if left := c.r.NodeKey%1024 == 7; known != c.want || left != (*s == 5) {
			t.Errorf("%s: known %v with state %d, want %v", c.name, known, *s, c.want)
		}
		// From now on the place is this node's.
		c.r.Class = abi.ScoreKeyed
		if _, known = table.At(record(t, c.r)); !known {
			t.Errorf("%s: not known a second time", c.name)
		}
	}
}
