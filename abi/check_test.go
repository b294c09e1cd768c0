package abi_test

import (
	"errors"
	"strings"
	"testing"

	"sluice/abi"
)

func TestGateAnswers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		out   abi.GateOut
		field string // empty: legal
	}{
		{"zero", abi.GateOut{}, ""},
		{"highest vote, policy reason, give up", abi.GateOut{Vote: abi.PollSuccess, Reason: 255, Flags: abi.GateOutGiveUp, Aux: 1<<32 - 1}, ""},
		{"vote 5", abi.GateOut{Vote: 5}, "vote"},
		{"vote 255", abi.GateOut{Vote: 255}, "vote"},
		{"unknown flag", abi.GateOut{Flags: 2}, "flags"},
		{"highest flag", abi.GateOut{Flags: 1<<15 | 1}, "flags"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const n = 3
			b := begin(t, abi.Gate, n, n)
			abi.PutGateOut(b.Out[2*abi.GateOutStride:], &tc.out)
			wantAnswer(t, abi.CheckGateOut(b, n), 2, tc.field)
		})
	}
	if err := abi.CheckGateOut(begin(t, abi.Gate, 2, 2), 3); !errors.Is(err, abi.ErrBatchSize) {
		t.Errorf("more answers than there are: %v", err)
	}
}

func TestReserveAnswers(t *testing.T) {
	b := begin(t, abi.Reserve, 5, 1)
	abi.PutReserveOut(b.Out, &abi.ReserveOut{HeldTokens: 1<<64 - 1, Reason: 255})
	wantAnswer(t, abi.CheckReserveOut(b, 1), 0, "")
	for at := 9; at < abi.ReserveOutStride; at++ {
		b := begin(t, abi.Reserve, 5, 1)
		b.Out[at] = 1
		wantAnswer(t, abi.CheckReserveOut(b, 1), 0, "reserved bytes")
	}
	if err := abi.CheckReserveOut(abi.Batch{}, 1); !errors.Is(err, abi.ErrBatchSize) {
		t.Errorf("no answer: %v", err)
	}
}

func TestAdmitAnswers(t *testing.T) {
	at := func(orders ...uint32) []abi.AdmitOut {
		var outs []abi.AdmitOut
		for _, o := range orders {
			outs = append(outs, abi.AdmitOut{Verdict: abi.VerdictAdmit, Order: o})
		}
		return outs
	}
	var long []uint32
	for i := range 130 {
		long = append(long, uint32(129-i))
	}
	twice := append([]uint32{}, long...)
	twice[129] = 129
	for _, tc := range []struct {
		name   string
		outs   []abi.AdmitOut
		record int
		field  string
	}{
		{"none", nil, 0, ""},
		{"one", at(0), 0, ""},
		{"reversed", at(2, 1, 0), 0, ""},
		{"longer than a word", at(long...), 0, ""},
		{"twice, past a word", at(twice...), 129, "order"},
		{"twice", at(0, 1, 1), 2, "order"},
		{"all zero", at(0, 0), 1, "order"},
		{"out of range", at(0, 2), 1, "order"},
		{"far out of range", at(1<<32-1, 0), 0, "order"},
		{"verdict 3", []abi.AdmitOut{{Order: 0}, {Order: 1, Verdict: 3}}, 1, "verdict"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := len(tc.outs)
			b := begin(t, abi.Admit, n+2, n)
			for i := range tc.outs {
				abi.PutAdmitOut(b.Out[i*abi.AdmitOutStride:], &tc.outs[i])
			}
			seen := make([]uint64, abi.SeenWords(n))
			for i := range seen {
				seen[i] = 1<<64 - 1
			}
			wantAnswer(t, abi.CheckAdmitOut(b, n, seen), tc.record, tc.field)
		})
	}
	b := begin(t, abi.Admit, 2, 2)
	b.Out[4], b.Out[8+4], b.Out[8+3] = 0, 1, 1
	wantAnswer(t, abi.CheckAdmitOut(b, 2, make([]uint64, 1)), 1, "reserved bytes")
	if err := abi.CheckAdmitOut(begin(t, abi.Admit, 65, 65), 65, make([]uint64, 1)); !errors.Is(err, abi.ErrScratch) {
		t.Errorf("small scratch: %v", err)
	}
	if err := abi.CheckAdmitOut(b, 3, make([]uint64, 1)); !errors.Is(err, abi.ErrBatchSize) {
		t.Errorf("more answers than there are: %v", err)
	}
}

func begin(t *testing.T, h abi.Hook, n, nOut int) abi.Batch {
	t.Helper()
	b, err := abi.Begin(make([]byte, abi.BatchSize(h, n, nOut)), h, 1, 1, n, nOut)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantAnswer wants no error for an empty field, and else an AnswerError of that record and field.
func wantAnswer(t *testing.T, err error, record int, field string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("legal answer: %v", err)
		}
		return
	}
	var a *abi.AnswerError
	if !errors.As(err, &a) || !errors.Is(err, abi.ErrIllegalAnswer) || a.Record != record || a.Field != field {
		t.Errorf("error %v, want record %d, field %s", err, record, field)
	} else if !strings.Contains(err.Error(), field) {
		t.Errorf("the text %q does not name %s", err, field)
	}
}

func TestReasonTexts(t *testing.T) {
	for _, tc := range []struct {
		r    abi.Reason
		want string
	}{
		{abi.ReasonRestoreFailed, "HiCache restore failed"},
		{abi.ReasonUnknown, "unknown reason"},
		{abi.ReasonNone, ""},
		{62, "reason 62"},
		{64, "policy reason 64"},
		{255, "policy reason 255"},
	} {
		if got := abi.ReasonText(tc.r); got != tc.want {
			t.Errorf("reason %d: %q, want %q", uint8(tc.r), got, tc.want)
		}
	}
	seen := map[string]abi.Reason{}
	for r := abi.Reason(0); r < abi.FirstPolicyReason; r++ {
		text := abi.ReasonText(r)
		if other, ok := seen[text]; ok {
			t.Errorf("reasons %d and %d are both %q", other, r, text)
		}
		seen[text] = r
		if r > abi.ReasonUnknown {
			t.Errorf("reason %d sorts after unknown", r)
		}
	}
}

func TestHooks(t *testing.T) {
	for _, tc := range []struct {
		h            abi.Hook
		name, export string
		outs         int
	}{
		{abi.Gate, "gate", "sluice_gate_v1", 7},
		{abi.Reserve, "reserve", "sluice_reserve_v1", 1},
		{abi.Admit, "admit", "sluice_admit_v1", 3},
		{abi.Score, "score", "sluice_score_v1", 7},
		{5, "hook 5", "", 0},
	} {
		if tc.h.String() != tc.name || tc.h.Export() != tc.export || abi.Outs(tc.h, 7, 3) != tc.outs {
			t.Errorf("hook %d: %q %q %d", uint8(tc.h), tc.h, tc.h.Export(), abi.Outs(tc.h, 7, 3))
		}
	}
}
