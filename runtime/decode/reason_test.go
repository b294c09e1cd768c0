package decode

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// failingGate fails every request for reason 77, which its manifest names where text is not empty.
func failingGate(t *testing.T, text string) server.StageRequest {
	t.Helper()
	m := manifest.Manifest{Name: "failing"}
	if text != "" {
		m.Reasons = map[uint8]string{77: text}
	}
	wasm, err := manifest.Write(kittest.Module(kittest.Export{Name: abi.Gate.Export(), Body: kittest.Fails(77)}), m)
	if err != nil {
		t.Fatal(err)
	}
	return server.StageRequest{Hook: "gate", Module: wasm, Name: "failing.wasm"}
}

// A client, and whoever reads the metrics, is told the policy's text and not its number; the policies in use when the
// request ends are those that are asked.
func TestAPolicysReasonsAreTexts(t *testing.T) {
	r := newSwapRig(t, nil)
	for i, c := range []struct{ named, want string }{{"outside the window", "outside the window"}, {"", "policy reason 77"}, {"too far", "too far"}} {
		r.swap(failingGate(t, c.named))
		_, end := outcome(t, r.submit("x", 10, 5))
		fin := end.Finish
		if fin.Type != server.FinishAbort || fin.Message != c.want || fin.ErrType != "policy_reason" || fin.Status != 500 {
			t.Errorf("%d: the client is told %+v, want %q", i, fin, c.want)
		}
		eventually(t, "the end to be counted", func() bool {
			n, ok := r.reg.Value("policy_ended_requests_total", schedule.FinishFailed.String(), c.want)
			return ok && n == 1
		})
	}
}

func TestSeriesOfPolicyEndsAreBounded(t *testing.T) {
	in := &Instance{policyEnds: map[policyEnd]uint64{}}
	f := &schedule.Effect{Finish: schedule.FinishRefused, Reason: 77}
	for i := range maxPolicyEnds + 10 {
		in.countPolicyEnd(f, string(rune('a'+i)))
	}
	in.countPolicyEnd(f, "a")
	in.countPolicyEnd(&schedule.Effect{Finish: schedule.FinishFailed, Reason: abi.ReasonRestoreFailed}, "not a policy's")
	refused := schedule.FinishRefused.String()
	if len(in.policyEnds) != maxPolicyEnds+1 || in.policyEnds[policyEnd{refused, "other"}] != 10 || in.policyEnds[policyEnd{refused, "a"}] != 2 {
		t.Errorf("%d series, %d others, %d of the first", len(in.policyEnds), in.policyEnds[policyEnd{refused, "other"}], in.policyEnds[policyEnd{refused, "a"}])
	}
}

// A policy that is pushed is held to its own schema, as one at the start is.
func TestStagingHoldsAConfigurationToTheSchema(t *testing.T) {
	r := newSwapRig(t, nil)
	wasm, err := manifest.Write(kittest.Module(kittest.Export{Name: abi.Gate.Export(), Body: kittest.Votes(kittest.InByte(8))}),
		manifest.Manifest{Config: map[string]manifest.Key{"hold_ticks": {Type: manifest.Integer, Max: int64(9)}}})
	if err != nil {
		t.Fatal(err)
	}
	q := server.StageRequest{Hook: "gate", Module: wasm, Name: "x.wasm", Config: []byte(`{"hold_tick":1,"hold_ticks":10}`)}
	_, err = r.Stage(context.Background(), q)
	if !errors.Is(err, server.ErrPolicyRefused) {
		t.Fatalf("%v, want a refusal", err)
	}
	for _, w := range []string{"load_rejected{config}", "hold_tick is no key", "did you mean hold_ticks?", "hold_ticks is out of its range; it must be an integer, at most 9"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	q.Config = []byte(`{"hold_ticks":9}`)
	r.swap(q)
}
