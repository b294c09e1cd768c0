package main

import (
	"testing"

	"sluice/examples/policies/conformance"
	"sluice/plugins"
)

func TestVectors(t *testing.T) {
	vs, err := conformance.Read("../../../abi/testdata/vectors/gate.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := conformance.Run(plugins.NewNative(plugins.NativePolicy{Gate: restoreGated}), vs, "restore-gated"); err != nil {
		t.Error(err)
	}
}
