package conformance

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"sluice"
	"sluice/abi"
	"sluice/plugins/kit"
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

	records kit.HookLayout
	layout  *kit.Layout
}

// N is the number of input records.
func (v *Vector) N() int { return len(v.In) / v.records.In.Size }

// Outs is the number of output records.
func (v *Vector) Outs() int { return v.records.Outs(v.N(), v.Globals) }

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
	description, err := sluice.SDK.ReadFile("abi/abi.json")
	if err != nil {
		return nil, err
	}
	layout, err := kit.ParseLayout(description)
	if err != nil {
		return nil, err
	}
	p := parser{lines: bufio.NewScanner(r), layout: layout}
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
	layout  *kit.Layout
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
	records, err := p.layout.HookNamed(hook)
	if err != nil {
		return fmt.Errorf("vector %q: %w", name, err)
	}
	p.vectors = append(p.vectors, Vector{
		Name: name, Hook: records.Hook, Globals: make([]byte, records.Globals.Size), Out: map[string][]byte{},
		records: records, layout: p.layout,
	})
	p.policy = ""
	return nil
}

// end closes the last vector: the number of answers must be what the batch asks for.
func (p *parser) end() error {
	if len(p.vectors) == 0 {
		return nil
	}
	v := &p.vectors[len(p.vectors)-1]
	size := v.records.Out.Size
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
	r := map[string]*kit.Record{"globals": &v.records.Globals, "in": &v.records.In, "out": &v.records.Out}[role]
	b, err := p.encode(r, text)
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

// encode makes a record's bytes of fields, or of hex.
func (p *parser) encode(r *kit.Record, text string) ([]byte, error) {
	if text == "" || strings.Contains(text, "=") {
		return p.layout.ParseRecord(r, text)
	}
	b, err := hex.DecodeString(text)
	if err == nil && len(b) != r.Size {
		err = fmt.Errorf("%d bytes, a %s record has %d", len(b), r.Name, r.Size)
	}
	return b, err
}
