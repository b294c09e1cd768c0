package manifest

import (
	"slices"

	"sluice/abi"
)

// Section is the name of the custom section.
const Section = "sluice.manifest"

// Limits of a manifest.
const (
	MaxBytes    = 64 << 10 // of the section's content
	MaxLine     = 256      // bytes of a field of one line; of a reason's text MaxReason
	MaxReason   = 128      // bytes of a reason's text
	MaxText     = 4096     // bytes of the description and of a key's doc
	MaxCounters = abi.Counters
	MaxLoads    = 64 // schemas that a policy can load
	MaxKeys     = 256
	FirstReason = 64 // the smallest reason that is a policy's own; the largest is 255
)

// Manifest is what a module says about itself. The zero value says nothing; every field may be left out.
type Manifest struct {
	Name         string // of the policy, one line
	Version      string // of the policy, the author's own numbering, one line
	Author       string // one line
	Description  string // may have several lines
	Licence      string // an SPDX expression, say; one line
	SourceSHA256 string // hash of the sources that the module was built from, 64 hex digits in lower case

	Reasons  map[uint8]string // text of the policy's own reasons, FirstReason to 255; no two have the same
	Counters []string         // name of counter 0, 1, ...; [a-z][a-z0-9_]*, each once
	State    State
	Config   map[string]Key // the keys of the policy's own table; nil: nothing is said, empty: it takes none
	Fuel     Fuel
}

// State is the schema of a policy's saved state. The zero value says that its state is not to be carried.
type State struct {
	Schema uint32   // what sluice_state_save writes; 0: no state
	Loads  []uint32 // what sluice_state_load reads, ascending; Parse and Encode add Schema itself
}

// Fuel is about what one call needs over n records: Base + PerRecord x n, in units of about one instruction. A part that is
// 0 is not hinted at: the host's default holds for it.
type Fuel struct{ Base, PerRecord uint64 }

// Key is one key of the policy's own table.
type Key struct {
	Type     Type
	Default  any  // what the policy takes where the key is left out; nil: not said. The host does not fill it in
	Min, Max any  // least and most of a number, or of each number of an array; nil: no bound
	Required bool // the table must have the key
	Doc      string
}

// Type is the type of a key's value. Values are int64, float64, bool, string, []int64 and []string.
type Type string

// The types.
const (
	Integer  Type = "integer"
	Float    Type = "float"
	Boolean  Type = "boolean"
	String   Type = "string"
	Integers Type = "array-of-integer"
	Strings  Type = "array-of-string"
)

// Types lists every type.
func Types() []Type { return []Type{Integer, Float, Boolean, String, Integers, Strings} }

// Reason is the text of one of the policy's own reasons. It may be called on nil.
func (m *Manifest) Reason(r uint8) (string, bool) {
	if m == nil {
		return "", false
	}
	text, ok := m.Reasons[r]
	return text, ok
}

// CounterName is the name of counter i, counted from 0. It may be called on nil.
func (m *Manifest) CounterName(i int) (string, bool) {
	if m == nil || i < 0 || i >= len(m.Counters) {
		return "", false
	}
	return m.Counters[i], true
}

// StateSchema is the schema of the policy's saved state and those that it can load, its own among them. It may be called
// on nil; ok is false where no schema is named. The slice is the caller's.
func (m *Manifest) StateSchema() (schema uint32, loads []uint32, ok bool) {
	if m == nil || m.State.Schema == 0 {
		return 0, nil, false
	}
	return m.State.Schema, m.State.withSelf(), true
}

// withSelf is Loads with Schema, ascending, each once.
func (s State) withSelf() []uint32 {
	all := append(slices.Clone(s.Loads), s.Schema)
	slices.Sort(all)
	return slices.Compact(all)
}
