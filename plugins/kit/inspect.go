package kit

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"sluice/plugins/manifest"
	"sluice/plugins/wasmbin"
)

// Inspection is what can be told of a module's bytes without running it.
type Inspection struct {
	Size      int      `json:"size"` // bytes
	SHA256    string   `json:"sha256"`
	Hooks     []string `json:"hooks"`
	Markers   []string `json:"markers"` // sluice_abi_<major> and sluice_need_<feature>
	Exports   []Symbol `json:"exports"`
	Imports   []Symbol `json:"imports"`
	Memories  []Memory `json:"memories"`
	Functions int      `json:"functions"` // defined, imports aside
	Globals   int      `json:"globals"`
	Tables    []Memory `json:"tables"`
	CodeBytes int      `json:"code_bytes"`
	DataBytes int      `json:"data_bytes"`
	Start     bool     `json:"start_function"`
	Customs   []Symbol `json:"custom_sections"` // Detail is the size

	Manifest      *manifest.Manifest `json:"manifest,omitempty"`       // nil: it has none, or none that is good
	ManifestError string             `json:"manifest_error,omitempty"` // why a loader refuses its manifest
}

// Symbol is a name with what it is.
type Symbol struct {
	Name   string `json:"name"`
	Detail string `json:"detail"`
}

// Memory is the limits of a memory in pages of 64 KiB, or of a table in elements.
type Memory struct {
	Min uint32  `json:"min"`
	Max *uint32 `json:"max"` // nil: none declared
}

// String is "MIN to MAX".
func (m Memory) String() string {
	if m.Max == nil {
		return fmt.Sprintf("%d, no maximum", m.Min)
	}
	return fmt.Sprintf("%d to %d", m.Min, *m.Max)
}

// Inspect decodes a module. Size and SHA256 are set whatever the error, which is wasmbin's and names the place.
func (l *Layout) Inspect(wasm []byte) (Inspection, error) {
	in := Inspection{Size: len(wasm), SHA256: fmt.Sprintf("%x", sha256.Sum256(wasm))}
	m, err := wasmbin.Decode(wasm)
	if err != nil {
		return in, err
	}
	in.Functions, in.Globals, in.Start = len(m.Functions), len(m.Globals), m.Start >= 0
	for _, x := range m.Imports {
		detail := x.Kind.String()
		if x.Kind == wasmbin.KindFunction {
			detail += " " + typeText(m, x.Type)
		}
		in.Imports = append(in.Imports, Symbol{x.Module + "." + x.Name, detail})
	}
	for _, x := range m.Exports {
		detail := x.Kind.String()
		if x.Kind == wasmbin.KindFunction {
			if t, ok := typeOf(m, x.Index); ok {
				detail += " " + typeText(m, t)
			}
		}
		in.Exports = append(in.Exports, Symbol{x.Name, detail})
		if strings.HasPrefix(x.Name, "sluice_abi_") || strings.HasPrefix(x.Name, "sluice_need_") {
			in.Markers = append(in.Markers, x.Name)
		}
	}
	for _, h := range l.Hooks {
		if slices.ContainsFunc(m.Exports, func(x wasmbin.Export) bool { return x.Name == h.Export }) {
			in.Hooks = append(in.Hooks, h.Name)
		}
	}
	in.Memories, in.Tables = limits(m.Memories), limits(m.Tables)
	for _, b := range m.Bodies {
		in.CodeBytes += len(b.Code)
	}
	for _, d := range m.Data {
		in.DataBytes += len(d.Bytes)
	}
	for _, c := range m.Customs {
		in.Customs = append(in.Customs, Symbol{c.Name, fmt.Sprintf("%d bytes", len(c.Bytes))})
	}
	if in.Manifest, err = manifest.Read(wasm); err != nil {
		in.ManifestError = err.Error()
	}
	return in, nil
}

func limits(ls []wasmbin.Limit) []Memory {
	var out []Memory
	for _, x := range ls {
		m := Memory{Min: x.Min}
		if x.HasMax {
			m.Max = &x.Max
		}
		out = append(out, m)
	}
	return out
}

// typeOf is the type index of a function, imports first.
func typeOf(m *wasmbin.Module, function uint32) (uint32, bool) {
	at := uint32(0)
	for _, x := range m.Imports {
		if x.Kind != wasmbin.KindFunction {
			continue
		}
		if at == function {
			return x.Type, true
		}
		at++
	}
	if i := uint64(function) - uint64(at); i < uint64(len(m.Functions)) {
		return m.Functions[i], true
	}
	return 0, false
}

func typeText(m *wasmbin.Module, index uint32) string {
	if uint64(index) >= uint64(len(m.Types)) {
		return "of no type"
	}
	words := func(ts []wasmbin.ValueType) string {
		var out []string
		for _, t := range ts {
			out = append(out, t.String())
		}
		return "(" + strings.Join(out, ", ") + ")"
	}
	t := m.Types[index]
	return words(t.Params) + " -> " + words(t.Results)
}
