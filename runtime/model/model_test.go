package model

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"sluice/gpu"
)

func TestShape(t *testing.T) {
	ok := Shape{Layers: 2, BytesPerTokenLayer: 16, PageSize: 4, Shards: 2}
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	if got := ok.PageBytes(); got != 2*4*16/2 {
		t.Errorf("page of %d bytes, want 64", got)
	}
	if s := (Shape{Layers: 9, BytesPerTokenLayer: 1000, PageSize: 64, Shards: 4, Stamp: true}); s.PageBytes() != StampBytes {
		t.Errorf("stamp page of %d bytes", s.PageBytes())
	}
	bad := map[string]Shape{
		"no layer":     {BytesPerTokenLayer: 16, PageSize: 4, Shards: 2},
		"no bytes":     {Layers: 1, PageSize: 4, Shards: 2},
		"no page":      {Layers: 1, BytesPerTokenLayer: 16, Shards: 2},
		"no shard":     {Layers: 1, BytesPerTokenLayer: 16, PageSize: 4},
		"uneven cut":   {Layers: 1, BytesPerTokenLayer: 16, PageSize: 4, Shards: 3},
		"many layers":  {Layers: 1 << 17, BytesPerTokenLayer: 16, PageSize: 4, Shards: 2},
		"too large":    {Layers: 1 << 10, BytesPerTokenLayer: 1 << 12, PageSize: 1 << 10, Shards: 2},
		"token > 2GiB": {Layers: 1 << 10, BytesPerTokenLayer: 1 << 22, PageSize: 1, Shards: 2},
	}
	for name, s := range bad {
		if err := s.Check(); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v, want ErrShape", name, err)
		}
	}
}

func TestFieldArithmetic(t *testing.T) {
	p := big.NewInt(prime)
	values := []uint64{0, 1, 2, 1 << 60, prime - 1, prime, prime + 1, 1<<62 - 1, 1 << 63, ^uint64(0)}
	for i := range uint64(200) {
		values = append(values, mix(i))
	}
	for _, a := range values {
		for _, b := range values {
			b %= prime
			want := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
			if got := mul(a, b); got != want.Mod(want, p).Uint64() {
				t.Fatalf("%d * %d = %d, want %d", a, b, got, want)
			}
		}
		if a%prime != 0 && mul(inverse(a), a%prime) != 1 {
			t.Fatalf("inverse of %d is %d", a, inverse(a))
		}
	}
}

func TestPrefixTellsApart(t *testing.T) {
	seen := map[Prefix]string{}
	add := func(name string, p Prefix) {
		if other, ok := seen[p]; ok {
			t.Errorf("%s and %s have the same prefix", name, other)
		}
		seen[p] = name
	}
	for _, ns := range []string{"", "a", "b", "ab", "a\x00", "\x00", "12345678", "123456789", "1234567812345678", "12345678\x00"} {
		p := Start(ns)
		add(fmt.Sprintf("%q", ns), p)
		for _, tok := range []uint32{0, 1, 2, 1 << 31, ^uint32(0)} {
			add(fmt.Sprintf("%q+%d", ns, tok), p.Next(tok))
			for _, next := range []uint32{0, 1, 2} {
				add(fmt.Sprintf("%q+%d+%d", ns, tok, next), p.Extend([]uint32{tok, next}))
			}
		}
	}
}

func TestShardsJoinToTheSameBytes(t *testing.T) {
	for _, width := range []int{4, 8, 12, 16, 64} {
		t.Run(fmt.Sprintf("width=%d", width), func(t *testing.T) {
			whole := Shape{Layers: 3, BytesPerTokenLayer: width, PageSize: 4, Shards: 1}
			want := make([]byte, whole.PageBytes())
			tokens := prompt(3, 1)
			if _, err := FillPage(want, whole, 0, Start("n"), 5, tokens); err != nil {
				t.Fatal(err)
			}
			for _, shards := range []int{2, 4} {
				cut := whole
				cut.Shards = shards
				w := width / shards
				got := make([]byte, whole.PageBytes())
				for shard := range shards {
					part := bytes.Repeat([]byte{0xee}, cut.PageBytes())
					if _, err := FillPage(part, cut, shard, Start("n"), 5, tokens); err != nil {
						t.Fatal(err)
					}
					for i := range 3 * 4 {
						copy(got[i*width+shard*w:], part[i*w:(i+1)*w])
					}
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%d shards join to other bytes", shards)
				}
			}
		})
	}
}

func TestWriteTokenGivesPrefillsBytes(t *testing.T) {
	for _, stamp := range []bool{false, true} {
		t.Run(fmt.Sprintf("stamp=%v", stamp), func(t *testing.T) {
			shape := Shape{Layers: 2, BytesPerTokenLayer: 24, PageSize: 4, Shards: 2, Stamp: stamp}
			tokens := prompt(4, 2)
			start := Start("n").Next(9)
			for n := 1; n <= 4; n++ {
				want, got := make([]byte, shape.PageBytes()), make([]byte, shape.PageBytes())
				if _, err := FillPage(want, shape, 1, start, 7, tokens[:n]); err != nil {
					t.Fatal(err)
				}
				p := start
				for i, tok := range tokens[:n] {
					p = p.Next(tok)
					if err := WriteToken(got, shape, 1, p, 28+i); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%d tokens: written one by one they differ from a filled page", n)
				}
			}
		})
	}
}

func TestContentRefusesBadArguments(t *testing.T) {
	shape := Shape{Layers: 1, BytesPerTokenLayer: 8, PageSize: 2, Shards: 2}
	page := make([]byte, shape.PageBytes())
	cases := map[string]func() error{
		"short page": func() error { return WriteToken(page[1:], shape, 0, 0, 0) },
		"shard":      func() error { return WriteToken(page, shape, 2, 0, 0) },
		"position":   func() error { return WriteToken(page, shape, 0, 0, -1) },
		"no token":   func() error { _, err := FillPage(page, shape, 0, 0, 0, nil); return err },
		"many":       func() error { _, err := FillPage(page, shape, 0, 0, 0, make([]uint32, 3)); return err },
		"page":       func() error { _, err := FillPage(page, shape, 0, 0, -1, make([]uint32, 1)); return err },
		"shape":      func() error { _, err := FillPage(page, Shape{}, 0, 0, 0, make([]uint32, 1)); return err },
		"oracle":     func() error { _, err := NewOracle(Shape{}, ""); return err },
	}
	for name, f := range cases {
		if err := f(); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v, want ErrShape", name, err)
		}
	}
}

// The same prompt gives the same text on 1, 2 and 4 ranks, on real pages and by the oracle.
func TestTokensDoNotDependOnShards(t *testing.T) {
	for _, stamp := range []bool{false, true} {
		for _, width := range []int{4, 12, 16, 64} {
			for _, n := range []int{1, 3, 4, 9} {
				t.Run(fmt.Sprintf("stamp=%v/width=%d/prompt=%d", stamp, width, n), func(t *testing.T) {
					shape := Shape{Layers: 2, BytesPerTokenLayer: width, PageSize: 4, Shards: 1, Stamp: stamp}
					tokens := prompt(n, uint64(n))
					want := expected(t, shape, "tenant", tokens, 9)
					for _, shards := range []int{1, 2, 4} {
						shape.Shards = shards
						got := newCluster(t, shape, 8).decode("tenant", tokens, 9)
						if !slices.Equal(got, want) {
							t.Errorf("%d shards say %q, want %q", shards, text(got), text(want))
						}
					}
					if other := expected(t, shape, "tenant2", tokens, 9); slices.Equal(other, want) {
						t.Errorf("another namespace says the same %q", text(want))
					}
				})
			}
		}
	}
}

func text(tokens []uint32) string {
	b := make([]byte, len(tokens))
	for i, t := range tokens {
		b[i] = byte(t)
	}
	return string(b)
}

// Every byte of every page on every rank is changed to each of its 255 other values. The joined sum
// must always differ, and the text must within the next tokens.
func TestAnyWrongByteShows(t *testing.T) {
	for name, shape := range map[string]Shape{
		"words": {Layers: 2, BytesPerTokenLayer: 16, PageSize: 2, Shards: 2},
		"bytes": {Layers: 2, BytesPerTokenLayer: 6, PageSize: 2, Shards: 2},
		"stamp": {Layers: 2, BytesPerTokenLayer: 16, PageSize: 2, Shards: 2, Stamp: true},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 5 // tokens; the last of three pages is half full
			c := newCluster(t, shape, 4)
			tokens := prompt(n, 3)
			last := c.prefill("n", tokens)
			right := sumOf(c.step(n, tokens[n-1], last))
			o := oracleOf(t, shape, "n", tokens)
			if right != o.Sum() {
				t.Fatalf("sum of right pages %#x, the oracle says %#x", right, o.Sum())
			}
			changes, sameToken := 0, 0
			for rank, dev := range c.devs {
				for p := range 3 {
					page := make([]byte, shape.PageBytes())
					if err := dev.Read(c.row[p], 0, page); err != nil {
						t.Fatal(err)
					}
					for i, was := range page {
						if !live(shape, i, n-p*shape.PageSize) {
							continue
						}
						for d := 1; d < 256; d++ {
							if d > 1 && d&(d-1) != 0 && i%3 != 0 {
								continue // all values on every third byte, single bits on the others
							}
							// The newest token is written anew by a step, so only its reading is under test.
							page[i] = was ^ byte(d)
							if err := dev.Write(c.row[p], 0, page); err != nil {
								t.Fatal(err)
							}
							wrong := readAll(t, c, n)
							changes++
							if wrong == right {
								t.Fatalf("rank %d, page %d, byte %d ^ %#x goes unseen", rank, p, i, d)
							}
							if tokenOf(wrong, 0) == tokenOf(right, 0) {
								sameToken++
							}
						}
						page[i] = was
					}
					if err := dev.Write(c.row[p], 0, page); err != nil {
						t.Fatal(err)
					}
				}
			}
			if changes == 0 || sameToken*40 > changes {
				t.Errorf("%d of %d wrong bytes gave the right token by chance; one in 95 is expected", sameToken, changes)
			}
			if got := readAll(t, c, n); got != right {
				t.Fatal("the pages were not put back")
			}
		})
	}
}

// live says whether byte i of a page with n tokens belongs to one of them.
func live(s Shape, i, n int) bool {
	return s.Stamp || i/s.width()%s.PageSize < n
}

func readAll(t *testing.T, c *cluster, n int) uint64 {
	t.Helper()
	var sums [][]uint64
	for _, m := range c.shards {
		m.known.catchUp()
		s, err := m.read(&Item{Request: 1, Row: c.row, Len: n})
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, []uint64{s})
	}
	return sumOf(sums)
}

func sumOf(sums [][]uint64) uint64 {
	var s uint64
	for _, p := range sums {
		s = add(s, p[0])
	}
	return s
}

func oracleOf(t *testing.T, shape Shape, namespace string, tokens []uint32) *Oracle {
	t.Helper()
	o, err := NewOracle(shape, namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range tokens {
		o.Extend(tok)
	}
	return &o
}

// A wrong page on one rank is the same wrong text on all, and stays wrong.
func TestWrongPageIsSeenByAllRanksAlike(t *testing.T) {
	for _, stamp := range []bool{false, true} {
		for rank := range 2 {
			t.Run(fmt.Sprintf("stamp=%v/rank=%d", stamp, rank), func(t *testing.T) {
				shape := Shape{Layers: 2, BytesPerTokenLayer: 16, PageSize: 4, Shards: 2, Stamp: stamp}
				c := newCluster(t, shape, 8)
				tokens := prompt(9, 4)
				prefix := c.prefill("mine", tokens)
				buf := make([]byte, shape.PageBytes())
				if _, err := FillPage(buf, shape, rank, Start("other"), 1, prompt(4, 5)); err != nil {
					t.Fatal(err)
				}
				if err := c.devs[rank].Write(c.row[1], 0, buf); err != nil {
					t.Fatal(err)
				}
				want := expected(t, shape, "mine", tokens, 8)
				token, wrong := want[0], 0
				for i := range 8 {
					prefix = prefix.Next(token)
					sums := c.step(10+i, token, prefix)
					perRank := []uint32{join(t, sums), join(t, [][]uint64{sums[1], sums[0]})}
					if perRank[0] != perRank[1] {
						t.Fatalf("ranks say %d and %d", perRank[0], perRank[1])
					}
					token = perRank[0]
					if token != want[i+1] {
						wrong++
					}
				}
				if wrong < 4 {
					t.Errorf("%d of 8 tokens are wrong", wrong)
				}
			})
		}
	}
}

func TestPageOutOfPlaceShows(t *testing.T) {
	shape := Shape{Layers: 1, BytesPerTokenLayer: 8, PageSize: 2, Shards: 1}
	c := newCluster(t, shape, 4)
	c.prefill("n", prompt(4, 6))
	right := readAll(t, c, 4)
	c.row[0], c.row[1] = c.row[1], c.row[0]
	if readAll(t, c, 4) == right {
		t.Error("two pages in each other's place go unseen")
	}
}

func TestStepErrors(t *testing.T) {
	shape := Shape{Layers: 1, BytesPerTokenLayer: 8, PageSize: 2, Shards: 1}
	c := newCluster(t, shape, 4)
	stale := slices.Clone(c.row)
	stale[0].Generation = 9
	foreign := slices.Clone(c.row)
	foreign[0].Arena++
	cases := []struct {
		name string
		item Item
		also error
	}{
		{"no length", Item{Row: c.row}, nil},
		{"short row", Item{Row: c.row[:1], Len: 3}, nil},
		{"stale page", Item{Row: stale, Len: 3}, gpu.ErrStale},
		{"stale page under the token", Item{Row: stale, Len: 1}, gpu.ErrStale},
		{"another arena", Item{Row: foreign, Len: 3}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			err := c.shards[0].Step([]Item{tc.item}, make([]uint64, 1))
			if !errors.Is(err, ErrStep) || tc.also != nil && !errors.Is(err, tc.also) {
				t.Errorf("%v, want ErrStep and %v", err, tc.also)
			}
		})
	}
	if err := c.shards[0].Step(make([]Item, 2), make([]uint64, 1)); !errors.Is(err, ErrStep) {
		t.Errorf("short partial: %v", err)
	}
	other := shape
	other.PageSize = 3
	if _, err := NewShard(c.devs[0], c.arena, other, 0); !errors.Is(err, ErrShape) {
		t.Errorf("arena of other pages: %v", err)
	}
}

func TestJoin(t *testing.T) {
	dst := make([]uint32, 1)
	for i := range uint64(1000) {
		for vocab, limit := range map[int]uint32{0: 126, 151936: 126, 100: 99, 33: 32} {
			if err := Join([][]uint64{{mix(i)}, {^uint64(0)}}, dst, vocab); err != nil {
				t.Fatal(err)
			}
			if dst[0] < 32 || dst[0] > limit {
				t.Fatalf("vocabulary %d: token %d, want 32 to %d", vocab, dst[0], limit)
			}
		}
	}
	if err := Join([][]uint64{{1}, {1, 2}}, dst, 0); !errors.Is(err, ErrStep) {
		t.Errorf("lengths differ: %v", err)
	}
	if err := Join([][]uint64{{1}}, dst, 32); !errors.Is(err, ErrStep) {
		t.Errorf("no token left: %v", err)
	}
	if err := Join(nil, dst, 0); !errors.Is(err, ErrStep) {
		t.Errorf("no rank: %v", err)
	}
}

// counting is a device that counts the reads it answers.
type counting struct {
	gpu.Device
	log   Log
	reads int
}

func (v *counting) Read(ref gpu.Ref, off int, b []byte) error {
	v.reads++
	return v.Device.Read(ref, off, b)
}

func (v *counting) Written(a gpu.ArenaID, mark uint64, dst []uint32) ([]uint32, uint64, bool) {
	return v.log.Written(a, mark, dst)
}

func TestKnownSumsSaveReadsAndHideNothing(t *testing.T) {
	shape := Shape{Layers: 1, BytesPerTokenLayer: 16, PageSize: 2, Shards: 1}
	c := newCluster(t, shape, 8)
	dev := &counting{Device: c.devs[0], log: c.devs[0]}
	m, err := NewShard(dev, c.arena, shape, 0)
	if err != nil {
		t.Fatal(err)
	}
	tokens := prompt(12, 7)
	c.prefill("n", tokens)
	step := func(row []gpu.Ref, n int) uint64 {
		t.Helper()
		sum := make([]uint64, 1)
		if err := m.Step([]Item{{Request: 1, Row: row, Len: n, Token: tokens[n-1], Prefix: Start("n").Extend(tokens[:n])}}, sum); err != nil {
			t.Fatal(err)
		}
		return sum[0]
	}
	for n, want := range map[int]int{9: 5} {
		if got := step(c.row, n); got != oracleOf(t, shape, "n", tokens[:n]).Sum() || dev.reads != want {
			t.Fatalf("first step: %d reads of %d pages", dev.reads, want)
		}
	}
	for n := 10; n <= 12; n++ {
		dev.reads = 0
		if got := step(c.row, n); got != oracleOf(t, shape, "n", tokens[:n]).Sum() || dev.reads != 1 {
			t.Errorf("step to %d tokens: %d reads, want the last page alone", n, dev.reads)
		}
	}
	right := oracleOf(t, shape, "n", tokens).Sum()
	other := slices.Clone(c.row)
	other[0], other[1] = other[1], other[0]
	if step(other, 12) == right {
		t.Error("a row that points elsewhere is hidden by what was known")
	}
	if step(c.row, 12) != right {
		t.Error("the right row gives another sum after the wrong one")
	}
	if err := dev.Write(c.row[1], 3, []byte{0xff}); err != nil {
		t.Fatal(err)
	}
	if step(c.row, 12) == right {
		t.Error("a late write is hidden by what was known")
	}
}

func TestOracleForksAndCopies(t *testing.T) {
	shape := Shape{Layers: 1, BytesPerTokenLayer: 16, PageSize: 2, Shards: 2}
	tokens := prompt(7, 8)
	o := oracleOf(t, shape, "n", tokens)
	side := *o
	side.Extend(1)
	if o.Len() != 7 || o.Prefix() != Start("n").Extend(tokens) {
		t.Error("a copy moved the original")
	}
	f := o.Fork("m")
	for _, tok := range tokens {
		f.Extend(tok)
	}
	want, err := Reference(shape, "m", tokens, 0)
	if err != nil {
		t.Fatal(err)
	}
	if f.Next(0) != want {
		t.Errorf("a fork says %d, want %d", f.Next(0), want)
	}
}

func TestHotPathsAllocateNothing(t *testing.T) {
	for _, stamp := range []bool{false, true} {
		shape := Shape{Layers: 2, BytesPerTokenLayer: 32, PageSize: 4, Shards: 2, Stamp: stamp}
		c := newCluster(t, shape, 16)
		tokens := prompt(50, 9)
		prefix := c.prefill("n", tokens)
		items := []Item{{Row: c.row, Len: 50, Token: tokens[49], Prefix: prefix}}
		sums, dst := [][]uint64{make([]uint64, 1), make([]uint64, 1)}, make([]uint32, 1)
		o := oracleOf(t, shape, "n", tokens)
		page := make([]byte, shape.PageBytes())
		var err error
		got := testing.AllocsPerRun(100, func() {
			for rank, m := range c.shards {
				err = errors.Join(err, m.Step(items, sums[rank]))
			}
			err = errors.Join(err, Join(sums, dst, 0))
			o.Extend(dst[0])
			_, e := FillPage(page, shape, 1, prefix, 3, tokens[:4])
			err = errors.Join(err, e)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got != 0 {
			t.Errorf("stamp=%v: %v allocations a step", stamp, got)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, bc := range []struct {
		name  string
		shape Shape
		n     int
	}{
		{"full/tokens=1024", Shape{Layers: 4, BytesPerTokenLayer: 256, PageSize: 16, Shards: 2}, 1024},
		{"stamp/tokens=65536", Shape{Layers: 1, BytesPerTokenLayer: 16, PageSize: 64, Shards: 2, Stamp: true}, 65536},
	} {
		b.Run(bc.name, func(b *testing.B) {
			c := newCluster(b, bc.shape, bc.shape.Pages(bc.n))
			tokens := prompt(bc.n, 1)
			prefix := c.prefill("n", tokens)
			items := []Item{{Row: c.row, Len: bc.n, Token: tokens[bc.n-1], Prefix: prefix}}
			partial := make([]uint64, 1)
			b.SetBytes(int64(bc.shape.Pages(bc.n) * bc.shape.PageBytes()))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.shards[0].Step(items, partial); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOracleExtend(b *testing.B) {
	for name, shape := range map[string]Shape{
		"full":  {Layers: 4, BytesPerTokenLayer: 256, PageSize: 16, Shards: 1},
		"stamp": {Layers: 1, BytesPerTokenLayer: 16, PageSize: 64, Shards: 1, Stamp: true},
	} {
		b.Run(name, func(b *testing.B) {
			o, err := NewOracle(shape, "n")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				o.Extend(65)
			}
		})
	}
}
