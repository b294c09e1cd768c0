package plugins

import "sluice/plugins/wasmbin"

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
