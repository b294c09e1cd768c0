package plugins

import (
	"context"
	"sync/atomic"

	"sluice/plugins/wasmbin"
)

// NewUnmeteredHost is a host whose modules are not metered, to measure what metering costs.
func NewUnmeteredHost(o Options) *Host {
	h := NewHost(o)
	h.prepare = func(wasm []byte, _ uint32) ([]byte, error) {
		m, err := wasmbin.Decode(wasm)
		if err != nil {
			return nil, err
		}
		fuel := uint32(len(m.Globals))
		m.Globals = append(m.Globals,
			wasmbin.Global{Type: wasmbin.I64, Mutable: true, Init: []byte{0x42, 0, 0x0B}},
			wasmbin.Global{Type: wasmbin.I32, Mutable: true, Init: []byte{0x41, 0, 0x0B}})
		m.Exports = append(m.Exports,
			wasmbin.Export{Name: wasmbin.GlobalFuel, Kind: wasmbin.KindGlobal, Index: fuel},
			wasmbin.Export{Name: wasmbin.GlobalDepth, Kind: wasmbin.KindGlobal, Index: fuel + 1})
		return m.Encode(), nil
	}
	return h
}

// CountPrograms has a host count the programs that are compiled and not closed.
func CountPrograms(h *Host) *atomic.Int64 {
	live, plain := &atomic.Int64{}, h.engine
	h.engine = func(e Engine, pages uint32) engine { return countedEngine{plain(e, pages), live} }
	return live
}

type countedEngine struct {
	engine
	live *atomic.Int64
}

func (e countedEngine) compile(ctx context.Context, wasm []byte) (program, error) {
	p, err := e.engine.compile(ctx, wasm)
	if err != nil {
		return nil, err
	}
	e.live.Add(1)
	return countedProgram{p, e.live}, nil
}

type countedProgram struct {
	program
	live *atomic.Int64
}

func (p countedProgram) close(ctx context.Context) error {
	p.live.Add(-1)
	return p.program.close(ctx)
}

// KeptModules is how many unused modules a host keeps.
const KeptModules = keptModules
