package plugins_test

import (
	"context"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/manifest"
	"sluice/plugins/wasmbin"
)

func withManifest(t *testing.T, g guestModule, m manifest.Manifest) []byte {
	t.Helper()
	wasm, err := manifest.Write(g.bytes(), m)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func TestAModulesManifest(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	bare, err := host.Compile(context.Background(), guestModule{gate: i32(0)}.bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := bare.StateSchema(); ok || bare.Manifest() != nil {
		t.Errorf("a module without manifest has %+v", bare.Manifest())
	}
	wasm := withManifest(t, guestModule{gate: i32(0)}, manifest.Manifest{Name: "x", State: manifest.State{Schema: 2, Loads: []uint32{1}}})
	m, err := host.Compile(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	schema, loads, ok := m.StateSchema()
	if m.Manifest().Name != "x" || schema != 2 || !slices.Equal(loads, []uint32{1, 2}) || !ok {
		t.Errorf("%+v, schema %d, loads %v, %v", m.Manifest(), schema, loads, ok)
	}
	if m.SHA256() == bare.SHA256() {
		t.Error("the manifest is not part of the module's hash")
	}
}

func TestABadManifestIsRefused(t *testing.T) {
	wasm := wasmbin.AppendCustom(guestModule{gate: i32(0)}.bytes(), manifest.Section, []byte(`{"reasons":{"3":"x"}}`))
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	_, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: "x.wasm"}}, abi.HostInfo{})
	wantRefusal(t, err, "manifest", "x.wasm", `"3"`, "64 to 255")
}
