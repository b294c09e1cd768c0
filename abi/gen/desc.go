package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// desc is the description file: the one source of every layout.
type desc struct {
	Name       string     `json:"name"`
	Major      int        `json:"major"`
	Minor      int        `json:"minor"`
	Stage      string     `json:"stage"` // "rc" while a version may still change; empty once it is frozen
	Magic      string     `json:"magic"`
	HostMagic  string     `json:"host_magic"`
	HeaderSize int        `json:"header_size"`
	Align      int        `json:"align"`
	Constants  []constant `json:"constants"`
	Hooks      []hook     `json:"hooks"`
	Exports    []export   `json:"exports"`
	Enums      []enum     `json:"enums"`
	Flags      []flag     `json:"flags"`
	Records    []record   `json:"records"`
}

type constant struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
	Doc   string `json:"doc"`
}

type hook struct {
	Name   string `json:"name"`
	Kind   int    `json:"kind"`
	Export string `json:"export"`
	Class  string `json:"class"`
	Doc    string `json:"doc"`
	Outs   string `json:"outs"`
}

type export struct {
	Name string `json:"name"`
	Sig  string `json:"sig"`
	Doc  string `json:"doc"`
}

type enum struct {
	Name   string      `json:"name"`
	Type   string      `json:"type"`
	Doc    string      `json:"doc"`
	Values []enumValue `json:"values"`
}

type enumValue struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
	Text  string `json:"text"`
	Doc   string `json:"doc"`
}

type flag struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value int    `json:"value"`
	Doc   string `json:"doc"`
}

type record struct {
	Name   string  `json:"name"`
	Hook   string  `json:"hook"`
	Role   string  `json:"role"`
	Size   int     `json:"size"`
	Doc    string  `json:"doc"`
	Fields []field `json:"fields"`
}

type field struct {
	Name  string `json:"name"`
	Off   int    `json:"off"`
	Type  string `json:"type"`
	Go    string `json:"go"`
	Const string `json:"const"`
	Unit  string `json:"unit"`
	Range string `json:"range"`
	Scope string `json:"scope"`
	Zero  string `json:"zero"`
	Doc   string `json:"doc"`
}

var errDescription = errors.New("bad description")

// version is the version as people read it: 1.0-rc while it may still change, then 1.0.
func (d *desc) version() string {
	if d.Stage == "" {
		return fmt.Sprintf("%d.%d", d.Major, d.Minor)
	}
	return fmt.Sprintf("%d.%d-%s", d.Major, d.Minor, d.Stage)
}

// width maps a field type to its bytes.
func width(t string) int {
	switch t {
	case "u8":
		return 1
	case "u16":
		return 2
	case "u32":
		return 4
	case "u64":
		return 8
	}
	return 0
}

func (f field) goType() string {
	if f.Go != "" {
		return f.Go
	}
	return "uint" + f.Type[1:]
}

// strideName is the constant that holds the record's size.
func (r record) strideName() string {
	switch r.Role {
	case "in":
		return r.Hook + "Stride"
	case "out":
		return r.Hook + "OutStride"
	case "globals":
		return r.Hook + "GlobalsSize"
	}
	return r.Name + "Size"
}

func load(path string) (*desc, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	d := new(desc)
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, d.check()
}

// check refuses a description whose fields overlap, are not naturally aligned, leave their record, or lack the
// words that the table in the README prints.
func (d *desc) check() error {
	replicated := map[string]bool{}
	for _, h := range d.Hooks {
		replicated[h.Name] = h.Class == "replicated"
	}
	if d.Stage != "" && d.Stage != "rc" {
		return fmt.Errorf("%w: stage %q: rc, or none once the version is frozen", errDescription, d.Stage)
	}
	if len(d.Magic) != 4 || len(d.HostMagic) != 4 {
		return fmt.Errorf("%w: magic must be four bytes", errDescription)
	}
	for _, r := range d.Records {
		if r.Size%8 != 0 {
			return fmt.Errorf("%w: %s: size %d is not a multiple of 8", errDescription, r.Name, r.Size)
		}
		next := 0
		for _, f := range r.Fields {
			w := width(f.Type)
			switch {
			case w == 0:
				return fmt.Errorf("%w: %s.%s: type %q", errDescription, r.Name, f.Name, f.Type)
			case f.Off%w != 0:
				return fmt.Errorf("%w: %s.%s: offset %d is not a multiple of %d", errDescription, r.Name, f.Name, f.Off, w)
			case f.Off < next:
				return fmt.Errorf("%w: %s.%s: offset %d overlaps the field before", errDescription, r.Name, f.Name, f.Off)
			case f.Off+w > r.Size:
				return fmt.Errorf("%w: %s.%s: ends past the record's %d bytes", errDescription, r.Name, f.Name, r.Size)
			case f.Scope == "" || f.Zero == "" || f.Doc == "" || f.Range == "":
				return fmt.Errorf("%w: %s.%s: scope, zero, range and doc are required", errDescription, r.Name, f.Name)
			case replicated[r.Hook] && f.Scope == "local":
				return fmt.Errorf("%w: %s.%s: a local field where the answer is used directly", errDescription, r.Name, f.Name)
			}
			next = f.Off + w
		}
		if text := d.textBytes(r); next > r.Size-text {
			return fmt.Errorf("%w: %s: its fields overlap the %d bytes of text at its end", errDescription, r.Name, text)
		}
	}
	return nil
}

// textBytes is how many bytes of text end the record, 0 for a record of numbers only.
func (d *desc) textBytes(r record) int {
	for _, c := range d.Constants {
		if r.Role == "log" && c.Name == "LogTextBytes" && c.Value < r.Size {
			return c.Value
		}
	}
	return 0
}
