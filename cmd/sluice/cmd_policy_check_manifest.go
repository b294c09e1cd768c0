package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/manifest"
)

// checkManifest compares what the module says about itself with what it has and did in the states and the runs.
func (f *checkFlags) checkManifest(m *plugins.Module, v *verdict) error {
	about := m.Manifest()
	var unnamed []string
	for r := int(abi.FirstPolicyReason); r < len(v.reasons); r++ {
		if _, named := about.Reason(uint8(r)); v.reasons[r] && !named {
			unnamed = append(unnamed, strconv.Itoa(r))
		}
	}
	switch {
	case len(unnamed) == 1:
		v.warn("the reason %s has no text, so clients are told the number; name it in %s", unnamed[0], manifest.File)
	case len(unnamed) > 1:
		v.warn("the reasons %s have no text, so clients are told the numbers; name them in %s", strings.Join(unnamed, ", "), manifest.File)
	}
	in, err := f.layout.Inspect(f.wasm)
	if err != nil {
		return err
	}
	exports := func(name string) bool {
		return slices.ContainsFunc(in.Exports, func(s kit.Symbol) bool { return s.Name == name })
	}
	if w := stateWarning(exports("sluice_state_save"), exports("sluice_state_load"), about); w != "" {
		v.warn("%s", w)
	}
	return nil
}

// stateWarning is what is odd about a module's saved state, given which of the two exports it has; empty: nothing.
func stateWarning(save, load bool, about *manifest.Manifest) string {
	schema, _, named := about.StateSchema()
	switch {
	case save != load:
		return "the module exports one of sluice_state_save and sluice_state_load, so its state is never carried; export both"
	case save && !named:
		return "the module saves and loads its state, and no schema is named, so the state is never carried; give [state] a schema in " + manifest.File
	case named && !save:
		return fmt.Sprintf("the manifest names the state schema %d, and the module exports neither sluice_state_save nor sluice_state_load; export both, or remove [state]", schema)
	}
	return ""
}
