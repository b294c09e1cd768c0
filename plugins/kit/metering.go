package kit

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"

	"sluice/plugins"
	"sluice/plugins/wasmbin"
)

// NewMeteringPair compiles a module twice, as it is and metered, and nothing else tells the two apart: the difference is
// what metering costs. The plain one is for a module that has been metered and run before, since nothing ends its loops.
func NewMeteringPair(ctx context.Context, wasm []byte, fuel plugins.Fuel) (plain, metered *Reference, err error) {
	with, err := meter(wasm)
	if err != nil {
		return nil, nil, err
	}
	without, err := unmetered(wasm)
	if err != nil {
		return nil, nil, err
	}
	if plain, err = newReference(ctx, wazero.NewRuntimeConfigCompiler(), without, fuel); err != nil {
		return nil, nil, err
	}
	if metered, err = newReference(ctx, wazero.NewRuntimeConfigCompiler(), with, fuel); err != nil {
		return nil, nil, errors.Join(err, plain.Close(ctx))
	}
	return plain, metered, nil
}

func meter(wasm []byte) ([]byte, error) {
	m, err := wasmbin.Decode(wasm)
	if err != nil {
		return nil, err
	}
	return wasmbin.Meter(m, wasmbin.DefaultCosts())
}

// unmetered is the module with the globals of the metering pass, which nothing in it uses.
func unmetered(wasm []byte) ([]byte, error) {
	m, err := wasmbin.Decode(wasm)
	if err != nil {
		return nil, err
	}
	const constI32, constI64, end = 0x41, 0x42, 0x0B
	first := uint32(len(m.Globals))
	for _, i := range m.Imports {
		if i.Kind == wasmbin.KindGlobal {
			first++
		}
	}
	m.Globals = append(m.Globals, wasmbin.Global{Type: wasmbin.I64, Mutable: true, Init: []byte{constI64, 0, end}},
		wasmbin.Global{Type: wasmbin.I32, Mutable: true, Init: []byte{constI32, 0, end}})
	m.Exports = append(m.Exports, wasmbin.Export{Name: wasmbin.GlobalFuel, Kind: wasmbin.KindGlobal, Index: first},
		wasmbin.Export{Name: wasmbin.GlobalDepth, Kind: wasmbin.KindGlobal, Index: first + 1})
	return m.Encode(), nil
}
