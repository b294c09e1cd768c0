package plugins_test

import (
	"context"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/wasmbin"
)

// BenchmarkGateCall is one call of the restore-gated gate over 256 records, encode and decode included: as plain Go, as
// the shipped module (a Go guest), and as a small guest, both with and without their metering; the small one also with
// LOG and COUNTERS arenas, in which it counts each call.
func BenchmarkGateCall(b *testing.B) {
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{})
	defer closing(b, host.Close)
	unmetered := plugins.NewUnmeteredHost(plugins.Options{})
	defer closing(b, unmetered.Close)
	shipped := plugins.Spec{Hook: abi.Gate, Builtin: "restore-gated"}
	native := shipped
	native.Native = true
	small := plugins.Spec{Hook: abi.Gate, Module: smallGate(0, 0, nil)}
	listened := plugins.Spec{Hook: abi.Gate, Module: smallGate(logAt, countersAt, nil)}
	counting := plugins.Spec{Hook: abi.Gate, Module: smallGate(logAt, countersAt, raise(0, 1))}
	for _, tc := range []struct {
		name string
		host *plugins.Host
		spec plugins.Spec
	}{
		{"native", host, native},
		{"wasm", host, shipped},
		{"wasm-unmetered", unmetered, shipped},
		{"small-wasm", host, small},
		{"small-wasm-unmetered", unmetered, small},
		{"small-wasm-arenas", host, listened},
		{"small-wasm-counting", host, counting},
	} {
		b.Run(tc.name, func(b *testing.B) {
			set, err := tc.host.NewSet(ctx, []plugins.Spec{tc.spec}, abi.HostInfo{MaxRecords: 256})
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

// smallGate is the gate as a compiler without a runtime would write it: one loop, loads, compares and stores. first
// runs before it; an arena at 0 is none.
func smallGate(logAt, countersAt int32, first []byte) []byte {
	const (
		load8, store32       = 0x2D, 0x36
		sub, set             = 0x6B, 0x21
		out, stride, ostride = 1, 2, 3
		in, left, vote       = 0, 4, 5
	)
	get := func(l byte) []byte { return op(opLocalGet, l) }
	field := func(at byte) []byte { return code(get(0), op(opI32Load, 2, at)) }
	advance := func(l, by byte) []byte { return code(get(l), get(by), op(opI32Add, set, l)) }
	is := func(at byte, v int32) []byte { return code(get(in), op(load8, 0, at), i32(v), op(opI32Eq)) }
	m := policyOf(code(first,
		field(32), op(set, left), field(36), op(set, stride), field(44), op(set, ostride),
		get(0), field(48), op(opI32Add, set, out), get(0), field(40), op(opI32Add, set, in),
		op(opBlock, 0x40, opLoop, 0x40), get(left), op(opI32Eqz, opBrIf, 1),
		get(in), op(load8, 0, 8, set, vote),
		// A success whose restore is pending waits; one whose restore failed, fails.
		is(8, int32(abi.PollSuccess)), op(opIf, 0x40),
		is(9, int32(abi.RestorePending)), op(opIf, 0x40), i32(int32(abi.PollTransferring)), op(set, vote, opEnd),
		is(9, int32(abi.RestoreFailed)), op(opIf, 0x40), i32(int32(abi.PollFailed)), op(set, vote, opEnd),
		op(opEnd),
		get(out), get(vote), op(store32, 0, 0),
		advance(in, stride), advance(out, ostride), get(left), i32(1), op(sub, set, left), op(opBr, 0, opEnd, opEnd),
		i32(0)))
	m.Bodies[1] = body(talkingArenas(logAt, countersAt))
	m.Bodies[3].Locals = []wasmbin.LocalRun{{N: 5, Type: wasmbin.I32}}
	return m.Encode()
}
