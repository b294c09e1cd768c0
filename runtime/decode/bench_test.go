package decode

import (
	"context"
	"log/slog"
	"testing"

	"sluice/runtime/server"
)

// BenchmarkSwap is one change of policies of two idle ranks, from the request to the switch: "staged" with instances made
// anew, a tiny module's on each rank; "rollback" to warm ones.
func BenchmarkSwap(b *testing.B) {
	for _, warm := range []bool{false, true} {
		name := "staged"
		if warm {
			name = "rollback"
		}
		b.Run(name, func(b *testing.B) {
			r := newSwapRig(b, func(o *Options) { o.Logger = slog.New(slog.DiscardHandler) })
			modules := []server.StageRequest{module(reserveModule(answers(0), nil), "a"), module(reserveModule(answers(7), nil), "b")}
			for _, m := range modules {
				r.swap(m)
			}
			i := 0
			for b.Loop() {
				if i++; !warm {
					r.swap(modules[i%2])
					continue
				}
				if _, err := r.Rollback(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
