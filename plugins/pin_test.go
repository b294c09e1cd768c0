package plugins_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit/signature"
)

// signer is a fixed key, another for each seed.
func signer(t *testing.T, seed byte) signature.Key {
	t.Helper()
	k, err := signature.NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A pin is held against the bytes that would run, each time a set is made, whether or not they are compiled already.
func TestPins(t *testing.T) {
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	wasm, other := guestModule{gate: i32(0)}.bytes(), guestModule{gate: i32(1)}.bytes()
	hash := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	mine, theirs := signer(t, 1), signer(t, 2)
	good := signature.Sign(mine, wasm)
	pub := mine.Public().String()
	for _, c := range []struct {
		name string
		pin  plugins.Pin
		sig  []byte
		kind string // of the refusal; "" where the module is taken
		want []string
	}{
		{name: "no pin"},
		{name: "no pin, with a signature that is none", sig: []byte("x")},
		{name: "its hash", pin: plugins.Pin{SHA256: hash(wasm)}},
		{name: "its hash in capitals", pin: plugins.Pin{SHA256: strings.ToUpper(hash(wasm))}},
		{name: "another hash", pin: plugins.Pin{SHA256: hash(other)}, kind: "sha256", want: []string{hash(wasm), hash(other)}},
		{name: "another hash, well signed", pin: plugins.Pin{SHA256: hash(other), Key: pub}, sig: good, kind: "sha256"},
		{name: "signed", pin: plugins.Pin{SHA256: hash(wasm), Key: pub}, sig: good},
		{name: "unsigned", pin: plugins.Pin{Key: pub}, kind: "key", want: []string{"no signature by " + pub, "sluice policy sign"}},
		{name: "its hash, unsigned", pin: plugins.Pin{SHA256: hash(wasm), Key: pub}, kind: "key"},
		{name: "signed by another key", pin: plugins.Pin{Key: pub}, sig: signature.Sign(theirs, wasm), kind: "key", want: []string{theirs.Public().String(), pub}},
		{name: "signature of another module", pin: plugins.Pin{Key: pub}, sig: signature.Sign(mine, other), kind: "key", want: []string{hash(wasm), hash(other)}},
		{name: "a key that is none", pin: plugins.Pin{Key: "ed25519:x"}, sig: good, kind: "key", want: []string{"sluice policy keygen"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: "m.wasm", Pin: c.pin, Signature: c.sig}}, abi.HostInfo{})
			if c.kind == "" {
				if err != nil {
					t.Fatal(err)
				}
				closing(t, set.Close)
				return
			}
			var f *plugins.Fault
			if !errors.As(err, &f) || !errors.Is(err, plugins.ErrRejected) || f.Kind != c.kind || f.Hook != abi.Gate || f.Policy != "m.wasm" {
				t.Fatalf("error %v, want a refusal of kind %s", err, c.kind)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

func TestReadSignature(t *testing.T) {
	module := filepath.Join(t.TempDir(), "m.wasm")
	if _, err := plugins.ReadSignature(module); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "m.wasm.sig") {
		t.Errorf("no file: %v", err)
	}
	for _, c := range []struct {
		name string
		text []byte
		want string
	}{
		{"empty", nil, "is empty"},
		{"huge", make([]byte, 1<<13), "8192 bytes"},
		{"some", []byte("text"), ""},
	} {
		if err := os.WriteFile(module+".sig", c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := plugins.ReadSignature(module)
		switch {
		case c.want == "" && (err != nil || !bytes.Equal(got, c.text)):
			t.Errorf("%s: %q, %v", c.name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}

// Each spec has its own limit of memory, above or below the host's, and hooks of one module share an instance where
// theirs are the same.
func TestMemoryPagesOfASpec(t *testing.T) {
	ctx := context.Background()
	const own = 8 // pages that the module starts with
	growing := guestModule{pages: own, gate: code(i32(1), op(opGrow, 0), i32(-1), op(opI32Eq, opIf, 0x40, opUnreachable, opEnd), i32(0)), reserve: i32(0)}.bytes()
	for _, c := range []struct {
		name       string
		host, spec uint32
		want       string // of the refusal
		traps      bool   // since it cannot grow
	}{
		{name: "the host's", host: own + 8},
		{name: "the host's is too low", host: own - 1, want: "raise memory_pages"},
		{name: "more than the host's", host: own - 1, spec: own + 8},
		{name: "less than the host's", host: own + 8, spec: own, traps: true},
		{name: "too low", host: own + 8, spec: own - 1, want: "at most 7 are allowed"},
		{name: "more than a memory can have", spec: plugins.MaxMemoryPages + 1, want: "65537 pages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := plugins.NewHost(plugins.Options{MemoryPages: c.host})
			defer closing(t, host.Close)
			set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: growing, MemoryPages: c.spec}}, abi.HostInfo{})
			if c.want != "" {
				if !errors.Is(err, plugins.ErrRejected) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want a refusal that says %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, set.Close)
			nOut, encode, _ := inputs(abi.Gate)
			a, err := set.Gate.Run(1, 1, 3, nOut, encode)
			if err != nil {
				t.Fatal(err)
			}
			if trapped := a.Fault != nil && a.Fault.Class == plugins.FaultTrap; trapped != c.traps || a.Native != c.traps {
				t.Errorf("native %v, fault %v; want a trap: %v", a.Native, a.Fault, c.traps)
			}
		})
	}
}

// A module that came without a name is called by its hash in a refusal, as where it runs.
func TestARefusedModuleHasAName(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	wasm := []byte("no module")
	_, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm}}, abi.HostInfo{})
	if want := fmt.Sprintf("policy %q", fmt.Sprintf("%x", sha256.Sum256(wasm))[:12]); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want it to name %s", err, want)
	}
}
