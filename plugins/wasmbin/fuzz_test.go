package wasmbin

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"
)

// accepted says whether an engine takes a module.
func accepted(wasm []byte) error {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, engines()["interpreter"])
	_, err := rt.CompileModule(ctx, wasm)
	if closing := rt.Close(ctx); closing != nil {
		return closing
	}
	return err
}

// checkSections holds for any bytes at all: what decodes can be cut up, and what is cut up is the file when joined.
func checkSections(t *testing.T, wasm []byte, decodes bool) {
	sections, err := Sections(wasm)
	if err != nil {
		if decodes {
			t.Fatalf("what decodes cannot be cut into sections: %v\n%x", err, wasm)
		}
		return
	}
	joined := append([]byte{}, wasm[:len(header)]...)
	for _, s := range sections {
		joined = append(joined, s.Raw...)
	}
	if string(joined) != string(wasm) {
		t.Fatalf("the sections joined are not the file\n%x", wasm)
	}
	more, err := Sections(AppendCustom(joined, "x", []byte{1}))
	if last := len(more) - 1; err != nil || last != len(sections) || more[last].Custom != "x" || string(more[last].Bytes) != "\x01" {
		t.Fatalf("an appended section is not the last: %v\n%x", err, wasm)
	}
}

// checkBytes holds for any bytes at all: nothing panics, what decodes encodes to the same again, and a verified module is
// valid after metering exactly if it was before.
func checkBytes(t *testing.T, wasm []byte) (verified bool) {
	m, err := Decode(wasm)
	checkSections(t, wasm, err == nil)
	if err != nil {
		return false
	}
	first := m.Encode()
	d, err := Decode(first)
	if err != nil {
		t.Fatalf("what was encoded does not decode: %v\n%x", err, wasm)
	}
	if string(d.Encode()) != string(first) {
		t.Fatalf("encoding is not stable\n%x", wasm)
	}
	verr := Verify(m, shippedLimits(m))
	out, merr := Meter(m, DefaultCosts())
	if verr != nil {
		return false
	}
	if merr != nil {
		t.Fatalf("a verified module cannot be metered: %v\n%x", merr, wasm)
	}
	again, err := Decode(out)
	if err != nil {
		t.Fatalf("the metered module does not decode: %v\n%x", err, wasm)
	}
	if string(again.Encode()) != string(out) {
		t.Fatalf("the metered module does not encode to itself\n%x", wasm)
	}
	m.Customs = nil // the engine reads the names in one of them
	before, after := accepted(m.Encode()), accepted(out)
	if (before == nil) != (after == nil) {
		t.Fatalf("the engine says %v of the module, %v of the metered one\n%x", before, after, wasm)
	}
	return true
}

// addModules seeds a fuzz target with hand-written and generated modules and the repository's small guests.
func addModules(f *testing.F) {
	f.Helper()
	f.Add(everything().Encode())
	f.Add(build(counting()).Encode())
	for seed := range uint64(6) {
		f.Add(newGenerator(seed, shape{floats: true, memory: true, wild: seed%2 == 0}).module().Encode())
	}
	for _, wasm := range guests(f) {
		if len(wasm) < fuzzBytes {
			f.Add(wasm)
		}
	}
}

// fuzzBytes is the size from which on a module only slows the search down.
const fuzzBytes = 1 << 14

func FuzzModule(f *testing.F) {
	addModules(f)
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) < fuzzBytes {
			checkBytes(t, wasm)
		}
	})
}

// FuzzMeteredRun calls what a metered module exports on both engines.
func FuzzMeteredRun(f *testing.F) {
	addModules(f)
	l := DefaultLimits()
	// Small ones, so that many are tried; the engines' own limits lie far above.
	l.MemoryPages, l.Exports, l.Joins = 2, 12, 10_000
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) >= fuzzBytes {
			return
		}
		m, err := Decode(wasm)
		if err != nil || Verify(m, l) != nil {
			return
		}
		out := metered(t, m, DefaultCosts())
		if accepted(out) != nil {
			return
		}
		compareSides(t, "fuzzed", m, wasm, out, DefaultCosts(), 1, false)
	})
}

// Bits flipped and bytes put in or left out, anywhere.
func TestDamagedModules(t *testing.T) {
	verified := 0
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 0xDA))
		wasm := newGenerator(seed, shape{floats: true, memory: true, wild: true}).module().Encode()
		for range 20 {
			bad := damaged(r, wasm)
			if checkBytes(t, bad) {
				verified++
			}
			if t.Failed() {
				t.Fatalf("-seed %d", seed)
			}
		}
	}
	if *seedFlag == 0 && verified == 0 {
		t.Error("no damaged module was verified: nothing was compared")
	}
	t.Logf("%d of %d damaged modules verified", verified, 20*len(seeds()))
}

// damaged is a copy with one or two bits flipped, or bytes put in or left out, behind the header.
func damaged(r *rand.Rand, wasm []byte) []byte {
	bad := append([]byte{}, wasm...)
	for range 1 + r.IntN(2) {
		at := 8 + r.IntN(len(bad)-8)
		switch r.IntN(4) {
		case 0:
			bad = append(bad[:at], bad[at+1:]...)
		case 1:
			bad = append(bad[:at], append([]byte{byte(r.Uint32())}, bad[at:]...)...)
		default:
			bad[at] ^= 1 << r.IntN(8)
		}
	}
	return bad
}
