package guest_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
)

// Every getter of every view reads the field of the same name that the host's codec reads, on random bytes.
func TestEveryViewReadsTheCodecsFields(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	open := func(hook abi.Hook, n int) ([]byte, abi.Batch) {
		buf := make([]byte, abi.BatchSize(hook, n, n))
		b, err := abi.Begin(buf, hook, 1, 1, n, abi.Outs(hook, n, n))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]byte{b.Globals, b.In} {
			for i := range part {
				part[i] = byte(rng.Uint32())
			}
		}
		return buf, b
	}
	gate, g := open(abi.Gate, 2)
	gateView, ok := guest.OpenGate(gate)
	if !ok {
		t.Fatal("no gate batch")
	}
	same(t, gateView.Globals(), g.GateGlobals())
	same(t, gateView.At(1), g.GateIn(1))
	reserve, r := open(abi.Reserve, 2)
	reserveView, ok := guest.OpenReserve(reserve)
	if !ok {
		t.Fatal("no reserve batch")
	}
	same(t, reserveView.Globals(), r.ReserveGlobals())
	same(t, reserveView.At(1), r.ReserveIn(1))
	admit, a := open(abi.Admit, 2)
	globals := a.AdmitGlobals()
	globals.Candidates = 2
	a.PutAdmitGlobals(&globals)
	admitView, ok := guest.OpenAdmit(admit)
	if !ok {
		t.Fatal("no admit batch")
	}
	same(t, admitView.Globals(), a.AdmitGlobals())
	same(t, admitView.At(1), a.AdmitIn(1))
}

// same compares each method of view with the field of that name in record.
func same(t *testing.T, view, record any) {
	t.Helper()
	v, r := reflect.ValueOf(view), reflect.ValueOf(record)
	if v.NumMethod() != r.NumField() {
		t.Errorf("%s has %d getters, %s has %d fields", v.Type(), v.NumMethod(), r.Type(), r.NumField())
	}
	for i := range r.NumField() {
		name := r.Type().Field(i).Name
		m := v.MethodByName(name)
		if !m.IsValid() {
			t.Errorf("%s has no getter %s", v.Type(), name)
			continue
		}
		if got, want := m.Call(nil)[0].Interface(), r.Field(i).Interface(); got != want {
			t.Errorf("%s.%s: %v, want %v", v.Type(), name, got, want)
		}
	}
}
