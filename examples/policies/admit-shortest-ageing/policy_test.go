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

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		status, age  int64
	}{
		{"default", "", 0, defaultAge},
		{"no ageing", `{"age_tokens":0}`, 0, 0},
		{"the most", `{"age_tokens":1048576}`, 0, 1 << 20},
		{"too much", `{"age_tokens":1048577}`, int64(abi.StatusBadConfig), 0},
		{"unknown", `{"age":1}`, int64(abi.StatusBadConfig), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := new(policy)
			status := p.configure(abi.HostInfo{}, []byte(tc.config))
			if int64(status) != tc.status || status == 0 && p.age != tc.age {
				t.Errorf("status %d, age %d; want %d, %d", status, p.age, tc.status, tc.age)
			}
		})
	}
}

// A long request is overtaken by a stream of short ones for as long as its length is worth in ticks, and no longer.
func TestALongRequestIsNotOvertakenForEver(t *testing.T) {
	p := new(policy)
	p.configure(abi.HostInfo{}, nil)
	c := plugins.NewNative(plugins.NativePolicy{Admit: p.admit})
	const long, short = 1600, 100
	for wait := uint32(0); ; wait++ {
		b, err := c.Begin(abi.Admit, uint64(wait), 1, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		b.PutAdmitGlobals(&abi.AdmitGlobals{Candidates: 2, BudgetTokens: long, FreeRows: 1, FreeSlots: 1})
		b.PutAdmit(0, &abi.AdmitRecord{Flags: abi.AdmitFlagReady, NeedTokens: long, WaitTicks: wait})
		b.PutAdmit(1, &abi.AdmitRecord{Flags: abi.AdmitFlagReady, NeedTokens: short})
		if _, err := c.Call(abi.Admit); err != nil {
			t.Fatal(err)
		}
		if b, err = c.Answer(); err != nil {
			t.Fatal(err)
		}
		if b.AdmitOut(0).Verdict == abi.VerdictAdmit {
			// The tick in which it counts as no longer than the short one; it stands before it in the queue.
			if want := uint32((long - short + defaultAge - 1) / defaultAge); wait != want {
				t.Errorf("admitted after %d ticks, want %d", wait, want)
			}
			return
		}
		if wait > long {
			t.Fatal("overtaken for ever")
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
