package model

import (
	"testing"

	"sluice/gpu"
	"sluice/gpu/host"
)

// cluster is the shards of one model, each on a virtual device of its own, with pages handed out in
// order.
type cluster struct {
	t      testing.TB
	shape  Shape
	devs   []*host.Device
	arena  gpu.ArenaID
	shards []*Shard
	row    []gpu.Ref
}

func newCluster(t testing.TB, shape Shape, pages int) *cluster {
	t.Helper()
	c := &cluster{t: t, shape: shape}
	for rank := range shape.Shards {
		dev, err := host.NewVirtual(host.Options{Rank: rank})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dev.Close() })
		if c.arena, err = dev.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: shape.PageBytes(), Pages: pages}); err != nil {
			t.Fatal(err)
		}
		m, err := NewShard(dev, c.arena, shape, rank)
		if err != nil {
			t.Fatal(err)
		}
		c.devs, c.shards = append(c.devs, dev), append(c.shards, m)
	}
	for i := range pages {
		// Pages out of order, so that a page number is not mistaken for a place in the sequence.
		c.row = append(c.row, gpu.Ref{Arena: c.arena, Index: uint32(pages - 1 - i)})
	}
	return c
}

// prefill writes the tokens' pages on every rank.
func (c *cluster) prefill(namespace string, tokens []uint32) Prefix {
	c.t.Helper()
	var end Prefix
	for rank, dev := range c.devs {
		end = Start(namespace)
		buf := make([]byte, c.shape.PageBytes())
		for p := 0; p*c.shape.PageSize < len(tokens); p++ {
			var err error
			part := tokens[p*c.shape.PageSize : min(len(tokens), (p+1)*c.shape.PageSize)]
			if end, err = FillPage(buf, c.shape, rank, end, p, part); err != nil {
				c.t.Fatal(err)
			}
			if err := dev.Write(c.row[p], 0, buf); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return end
}

// step runs one request on every rank and returns the ranks' sums.
func (c *cluster) step(n int, token uint32, prefix Prefix) [][]uint64 {
	c.t.Helper()
	items := []Item{{Request: 1, Row: c.row, Len: n, Token: token, Prefix: prefix}}
	var sums [][]uint64
	for _, m := range c.shards {
		partial := make([]uint64, 1)
		if err := m.Step(items, partial); err != nil {
			c.t.Fatal(err)
		}
		sums = append(sums, partial)
	}
	return sums
}

func join(t testing.TB, sums [][]uint64) uint32 {
	t.Helper()
	dst := make([]uint32, 1)
	if err := Join(sums, dst, 0); err != nil {
		t.Fatal(err)
	}
	return dst[0]
}

// decode continues for steps tokens after a prompt and returns them, the first one included.
func (c *cluster) decode(namespace string, prompt []uint32, steps int) []uint32 {
	c.t.Helper()
	prefix := c.prefill(namespace, prompt)
	token, err := Reference(c.shape, namespace, prompt, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	out := []uint32{token}
	for i := range steps {
		prefix = prefix.Next(token)
		token = join(c.t, c.step(len(prompt)+1+i, token, prefix))
		out = append(out, token)
	}
	return out
}

func prompt(n int, seed uint64) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(mix(seed*golden+uint64(i)) % 151936)
	}
	return out
}

// expected continues a prompt with an oracle alone.
func expected(t testing.TB, shape Shape, namespace string, tokens []uint32, steps int) []uint32 {
	t.Helper()
	o, err := NewOracle(shape, namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range tokens {
		o.Extend(tok)
	}
	out := []uint32{o.Next(0)}
	for range steps {
		o.Extend(out[len(out)-1])
		out = append(out, o.Next(0))
	}
	return out
}
