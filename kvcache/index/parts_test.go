package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestCommonPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	a := randomTokens(rng, 5000)
	for _, n := range []int{0, 1, 15, 16, 17, 127, 128, 129, 1023, 1024, 1025, 2048, 3333, 4999} {
		b := slices.Clone(a)
		b[n]++
		if got := commonPrefix(a, b); got != n {
			t.Errorf("sequences that differ at %d share %d", n, got)
		}
		if got := commonPrefix(a, a[:n]); got != n {
			t.Errorf("a sequence and its first %d share %d", n, got)
		}
	}
}

// Every bit of every word, and the length, enter the hash.
func TestHashWordsSeesEverything(t *testing.T) {
	seen := map[uint64]int{}
	add := func(h uint64, what int) {
		if other, ok := seen[h]; ok {
			t.Fatalf("inputs %d and %d hash alike", what, other)
		}
		seen[h] = what
	}
	for n := range 40 {
		w := make([]uint32, n)
		add(hashWords(w), n)
		for i := range w {
			for bit := range 32 {
				w[i] = 1 << bit
				add(hashWords(w), 1000*n+32*i+bit)
			}
			w[i] = 0
		}
	}
	if got, want := hashWords(count(1, 37)), hashWords(slices.Clone(count(1, 37))); got != want {
		t.Fatalf("one input hashes to %d and %d", got, want)
	}
}

// The child table against a map, with keys that pile up in few places and wrap around the end.
func TestChildTableAgainstMap(t *testing.T) {
	for _, seed := range seeds(t, 20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var tab childTable
		want := map[NodeID]uint64{}
		for step := range 3000 {
			id := NodeID(1 + rng.IntN(400))
			if key, ok := want[id]; ok {
				tab.remove(key, id)
				delete(want, id)
			} else {
				key := ^uint64(0) - uint64(rng.IntN(8))*uint64(rng.IntN(40))
				tab.add(key, id)
				want[id] = key
			}
			if tab.used != len(want) {
				t.Fatalf("seed %d, step %d: %d entries, want %d (repeat with -index.seed=%d)", seed, step, tab.used, len(want), seed)
			}
			for id, key := range want {
				if i, ok := tab.find(key, id); !ok || tab.slots[i].key != key {
					t.Fatalf("seed %d, step %d: node %d is lost (repeat with -index.seed=%d)", seed, step, id, seed)
				}
			}
			if _, ok := tab.find(1, 9999); ok {
				t.Fatal("found what was never added")
			}
		}
	}
}

// Check must find every kind of damage, else the random test proves nothing.
func TestCheckFindsDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(x *Index, leaf, up, stored NodeID)
	}{
		{"lock without a receipt", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].locks++ }},
		{"receipt for no node", func(x *Index, _, _, _ NodeID) { x.locks[0].node = 99 }},
		{"receipt lost", func(x *Index, _, _, _ NodeID) { x.spareLocks = append(x.spareLocks, 0) }},
		{"evictable counter", func(x *Index, _, _, _ NodeID) { x.evictable++ }},
		{"cut counter", func(x *Index, _, _, _ NodeID) { x.evictableCut++ }},
		{"loading counter", func(x *Index, _, _, _ NodeID) { x.treeLoading++ }},
		{"saving counter", func(x *Index, _, _, _ NodeID) { x.treeSaving-- }},
		{"page held twice", func(x *Index, leaf, up, _ NodeID) { x.nodes[leaf].l1[0] = x.nodes[up].l1[0] }},
		{"page free and held", func(x *Index, leaf, _, _ NodeID) { x.books[L1].state[x.nodes[leaf].l1[0]] = Free }},
		{"page on the free list twice", func(x *Index, _, _, _ NodeID) { b := &x.books[L1]; b.ring[b.head] = b.ring[b.head+1] }},
		{"private page lost", func(x *Index, _, _, _ NodeID) { x.books[L1].out[Private]++ }},
		{"tree pages miscounted", func(x *Index, _, _, _ NodeID) { x.books[L2].tree++ }},
		{"free above the usable mark", func(x *Index, _, _, _ NodeID) { x.books[L2].usable = 1 }},
		{"out of its heap", func(x *Index, leaf, _, _ NodeID) { x.heapRemove(&x.heaps[L1], leaf) }},
		{"stale heap rank", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].clock++ }},
		{"heap out of order", func(x *Index, leaf, _, _ NodeID) {
			h := &x.heaps[L1]
			x.nodes[h.e[0].id].clock = 99
			h.e[0].clock = 99
		}},
		{"not in the table", func(x *Index, leaf, _, _ NodeID) { x.table.remove(x.nodes[leaf].key, leaf) }},
		{"other tokens", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].tokens[0] += 7 }},
		{"tokens missing", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].tokens = x.nodes[leaf].tokens[1:] }},
		{"wrong start", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].start++ }},
		{"wrong count of children on L1", func(x *Index, _, up, _ NodeID) { x.nodes[up].kids1++ }},
		{"numbers without a state", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].state = L1None }},
		{"too few L2 numbers", func(x *Index, _, _, stored NodeID) { x.nodes[stored].l2 = x.nodes[stored].l2[1:] }},
		{"dead and unlocked", func(x *Index, _, _, stored NodeID) { x.nodes[stored].l2 = nil }},
		{"load without an operation", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].load = 5 }},
		{"save without an operation", func(x *Index, _, _, stored NodeID) { x.nodes[stored].save = 5 }},
		{"operation without nodes", func(x *Index, _, _, _ NodeID) { x.ops[7] = opRec{kind: OpLoad, pages: 1} }},
		{"doomed for ever", func(x *Index, _, _, stored NodeID) { x.nodes[stored].doomed = true }},
		{"linked and not live", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].live = false }},
		{"node lost", func(x *Index, _, _, _ NodeID) { x.spare = append(x.spare, 1) }},
		{"space without a name", func(x *Index, _, _, _ NodeID) { clear(x.names) }},
		{"space uncounted", func(x *Index, _, _, _ NodeID) { x.stats.Spaces++ }},
		{"long array kept", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].back = 100 }},
		{"wrong cut count", func(x *Index, leaf, _, _ NodeID) { x.nodes[leaf].cut = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, s := newIndex(t, 2, 16, 8)
			stored := publish(t, x, s, count(50, 4), 1).Node
			toL2(t, x, stored)
			leaf := publish(t, x, s, count(1, 8), 2).Node
			publish(t, x, s, count(90, 4), 3)
			_, up, err := x.Pin(s, count(1, 8), 1, 4)
			noError(t, err)
			noError(t, x.Check())
			c.damage(x, leaf, up, stored)
			if x.Check() == nil {
				t.Fatal("the damage goes unseen")
			}
		})
	}
}

func TestNamesOfStates(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{L1.String(), "L1"}, {L2.String(), "L2"}, {Tier(9).String(), "tier(9)"},
		{Free.String(), "free"}, {Evictable.String(), "evictable"}, {Locked.String(), "locked"},
		{Private.String(), "private"}, {Saving.String(), "saving"}, {Loading.String(), "loading"},
		{Quarantined.String(), "quarantined"}, {State(99).String(), "state(99)"},
		{L1None.String(), "none"}, {L1Loading.String(), "loading"}, {L1Valid.String(), "valid"}, {L1State(9).String(), "l1state(9)"},
		{OpLoad.String(), "load"}, {OpBackup.String(), "backup"}, {OpKind(9).String(), "op(9)"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
