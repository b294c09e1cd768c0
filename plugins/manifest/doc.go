// Package manifest is what a policy module says about itself in its custom section "sluice.manifest": who made it, what
// its own numbers mean (reasons, counters, the schema of its saved state), which configuration it takes, and about how
// much fuel it needs. Nothing of it changes what the module's code does: it is for the people who run the policy, and for
// checks before it runs. A module without one is a policy like any other.
//
// The section holds one JSON object in UTF-8, at most MaxBytes; a module has at most one. Fields are only ever appended:
// Parse ignores keys that it does not know, since a newer tool may have written them. What it knows it checks, and every
// error names the field and what to do.
//
// It may import the standard library, abi, internal/config (for near misses of names and keys given twice), internal/text, plugins/wasmbin and the TOML
// decoder; it keeps no state.
//
//	wasm, err = manifest.Write(wasm, manifest.Manifest{Name: "fair-share", Reasons: map[uint8]string{70: "tenant over its share"}})
//	m, err := manifest.Read(wasm) // m.Reason(70) is "tenant over its share", true
package manifest
