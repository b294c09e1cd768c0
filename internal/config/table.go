package config

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const emptyTable = "{}"

// maxDepth bounds how deep tables and arrays nest, so that no input can exhaust the stack.
const maxDepth = 64

// MaxPolicyTable bounds the bytes of a policy's own table, as it is given in JSON and in its canonical form: each rank's
// instances hold a copy of it.
const MaxPolicyTable = 64 << 10

// canonicalTable is a policy's table as canonical JSON: keys sorted bytewise, no spaces, integers as integers and floats
// always with a point or an exponent. Dates and times become strings. The string is empty or says what is wrong; like that
// of tableFromJSON it names keys and no values.
func canonicalTable(m map[string]any) (any, string) {
	out, wrong := appendJSON(nil, m, "", 0)
	if wrong == "" {
		wrong = tooLong(len(out))
	}
	if wrong != "" {
		return nil, wrong
	}
	return out, ""
}

// tableFromJSON reads the text of a flag or a variable: one JSON object. What is wrong names keys and no values, which may
// be secrets: a server keeps why it refused a pushed policy, and tells it to whoever asks.
func tableFromJSON(s string) (any, string) {
	const want = `write one JSON object, such as {"window": 8}`
	if wrong := tooLong(len(s)); wrong != "" {
		return nil, wrong
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil || m == nil {
		return nil, "is no JSON object; " + want
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, "has text after the object; " + want
	}
	if key := DuplicateKey(s); key != "" {
		return nil, fmt.Sprintf("holds the key %s twice; give it once", key)
	}
	return canonicalTable(m)
}

// tooLong says what is wrong with a policy's table of n bytes of JSON, "" where it fits.
func tooLong(n int) string {
	if n <= MaxPolicyTable {
		return ""
	}
	return fmt.Sprintf("has %d bytes as JSON, at most %d are allowed; give a smaller table", n, MaxPolicyTable)
}

func appendJSON(dst []byte, v any, where string, depth int) ([]byte, string) {
	if depth > maxDepth {
		return nil, fmt.Sprintf("nests deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		dst = append(dst, '{')
		for i, name := range names {
			if name == "" {
				return nil, `holds an empty key (""); give it a name`
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendJSONString(dst, name), ':')
			var wrong string
			if dst, wrong = appendJSON(dst, v[name], where+"."+keyText(name), depth+1); wrong != "" {
				return nil, wrong
			}
		}
		return append(dst, '}'), ""
	case []any:
		return appendJSONArray(dst, v, where, depth)
	case []map[string]any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = v[i]
		}
		return appendJSONArray(dst, items, where, depth)
	case string:
		return appendJSONString(dst, v), ""
	case bool:
		return strconv.AppendBool(dst, v), ""
	case int64:
		return strconv.AppendInt(dst, v, 10), ""
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, fmt.Sprintf("holds an infinity or NaN at %s, which JSON cannot say; remove it", clip(strings.TrimPrefix(where, ".")))
		}
		return append(dst, formatFloat(v)...), ""
	case time.Time:
		return appendJSONString(dst, timeText(v)), ""
	case json.Number:
		return appendJSONNumber(dst, string(v), where)
	case nil:
		return nil, fmt.Sprintf("holds null at %s; leave the key out", clip(strings.TrimPrefix(where, ".")))
	}
	return nil, fmt.Sprintf("holds %s at %s", kindOf(v), clip(strings.TrimPrefix(where, ".")))
}

func appendJSONArray(dst []byte, items []any, where string, depth int) ([]byte, string) {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		var wrong string
		if dst, wrong = appendJSON(dst, item, where+"["+strconv.Itoa(i)+"]", depth+1); wrong != "" {
			return nil, wrong
		}
	}
	return append(dst, ']'), ""
}

func appendJSONNumber(dst []byte, s, where string) ([]byte, string) {
	if strings.ContainsAny(s, ".eE") {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return append(dst, formatFloat(f)...), ""
		}
	} else if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return strconv.AppendInt(dst, n, 10), ""
	}
	return nil, fmt.Sprintf("holds a number at %s that does not fit 64 bits", clip(strings.TrimPrefix(where, ".")))
}

// appendJSONString escapes only what JSON requires, so that every producer of canonical text gives the same bytes.
func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20 || r == 0x7f:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, '"')
}

// quote is s as a TOML basic string, which has the escapes of appendJSONString in common with JSON.
func quote(s string) string { return string(appendJSONString(nil, s)) }

// timeText is the shortest RFC 3339 form of a date, a time, or both; the decoder marks the local ones by their zone's name.
func timeText(t time.Time) string {
	switch t.Location().String() {
	case "datetime-local":
		return t.Format("2006-01-02T15:04:05.999999999")
	case "date-local":
		return t.Format("2006-01-02")
	case "time-local":
		return t.Format("15:04:05.999999999")
	}
	return t.Format(time.RFC3339Nano)
}

// keyText is a key as TOML writes it: bare where it can be.
func keyText(name string) string {
	if name == "" || strings.Trim(name, bareKeyChars) != "" {
		return quote(name)
	}
	return name
}

const bareKeyChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// pathText is a key's full name as TOML writes it.
func pathText(path []string) string {
	parts := make([]string, len(path))
	for i, p := range path {
		parts[i] = keyText(p)
	}
	return strings.Join(parts, ".")
}

// tableTOML is canonical JSON as the lines of a TOML table; values nested in it are written inline.
func tableTOML(canonical []byte) (string, error) {
	d := json.NewDecoder(strings.NewReader(string(canonical)))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return "", fmt.Errorf("a policy's config is not a JSON object: %w", err)
	}
	var b strings.Builder
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.WriteString(keyText(name) + " = ")
		inlineTOML(&b, m[name])
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func inlineTOML(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(" " + keyText(name) + " = ")
			inlineTOML(b, v[name])
		}
		b.WriteString(" }")
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			inlineTOML(b, item)
		}
		b.WriteByte(']')
	case string:
		b.WriteString(quote(v))
	default: // a number or a boolean, whose JSON and TOML texts are the same
		fmt.Fprintf(b, "%v", v)
	}
}
