package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// CheckConfig judges a policy's table, as canonical JSON, against the manifest's schema: every key that is not named, is
// missing, or has a value that is not allowed, in one line. Empty text is an empty table. Without a schema everything is
// allowed, and it may be called on nil. Nothing is filled in: a policy's own bytes decide what it takes for a key that is
// left out.
func (m *Manifest) CheckConfig(canonical []byte) error {
	if m == nil || m.Config == nil {
		return nil
	}
	table := map[string]any{}
	if len(canonical) > 0 {
		d := json.NewDecoder(strings.NewReader(string(canonical)))
		d.UseNumber()
		err := d.Decode(&table)
		if err == nil {
			if _, more := d.Token(); more != io.EOF {
				err = errors.New("text follows the object")
			}
		}
		if err != nil {
			return fmt.Errorf("the configuration is not one JSON object: %w", err)
		}
	}
	names := sorted(m.Config)
	var wrong []string
	for _, key := range sorted(table) {
		k, ok := m.Config[key]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s is no key of the policy; %s", bare(key), suggestion(key, names)))
			continue
		}
		if _, want := k.value(table[key]); want != "" {
			wrong = append(wrong, fmt.Sprintf("%s is %s; it must be %s", key, shown(table[key]), want))
		}
	}
	for _, name := range names {
		if _, given := table[name]; m.Config[name].Required && !given {
			wrong = append(wrong, fmt.Sprintf("%s is missing; write %s", name, m.Config[name].Want()))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// bare is a key as it is written, quoted where it is not of a key's characters.
func bare(key string) string {
	if key == "" || strings.Trim(key, keyChars) != "" {
		return shown(key)
	}
	return key
}
