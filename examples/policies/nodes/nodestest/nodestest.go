// Package nodestest shows nodes to a score policy in its tests, and says in which order the host would evict them. It imports
// abi and abi/guest only, and keeps no state.
package nodestest

import (
	"cmp"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
)

// Batch is the bytes of a batch that shows these nodes of a cache of total tokens, with room for the answers.
func Batch(t testing.TB, total uint64, nodes ...abi.ScoreRecord) []byte {
	t.Helper()
	buf := make([]byte, abi.BatchSize(abi.Score, len(nodes), len(nodes)))
	b, err := abi.Begin(buf, abi.Score, 1, 1, len(nodes), len(nodes))
	if err != nil {
		t.Fatal(err)
	}
	b.PutScoreGlobals(&abi.ScoreGlobals{PageSize: 1, Nodes: uint32(len(nodes)), TotalTokens: total})
	for i := range nodes {
		b.PutScore(i, &nodes[i])
	}
	return buf
}

// Cache holds the nodes that were shown last under each name, and their keys.
type Cache struct {
	nodes map[uint64]shown
}

type shown struct {
	name, lastUse uint64
	key           int64
}

// Show gives the nodes to the policy in one batch and notes its keys.
func (c *Cache) Show(t testing.TB, score guest.ScoreFunc, total uint64, nodes ...abi.ScoreRecord) {
	t.Helper()
	buf := Batch(t, total, nodes...)
	if status := guest.RunScore(score, buf); status != int32(abi.StatusOK) {
		t.Fatalf("status %d", status)
	}
	b, err := abi.View(buf, abi.Score, len(nodes), len(nodes))
	if err != nil {
		t.Fatal(err)
	}
	if c.nodes == nil {
		c.nodes = map[uint64]shown{}
	}
	for i, n := range nodes {
		c.nodes[n.NodeKey] = shown{n.NodeKey, n.LastUse, b.ScoreKey(i)}
	}
}

// Order is the names of the nodes in the order in which they would go if all were leaves: by key, last use, name.
func (c *Cache) Order() []uint64 {
	var all []shown
	for _, n := range c.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b shown) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.lastUse, b.lastUse), cmp.Compare(a.name, b.name))
	})
	var names []uint64
	for _, n := range all {
		names = append(names, n.name)
	}
	return names
}
