package index

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

const (
	benchPrompts = 300
	benchTokens  = 8192
	benchShared  = 1024 // tokens that all prompts start with
)

// benchTree holds benchPrompts prompts that share their first tokens.
func benchTree(tb testing.TB, pageSize int) (*Index, SpaceID, [][]uint32) {
	tb.Helper()
	per := benchTokens / pageSize
	x, err := New(Config{PageSize: pageSize, L1Pages: (benchPrompts + 2) * per})
	if err != nil {
		tb.Fatal(err)
	}
	s := x.Space([]byte("bench"))
	rng := rand.New(rand.NewPCG(1, uint64(pageSize)))
	shared := randomTokens(rng, benchShared)
	prompts := make([][]uint32, benchPrompts)
	for i := range prompts {
		prompts[i] = append(append([]uint32(nil), shared...), randomTokens(rng, benchTokens-benchShared)...)
		table := must(x.Alloc(L1, per, Private, nil))(tb)
		must(x.Insert(s, prompts[i], table, 0, uint64(i)))(tb)
	}
	return x, s, prompts
}

func randomTokens(rng *rand.Rand, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = rng.Uint32() % 150000
	}
	return out
}

func BenchmarkPrefixMatch(b *testing.B) {
	for _, page := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("page=%d", page), func(b *testing.B) {
			x, s, prompts := benchTree(b, page)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if m := x.Match(s, prompts[i]); m.L1 != benchTokens/page {
					b.Fatalf("matched %+v", m)
				}
				if i++; i == len(prompts) {
					i = 0
				}
			}
		})
	}
}

// insertBench is a tree that holds the first half of a prompt, locked.
type insertBench struct {
	x      *Index
	s      SpaceID
	per    int // pages of a prompt
	tokens []uint32
	prefix []Page
	clock  uint64
}

func newInsertBench(b *testing.B, page, leaves int) *insertBench {
	b.Helper()
	per := benchTokens / page
	x := must(New(Config{PageSize: page, L1Pages: per/2 + leaves*per/2}))(b)
	i := &insertBench{x: x, s: x.Space([]byte("bench")), per: per}
	i.tokens = randomTokens(rand.New(rand.NewPCG(2, uint64(page))), benchTokens)
	table := must(x.Alloc(L1, per/2, Private, nil))(b)
	r := must(x.Insert(i.s, i.tokens[:benchTokens/2], table, 0, 1))(b)
	must(x.PinNode(r.Node, 1))(b)
	i.prefix = table
	return i
}

// table makes the page table of one request.
func (i *insertBench) table(b *testing.B, dst []Page) []Page {
	b.Helper()
	return must(i.x.Alloc(L1, i.per/2, Private, append(dst[:0], i.prefix...)))(b)
}

// insert publishes a prompt whose second half is new.
func (i *insertBench) insert(b *testing.B, table []Page) {
	b.Helper()
	i.clock++
	i.tokens[benchTokens/2] = uint32(i.clock)
	if r, err := i.x.Insert(i.s, i.tokens, table, i.per/2, i.clock); err != nil || r.Published != i.per {
		b.Fatalf("%+v, %v", r, err)
	}
}

// BenchmarkInsert is Insert alone: the numbers are taken before, and the leaves evicted after, off the clock.
func BenchmarkInsert(b *testing.B) {
	const leaves = 32
	for _, page := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("page=%d", page), func(b *testing.B) {
			i := newInsertBench(b, page, leaves)
			var tables [leaves][]Page
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				if k%leaves == 0 {
					b.StopTimer()
					i.x.Evict(L1, leaves*i.per)
					for t := range tables {
						tables[t] = i.table(b, tables[t])
					}
					b.StartTimer()
				}
				i.insert(b, tables[k%leaves])
			}
		})
	}
}

// BenchmarkInsertCycle is the whole cycle of a leaf: take the numbers, Insert, Evict.
func BenchmarkInsertCycle(b *testing.B) {
	for _, page := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("page=%d", page), func(b *testing.B) {
			i := newInsertBench(b, page, 1)
			var table []Page
			b.ReportAllocs()
			for b.Loop() {
				table = i.table(b, table)
				i.insert(b, table)
				if n := i.x.Evict(L1, 1); n != i.per/2 {
					b.Fatalf("evicted %d", n)
				}
			}
		})
	}
}

// BenchmarkBlockOps is one core's mixed load with pages of 16: each step matches a prompt, locks what is held,
// takes and inserts the rest, unlocks, and evicts when short. Half of the prompts have a new second half, the
// others repeat. Blocks counted are those looked up, those newly inserted and those evicted.
func BenchmarkBlockOps(b *testing.B) {
	const page, prompts, blocks = 16, 64, 512
	x, err := New(Config{PageSize: page, L1Pages: 48 * blocks})
	if err != nil {
		b.Fatal(err)
	}
	s := x.Space([]byte("bench"))
	rng := rand.New(rand.NewPCG(3, 3))
	seqs := make([][]uint32, prompts)
	for i := range seqs {
		seqs[i] = randomTokens(rng, page*blocks)
	}
	var table []Page
	clock, done := uint64(0), 0
	b.ReportAllocs()
	for b.Loop() {
		clock++
		seq := seqs[rng.IntN(prompts)]
		if clock%2 == 0 {
			seq[len(seq)/2] = uint32(clock)
		}
		m := x.Match(s, seq)
		lock, node, err := x.Pin(s, seq, m.Pages, clock)
		if err != nil {
			b.Fatal(err)
		}
		table = x.AppendPages(table[:0], L1, node)
		short := blocks - m.Pages - x.Books(L1).Free
		evicted := x.Evict(L1, short)
		if table, err = x.Alloc(L1, blocks-m.Pages, Private, table); err != nil {
			b.Fatal(err)
		}
		r, err := x.Insert(s, seq, table, m.Pages, clock)
		if err != nil {
			b.Fatal(err)
		}
		if err := x.Unpin(lock); err != nil {
			b.Fatal(err)
		}
		done += blocks + r.Published - m.Pages + evicted
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
}

// must returns a function that fails the test on err, so that a call and its check fit on one line.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}
