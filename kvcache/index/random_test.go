package index

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var seedFlag = flag.Uint64("index.seed", 0, "run the random tests with this seed alone; 0 = the usual seeds")

// driver applies random calls to an index and its model and compares every answer.
type driver struct {
	t     *testing.T
	rng   *rand.Rand
	x     *Index
	twin  *Index // given the same calls; digest and checksum must agree
	m     *model
	clock uint64
	pins  []Receipt
	twins []Receipt
	ops   []OpID
	rests []NodeID
	log   []string
	bad   bool

	probes    [][]uint32 // fixed sequences whose matches may change only with Structure
	matched   []Match
	structure uint64
}

func seeds(t *testing.T, n int) []uint64 {
	t.Helper()
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	if testing.Short() {
		n = max(n/10, 1)
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(i + 1)
	}
	return out
}

func TestRandomAgainstModel(t *testing.T) {
	for _, seed := range seeds(t, 150) {
		d := newDriver(t, seed)
		for i := 0; i < 250 && !d.bad; i++ {
			d.step()
			d.compare()
		}
		if d.bad {
			for _, l := range d.log[max(0, len(d.log)-25):] {
				t.Log(l)
			}
			t.Fatalf("repeat with: go test ./kvcache/index -run TestRandomAgainstModel -index.seed=%d", seed)
		}
	}
}

func newDriver(t *testing.T, seed uint64) *driver {
	t.Helper()
	c := Config{PageSize: []int{1, 4, 16}[seed%3], L1Pages: 40, L2Pages: 30}
	d := &driver{t: t, rng: rand.New(rand.NewPCG(seed, 77)), m: newModel(c)}
	d.x = must(New(c))(t)
	d.twin = must(New(c))(t)
	if seed%4 == 0 {
		// All page hashes collide, so content alone decides; the twin keeps its own, which must not show.
		d.x.pageHash = func([]uint32) uint64 { return 7 }
	}
	for _, name := range []string{"a", "b"} {
		d.x.Space([]byte(name))
		d.twin.Space([]byte(name))
		d.m.space()
	}
	for range 12 {
		d.probes = append(d.probes, d.tokens())
	}
	return d
}

func (d *driver) fail(format string, args ...any) {
	d.t.Helper()
	d.bad = true
	d.t.Errorf(format, args...)
}

func (d *driver) note(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

// tokens makes a sequence of a few pages over an alphabet so small that prefixes are shared often.
func (d *driver) tokens() []uint32 {
	n := d.rng.IntN(8)
	out := make([]uint32, 0, (n+1)*d.x.pageSize)
	for range n {
		v := uint32(d.rng.IntN(2))
		for i := range d.x.pageSize {
			out = append(out, v+uint32(i))
		}
	}
	return append(out, make([]uint32, d.rng.IntN(d.x.pageSize))...)
}

func (d *driver) anyNode() NodeID { return NodeID(d.rng.IntN(len(d.x.nodes) + 1)) }

func pick[T any](r *rand.Rand, s []T) (T, bool) {
	if len(s) == 0 {
		var zero T
		return zero, false
	}
	return s[r.IntN(len(s))], true
}

// sameErr compares the errors of index, twin and model; an error must leave the index as it was.
func (d *driver) sameErr(what string, before uint64, got, twin, want error) bool {
	d.t.Helper()
	if !sameKind(got, want) || (got == nil) != (twin == nil) {
		d.fail("%s: error %v, twin %v, model %v", what, got, twin, want)
	}
	if got != nil && d.x.Digest() != before {
		d.fail("%s: failed with %v and changed the digest", what, got)
	}
	return got == nil && !d.bad
}

func (d *driver) step() {
	d.clock += uint64(d.rng.IntN(2))
	switch r := d.rng.IntN(100); {
	case r < 14:
		d.stepPin()
	case r < 26:
		d.stepUnpin()
	case r < 46:
		d.stepInsert()
	case r < 54:
		d.stepEvict()
	case r < 62:
		d.stepStart(OpLoad)
	case r < 70:
		d.stepStart(OpBackup)
	case r < 82:
		d.stepEnd()
	case r < 87:
		d.stepRest()
	case r < 89:
		d.stepDrop()
	case r < 95:
		d.stepOutside()
	case r < 97:
		d.stepUsable()
	default:
		d.stepRare()
	}
}

// compare checks the index against its own invariants, the model and the twin.
func (d *driver) compare() {
	d.t.Helper()
	if err := d.x.Check(); err != nil {
		d.fail("check: %v", err)
		return
	}
	if d.x.Digest() != d.twin.Digest() || d.x.Checksum() != d.twin.Checksum() {
		d.fail("two instances given the same calls differ")
	}
	for t := range tiers {
		b := &d.x.books[t]
		free := make([]Page, 0, b.free)
		for i := range b.free {
			free = append(free, b.ring[(b.head+i)%len(b.ring)])
		}
		if !slices.Equal(free, d.m.free[t]) {
			d.fail("%s free list %v, model %v", t, free, d.m.free[t])
		}
		if got, want := d.x.Books(t), d.m.books(t); got != want {
			d.fail("%s books %+v, model %+v", t, got, want)
		}
		for p := range d.m.total[t] {
			if got, want := d.x.Generation(t, Page(p)), d.m.gen[t][Page(p)]; got != want {
				d.fail("%s page %d generation %d, model %d", t, p, got, want)
			}
		}
	}
	if got, want := d.x.Available(), d.m.available(); got != want {
		d.fail("available %d, model %d", got, want)
	}
	for id := range NodeID(len(d.x.nodes) + 1) {
		got, ok := d.x.Node(id)
		want, wantOK := d.m.info(id)
		if got != want || ok != wantOK {
			d.fail("node %d is %+v %t, model %+v %t", id, got, ok, want, wantOK)
			continue
		}
		if ok {
			d.comparePath(id)
		}
	}
	var matched []Match
	for i, tokens := range d.probes {
		s := SpaceID(1 + i%2)
		got := d.x.Match(s, tokens)
		if want := d.m.match(d.m.roots[s-1], tokens); got != want {
			d.fail("match of %v is %+v, model %+v", tokens, got, want)
		}
		matched = append(matched, got)
	}
	if d.x.Structure() == d.structure && d.matched != nil && !slices.Equal(matched, d.matched) {
		d.fail("matches changed from %+v to %+v with the same structure counter", d.matched, matched)
	}
	d.matched, d.structure = matched, d.x.Structure()
}

func (d *driver) comparePath(id NodeID) {
	var ids, unbacked []NodeID
	var l1, l2 []Page
	var tokens []uint32
	owed := 0
	none := func(n *mNode) []Page { return slices.Repeat([]Page{NoPage}, len(n.pages)) }
	for _, at := range d.m.path(id)[1:] {
		n := d.m.nodes[at]
		ids = append(ids, at)
		tokens = append(tokens, slices.Concat(n.pages...)...)
		if n.state == L1None {
			owed += len(n.pages)
			l1 = append(l1, none(n)...)
		}
		l1 = append(l1, n.l1...)
		if n.backed() {
			l2 = append(l2, n.l2...)
		} else {
			l2 = append(l2, none(n)...)
		}
		if n.state == L1Valid && n.l2 == nil {
			unbacked = append(unbacked, at)
		}
	}
	if !slices.Equal(d.x.AppendPath(nil, id), ids) || !slices.Equal(d.x.AppendUnbacked(nil, id), unbacked) ||
		!slices.Equal(d.x.AppendPages(nil, L1, id), l1) || !slices.Equal(d.x.AppendPages(nil, L2, id), l2) ||
		!slices.Equal(d.x.AppendTokens(nil, id), tokens) || d.x.Owed(id) != owed {
		d.fail("the path of node %d differs from the model's", id)
	}
}
