package decode

import (
	"context"
	"testing"

	"sluice/abi"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
)

// What /policies says of the state that a policy came into use with.
func TestSwapCarriesState(t *testing.T) {
	r := newSwapRig(t, nil)
	remembering := func(step int32, s manifest.State) []byte {
		wasm, err := manifest.Write(kittest.Module(kittest.Remembers(abi.Reserve.Export(), step)...), manifest.Manifest{State: s})
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
	want := func(hook, carried string, bytes int, reason bool) {
		t.Helper()
		s := r.active(hook).State
		if s == nil || s.Carried != carried || s.Bytes != bytes || (s.Reason != "") != reason {
			t.Errorf("%s came into use with %+v, want %s of %d bytes, with a reason %v", hook, s, carried, bytes, reason)
		}
	}
	r.swap(module(remembering(1, manifest.State{Schema: 1}), "first"))
	want("reserve", "none", 0, false) // after a native policy
	outcome(t, r.submit("x", 10, 3))
	r.swap(module(remembering(2, manifest.State{Schema: 2, Loads: []uint32{1}}), "second"))
	want("reserve", "state", 4, false)
	outcome(t, r.submit("y", 10, 3))
	r.swap(builtin("gate", "pending-only"))
	want("reserve", "instance", 0, false)
	if s := r.active("gate").State; s != nil {
		t.Errorf("a native gate came into use with %+v", s)
	}
	if _, err := r.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	want("reserve", "instance", 0, false)
	r.swap(module(remembering(3, manifest.State{Schema: 3}), "third"))
	want("reserve", "none", 0, true)
	outcome(t, r.submit("z", 10, 3))
	for _, class := range r.active("reserve").Faults {
		t.Errorf("%d faults", class)
	}
}
