package plugins

import (
	"errors"
	"math"

	"sluice/plugins/manifest"
	"sluice/plugins/wasmbin"
)

// Fuel is what one call of a hook over n records may spend: Base + PerRecord x n and at most Cap, in units of about one
// instruction; 0 is no cap. It is the only bound on a call's time (the host's work for the guest is paid from it too), and
// the same on every rank, engine and machine.
type Fuel struct{ Base, PerRecord, Cap uint64 }

// DefaultFuel leaves room for a collection of a Go guest's heap within a call.
func DefaultFuel() Fuel { return Fuel{Base: 20_000_000, PerRecord: 10_000} }

const (
	// loadFuel is what each call outside the hooks may spend: _initialize, sluice_arena, sluice_configure.
	loadFuel int64 = 200_000_000
	maxFuel  int64 = math.MaxInt64 / 2
)

// or is f, or other where f is zero.
func (f Fuel) or(other Fuel) Fuel {
	if f == (Fuel{}) {
		return other
	}
	return f
}

// hinted is f, lowered to what a manifest hints at; a part that the hint leaves out is f's. A hint never raises it: how long
// a call may take is the operator's to say, and not the module's.
func (f Fuel) hinted(m *manifest.Manifest) Fuel {
	if m == nil || m.Fuel == (manifest.Fuel{}) {
		return f
	}
	if m.Fuel.Base > 0 {
		f.Base = min(f.Base, m.Fuel.Base)
	}
	if m.Fuel.PerRecord > 0 {
		f.PerRecord = min(f.PerRecord, m.Fuel.PerRecord)
	}
	return f
}

// budget is the fuel of a call with n records.
func (f Fuel) budget(n int) int64 {
	most := uint64(maxFuel)
	if f.Cap != 0 {
		most = min(most, f.Cap)
	}
	records := uint64(max(n, 0))
	if f.Base > most || (records > 0 && f.PerRecord > (most-f.Base)/records) {
		return int64(most)
	}
	return int64(f.Base + f.PerRecord*records)
}

// costs is what modules are metered with.
func costs() wasmbin.Costs { return wasmbin.DefaultCosts() }

// limits is what modules are verified against.
func limits(pages uint32) wasmbin.Limits {
	l := wasmbin.DefaultLimits()
	l.MemoryPages = pages
	for _, s := range stubs() {
		l.Imports = append(l.Imports, wasmbin.ImportName{Module: wasiModule, Name: s.name})
	}
	l.Imports = append(l.Imports, wasmbin.ImportName{Module: wasiModule, Name: procExit})
	return l
}

// prepare verifies a module and meters it. A refusal is a *Fault of class load_rejected; its kind is the verifier's rule.
func prepare(wasm []byte, pages uint32) ([]byte, error) {
	m, err := wasmbin.Decode(wasm)
	if err != nil {
		return nil, refused(err)
	}
	for _, i := range m.Imports {
		if err := checkImports([]importName{{i.Module, i.Name}}); err != nil {
			return nil, err
		}
	}
	if err := wasmbin.Verify(m, limits(pages)); err != nil {
		return nil, refused(err)
	}
	// A module is built for no host in particular: one that declares more than this host gives is held to the cap.
	if mem := &m.Memories[0]; mem.HasMax && mem.Max > pages {
		mem.Max = pages
	}
	metered, err := wasmbin.Meter(m, costs())
	if err != nil {
		return nil, refused(err)
	}
	return metered, nil
}

func refused(err error) *Fault {
	var e *wasmbin.Error
	if errors.As(err, &e) && e.Rule != wasmbin.RuleMalformed {
		return reject(e.Rule, "%v", err)
	}
	return reject("not_wasm", "not a WebAssembly module that this host runs: %v", err)
}
