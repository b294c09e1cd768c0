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
	if err := conformance.Run(plugins.NewNative(plugins.NativePolicy{Admit: p.admit}), vs, ""); err != nil {
		t.Error(err)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	if got := new(policy).configure(abi.HostInfo{}, []byte(`{"levels":3}`)); got != int32(abi.StatusBadConfig) {
		t.Errorf("status %d", got)
	}
}
