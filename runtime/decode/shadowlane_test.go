package decode

import (
	"context"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/server"
)

func newTestRunner(t testing.TB, h abi.Hook) *plugins.Runner {
	t.Helper()
	set, err := plugins.NewNativeSet(standard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return set.Runner(h)
}

func encodeGates(n int) func(abi.Batch) {
	return func(b abi.Batch) {
		b.PutGateGlobals(&abi.GateGlobals{TimeNS: 7})
		for i := range n {
			b.PutGate(i, &abi.GateRecord{ReqKey: uint64(100 + i), RawPoll: abi.PollSuccess, Restore: abi.RestoreReady})
		}
	}
}

// A tick with shadows allocates nothing once the buffers have grown, and one without does not either.
func TestTapAllocatesNothing(t *testing.T) {
	const n = 40
	r := newTestRunner(t, abi.Gate)
	encode := encodeGates(n)
	tap := newTap(nil, nil, nil)
	var tick uint64
	run := func() {
		tick++
		if _, err := tap.Run(r, tick, 1, n, n, encode); err != nil {
			t.Fatal(err)
		}
	}
	if got := testing.AllocsPerRun(100, run); got != 0 {
		t.Errorf("%v allocations a tick without a shadow", got)
	}
	lanes := []*lane{newLane([]abi.Hook{abi.Gate}, make(chan struct{}, 1)), newLane([]abi.Hook{abi.Gate}, make(chan struct{}, 1))}
	for _, l := range lanes {
		tap.attach(l)
	}
	drain := func() (got int) {
		for _, l := range lanes {
			for c := l.next(); c != nil; c = l.next() {
				if b := (abi.Batch{In: c.records(), Out: c.answer()}); b.GateIn(n-1).ReqKey != 100+n-1 || b.GateOut(n-1).Vote != abi.PollSuccess || c.tick > tick {
					t.Fatalf("copied %+v, %+v of tick %d", b.GateIn(n-1), b.GateOut(n-1), c.tick)
				}
				got++
				l.taken()
			}
		}
		return got
	}
	for range laneBatches {
		run()
		drain()
	}
	taken := 0
	if got := testing.AllocsPerRun(1000, func() { run(); taken += drain() }); got != 0 || taken != 2*1001 {
		t.Errorf("%v allocations a tick with two shadows, %d batches of 1001 ticks", got, taken)
	}
	// Neither does a tick that finds no room.
	for range laneBatches {
		run()
	}
	if got := testing.AllocsPerRun(100, run); got != 0 || lanes[0].skipped[abi.Gate].Load() != 101 || drain() != 2*laneBatches {
		t.Errorf("%v allocations a tick with full lanes, %d skipped", got, lanes[0].skipped[abi.Gate].Load())
	}
	// A hook that no lane watches is not copied.
	if _, err := tap.Run(newTestRunner(t, abi.Reserve), 1, 1, 1, 1, func(b abi.Batch) { b.PutReserveGlobals(&abi.ReserveGlobals{PageSize: 1}) }); err != nil || drain() != 0 {
		t.Errorf("reserve: %v", err)
	}
	tap.detach(lanes[0])
	tap.detach(lanes[0])
	if run(); lanes[0].next() != nil || lanes[1].next() == nil {
		t.Error("a detached lane goes on, or another does not")
	}
	if tap.detach(lanes[1]); tap.lanes.Load() != nil {
		t.Error("lanes are left")
	}
}

// The copy is of what the policy was shown, whatever a guest writes over it, and the answer is the one that stood.
func TestTapCopiesBeforeTheGuestWrites(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer func() {
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	// It writes 0xFF over its first record's restore tokens, and traps: the batch is encoded twice.
	scribbles := []byte{0x20, 0, 0x41, 0xFF, 1, 0x3A, 0, 0x8C, 1, 0x00, 0x41, 0}
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Reserve, Module: reserveModule(scribbles, nil)}}, abi.HostInfo{Major: abi.Major})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	tap, l := newTap(nil, nil, nil), newLane([]abi.Hook{abi.Reserve}, make(chan struct{}, 1))
	tap.attach(l)
	a, err := tap.Run(set.Reserve, 5, 2, 1, 1, func(b abi.Batch) {
		b.PutReserveGlobals(&abi.ReserveGlobals{TotalTokens: 1000})
		b.PutReserve(0, &abi.ReserveRecord{ReqKey: 9, RestoreTokens: 64, OwedTokens: 64})
	})
	if err != nil || a.Fault == nil {
		t.Fatalf("%v, %+v; want a trap", err, a)
	}
	c := l.next()
	if c == nil {
		t.Fatal("nothing was copied")
	}
	b := abi.Batch{In: c.records(), Out: c.answer(), Globals: c.globals()}
	if b.ReserveIn(0).RestoreTokens != 64 || abi.GetReserveGlobals(b.Globals).TotalTokens != 1000 || !c.native || c.tick != 5 || c.epoch != 2 || b.ReserveOut() != (a.Batch.ReserveOut()) {
		t.Errorf("copied %+v with the answer %+v, native %v", b.ReserveIn(0), b.ReserveOut(), c.native)
	}
}

func TestLaneBoundsItsBytes(t *testing.T) {
	l := newLane([]abi.Hook{abi.Gate}, make(chan struct{}, 1))
	huge := laneBytes / abi.GateStride / 2
	if l.claim(abi.Gate, huge, huge) != nil || l.skipped[abi.Gate].Load() != 1 || l.bytes != 0 {
		t.Errorf("a batch of %d records was taken, %d bytes", huge, l.bytes)
	}
	if l.claim(abi.Gate, 10, 10) == nil || l.claim(abi.Admit, 10, 10) != nil || l.claim(abi.Hook(99), 1, 1) != nil || l.skipped[abi.Admit].Load() != 0 {
		t.Error("a small one was not, or one of another hook was")
	}
}

// A tick is over with its last watched hook or the next tick's first batch, and no batch counts beyond the last tick.
func TestLaneCountsTicks(t *testing.T) {
	l := newLane([]abi.Hook{abi.Gate, abi.Reserve}, make(chan struct{}, 1))
	for i, c := range []struct {
		tick  uint64
		hook  abi.Hook
		takes bool
		ticks int
		begun int
	}{
		{5, abi.Gate, true, 0, 1}, {5, abi.Reserve, true, 1, 1},
		{6, abi.Gate, true, 1, 2}, // its reserve batch was skipped
		{8, abi.Gate, true, 2, 3}, {8, abi.Reserve, true, 3, 3},
		{9, abi.Gate, false, 3, 3},
	} {
		b := &copied{tick: c.tick, hook: c.hook}
		takes := l.begin(b, 3)
		if takes {
			l.settle(b, 3)
		}
		if takes != c.takes || l.ticks != c.ticks || l.begun != c.begun || l.full.Load() != (c.ticks == 3) {
			t.Errorf("batch %d: taken %v with %d ticks of %d over, full %v", i, takes, l.ticks, l.begun, l.full.Load())
		}
	}
	if l.claim(abi.Gate, 1, 1) != nil || l.skipped[abi.Gate].Load() != 0 {
		t.Error("a full lane takes a batch, or counts it as skipped")
	}
}

// Each field that the host acts on counts, and the one kept is that of the earliest tick and lowest rank.
func TestDifferences(t *testing.T) {
	gate := func(outs ...abi.GateOut) (b []byte) {
		for i := range outs {
			b = append(b, make([]byte, abi.GateOutStride)...)
			abi.PutGateOut(b[i*abi.GateOutStride:], &outs[i])
		}
		return b
	}
	admit := func(outs ...abi.AdmitOut) (b []byte) {
		for i := range outs {
			b = append(b, make([]byte, abi.AdmitOutStride)...)
			abi.PutAdmitOut(b[i*abi.AdmitOutStride:], &outs[i])
		}
		return b
	}
	reserve := func(held uint64, reason abi.Reason) []byte {
		b := make([]byte, abi.ReserveOutStride)
		abi.PutReserveOut(b, &abi.ReserveOut{HeldTokens: held, Reason: reason})
		return b
	}
	score := func(keys ...int64) (b []byte) {
		for i, k := range keys {
			b = append(b, make([]byte, abi.ScoreOutStride)...)
			abi.PutScoreOut(b[i*abi.ScoreOutStride:], &abi.ScoreOut{Key: uint64(k)})
		}
		return b
	}
	inputs := map[abi.Hook]func(b abi.Batch, i int){
		abi.Gate:    func(b abi.Batch, i int) { b.PutGate(i, &abi.GateRecord{ReqKey: uint64(40 + i)}) },
		abi.Reserve: func(b abi.Batch, i int) { b.PutReserve(i, &abi.ReserveRecord{ReqKey: uint64(40 + i)}) },
		abi.Admit:   func(b abi.Batch, i int) { b.PutAdmit(i, &abi.AdmitRecord{ReqKey: uint64(40 + i)}) },
		abi.Score:   func(b abi.Batch, i int) { b.PutScore(i, &abi.ScoreRecord{NodeKey: uint64(40 + i)}) },
	}
	const success, waits = abi.PollSuccess, abi.PollTransferring
	for _, c := range []struct {
		name         string
		hook         abi.Hook
		live, shadow []byte
		nOut         int
		differed     uint64
		want         server.ShadowDifference
	}{
		{"gate, equal", abi.Gate, gate(abi.GateOut{Vote: success}), gate(abi.GateOut{Vote: success}), 1, 0, server.ShadowDifference{}},
		{"gate, what is for traces alone", abi.Gate, gate(abi.GateOut{Vote: success, Aux: 3}), gate(abi.GateOut{Vote: success}), 1, 0, server.ShadowDifference{}},
		{"gate, votes", abi.Gate, gate(abi.GateOut{Vote: waits}, abi.GateOut{Vote: success}, abi.GateOut{Vote: success}), gate(abi.GateOut{Vote: waits}, abi.GateOut{Vote: waits}, abi.GateOut{Vote: waits}), 3, 2,
			server.ShadowDifference{Key: 41, Field: "vote", Live: "success", Shadow: "transferring"}},
		{"gate, reason", abi.Gate, gate(abi.GateOut{Reason: abi.ReasonRestoreFailed}), gate(abi.GateOut{}), 1, 1,
			server.ShadowDifference{Key: 40, Field: "reason", Live: abi.ReasonText(abi.ReasonRestoreFailed), Shadow: abi.ReasonText(abi.ReasonNone)}},
		{"gate, gives up", abi.Gate, gate(abi.GateOut{Vote: waits}), gate(abi.GateOut{Vote: waits, Flags: abi.GateOutGiveUp}), 1, 1,
			server.ShadowDifference{Key: 40, Field: "flags", Live: "0x0", Shadow: "0x1"}},
		{"reserve, equal", abi.Reserve, reserve(5, 1), reserve(5, 2), 1, 0, server.ShadowDifference{}},
		{"reserve", abi.Reserve, reserve(64, 0), reserve(0, 0), 1, 1, server.ShadowDifference{Field: "held_tokens", Live: "64", Shadow: "0"}},
		{"admit, verdict", abi.Admit, admit(abi.AdmitOut{Verdict: abi.VerdictAdmit}), admit(abi.AdmitOut{Verdict: abi.VerdictDefer}), 1, 1,
			server.ShadowDifference{Key: 40, Field: "verdict", Live: "admit", Shadow: "defer"}},
		{"admit, order", abi.Admit, admit(abi.AdmitOut{Order: 0}, abi.AdmitOut{Order: 1}), admit(abi.AdmitOut{Order: 1}, abi.AdmitOut{Order: 0}), 2, 2,
			server.ShadowDifference{Key: 40, Field: "order", Live: "0", Shadow: "1"}},
		{"admit, reason of a reject", abi.Admit, admit(abi.AdmitOut{Verdict: abi.VerdictReject, Reason: 200}), admit(abi.AdmitOut{Verdict: abi.VerdictReject, Reason: 201}), 1, 1,
			server.ShadowDifference{Key: 40, Field: "reason", Live: "policy reason 200", Shadow: "policy reason 201"}},
		{"admit, reason of none", abi.Admit, admit(abi.AdmitOut{Reason: 200}), admit(abi.AdmitOut{Reason: 201}), 1, 0, server.ShadowDifference{}},
		{"score", abi.Score, score(7, -1), score(7, 2), 2, 1, server.ShadowDifference{Key: 41, Field: "key", Live: "-1", Shadow: "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			buf := make([]byte, abi.BatchSize(c.hook, c.nOut, c.nOut))
			in, err := abi.Begin(buf, c.hook, 1, 1, c.nOut, c.nOut)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.nOut {
				inputs[c.hook](in, i)
			}
			batch := func(tick uint64) *copied {
				b := &copied{tick: tick, hook: c.hook, n: c.nOut, nOut: c.nOut, buf: append(append([]byte{}, in.In...), c.live...), out: len(in.In)}
				b.end = len(b.buf)
				return b
			}
			var h hookCount
			answer := plugins.Answer{Batch: abi.Batch{Out: c.shadow}}
			for _, at := range []struct {
				tick uint64
				rank int
			}{{6, 0}, {5, 1}, {5, 0}, {5, 1}, {7, 0}} {
				records, differed := h.add(at.rank, batch(at.tick), &answer)
				if records != uint64(c.nOut) || differed != c.differed {
					t.Fatalf("%d of %d differ, want %d", differed, records, c.differed)
				}
			}
			if h.records != 5*uint64(c.nOut) || h.differed != 5*c.differed {
				t.Errorf("%d of %d in all", h.differed, h.records)
			}
			if c.differed == 0 {
				if h.first != nil {
					t.Errorf("first %+v, want none", h.first)
				}
				return
			}
			c.want.Tick, c.want.Rank = 5, 0
			if h.first == nil || *h.first != c.want {
				t.Errorf("first %+v, want %+v", h.first, c.want)
			}
		})
	}
}

func TestFuelLog(t *testing.T) {
	var f fuelLog
	if f.add(0); f.median() != 0 || len(f.calls) != 0 {
		t.Errorf("%+v after a call that is not metered", f)
	}
	for i := range 3 * fuelKept {
		f.add(uint64(3*fuelKept - i))
	}
	// The latest are 1 to fuelKept.
	if f.median() != fuelKept/2 || f.most != 3*fuelKept || len(f.calls) != fuelKept {
		t.Errorf("median %d, most %d of %d", f.median(), f.most, len(f.calls))
	}
}

// What a tick pays for its tap: nothing to speak of without a shadow, a copy of the batch with one.
func BenchmarkTap(b *testing.B) {
	const n = 256
	encode := encodeGates(n)
	for _, c := range []struct {
		name   string
		tapped bool
		lanes  int
	}{{"no tap", false, 0}, {"no shadow", true, 0}, {"one shadow", true, 1}, {"four shadows", true, maxStaged}} {
		b.Run(c.name, func(b *testing.B) {
			r, tap := newTestRunner(b, abi.Gate), newTap(nil, nil, nil)
			var lanes []*lane
			for range c.lanes {
				lanes = append(lanes, newLane([]abi.Hook{abi.Gate}, make(chan struct{}, 1)))
				tap.attach(lanes[len(lanes)-1])
			}
			ask := tap.Run
			if !c.tapped {
				ask = (*plugins.Runner).Run
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ask(r, 1, 1, n, n, encode); err != nil {
					b.Fatal(err)
				}
				for _, l := range lanes {
					l.taken()
				}
			}
		})
	}
}
