package index_test

import (
	"fmt"

	"sluice/kvcache/index"
)

// A request finds two of its three pages on the host tier, restores them, decodes, and publishes.
func Example() {
	x, err := index.New(index.Config{PageSize: 4, L1Pages: 8, L2Pages: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := x.Space(index.Key{Namespace: "tenant", Fingerprint: "model", Layout: "p4"}.AppendCanonical(nil))
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}

	// An earlier request published two pages; they were backed up and evicted from L1.
	table, _ := x.Alloc(index.L1, 2, index.Private, nil)
	old, _ := x.Insert(s, tokens[:8], table, 0, 1)
	op, _ := x.StartBackup(old.Node)
	_ = x.EndBackup(op, 2)
	fmt.Println("evicted", x.Evict(index.L1, 2))

	m := x.Match(s, tokens)
	fmt.Println("matched", m.Pages, "on L1", m.L1, "owed", m.Owed)
	lock, node, _ := x.Pin(s, tokens, m.Pages, 2)
	op, _ = x.StartLoad(node)
	fmt.Println("loading", x.Books(index.L1).Loading)
	_, _ = x.EndLoad(op, 2) // what all ranks agreed on

	table = x.AppendPages(table[:0], index.L1, node)
	table, _ = x.Alloc(index.L1, 1, index.Private, table)
	res, _ := x.Insert(s, tokens, table, m.Pages, 3)
	_ = x.Unpin(lock)
	fmt.Println("published", res.Published, "evictable", x.Books(index.L1).Evictable)
	// Output:
	// evicted 2
	// matched 2 on L1 0 owed 2
	// loading 2
	// published 3 evictable 3
}
