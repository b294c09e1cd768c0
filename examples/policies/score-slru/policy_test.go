package main

import (
	"testing"

	"sluice/abi"
	"sluice/examples/policies/conformance"
	"sluice/plugins"
)

func TestVectors(t *testing.T) {
	vs, err := conformance.Read("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := &policy{protectAt: defaultProtectAt}
	if status := p.configure(abi.HostInfo{}, nil); status != 0 {
		t.Fatalf("configure: status %d", status)
	}
	if err := conformance.Run(plugins.NewNative(plugins.NativePolicy{Score: p.score}), vs, ""); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       abi.Status
		protectAt  uint64
	}{
		{"none", `{}`, abi.StatusOK, defaultProtectAt},
		{"three hits", `{"protect_at":3}`, abi.StatusOK, 3},
		{"no hit", `{"protect_at":0}`, abi.StatusBadConfig, defaultProtectAt},
		{"an unknown key", `{"segments":3}`, abi.StatusBadConfig, defaultProtectAt},
	} {
		p := &policy{protectAt: defaultProtectAt}
		if got := p.configure(abi.HostInfo{}, []byte(c.text)); got != int32(c.want) || p.protectAt != c.protectAt {
			t.Errorf("%s: status %d, protected at %d hits; want %d and %d", c.name, got, p.protectAt, c.want, c.protectAt)
		}
	}
}

// What the manifest says of the settings is what the policy takes.
func TestManifest(t *testing.T) {
	err := conformance.Settings("manifest.toml", func(config []byte) int32 { return new(policy).configure(abi.HostInfo{}, config) })
	if err != nil {
		t.Error(err)
	}
}
