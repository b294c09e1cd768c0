package plugins_test

import (
	"context"
	"testing"

	"sluice/abi"
	"sluice/plugins"
)

// BenchmarkGateCall is one call of the restore-gated gate over 256 records, encode and decode included. The WebAssembly
// figure is unmetered.
func BenchmarkGateCall(b *testing.B) {
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{})
	defer closing(b, host.Close)
	for _, tc := range []struct {
		name   string
		native bool
	}{{"native", true}, {"wasm", false}} {
		b.Run(tc.name, func(b *testing.B) {
			set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Builtin: "restore-gated", Native: tc.native}}, abi.HostInfo{MaxRecords: 256})
			if err != nil {
				b.Fatal(err)
			}
			defer closing(b, set.Close)
			const n = 256
			records := gateRecords(n)
			encode := func(batch abi.Batch) {
				batch.PutGateGlobals(&abi.GateGlobals{TimeNS: 1})
				for i := range records {
					batch.PutGate(i, &records[i])
				}
			}
			var sum uint64
			tick := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				tick++
				a, err := set.Gate.Run(tick, 1, n, n, encode)
				if err != nil {
					b.Fatal(err)
				}
				for i := range n {
					sum += uint64(a.Batch.GateOut(i).Vote)
				}
			}
			if s := set.Gate.Stats(); s.FaultTotal() > 0 || s.Native > 0 || sum == 0 {
				b.Fatalf("the policy did not answer: %+v, votes %d", s, sum)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
