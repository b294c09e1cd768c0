package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sluice/abi"
)

// ErrLayout is what every error about a description of the ABI wraps.
var ErrLayout = errors.New("bad description of the policy ABI")

// Layout is the ABI as its description has it: hooks, records, fields, and the names of values.
type Layout struct {
	Major, Minor int
	Stage        string // "rc" while the version may still change
	HeaderSize   int    // bytes of a batch's header
	Align        int    // bytes, of the parts of a batch
	Hooks        []HookLayout

	enums map[string][]enumValue
	flags []flagValue
}

// HookLayout is one hook with its records.
type HookLayout struct {
	Hook             abi.Hook
	Name             string // as abi.Hook prints it
	Export           string
	Class            string // "local" or "replicated"
	Doc              string
	Globals, In, Out Record
}

// Record is one record type.
type Record struct {
	Name   string
	Size   int // bytes; the stride of this version
	Fields []Field
}

// Field is one field of a record.
type Field struct {
	Name, Doc, Unit, Range string
	Scope                  string // "local", "replicated" or "policy"
	Off, Width             int    // bytes

	enum  string // type of its values, empty for a number
	flags string // prefix of its flag names, empty where it holds none
}

type enumValue struct {
	name  string // without the type's prefix
	value uint64
}

type flagValue struct {
	name  string
	value uint64
}

// description mirrors the parts of abi.json that are read here.
type description struct {
	Major      int    `json:"major"`
	Minor      int    `json:"minor"`
	Stage      string `json:"stage"`
	HeaderSize int    `json:"header_size"`
	Align      int    `json:"align"`
	Hooks      []struct {
		Name, Export, Class, Doc string
		Kind                     int
	} `json:"hooks"`
	Enums []struct {
		Name   string
		Values []struct {
			Name  string
			Value int64
		}
	} `json:"enums"`
	Flags []struct {
		Name  string
		Value uint64
	} `json:"flags"`
	Records []struct {
		Name, Hook, Role string
		Size             int
		Fields           []struct {
			Name, Type, Go, Unit, Range, Scope, Doc string
			Off                                     int
		}
	} `json:"records"`
}

// Version is the version as people read it, such as 1.0-rc.
func (l *Layout) Version() string {
	v := fmt.Sprintf("%d.%d", l.Major, l.Minor)
	if l.Stage != "" {
		v += "-" + l.Stage
	}
	return v
}

// ParseLayout reads a description, the text of abi/abi.json. Errors wrap ErrLayout.
func ParseLayout(text []byte) (*Layout, error) {
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	l := &Layout{Major: d.Major, Minor: d.Minor, Stage: d.Stage, HeaderSize: d.HeaderSize, Align: d.Align, enums: map[string][]enumValue{}}
	for _, e := range d.Enums {
		names := make([]string, len(e.Values))
		for i, v := range e.Values {
			names[i] = v.Name
		}
		prefix := commonPrefix(names)
		for _, v := range e.Values {
			l.enums[e.Name] = append(l.enums[e.Name], enumValue{strings.TrimPrefix(v.Name, prefix), uint64(v.Value)})
		}
	}
	for _, f := range d.Flags {
		l.flags = append(l.flags, flagValue{f.Name, f.Value})
	}
	for _, h := range d.Hooks {
		hook := HookLayout{Hook: abi.Hook(h.Kind), Name: strings.ToLower(h.Name), Export: h.Export, Class: h.Class, Doc: h.Doc}
		if hook.Hook.Export() != h.Export {
			return nil, fmt.Errorf("%w: hook %s is kind %d, which this host calls %q", ErrLayout, quote(h.Name), h.Kind, hook.Hook.Export())
		}
		for i := range d.Records {
			r := &d.Records[i]
			if r.Hook != h.Name {
				continue
			}
			rec := Record{Name: r.Name, Size: r.Size}
			for _, f := range r.Fields {
				field := Field{Name: f.Name, Doc: f.Doc, Unit: f.Unit, Range: f.Range, Scope: f.Scope, Off: f.Off, Width: widthOf(f.Type)}
				if field.Width == 0 || field.Off < 0 || field.Off+field.Width > r.Size {
					return nil, fmt.Errorf("%w: %s.%s is a %s at %d of %d bytes", ErrLayout, r.Name, f.Name, quote(f.Type), f.Off, r.Size)
				}
				if _, ok := l.enums[f.Go]; ok {
					field.enum = f.Go
				}
				if f.Name == "Flags" {
					field.flags = h.Name + map[string]string{"in": "Flag", "out": "Out"}[r.Role]
				}
				rec.Fields = append(rec.Fields, field)
			}
			switch r.Role {
			case "globals":
				hook.Globals = rec
			case "in":
				hook.In = rec
			case "out":
				hook.Out = rec
			}
		}
		if hook.Globals.Size == 0 || hook.In.Size == 0 || hook.Out.Size == 0 {
			return nil, fmt.Errorf("%w: hook %s lacks globals, input or output records", ErrLayout, h.Name)
		}
		l.Hooks = append(l.Hooks, hook)
	}
	if len(l.Hooks) == 0 {
		return nil, fmt.Errorf("%w: no hooks", ErrLayout)
	}
	return l, nil
}

func widthOf(t string) int {
	return map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}[t]
}

// commonPrefix is what all names start with, up to the last capital where they part.
func commonPrefix(names []string) string {
	if len(names) < 2 {
		return ""
	}
	p := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, p) {
			p = p[:len(p)-1]
		}
	}
	// What is left must start with a capital in every name.
	for len(p) > 0 {
		ok := true
		for _, n := range names {
			ok = ok && len(n) > len(p) && n[len(p)] >= 'A' && n[len(p)] <= 'Z'
		}
		if ok {
			return p
		}
		p = p[:len(p)-1]
	}
	return ""
}

// Hook finds a hook's layout.
func (l *Layout) Hook(h abi.Hook) (HookLayout, bool) {
	for _, x := range l.Hooks {
		if x.Hook == h {
			return x, true
		}
	}
	return HookLayout{}, false
}

// HookNamed finds a hook by its lower-case name. The error lists the names.
func (l *Layout) HookNamed(name string) (HookLayout, error) {
	var names []string
	for _, x := range l.Hooks {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	return HookLayout{}, fmt.Errorf("no hook is named %s; the hooks are %s", quote(name), strings.Join(names, ", "))
}

// field finds a field by name.
func (r *Record) field(name string) (Field, bool) {
	for _, f := range r.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// candidates is the globals field that says how many records are answered, where a hook has one.
const candidates = "Candidates"

// Outs is how many output records a batch of n input records with these globals has.
func (h *HookLayout) Outs(n int, globals []byte) int {
	c := n
	if f, ok := h.Globals.field(candidates); ok {
		c = int(min(f.get(globals), abi.MaxRecords+1))
	}
	return abi.Outs(h.Hook, n, c)
}
