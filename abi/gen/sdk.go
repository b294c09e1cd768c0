package main

import (
	"bytes"
	"embed"
	"encoding/binary"
	"fmt"
	"strings"
	"text/template"
	"unicode"
)

// templates holds one text a language: its layout, and where the language has it, the whole SDK.
//
//go:embed templates
var templates embed.FS

// maxRecords is abi.MaxRecords, which the guests check as the host does; a test compares the two.
const maxRecords = 1 << 20

// sdks maps each output to the template that it is made from.
func sdks() map[string]string {
	return map[string]string{
		"c/sluice.h":               "sluice.h.tmpl",
		"rust/src/layout.rs":       "layout.rs.tmpl",
		"assemblyscript/layout.ts": "layout.ts.tmpl",
		"zig/sluice.zig":           "sluice.zig.tmpl",
	}
}

// render makes one output of the description.
func (d *desc) render(name string) ([]byte, error) {
	t, err := template.New(name).Funcs(d.funcs()).ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, d); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// funcs is what the templates can call.
func (d *desc) funcs() template.FuncMap {
	return template.FuncMap{
		"snake":      snake,
		"upper":      func(s string) string { return strings.ToUpper(snake(s)) },
		"camel":      func(s string) string { return lowerFirst(pascal(s)) },
		"pascal":     pascal,
		"value":      valueName,
		"note":       fieldNote,
		"bits":       func(f field) string { return f.Type[1:] },
		"viewName":   viewName,
		"sizeName":   record.strideName,
		"outs":       d.outs,
		"part":       d.part,
		"le":         func(s string) uint32 { return binary.LittleEndian.Uint32([]byte(s)) },
		"zig":        zigName,
		"ts":         tsName,
		"maxRecords": func() int { return maxRecords },
	}
}

// outs is how many output records a batch of the hook has, as one of the words the templates know: "candidates" where
// the globals count them, "one", or "n" for one an input record.
func (d *desc) outs(h hook) string {
	if g, err := d.part(h, "globals"); err == nil {
		for _, f := range g.Fields {
			if f.Name == "Candidates" {
				return "candidates"
			}
		}
	}
	if strings.HasPrefix(h.Outs, "exactly one") {
		return "one"
	}
	return "n"
}

// part is the hook's record of that role.
func (d *desc) part(h hook, role string) (record, error) {
	for _, r := range d.Records {
		if r.Hook == h.Name && r.Role == role {
			return r, nil
		}
	}
	return record{}, fmt.Errorf("%w: hook %s has no %s record", errDescription, h.Name, role)
}

// words splits a Go name: TimeNS is time and NS, MatchL1Tokens is Match, L1 and Tokens.
func words(s string) []string {
	var out []string
	start := 0
	rs := []rune(s)
	for i := 1; i < len(rs); i++ {
		joined := unicode.IsUpper(rs[i-1]) && (i+1 == len(rs) || unicode.IsUpper(rs[i+1]) || unicode.IsDigit(rs[i+1]))
		if unicode.IsUpper(rs[i]) && !joined {
			out = append(out, string(rs[start:i]))
			start = i
		}
	}
	return append(out, string(rs[start:]))
}

func snake(s string) string { return strings.ToLower(strings.Join(words(s), "_")) }

func pascal(s string) string {
	var b strings.Builder
	for _, w := range words(s) {
		b.WriteString(w[:1] + strings.ToLower(w[1:]))
	}
	return b.String()
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// zigName quotes the words that Zig keeps for itself.
func zigName(s string) string {
	if s == "defer" || s == "error" || s == "resume" {
		return `@"` + s + `"`
	}
	return s
}

// tsName is the name with an underscore behind the word that TypeScript keeps for itself.
func tsName(s string) string {
	if s == "class" {
		return s + "_"
	}
	return s
}

// valueName is the value's name without the word that all values of its enumeration begin with.
func valueName(v enumValue) string { return strings.TrimPrefix(v.Name, words(v.Name)[0]) }
