package abi_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"sluice/abi"
)

func TestBatchLayout(t *testing.T) {
	for _, tc := range []struct {
		hook            abi.Hook
		n, nOut         int
		globals, in, ot int // offsets
		size            int
	}{
		{abi.Gate, 0, 0, 64, 80, 80, 80},
		{abi.Gate, 3, 3, 64, 80, 176, 208},
		{abi.Reserve, 2, 1, 64, 128, 192, 208},
		{abi.Admit, 3, 2, 64, 192, 384, 400},
		{abi.Admit, 3, 1, 64, 192, 384, 400},
	} {
		t.Run(tc.hook.String(), func(t *testing.T) {
			if got := abi.BatchSize(tc.hook, tc.n, tc.nOut); got != tc.size {
				t.Fatalf("size %d, want %d", got, tc.size)
			}
			buf := bytes.Repeat([]byte{0xAA}, tc.size+8)
			b, err := abi.Begin(buf, tc.hook, 7, 9, tc.n, tc.nOut)
			if err != nil {
				t.Fatal(err)
			}
			h := b.Info()
			if h.Tick != 7 || h.Epoch != 9 || int(h.N) != tc.n || h.Kind != tc.hook || h.Major != abi.Major || h.Minor != abi.Minor {
				t.Errorf("header %+v", h)
			}
			if int(h.GlobalsOff) != tc.globals || int(h.InOff) != tc.in || int(h.OutOff) != tc.ot {
				t.Errorf("offsets %d %d %d, want %d %d %d", h.GlobalsOff, h.InOff, h.OutOff, tc.globals, tc.in, tc.ot)
			}
			if string(buf[:4]) != "SLB1" || buf[8] != 64 {
				t.Errorf("mark %q, header size %d", buf[:4], buf[8])
			}
			if !bytes.Equal(buf[64:tc.size], make([]byte, tc.size-64)) {
				t.Error("the parts are not cleared")
			}
			if !bytes.Equal(buf[tc.size:], bytes.Repeat([]byte{0xAA}, 8)) {
				t.Error("bytes past the batch are touched")
			}
			if outs(b, tc.hook) != tc.nOut {
				t.Errorf("%d output records, want %d", outs(b, tc.hook), tc.nOut)
			}
		})
	}
}

func outs(b abi.Batch, h abi.Hook) int {
	switch h {
	case abi.Gate:
		return len(b.Out) / abi.GateOutStride
	case abi.Reserve:
		return len(b.Out) / abi.ReserveOutStride
	}
	return len(b.Out) / abi.AdmitOutStride
}

func TestBatchSizeErrors(t *testing.T) {
	for _, tc := range []struct {
		name    string
		hook    abi.Hook
		n, nOut int
		buf     int
	}{
		{"no hook", 0, 1, 1, 1 << 10},
		{"beyond the last hook", 5, 1, 1, 1 << 10},
		{"negative", abi.Gate, -1, 0, 1 << 10},
		{"negative outs", abi.Gate, 1, -1, 1 << 10},
		{"too many", abi.Gate, abi.MaxRecords + 1, 1, 1 << 10},
		{"overflowing", abi.Admit, math.MaxInt, math.MaxInt, 1 << 10},
		{"buffer short by one", abi.Gate, 1, 1, abi.BatchSize(abi.Gate, 1, 1) - 1},
		{"no buffer", abi.Gate, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			buf := make([]byte, tc.buf)
			_, err := abi.Begin(buf, tc.hook, 0, 0, tc.n, tc.nOut)
			if !errors.Is(err, abi.ErrBatchSize) || !strings.Contains(err.Error(), "bytes") {
				t.Errorf("Begin: %v", err)
			}
			if _, err := abi.Open(buf, tc.hook, tc.n, tc.nOut); !errors.Is(err, abi.ErrBatchSize) {
				t.Errorf("Open: %v", err)
			}
			if _, err := abi.View(buf, tc.hook, tc.n, tc.nOut); !errors.Is(err, abi.ErrBatchSize) {
				t.Errorf("View: %v", err)
			}
		})
	}
}

func TestOpenWantsTheHeaderThatBeginWrote(t *testing.T) {
	buf := make([]byte, abi.BatchSize(abi.Gate, 4, 4))
	if _, err := abi.Begin(buf, abi.Gate, 1, 1, 4, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := abi.Open(buf, abi.Gate, 4, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := abi.Open(buf, abi.Gate, 3, 3); !errors.Is(err, abi.ErrBatchHeader) {
		t.Errorf("other counts: %v", err)
	}
	for _, at := range []int{12, 32, 40, 48, 56} {
		scribbled := bytes.Clone(buf)
		scribbled[at]++
		if _, err := abi.Open(scribbled, abi.Gate, 4, 4); !errors.Is(err, abi.ErrBatchHeader) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		if _, err := abi.View(scribbled, abi.Gate, 4, 4); err != nil {
			t.Errorf("View looks at the header: %v", err)
		}
	}
}

func TestRecordsSurviveTheCodec(t *testing.T) {
	buf := bytes.Repeat([]byte{0xFF}, 1<<12)
	gate := abi.GateRecord{
		ReqKey: 1 << 63, RawPoll: abi.PollSuccess, Restore: abi.RestoreFailed, PrevVote: abi.PollTransferring, Flags: 31,
		AgeTicks: 1<<32 - 1, RestoreTokens: 2, TransferredPages: 3, Tenant: 1<<16 - 1, Priority: 5,
	}
	reserve := abi.ReserveRecord{ReqKey: 3, Restore: abi.RestoreFailed, SetAside: 1, RestoreTokens: 1<<32 - 1, OwedTokens: 9}
	admit := abi.AdmitRecord{
		ReqKey: 4, Kind: abi.AdmitResume, Flags: abi.AdmitFlagReady, Tenant: 1, Priority: 2, WaitTicks: 3, PromptTokens: 4, OutputTokens: 5, MaxNewTokens: 6,
		MatchL1Tokens: 7, MatchRestoreTokens: 8, NeedTokens: 9, GrowthTokens: 10, Retractions: 11,
	}
	gg := abi.GateGlobals{TimeNS: 12}
	rg := abi.ReserveGlobals{TimeNS: 1, PageSize: 2, TotalTokens: 3, FreeTokens: 4, EvictableTokens: 5, FloorTokens: 6, SetAsideTokens: 7}
	ag := abi.AdmitGlobals{
		TimeNS: 1, PageSize: 2, Candidates: 2, TotalTokens: 4, FreeTokens: 5, EvictableTokens: 6, HeldTokens: 7, GrowthTokens: 8, BudgetTokens: 9, Running: 10,
		Transfer: 11, Waiting: 12, Retracted: 13, FreeRows: 14, FreeSlots: 15, ReservedDecodeTokens: 16, ClipMaxNew: 17, RunningTokens: 18, PrebuiltLast: 19,
	}
	b, err := abi.Begin(buf, abi.Gate, 0, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	b.PutGateGlobals(&gg)
	b.PutGate(1, &gate)
	if b.GateIn(1) != gate || b.GateIn(0) != (abi.GateRecord{}) || b.GateGlobals() != gg {
		t.Errorf("gate: %+v %+v", b.GateIn(1), b.GateGlobals())
	}
	go1 := abi.GateOut{Vote: abi.PollTransferring, Reason: 200, Flags: abi.GateOutGiveUp, Aux: 1 << 31}
	abi.PutGateOut(b.Out[abi.GateOutStride:], &go1)
	if b.GateOut(1) != go1 {
		t.Errorf("gate answer: %+v", b.GateOut(1))
	}
	if b, err = abi.Begin(buf, abi.Reserve, 0, 0, 2, 1); err != nil {
		t.Fatal(err)
	}
	b.PutReserveGlobals(&rg)
	b.PutReserve(1, &reserve)
	ro := abi.ReserveOut{HeldTokens: 1<<64 - 1, Reason: 3}
	abi.PutReserveOut(b.Out, &ro)
	if b.ReserveIn(1) != reserve || b.ReserveGlobals() != rg || b.ReserveOut() != ro {
		t.Errorf("reserve: %+v %+v %+v", b.ReserveIn(1), b.ReserveGlobals(), b.ReserveOut())
	}
	if b, err = abi.Begin(buf, abi.Admit, 0, 0, 2, 2); err != nil {
		t.Fatal(err)
	}
	b.PutAdmitGlobals(&ag)
	b.PutAdmit(1, &admit)
	ao := abi.AdmitOut{Verdict: abi.VerdictReject, Reason: 9, Order: 1<<32 - 1}
	abi.PutAdmitOut(b.Out[abi.AdmitOutStride:], &ao)
	if b.AdmitIn(1) != admit || b.AdmitGlobals() != ag || b.AdmitOut(1) != ao {
		t.Errorf("admit: %+v %+v %+v", b.AdmitIn(1), b.AdmitGlobals(), b.AdmitOut(1))
	}
	info := abi.HostInfo{Major: 1, Minor: 2, ConfigBytes: 3, MaxRecords: 4, PageSize: 5, TotalTokens: 6, Ranks: 7, Features: 8, Class: abi.ClassReplicated}
	abi.PutHostInfo(buf, &info)
	if got := abi.GetHostInfo(buf); got != info {
		t.Errorf("host info: %+v", got)
	}
}

func TestPutWritesTheZeroTail(t *testing.T) {
	for _, tc := range []struct {
		name string
		size int
		put  func([]byte)
	}{
		{"gate", abi.GateStride, func(b []byte) { abi.PutGateRecord(b, &abi.GateRecord{}) }},
		{"gate globals", abi.GateGlobalsSize, func(b []byte) { abi.PutGateGlobals(b, &abi.GateGlobals{}) }},
		{"gate out", abi.GateOutStride, func(b []byte) { abi.PutGateOut(b, &abi.GateOut{}) }},
		{"reserve", abi.ReserveStride, func(b []byte) { abi.PutReserveRecord(b, &abi.ReserveRecord{}) }},
		{"reserve globals", abi.ReserveGlobalsSize, func(b []byte) { abi.PutReserveGlobals(b, &abi.ReserveGlobals{}) }},
		{"reserve out", abi.ReserveOutStride, func(b []byte) { abi.PutReserveOut(b, &abi.ReserveOut{}) }},
		{"admit", abi.AdmitStride, func(b []byte) { abi.PutAdmitRecord(b, &abi.AdmitRecord{}) }},
		{"admit globals", abi.AdmitGlobalsSize, func(b []byte) { abi.PutAdmitGlobals(b, &abi.AdmitGlobals{}) }},
		{"admit out", abi.AdmitOutStride, func(b []byte) { abi.PutAdmitOut(b, &abi.AdmitOut{}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bytes.Repeat([]byte{0xFF}, tc.size+1)
			tc.put(b)
			if !bytes.Equal(b[:tc.size], make([]byte, tc.size)) || b[tc.size] != 0xFF {
				t.Errorf("% x", b)
			}
		})
	}
}

func TestTickPathAllocatesNothing(t *testing.T) {
	const n = 300
	buf := make([]byte, abi.BatchSize(abi.Admit, n, n))
	seen := make([]uint64, abi.SeenWords(n))
	got := testing.AllocsPerRun(50, func() {
		g, err := abi.Begin(buf, abi.Gate, 1, 1, n, n)
		if err != nil {
			t.Fatal(err)
		}
		g.PutGateGlobals(&abi.GateGlobals{TimeNS: 1})
		for i := range n {
			g.PutGate(i, &abi.GateRecord{ReqKey: uint64(i)})
		}
		if err := abi.CheckGateOut(g, n); err != nil {
			t.Fatal(err)
		}
		a, err := abi.Begin(buf, abi.Admit, 1, 1, n, n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			a.PutAdmit(i, &abi.AdmitRecord{ReqKey: uint64(i)})
			abi.PutAdmitOut(a.Out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(n - 1 - i)})
		}
		if err := abi.CheckAdmitOut(a, n, seen); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}
