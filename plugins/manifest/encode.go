package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Encode is the content of the section: one JSON object with sorted keys and no white space, so that equal manifests have
// equal bytes. What is empty is left out. It is an error where Parse would not take the result.
func Encode(m Manifest) ([]byte, error) {
	tree := map[string]any{}
	set := func(key string, v any, present bool) {
		if present {
			tree[key] = v
		}
	}
	for _, f := range []struct{ key, value string }{
		{"name", m.Name}, {"version", m.Version}, {"author", m.Author}, {"description", m.Description}, {"licence", m.Licence}, {"source_sha256", m.SourceSHA256},
	} {
		set(f.key, f.value, f.value != "")
	}
	reasons := map[string]any{}
	for n, s := range m.Reasons {
		reasons[strconv.Itoa(int(n))] = s
	}
	set("reasons", reasons, len(reasons) > 0)
	set("counters", m.Counters, len(m.Counters) > 0)
	if m.State.Schema != 0 || len(m.State.Loads) > 0 {
		tree["state"] = map[string]any{"schema": m.State.Schema, "loads": m.State.withSelf()}
	}
	keys := map[string]any{}
	for name, k := range m.Config {
		keys[name] = k.tree()
	}
	set("config", keys, m.Config != nil)
	fuel := map[string]any{"per_record": m.Fuel.PerRecord}
	if m.Fuel.Base > 0 {
		fuel["base"] = m.Fuel.Base
	}
	set("fuel", fuel, m.Fuel != Fuel{})

	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(tree); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if _, err := Parse(out); err != nil {
		return nil, err
	}
	return out, nil
}

// MarshalJSON implements json.Marshaler: a manifest is written as its section has it.
func (m Manifest) MarshalJSON() ([]byte, error) { return Encode(m) }

func (k Key) tree() map[string]any {
	t := map[string]any{"type": k.Type}
	for _, f := range []struct {
		key   string
		value any
	}{{"default", k.Default}, {"min", k.Min}, {"max", k.Max}} {
		if f.value != nil {
			t[f.key] = f.value
		}
	}
	if k.Required {
		t["required"] = true
	}
	if k.Doc != "" {
		t["doc"] = k.Doc
	}
	return t
}
