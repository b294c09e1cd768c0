package conformance_test

import (
	"errors"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/examples/policies/conformance"
	"sluice/plugins"
)

func TestParse(t *testing.T) {
	vs, err := conformance.Parse(strings.NewReader(`
# a comment
vector "gate one"
globals TimeNS=0x10
in ReqKey=7 RawPoll=4 Restore=1
in 0800000000000000030000000000000000000000000000000000000000000000
out Vote=4
out Vote=0 Reason=255
vector "with context" admit
in ReqKey=1
in Kind=2
out Verdict=1
vector "no answers" admit
in Kind=2
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(vs) != 3 || vs[0].N() != 2 || vs[0].Outs() != 2 || vs[1].N() != 2 || vs[1].Outs() != 1 {
		t.Fatalf("%+v", vs)
	}
	if out, ok := vs[2].Out[""]; !ok || len(out) != 0 || vs[2].N() != 1 {
		t.Errorf("a batch without answers: %+v", vs[2])
	}
	if g := abi.GetGateGlobals(vs[0].Globals); g.TimeNS != 16 {
		t.Errorf("globals %+v", g)
	}
	if r := abi.GetGateRecord(vs[0].In[abi.GateStride:]); r.ReqKey != 8 || r.RawPoll != abi.PollTransferring {
		t.Errorf("record in hex %+v", r)
	}
	if o := abi.GetGateOut(vs[0].Out[""][abi.GateOutStride:]); o.Reason != 255 {
		t.Errorf("answer %+v", o)
	}
}

func TestBadTextIsRefused(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"before the first vector", "in ReqKey=1", "line 1"},
		{"no quotes", "vector gate", "quotes"},
		{"no hook is named", `vector "sort one"`, "no hook is named"},
		{"no such hook", `vector "gate one" sort`, "no hook is named"},
		{"unknown word", "vector \"gate\"\noutput Vote=1", "unknown word"},
		{"unknown field", "vector \"gate\"\nin Vote=1", `no field "Vote"`},
		{"no number", "vector \"gate\"\nin RawPoll=maybe", "RawPoll"},
		{"too wide", "vector \"gate\"\nin RawPoll=256", "its largest value is 255"},
		{"short hex", "vector \"gate\"\nin 00ff", "2 bytes"},
		{"an answer too few", "vector \"gate\"\nin ReqKey=1\nin ReqKey=2\nout Vote=1", "needs 2"},
		{"two answers of a reserve", "vector \"reserve\"\nout HeldTokens=1\nout HeldTokens=1", "needs 1"},
		{"more answers than records", "vector \"admit\"\nin ReqKey=1\nout Order=0\nout Order=1\nvector \"admit\"", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			vs, err := conformance.Parse(strings.NewReader(tc.text))
			if tc.want == "" {
				// A batch that asks for more answers than it has records is refused by the policy that is given it.
				c := plugins.NewNative(plugins.NativePolicy{Admit: func(guest.AdmitBatch) int32 { return 0 }})
				err = errors.Join(err, conformance.Run(c, vs, ""))
				if err == nil {
					t.Error("accepted")
				}
				return
			}
			if !errors.Is(err, conformance.ErrText) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestRunFindsADifference(t *testing.T) {
	const text = "vector \"gate\"\nin RawPoll=4\nin RawPoll=3\nout Vote=4\nout Vote=3"
	for _, tc := range []struct {
		name, policy string
		gate         guest.GateFunc
		want         string
	}{
		{"the same", "", func(b guest.GateBatch) int32 {
			for i := range b.Len() {
				b.SetVote(i, b.At(i).RawPoll())
			}
			return 0
		}, ""},
		{"another vote", "", func(b guest.GateBatch) int32 { b.SetVote(0, 4); return 0 }, "out 1"},
		{"a status", "", func(guest.GateBatch) int32 { return 1 }, "status"},
		{"a panic", "", func(b guest.GateBatch) int32 { b.SetVote(2, 0); return 0 }, "trap"},
		{"no such policy", "other", func(guest.GateBatch) int32 { return 0 }, "none of the 1 vectors"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			vs, err := conformance.Parse(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			err = conformance.Run(plugins.NewNative(plugins.NativePolicy{Gate: tc.gate}), vs, tc.policy)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
