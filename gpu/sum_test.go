package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func testPage(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// The sums are part of what one process tells another, so they may not change by accident.
func TestSumIsFixed(t *testing.T) {
	count := make([]byte, 200)
	for i := range count {
		count[i] = byte(i)
	}
	for _, c := range []struct {
		name string
		in   []byte
		want uint64
	}{
		{"empty", nil, 0x58af17d071ea4854},
		{"one zero byte", []byte{0}, 0xa43152b812562696},
		{"one block of zeros", make([]byte, 64), 0x87d23113d20f267e},
		{"counting to 200", count, 0x1c82028003d43c88},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Sum(c.in); got != c.want {
				t.Errorf("Sum = %#016x, want %#016x", got, c.want)
			}
		})
	}
}

func TestCopySumIsSumOfTheCopy(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 80, 127, 128, 1023, 1024, 1025, 1100, 2047, 2048, 2049, 2200, 4095, 4096, 4097, 32768 + 5, 3*65536 + 64 + 9} {
		for _, off := range []int{0, 1, 8} { // of the destination, from a multiple of 16
			t.Run(fmt.Sprintf("%d bytes/offset %d", n, off), func(t *testing.T) {
				src := testPage(n, 1)
				around := make([]byte, n+48)
				align := 0
				for uintptr(unsafe.Pointer(&around[align]))%16 != 0 {
					align++
				}
				dst := around[align+off:][:n]
				got := CopySum(dst, src)
				if !bytes.Equal(dst, src) {
					t.Fatal("the bytes were not copied")
				}
				if want := Sum(src); got != want {
					t.Errorf("CopySum = %#x, Sum = %#x", got, want)
				}
				if !bytes.Equal(around[:align+off], make([]byte, align+off)) || !bytes.Equal(around[align+off+n:], make([]byte, 48-align-off)) {
					t.Error("bytes beside the destination were touched")
				}
			})
		}
	}
}

func TestCopySumStopsAtTheShorter(t *testing.T) {
	src := testPage(256, 2)
	for _, n := range []int{0, 5, 64, 100, 200} {
		dst := make([]byte, n)
		if got, want := CopySum(dst, src), Sum(src[:n]); got != want || !bytes.Equal(dst, src[:n]) {
			t.Errorf("short dst %d: sum %#x, want %#x", n, got, want)
		}
		dst = make([]byte, 256)
		if got, want := CopySum(dst, src[:n]), Sum(src[:n]); got != want || !bytes.Equal(dst[n:], make([]byte, 256-n)) {
			t.Errorf("short src %d: sum %#x, want %#x", n, got, want)
		}
	}
}

// Every single-bit change of a page is found, in every position of a block and of a tail.
func TestSumFindsEveryBitFlip(t *testing.T) {
	for _, n := range []int{16, 64, 64 + 16, 128 + 7} {
		for name, page := range map[string][]byte{"zeros": make([]byte, n), "random": testPage(n, 3)} {
			want := Sum(page)
			for bit := range 8 * n {
				page[bit/8] ^= 1 << (bit % 8)
				if Sum(page) == want {
					t.Errorf("%s, %d bytes: flip of bit %d is not seen", name, n, bit)
				}
				page[bit/8] ^= 1 << (bit % 8)
			}
		}
	}
}

// Order and length count: words, half blocks and blocks that trade places, and zeros at the end.
func TestSumFindsMoves(t *testing.T) {
	page := testPage(256, 4)
	want := Sum(page)
	for _, size := range []int{8, 16, 32, 64, 128} {
		for a := 0; a < len(page); a += size {
			for b := a + size; b < len(page); b += size {
				p := bytes.Clone(page)
				copy(p[a:a+size], page[b:b+size])
				copy(p[b:b+size], page[a:a+size])
				if Sum(p) == want {
					t.Errorf("swap of %d bytes at %d and %d is not seen", size, a, b)
				}
			}
		}
	}
	seen := map[uint64]int{}
	for n := range 300 {
		s := Sum(make([]byte, n))
		if m, dup := seen[s]; dup {
			t.Errorf("%d zeros and %d zeros have one sum", m, n)
		}
		seen[s] = n
	}
}

func TestSumDoesNotAllocate(t *testing.T) {
	src, dst := testPage(4096+3, 5), make([]byte, 4096+3)
	if n := testing.AllocsPerRun(100, func() { _ = Sum(src); _ = CopySum(dst, src) }); n != 0 {
		t.Errorf("%v allocations a page", n)
	}
}

func BenchmarkCopySum(b *testing.B) {
	const page, pages = 32 << 10, 2048
	src, dst := testPage(page*pages, 6), make([]byte, page*pages)
	copy(dst, src)
	run := func(name string, f func(dst, src []byte)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(page)
			for i := 0; b.Loop(); i = (i + 1) % pages {
				f(dst[i*page:][:page], src[i*page:][:page])
			}
		})
	}
	run("fused", func(d, s []byte) { CopySum(d, s) })
	run("apart", func(d, s []byte) { copy(d, s); Sum(d) })
	run("memcpy", func(d, s []byte) { copy(d, s) })
}
