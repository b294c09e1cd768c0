package collective

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// logSeed returns a source whose seed, printed on failure, repeats the test alone.
func logSeed(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func randomVector(rng *rand.Rand, s Shape) *Vector {
	v := new(Vector)
	v.Reset(s)
	for i := range v.U64 {
		v.U64[i] = rng.Uint64() >> rng.IntN(64)
	}
	for i := range v.U32 {
		v.U32[i] = rng.Uint32()
	}
	for i := range v.U8 {
		v.U8[i] = byte(rng.Uint32())
	}
	return v
}

func clone(v *Vector) *Vector {
	return &Vector{
		U64:    append([]uint64{}, v.U64...),
		U32:    append([]uint32{}, v.U32...),
		U8:     append([]byte{}, v.U8...),
		Leader: append([]byte{}, v.Leader...),
	}
}

func TestResetIsTheIdentity(t *testing.T) {
	s := Shape{U64: 3, U32: 2, U8: 11, Leader: 5}
	rng := logSeed(t, 1)
	v := randomVector(rng, s)
	want := clone(v)
	var one Vector
	one.Reset(s)
	for _, x := range one.U64 {
		if x != math.MaxUint64 {
			t.Fatalf("64-bit lane is %#x after Reset", x)
		}
	}
	if err := Reduce([]*Vector{v, &one}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(v, want) || !reflect.DeepEqual(clone(&one), want) {
		t.Errorf("a reduce with all ones changed the vector:\n got %v\nwant %v", v, want)
	}
}

func TestResetResizes(t *testing.T) {
	var v Vector
	for _, s := range []Shape{{}, {U64: 4, U32: 1, U8: 300, Leader: 7}, {U64: 1, U8: 2}, {U64: -1, U32: -5, U8: 3}} {
		v.U8 = append(v.U8, 0) // whatever was there before must not show
		v.Reset(s)
		want := Shape{max(s.U64, 0), max(s.U32, 0), max(s.U8, 0), max(s.Leader, 0)}
		if v.Shape() != want {
			t.Errorf("shape is %v, want %v", v.Shape(), want)
		}
		for i, b := range v.U8 {
			if b != 0xff {
				t.Errorf("%v: byte lane %d is %#x", s, i, b)
			}
		}
	}
}

func TestShapeBytes(t *testing.T) {
	if got := (Shape{U64: 2, U32: 3, U8: 5, Leader: 7}).Bytes(); got != 16+12+5+7 {
		t.Errorf("Bytes = %d, want 40", got)
	}
}

func TestReduceIsMinOfEveryLane(t *testing.T) {
	rng := logSeed(t, 2)
	for range 200 {
		s := Shape{U64: rng.IntN(20), U32: rng.IntN(20), U8: rng.IntN(70), Leader: rng.IntN(20)}
		ranks := 1 + rng.IntN(5)
		vs, before := make([]*Vector, ranks), make([]*Vector, ranks)
		for r := range vs {
			vs[r] = randomVector(rng, s)
			if r == 0 {
				for i := range vs[0].Leader {
					vs[0].Leader[i] = byte(rng.Uint32())
				}
			}
			before[r] = clone(vs[r])
		}
		if err := Reduce(vs); err != nil {
			t.Fatal(err)
		}
		want := clone(before[0])
		for _, v := range before[1:] {
			for i, x := range v.U64 {
				want.U64[i] = min(want.U64[i], x)
			}
			for i, x := range v.U32 {
				want.U32[i] = min(want.U32[i], x)
			}
			for i, x := range v.U8 {
				want.U8[i] = min(want.U8[i], x)
			}
		}
		for r, v := range vs {
			if !reflect.DeepEqual(clone(v), want) {
				t.Fatalf("shape %v, rank %d of %d:\n got %v\nwant %v", s, r, ranks, v, want)
			}
		}
	}
}

func TestMinLanesOfEveryPairOfBytes(t *testing.T) {
	for x := range 256 {
		for y := range 256 {
			// The pair under test, and in its neighbours what would borrow or carry into it.
			a := uint64(x)<<24 | 0x00ff7f00_00_80ff00
			b := uint64(y)<<24 | 0xff008000_00_7f00ff
			got := minLanes(a, b)
			var want uint64
			for i := 0; i < 64; i += 8 {
				want |= min(a>>i&0xff, b>>i&0xff) << i
			}
			if got != want {
				t.Fatalf("minLanes(%#016x, %#016x) = %#016x, want %#016x", a, b, got, want)
			}
		}
	}
}

// gloo with lengths one apart returns wrong values as right, aborts or times out. Here each pair is
// an error that names both, and no lane changes.
func TestReduceOfDifferentShapes(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b Shape
	}{
		{"3 and 4 bytes", Shape{U8: 3}, Shape{U8: 4}},
		{"4 and 3 bytes", Shape{U8: 4}, Shape{U8: 3}},
		{"64 and 65", Shape{U8: 64}, Shape{U8: 65}},
		{"255 and 256", Shape{U8: 255}, Shape{U8: 256}},
		{"256 and 255", Shape{U8: 256}, Shape{U8: 255}},
		{"0 and 4", Shape{}, Shape{U8: 4}},
		{"same bytes, other widths", Shape{U64: 1}, Shape{U32: 2}},
		{"leader apart", Shape{U8: 1, Leader: 256}, Shape{U8: 1, Leader: 255}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := logSeed(t, 3)
			vs := []*Vector{randomVector(rng, c.a), randomVector(rng, c.b), randomVector(rng, c.a)}
			before := []*Vector{clone(vs[0]), clone(vs[1]), clone(vs[2])}
			err := Reduce(vs)
			var shapes *ShapeError
			if !errors.As(err, &shapes) {
				t.Fatalf("error is %v, want a ShapeError", err)
			}
			if want := []Shape{c.a, c.b, c.a}; !reflect.DeepEqual(shapes.Shapes, want) {
				t.Errorf("shapes %v, want %v", shapes.Shapes, want)
			}
			for r := range vs {
				if !reflect.DeepEqual(clone(vs[r]), before[r]) {
					t.Errorf("rank %d changed", r)
				}
				if want := fmt.Sprintf("rank %d has %v", r, shapes.Shapes[r]); !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestReduceOfNobody(t *testing.T) {
	if err := Reduce(nil); err != nil {
		t.Error(err)
	}
}

func TestErrorsSayWho(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		want string
	}{
		{&TimeoutError{Epoch: 4, Exchange: 9, Missing: []int{1, 3}, Deadline: 2e9}, "exchange 9 of epoch 4: ranks [1 3] did not come within 2s"},
		{&LeaveError{Epoch: 4, Exchange: 9, Rank: 2, Err: cause}, "exchange 9 of epoch 4: rank 2 left: cause"},
		{&RankError{Rank: 7, Ranks: 2, What: "there is no such rank"}, "rank 7 of a group of 2: there is no such rank"},
	} {
		if !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%q does not say %q", c.err, c.want)
		}
	}
	if !errors.Is(&LeaveError{Err: cause}, cause) {
		t.Error("LeaveError hides its cause")
	}
	if !(&TimeoutError{}).Timeout() {
		t.Error("TimeoutError is no timeout")
	}
}

func TestReduceDoesNotAllocate(t *testing.T) {
	s := Shape{U64: 32, U32: 64, U8: 1024, Leader: 256}
	var a, b Vector
	a.Reset(s)
	b.Reset(s)
	vs := []*Vector{&a, &b}
	if n := testing.AllocsPerRun(100, func() {
		a.Reset(s)
		b.Reset(s)
		if err := Reduce(vs); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a reduce", n)
	}
}

func BenchmarkReduce(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		b.Run(fmt.Sprintf("ranks=%d/lanes=1024", ranks), func(b *testing.B) {
			s := Shape{U64: 16, U8: 896}
			vs := make([]*Vector, ranks)
			for r := range vs {
				vs[r] = new(Vector)
				vs[r].Reset(s)
			}
			b.SetBytes(int64(s.Bytes()))
			b.ReportAllocs()
			for b.Loop() {
				if err := Reduce(vs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
