package manifest

import (
	"fmt"
	"slices"

	"sluice/plugins/wasmbin"
)

// Read is the manifest in a module's bytes, nil where it has none. It is an error that there are two, or that the one is
// not as Parse wants it.
func Read(wasm []byte) (*Manifest, error) {
	sections, err := wasmbin.Sections(wasm)
	if err != nil {
		return nil, err
	}
	var found *wasmbin.Section
	for i := range sections {
		if !mine(&sections[i]) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("the module has two sections %s, at most one is allowed; write one with sluice policy manifest --set", Section)
		}
		found = &sections[i]
	}
	if found == nil {
		return nil, nil
	}
	m, err := Parse(found.Bytes)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// Write is a module with the manifest as its last section, in place of any that it had. Every other section keeps its
// bytes and its order. The module itself is not looked at, and wasm is not written to.
func Write(wasm []byte, m Manifest) ([]byte, error) {
	text, err := Encode(m)
	if err != nil {
		return nil, err
	}
	out, err := Strip(wasm)
	if err != nil {
		return nil, err
	}
	return wasmbin.AppendCustom(out, Section, text), nil
}

// Strip is a module without manifest; its bytes are a copy.
func Strip(wasm []byte) ([]byte, error) {
	sections, err := wasmbin.Sections(wasm)
	if err != nil {
		return nil, err
	}
	head := len(wasm)
	for i := range sections {
		head -= len(sections[i].Raw)
	}
	out := slices.Clone(wasm[:head])
	for i := range sections {
		if !mine(&sections[i]) {
			out = append(out, sections[i].Raw...)
		}
	}
	return out, nil
}

func mine(s *wasmbin.Section) bool { return s.Custom == Section }
