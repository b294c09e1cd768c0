package guest_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
)

func TestViewsReadWhatTheHostWrote(t *testing.T) {
	buf := make([]byte, abi.BatchSize(abi.Admit, 3, 2))
	h, err := abi.Begin(buf, abi.Admit, 5, 6, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	h.PutAdmitGlobals(&abi.AdmitGlobals{TimeNS: 1, PageSize: 16, Candidates: 2, FreeTokens: 1 << 40, ReservedDecodeTokens: 512, PrebuiltLast: 3})
	h.PutAdmit(1, &abi.AdmitRecord{ReqKey: 9, Kind: abi.AdmitResume, Flags: abi.AdmitFlagReady, Tenant: 2, Priority: 3, NeedTokens: 77, Retractions: 4})
	b, ok := guest.OpenAdmit(buf)
	if !ok {
		t.Fatal("not a batch")
	}
	g, r := b.Globals(), b.At(1)
	if b.Len() != 3 || b.Candidates() != 2 || b.Tick() != 5 || b.Epoch() != 6 {
		t.Errorf("len %d, candidates %d, tick %d, epoch %d", b.Len(), b.Candidates(), b.Tick(), b.Epoch())
	}
	if g.PageSize() != 16 || g.FreeTokens() != 1<<40 || g.ReservedDecodeTokens() != 512 || g.PrebuiltLast() != 3 || g.TimeNS() != 1 {
		t.Errorf("globals %+v", g)
	}
	if r.ReqKey() != 9 || r.Kind() != abi.AdmitResume || r.Flags() != abi.AdmitFlagReady || r.Tenant() != 2 || r.Priority() != 3 || r.NeedTokens() != 77 || r.Retractions() != 4 {
		t.Errorf("record %+v", r)
	}
	b.Set(1, abi.VerdictReject, 0)
	b.Answer(1).SetReason(abi.ReasonNeverFits)
	if got := h.AdmitOut(1); got != (abi.AdmitOut{Verdict: abi.VerdictReject, Reason: abi.ReasonNeverFits}) {
		t.Errorf("answer %+v", got)
	}
}

func TestGateAnswersReachTheHost(t *testing.T) {
	buf := make([]byte, abi.BatchSize(abi.Gate, 3, 3))
	h, err := abi.Begin(buf, abi.Gate, 0, 0, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	b, ok := guest.OpenGate(buf)
	if !ok {
		t.Fatal("not a batch")
	}
	b.SetVote(0, abi.PollSuccess)
	b.Fail(1, abi.ReasonRestoreFailed)
	b.GiveUp(2, abi.PollTransferring, 64)
	for i, want := range []abi.GateOut{
		{Vote: abi.PollSuccess},
		{Vote: abi.PollFailed, Reason: abi.ReasonRestoreFailed},
		{Vote: abi.PollTransferring, Reason: 64, Flags: abi.GateOutGiveUp},
	} {
		if got := h.GateOut(i); got != want {
			t.Errorf("record %d: %+v, want %+v", i, got, want)
		}
	}
}

// A newer host's records are longer; a guest steps by the header's strides and leaves the tails alone.
func TestLongerRecordsOfANewerHost(t *testing.T) {
	const n, inStride, outStride, inOff, outOff = 4, 48, 16, 128, 128 + 4*48
	buf := make([]byte, outOff+n*outStride)
	abi.PutHeader(buf, &abi.Header{
		Major: abi.Major, Minor: abi.Minor + 7, Kind: abi.Gate, N: n, InStride: inStride, InOff: inOff,
		OutStride: outStride, OutOff: outOff, GlobalsOff: 64, GlobalsSize: 64,
	})
	for i := range n {
		abi.PutGateRecord(buf[inOff+i*inStride:], &abi.GateRecord{RawPoll: abi.Poll(i), ReqKey: uint64(i)})
		binary.LittleEndian.PutUint64(buf[inOff+i*inStride+abi.GateStride:], 1<<64-1)
	}
	b, ok := guest.OpenGate(buf)
	if !ok {
		t.Fatal("a newer minor is refused")
	}
	for i := range b.Len() {
		b.SetVote(i, b.At(i).RawPoll())
	}
	for i := range n {
		if got := buf[outOff+i*outStride]; got != byte(i) {
			t.Errorf("record %d: vote %d", i, got)
		}
		if tail := binary.LittleEndian.Uint64(buf[outOff+i*outStride+8:]); tail != 0 {
			t.Errorf("record %d: tail %#x", i, tail)
		}
	}
}

func TestWhatIsNoBatch(t *testing.T) {
	good := make([]byte, abi.BatchSize(abi.Gate, 2, 2))
	if _, err := abi.Begin(good, abi.Gate, 0, 0, 2, 2); err != nil {
		t.Fatal(err)
	}
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	for _, tc := range []struct {
		name string
		edit func([]byte) []byte
	}{
		{"nothing", func([]byte) []byte { return nil }},
		{"a short header", func(b []byte) []byte { return b[:63] }},
		{"short by one", func(b []byte) []byte { return b[:len(b)-1] }},
		{"another mark", put32(0, 1)},
		{"a newer major", put32(4, 2)},
		{"a smaller header", put32(8, 63)},
		{"another kind", put32(12, uint32(abi.Admit))},
		{"a kind that is its low byte", put32(12, 1<<8|uint32(abi.Gate))},
		{"more records than bytes", put32(32, 3)},
		{"a count that overflows", put32(32, 1<<32-1)},
		{"a shorter in stride", put32(36, 31)},
		{"a shorter out stride", put32(44, 7)},
		{"an in offset outside", put32(40, 1<<32-1)},
		{"an out offset outside", put32(48, 1<<32-1)},
		{"small globals", put32(60, 15)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := guest.RunGate(func(guest.GateBatch) int32 { return 0 }, tc.edit(append([]byte{}, good...))); got != int32(abi.StatusBadBatch) {
				t.Errorf("status %d", got)
			}
		})
	}
	if got := guest.RunGate(func(guest.GateBatch) int32 { return 0 }, good); got != 0 {
		t.Errorf("the good batch: status %d", got)
	}
	more := make([]byte, abi.BatchSize(abi.Admit, 2, 2))
	h, err := abi.Begin(more, abi.Admit, 0, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	h.PutAdmitGlobals(&abi.AdmitGlobals{Candidates: 3})
	if got := guest.RunAdmit(func(guest.AdmitBatch) int32 { return 0 }, more); got != int32(abi.StatusBadBatch) {
		t.Errorf("more candidates than records: status %d", got)
	}
}

func TestRandomHeadersNeverPanic(t *testing.T) {
	const seed = 20260101
	rng := rand.New(rand.NewPCG(seed, 0))
	opened := 0
	for run := range 20000 {
		hook := abi.Hook(1 + run%3)
		buf := make([]byte, abi.BatchSize(abi.Admit, 4, 4))
		if _, err := abi.Begin(buf, hook, 0, 0, 4, abi.Outs(hook, 4, 4)); err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(3) {
			buf[12+rng.IntN(abi.HeaderSize-12)] = byte(rng.Uint32())
		}
		g, okG := guest.OpenGate(buf)
		r, okR := guest.OpenReserve(buf)
		a, okA := guest.OpenAdmit(buf)
		if okG {
			opened++
			for i := range g.Len() {
				g.SetVote(i, g.At(i).RawPoll())
			}
		}
		if okR {
			opened++
			r.Hold(uint64(r.Globals().PageSize()))
			for i := range r.Len() {
				r.At(i).OwedTokens()
			}
		}
		if okA {
			opened++
			for i := range a.Candidates() {
				a.Set(i, abi.VerdictAdmit, i)
			}
		}
	}
	if opened == 0 {
		t.Errorf("seed %d: no header was accepted, so no view was tried", seed)
	}
}

func TestAGuestAllocatesNothing(t *testing.T) {
	buf := make([]byte, abi.BatchSize(abi.Gate, 64, 64))
	if _, err := abi.Begin(buf, abi.Gate, 0, 0, 64, 64); err != nil {
		t.Fatal(err)
	}
	policy := func(b guest.GateBatch) int32 {
		for i := range b.Len() {
			b.SetVote(i, b.At(i).RawPoll())
		}
		return 0
	}
	if got := testing.AllocsPerRun(100, func() { guest.RunGate(policy, buf) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
