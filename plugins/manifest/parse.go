package manifest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/config"
)

// Parse reads the content of the section. It ignores keys that it does not know, and refuses one that is there twice.
func Parse(section []byte) (Manifest, error) {
	if len(section) > MaxBytes {
		return Manifest{}, fmt.Errorf("the manifest has %d bytes, at most %d are allowed; shorten its texts", len(section), MaxBytes)
	}
	if !utf8.Valid(section) {
		return Manifest{}, fmt.Errorf("the manifest is not UTF-8; write it with sluice policy manifest --set")
	}
	d := json.NewDecoder(strings.NewReader(string(section)))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return Manifest{}, fmt.Errorf("the manifest is not JSON: %w; write it with sluice policy manifest --set", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Manifest{}, fmt.Errorf("the manifest has text after its JSON object; write it with sluice policy manifest --set")
	}
	if key := config.DuplicateKey(string(section)); key != "" {
		return Manifest{}, fmt.Errorf("the manifest has the key %s twice; write it with sluice policy manifest --set", key)
	}
	var p parser
	m := p.manifest(tree)
	return m, p.err
}

// parser turns a decoded tree (JSON's with json.Number, or TOML's) into a manifest. Its first error sticks.
type parser struct {
	strict bool // an unknown key is an error
	err    error
}

func (p *parser) fail(field, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("manifest: %s %s", field, fmt.Sprintf(format, args...))
	}
}

func (p *parser) manifest(tree any) Manifest {
	var m Manifest
	t := p.table("", tree, "name", "version", "author", "description", "licence", "source_sha256", "reasons", "counters", "state", "config", "fuel")
	m.Name = p.line("name", t["name"], MaxLine)
	m.Version = p.line("version", t["version"], MaxLine)
	m.Author = p.line("author", t["author"], MaxLine)
	m.Description = p.text("description", t["description"], MaxText)
	m.Licence = p.line("licence", t["licence"], MaxLine)
	m.SourceSHA256 = p.hash("source_sha256", t["source_sha256"])
	m.Reasons = p.reasons(t["reasons"])
	m.Counters = p.counters(t["counters"])
	m.State = p.state(t["state"])
	m.Config = p.config(t["config"])
	m.Fuel = p.fuel(t["fuel"])
	return m
}

// table is a table whose keys are known; nil is an empty one.
func (p *parser) table(field string, v any, known ...string) map[string]any {
	if v == nil && field != "" {
		return nil
	}
	t, ok := v.(map[string]any)
	if !ok {
		if field == "" {
			p.fail("it", "is %s; it must be an object", shown(v))
		} else {
			p.fail(field, "is %s; it must be a table", shown(v))
		}
		return nil
	}
	if p.strict && len(known) > 0 {
		for _, key := range sorted(t) {
			if !slices.Contains(known, key) {
				full := bare(key)
				if field != "" {
					full = field + "." + full
				}
				p.fail(full, "is no key of a manifest; %s", suggestion(key, known))
			}
		}
	}
	return t
}

// line is a text without line breaks.
func (p *parser) line(field string, v any, most int) string {
	s := p.text(field, v, most)
	if strings.ContainsAny(s, "\n\t") {
		p.fail(field, "is %s; write it on one line, without tabs", shown(v))
	}
	return s
}

// text is a text of printable characters, line breaks and tabs: it is shown on terminals and in logs.
func (p *parser) text(field string, v any, most int) string {
	if v == nil {
		return ""
	}
	s, ok := v.(string)
	switch {
	case !ok:
		p.fail(field, "is %s; it must be a text in quotes", shown(v))
	case len(s) > most:
		p.fail(field, "has %d bytes, at most %d are allowed; shorten it", len(s), most)
	case !printable(s):
		p.fail(field, "is %s, which has characters that cannot be shown; remove them", shown(v))
	}
	return s
}

func printable(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}

func (p *parser) hash(field string, v any) string {
	s := p.line(field, v, MaxLine)
	if s != "" && (len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "") {
		p.fail(field, "is %s; it must be 64 hex digits in lower case, or left out", shown(v))
	}
	return s
}

func (p *parser) reasons(v any) map[uint8]string {
	t := p.table("reasons", v)
	if len(t) == 0 {
		return nil
	}
	out := map[uint8]string{}
	owner := map[string]string{}
	for _, key := range sorted(t) {
		n, err := strconv.ParseUint(key, 10, 8)
		if err != nil || n < FirstReason || strconv.FormatUint(n, 10) != key {
			p.fail("reasons", "names %s; a policy's own reasons are the numbers %d to 255", shown(key), FirstReason)
			return nil
		}
		field := "reasons." + key
		s := p.line(field, t[key], MaxReason)
		switch other, again := owner[s]; {
		case p.err != nil:
			return nil
		case strings.TrimSpace(s) == "":
			p.fail(field, "is empty; say what the reason is, or leave it out")
		case again:
			p.fail(field, "is %s, as reasons.%s is; give each its own text", shown(s), other)
		}
		owner[s] = key
		out[uint8(n)] = s
	}
	return out
}

func (p *parser) counters(v any) []string {
	list := p.list("counters", v, MaxCounters)
	var out []string
	for i, item := range list {
		field := fmt.Sprintf("counters[%d]", i)
		s := p.line(field, item, MaxLine)
		switch {
		case p.err != nil:
			return nil
		case !counterName(s):
			p.fail(field, "is %s; a name is a small letter, then small letters, digits and _", shown(item))
		case slices.Contains(out, s):
			p.fail(field, "is %s, as counters[%d] is; give each its own name", shown(item), slices.Index(out, s))
		}
		out = append(out, s)
	}
	return out
}

func counterName(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" && len(s) <= 64
}

func (p *parser) state(v any) State {
	t := p.table("state", v, "schema", "loads")
	if len(t) == 0 {
		return State{}
	}
	s := State{Schema: uint32(p.number("state.schema", t["schema"], 1, math.MaxUint32))}
	for i, item := range p.list("state.loads", t["loads"], MaxLoads) {
		s.Loads = append(s.Loads, uint32(p.number(fmt.Sprintf("state.loads[%d]", i), item, 1, math.MaxUint32)))
	}
	s.Loads = s.withSelf()
	return s
}

func (p *parser) fuel(v any) Fuel {
	t := p.table("fuel", v, "base", "per_record")
	if len(t) == 0 {
		return Fuel{}
	}
	var f Fuel
	if base := t["base"]; base != nil {
		f.Base = uint64(p.number("fuel.base", base, 1, math.MaxInt64))
	}
	if per := t["per_record"]; per != nil {
		f.PerRecord = uint64(p.number("fuel.per_record", per, 0, math.MaxInt64))
	}
	return f
}

// number is an integer that must be there.
func (p *parser) number(field string, v any, least, most int64) int64 {
	n, ok := integer(v)
	switch {
	case v == nil:
		p.fail(field, "is missing; write a number between %d and %d", least, most)
	case !ok || n < least || n > most:
		p.fail(field, "is %s; it must be a number between %d and %d", shown(v), least, most)
	}
	return n
}

func (p *parser) list(field string, v any, most int) []any {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		p.fail(field, "is %s; it must be a list", shown(v))
	case len(list) > most:
		p.fail(field, "has %d entries, at most %d are allowed; remove some", len(list), most)
		return nil
	}
	return list
}
