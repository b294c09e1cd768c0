package kvcache

import (
	"testing"

	"sluice/gpu"
	"sluice/gpu/host"
)

// BenchmarkRestore loads pages of 64 tokens back, 32 a load, from an L2 and into an L1 that are far
// larger than any cache. checked and unchecked go through the Store; memcpy is the plain copy of the
// same bytes, page by page, between two slices of the same sizes.
//
// ratio is the benchmark's bandwidth over that of a memcpy that is timed in turns with it, on pages
// far from those that were just copied, by the median load of each: what else the machine does then
// counts for neither.
func BenchmarkRestore(b *testing.B) {
	const (
		tokens   = 64
		size     = tokens * 512
		total    = 4096 // pages in L2; L1 has as many
		loadSize = 32
		loads    = total / loadSize
	)
	plainSrc, plainDst := make([]byte, total*size), make([]byte, total*size)
	for i := range plainSrc {
		plainSrc[i] = byte(i * 7)
	}
	copy(plainDst, plainSrc)
	memcpy := func(load int) {
		for p := load * loadSize; p < (load+1)*loadSize; p++ {
			copy(plainDst[p*size:(p+1)*size], plainSrc[p*size:(p+1)*size])
		}
	}
	// measure runs f for load after load and the memcpy between them, outside the benchmark's clock.
	measure := func(b *testing.B, f func(load int)) {
		b.SetBytes(loadSize * size)
		b.ReportAllocs()
		var mine, plain stopwatch
		load := 0
		for b.Loop() {
			mine.time(func() { f(load) })
			b.StopTimer()
			plain.time(func() { memcpy((load + loads/2) % loads) })
			b.StartTimer()
			load = (load + 1) % loads
		}
		b.ReportMetric(plain.median()/mine.median(), "ratio")
	}
	b.Run("memcpy", func(b *testing.B) { measure(b, memcpy) })
	for _, unchecked := range []bool{true, false} {
		name := "checked"
		if unchecked {
			name = "unchecked"
		}
		b.Run(name, func(b *testing.B) {
			dev, err := host.NewVirtual(host.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = dev.Close() }()
			arena := func(kind gpu.Kind) gpu.ArenaID {
				id, err := dev.NewArena(gpu.ArenaSpec{Name: kind.String(), Kind: kind, PageBytes: size, Pages: total})
				if err != nil {
					b.Fatal(err)
				}
				return id
			}
			l1, l2 := arena(gpu.Memory), arena(gpu.Pinned)
			s, err := New(Options{Device: dev, L1: l1, L2: l2, PageTokens: tokens, Unchecked: unchecked})
			if err != nil {
				b.Fatal(err)
			}
			refs := func(a gpu.ArenaID) []gpu.Ref {
				out := make([]gpu.Ref, total)
				for i := range out {
					out[i] = gpu.Ref{Arena: a, Index: uint32(i)}
				}
				return out
			}
			inL1, inL2 := refs(l1), refs(l2)
			for i, ref := range inL1 {
				if err := dev.Write(ref, 0, plainSrc[i*size:(i+1)*size]); err != nil {
					b.Fatal(err)
				}
			}
			results := make([]Result, 0, 1)
			tick := uint64(0)
			end := func() {
				tick++
				dev.Step(tick)
				results = s.Poll(results[:0])
				if len(results) != 1 || results[0].Err != nil {
					b.Fatalf("got %+v", results)
				}
			}
			s.StartBackup(0, inL1, inL2)
			end()
			measure(b, func(load int) {
				from := load * loadSize
				s.StartLoad(1, inL2[from:from+loadSize], inL1[from:from+loadSize])
				end()
			})
		})
	}
}
