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
	p := new(policy)
	if status := p.configure(abi.HostInfo{}, nil); status != 0 {
		t.Fatalf("configure: status %d", status)
	}
	if err := conformance.Run(plugins.NewNative(plugins.NativePolicy{Reserve: p.reserve}), vs, ""); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name, config  string
		status        int32
		horizon, step uint64
	}{
		{"default", "", 0, defaultHorizon, defaultStep},
		{"both", `{"horizon_ticks":1,"step_tokens":2}`, 0, 1, 2},
		{"too much", `{"horizon_ticks":1048577}`, int32(abi.StatusBadConfig), 0, 0},
		{"unknown", `{"horizon":1}`, int32(abi.StatusBadConfig), 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := new(policy)
			status := p.configure(abi.HostInfo{}, []byte(tc.config))
			if status != tc.status || status == 0 && (p.horizon != tc.horizon || p.step != tc.step) {
				t.Errorf("status %d, horizon %d, step %d", status, p.horizon, p.step)
			}
		})
	}
}

// What is held for growth goes back to nothing once nothing grows, or a queue could wait for it for ever.
func TestTheForecastEnds(t *testing.T) {
	p := new(policy)
	p.configure(abi.HostInfo{}, nil)
	p.observe(1 << 20)
	for i := range uint64(100) {
		p.observe(1<<20 - i*1000)
	}
	if p.rate < 900*unit {
		t.Fatalf("rate %d after 100 ticks of 1000 tokens", p.rate)
	}
	for range 200 {
		p.observe(p.last)
	}
	if p.rate != 0 {
		t.Errorf("rate %d after 200 idle ticks", p.rate)
	}
}

// What the manifest says of the settings is what the policy takes.
func TestManifest(t *testing.T) {
	err := conformance.Settings("manifest.toml", func(config []byte) int32 { return new(policy).configure(abi.HostInfo{}, config) })
	if err != nil {
		t.Error(err)
	}
}
