package plugins

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sluice/internal/text"
)

// outlineKeys is how many keys of a configuration an error names.
const outlineKeys = 8

// outline is what errors tell of a policy's configuration: its size and the first of its keys. Never values: they may be
// secrets, and why a policy was refused is logged, kept, and told to whoever asks for the policies.
func outline(config []byte) string {
	if len(config) == 0 {
		return "of 0 bytes"
	}
	var table map[string]json.RawMessage
	if err := json.Unmarshal(config, &table); err != nil {
		return fmt.Sprintf("of %d bytes, which is no JSON object", len(config))
	}
	if len(table) == 0 {
		return fmt.Sprintf("of %d bytes without a key", len(config))
	}
	return fmt.Sprintf("of %d bytes with the keys %s", len(config), text.List(slices.Sorted(maps.Keys(table)), outlineKeys))
}
