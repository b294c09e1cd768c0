package kittest_test

import (
	"testing"

	"sluice/plugins/kit/kittest"
	"sluice/plugins/wasmbin"
)

// Every module made here is one that the decoder takes, exports and imports as asked for.
func TestModulesDecode(t *testing.T) {
	bodies := map[string][]byte{
		"votes": kittest.Votes(kittest.Const(3)), "raw": kittest.Votes(kittest.InByte(8)), "fails": kittest.Fails(77), "trap": kittest.Unreachable(),
		"spin": kittest.Spin(), "leak": kittest.Leak(1), "negative": kittest.Const(-5),
		"fill": kittest.FillStorm(), "twice": kittest.CallTwice(0), "on call": kittest.OnCall(5, kittest.Unreachable(), kittest.Const(0)),
		"from call": kittest.FromCall(5, kittest.Spin(), kittest.Const(0)), "every call": kittest.EveryCall(5, kittest.Leak(1), kittest.Const(0)),
		"spin on": kittest.SpinOn(0, 2),
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			m, err := wasmbin.Decode(kittest.ModuleWith([]kittest.Import{{Module: "a", Name: "b", Params: "il"}}, kittest.Export{Name: "x", Body: body}))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, e := range m.Exports {
				found = found || e.Name == "x"
			}
			if !found || len(m.Imports) != 1 || m.Imports[0].Name != "b" || len(m.Bodies) != 4 {
				t.Errorf("exports %v, imports %v, %d bodies", m.Exports, m.Imports, len(m.Bodies))
			}
		})
	}
}
