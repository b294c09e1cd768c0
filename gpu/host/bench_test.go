package host

import (
	"fmt"
	"testing"

	"sluice/gpu"
)

// BenchmarkStep is what a replay pays for one copy of small pages: submission, Step and the poll.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("pages=%d", n), func(b *testing.B) {
			r := newRig(b, false, Options{Delay: SeededDelay(1, 1, 3)}, 16, 32)
			dst, src, sums := refs(r.l1, 0, n), refs(r.l2, 0, n), make([]uint64, n)
			var c gpu.Completion
			b.ReportAllocs()
			for b.Loop() {
				if err := r.dev.Copy(r.stream, gpu.Batch{Dst: dst, Src: src, Sums: sums}, &c); err != nil {
					b.Fatal(err)
				}
				due, _ := r.dev.Next()
				if r.dev.Step(due) != 1 || !c.Done() {
					b.Fatal("the copy did not end")
				}
			}
		})
	}
}
