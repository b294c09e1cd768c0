package conformance

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"sluice/abi"
)

// ErrText is what every refused file of vectors wraps.
var ErrText = errors.New("bad vectors")

// Vector is one batch and the answers to it.
type Vector struct {
	Name    string
	Hook    abi.Hook
	Globals []byte            // the globals, of this version's size
	In      []byte            // the input records, at this version's stride
	Out     map[string][]byte // the output records by policy, at this version's stride; "" where no policy is named
}

// N is the number of input records.
func (v *Vector) N() int { return len(v.In) / stride(v.Hook, "in") }

// Outs is the number of output records.
func (v *Vector) Outs() int {
	n := v.N()
	if v.Hook == abi.Admit {
		n = int(abi.GetAdmitGlobals(v.Globals).Candidates)
	}
	return abi.Outs(v.Hook, v.N(), n)
}

// Encode writes globals and inputs into a batch that was begun with N and Outs.
func (v *Vector) Encode(b abi.Batch) {
	copy(b.Globals, v.Globals)
	copy(b.In, v.In)
}

// Read parses a file of vectors. Errors name the file and the line.
func Read(path string) ([]Vector, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	vs, err := Parse(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return vs, nil
}

// Parse reads vectors; see the package for the form. Errors wrap ErrText and name the line.
func Parse(r io.Reader) ([]Vector, error) {
	p := parser{lines: bufio.NewScanner(r)}
	for at := 1; p.lines.Scan(); at++ {
		if err := p.line(strings.TrimSpace(p.lines.Text())); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrText, at, err)
		}
	}
	if err := p.lines.Err(); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrText, err)
	}
	return p.vectors, nil
}

type parser struct {
	lines   *bufio.Scanner
	vectors []Vector
	policy  string
}

func (p *parser) line(text string) error {
	word, rest, _ := strings.Cut(text, " ")
	if word == "" || word[0] == '#' {
		return nil
	}
	if word == "vector" {
		return p.begin(rest)
	}
	if len(p.vectors) == 0 {
		return fmt.Errorf("%q stands before the first vector", word)
	}
	v := &p.vectors[len(p.vectors)-1]
	switch word {
	case "globals", "in", "out":
		return p.record(v, word, rest)
	case "policy":
		p.policy = rest
		v.Out[rest] = nil
		return nil
	}
	return fmt.Errorf("unknown word %q; the words are vector, globals, in, policy and out", word)
}

// begin takes the name, in quotes, and the hook: the word behind the name, or in the golden files the first word of it.
func (p *parser) begin(rest string) error {
	if err := p.end(); err != nil {
		return err
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return fmt.Errorf("the name of the vector must be in quotes: %q", rest)
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return err
	}
	hook := strings.TrimSpace(rest[len(quoted):])
	if hook == "" || strings.Contains(hook, "=") {
		hook, _, _ = strings.Cut(name, " ")
	}
	for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		if h.String() == hook {
			p.vectors = append(p.vectors, Vector{Name: name, Hook: h, Globals: make([]byte, stride(h, "globals")), Out: map[string][]byte{}})
			p.policy = ""
			return nil
		}
	}
	return fmt.Errorf("vector %q is of no hook: %q; hooks are gate, reserve, admit and score", name, hook)
}

// end closes the last vector: the number of answers must be what the batch asks for.
func (p *parser) end() error {
	if len(p.vectors) == 0 {
		return nil
	}
	v := &p.vectors[len(p.vectors)-1]
	size := stride(v.Hook, "out")
	if len(v.Out) == 0 {
		v.Out[""] = nil
	}
	if only, ok := v.Out[""]; ok && v.Hook == abi.Admit {
		g := abi.GetAdmitGlobals(v.Globals)
		g.Candidates = uint32(len(only) / size)
		abi.PutAdmitGlobals(v.Globals, &g)
	}
	for policy, out := range v.Out {
		if len(out) != v.Outs()*size {
			return fmt.Errorf("vector %q has %d answers of policy %q, it needs %d", v.Name, len(out)/size, policy, v.Outs())
		}
	}
	return nil
}

func (p *parser) record(v *Vector, role, text string) error {
	b, err := encode(v.Hook, role, text)
	if err != nil {
		return fmt.Errorf("%s: %w", role, err)
	}
	switch role {
	case "globals":
		v.Globals = b
	case "in":
		v.In = append(v.In, b...)
	case "out":
		v.Out[p.policy] = append(v.Out[p.policy], b...)
	}
	return nil
}

// encode makes a record's bytes of NAME=VALUE fields, or of hex.
func encode(hook abi.Hook, role, text string) ([]byte, error) {
	size := stride(hook, role)
	if text != "" && !strings.Contains(text, "=") {
		b, err := hex.DecodeString(text)
		if err == nil && len(b) != size {
			err = fmt.Errorf("%d bytes, a %s record has %d", len(b), hook, size)
		}
		return b, err
	}
	record, put := layout(hook, role)
	for _, f := range strings.Fields(text) {
		name, digits, _ := strings.Cut(f, "=")
		value, err := strconv.ParseUint(digits, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		field := record.Elem().FieldByName(name)
		if !field.IsValid() {
			return nil, fmt.Errorf("%s has no field %q", record.Elem().Type(), name)
		}
		if field.OverflowUint(value) {
			return nil, fmt.Errorf("%s=%d does not fit its %d bits", name, value, field.Type().Bits())
		}
		field.SetUint(value)
	}
	b := make([]byte, size)
	put(b)
	return b, nil
}

// layout is an empty record and the function that encodes it.
func layout(hook abi.Hook, role string) (reflect.Value, func([]byte)) {
	switch hook.String() + " " + role {
	case "gate globals":
		return layoutOf(abi.PutGateGlobals)
	case "gate in":
		return layoutOf(abi.PutGateRecord)
	case "gate out":
		return layoutOf(abi.PutGateOut)
	case "reserve globals":
		return layoutOf(abi.PutReserveGlobals)
	case "reserve in":
		return layoutOf(abi.PutReserveRecord)
	case "reserve out":
		return layoutOf(abi.PutReserveOut)
	case "admit globals":
		return layoutOf(abi.PutAdmitGlobals)
	case "admit in":
		return layoutOf(abi.PutAdmitRecord)
	case "score globals":
		return layoutOf(abi.PutScoreGlobals)
	case "score in":
		return layoutOf(abi.PutScoreRecord)
	case "score out":
		return layoutOf(abi.PutScoreOut)
	}
	return layoutOf(abi.PutAdmitOut)
}

func layoutOf[T any](put func([]byte, *T)) (reflect.Value, func([]byte)) {
	r := new(T)
	return reflect.ValueOf(r), func(b []byte) { put(b, r) }
}

// stride is the size of the hook's record of that role.
func stride(hook abi.Hook, role string) int {
	sizes := map[string][4]int{
		"globals": {abi.GateGlobalsSize, abi.ReserveGlobalsSize, abi.AdmitGlobalsSize, abi.ScoreGlobalsSize},
		"in":      {abi.GateStride, abi.ReserveStride, abi.AdmitStride, abi.ScoreStride},
		"out":     {abi.GateOutStride, abi.ReserveOutStride, abi.AdmitOutStride, abi.ScoreOutStride},
	}[role]
	switch hook {
	case abi.Gate:
		return sizes[0]
	case abi.Reserve:
		return sizes[1]
	case abi.Score:
		return sizes[3]
	}
	return sizes[2]
}
