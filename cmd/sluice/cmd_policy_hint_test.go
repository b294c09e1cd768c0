package main

import (
	"testing"

	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
)

// The tools hold a module to its own hint of fuel, as a server does.
func TestToolsHoldAModuleToItsHint(t *testing.T) {
	wasm, err := manifest.Write(kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Votes(kittest.InByte(8))}),
		manifest.Manifest{Fuel: manifest.Fuel{Base: 10, PerRecord: 1}})
	if err != nil {
		t.Fatal(err)
	}
	path := evilFile(t, wasm)
	vectors := textFile(t, "v.txt", "vector \"a\" gate\nin RawPoll=Success\nout Vote=Success\n")
	for _, args := range [][]string{
		{"fuzz", "--runs", "20", path}, {"bench", path}, {"test", path, vectors}, {"check", "--runs", "1", path},
	} {
		code, out, errs := runCommand(t, nil, append([]string{"policy"}, args...)...)
		if code != exitBroken {
			t.Errorf("%s: status %d", args[0], code)
		}
		wantAll(t, out+errs, "out_of_fuel")
	}
	enough, err := manifest.Write(wasm, manifest.Manifest{Fuel: manifest.Fuel{Base: 1000, PerRecord: 200}})
	if err != nil {
		t.Fatal(err)
	}
	path = evilFile(t, enough)
	for _, args := range [][]string{{"fuzz", "--runs", "20", path}, {"bench", path}, {"test", path, vectors}} {
		policyRun(t, exitOK, args...)
	}
}

// So they do to the schema of its configuration.
func TestToolsHoldAConfigurationToTheSchema(t *testing.T) {
	wasm, err := manifest.Write(kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Votes(kittest.InByte(8))}),
		manifest.Manifest{Config: map[string]manifest.Key{"ticks": {Type: manifest.Integer}}})
	if err != nil {
		t.Fatal(err)
	}
	path := evilFile(t, wasm)
	vectors := textFile(t, "v.txt", "vector \"a\" gate\nin RawPoll=Success\nout Vote=Success\n")
	for _, args := range [][]string{{"fuzz", "--runs", "2", path}, {"bench", path}, {"test", path, vectors}} {
		policyRun(t, exitOK, append(args, "--policy-config", `{"ticks":3}`)...)
		_, errs := policyRun(t, exitUsage, append(args, "--policy-config", `{"tick":3}`)...)
		wantAll(t, errs, "load_rejected{config}", "did you mean ticks?")
	}
}
