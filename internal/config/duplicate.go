package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sluice/internal/text"
)

// PolicyTable is a policy's own table, given as JSON, in the one form that policies get. The error names keys and no
// values.
func PolicyTable(table string) ([]byte, error) {
	v, wrong := tableFromJSON(table)
	if wrong != "" {
		return nil, errors.New(wrong)
	}
	out, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("is a %T", v)
	}
	return out, nil
}

// DuplicateKey is the path of the first key that an object in valid JSON has twice, fit to be shown; "" where there is
// none. Of two values readers would take different ones.
func DuplicateKey(valid string) string {
	type level struct {
		seen map[string]struct{} // nil: an array
		key  string
		next bool // the next token is a key, or the end of the object
	}
	var open []level
	d := json.NewDecoder(strings.NewReader(valid))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return "" // its end, or it is not valid, which is others' to say
		}
		var top *level
		if len(open) > 0 {
			top = &open[len(open)-1]
		}
		if key, isText := token.(string); isText && top != nil && top.next {
			top.key, top.next = key, false
			if _, again := top.seen[key]; again {
				var path []string
				for _, l := range open {
					if l.seen != nil {
						path = append(path, text.Clip(l.key, 256))
					}
				}
				return text.Line(pathText(path), 256)
			}
			top.seen[key] = struct{}{}
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{seen: map[string]struct{}{}, next: true})
			continue
		case json.Delim('['):
			open = append(open, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			if len(open) == 0 {
				continue
			}
			top = &open[len(open)-1]
		}
		if top != nil { // a value is over
			top.next = top.seen != nil
		}
	}
}
