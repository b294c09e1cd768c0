package kit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice/abi"
)

// ErrVectors is what every error in a vector file wraps; its text begins with the line's number.
var ErrVectors = errors.New("vectors")

// VectorHelp documents the format of vector files.
const VectorHelp = `A vector file is text, one thing a line; # begins a comment, in quotes too.

  vector "NAME" HOOK [tick=N] [epoch=N]   a batch, with its lines below it
  globals Field=value ...                 its globals
  in Field=value ...                      an input record
  out Field=value ...                     the expected output record, one for each that the hook answers
  status N                                the expected status; 0 where the line is missing
  declined                                instead of out: the policy leaves the answer to the native one
  fault CLASS                             instead of out: the policy fails so, trap or out_of_fuel say
  fresh                                   between vectors: go on with an instance that has seen nothing

Fields are those of abi/README.md; one that is not named is zero. Values are numbers, or the names of the ABI without
their prefix: RawPoll=Success, Restore=Pending, Flags=SetAside|Staged, Vote=Transferring. Tick and epoch are 1 unless they
are given. In an admit vector Candidates is the number of input records before the first Kind=Running, unless it is given.
The vectors of a file run in order on one instance of each class, local and replicated.
`

// File is a parsed vector file.
type File struct {
	Vectors []Vector

	layout *Layout
	lines  []string
}

// Vector is one batch and the answer that is expected of it.
type Vector struct {
	Name        string
	Hook        HookLayout
	Tick, Epoch uint64
	Globals, In []byte // as in a batch
	N, NOut     int    // input and output records
	Out         []byte // expected output records; nil where Declined or Fault is
	Status      abi.Status
	Declined    bool
	Fault       string // expected fault class
	Fresh       bool   // begins on an instance that has seen nothing
	Line        int    // where it begins, from 1

	last     int   // index of its last line that is not an answer
	answers  []int // indices of its answer lines
	outGiven int
}

// ParseVectors reads a vector file. Errors wrap ErrVectors and name the line.
func (l *Layout) ParseVectors(text string) (*File, error) {
	f := &File{layout: l, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	p := vectorParser{layout: l, file: f}
	for i, line := range f.lines {
		if err := p.line(i, line); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrVectors, i+1, err)
		}
	}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrVectors, p.v.Line, err)
	}
	if len(f.Vectors) == 0 {
		return nil, fmt.Errorf("%w: line 1: no vector in the file; begin one with: vector \"NAME\" HOOK", ErrVectors)
	}
	return f, nil
}

type vectorParser struct {
	layout *Layout
	file   *File
	v      *Vector
	fresh  bool
}

func (p *vectorParser) line(i int, line string) error {
	line, _, _ = strings.Cut(line, "#")
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "":
		return nil
	case "vector":
		if err := p.end(); err != nil {
			return err
		}
		return p.begin(i, rest)
	case "fresh":
		if rest != "" {
			return fmt.Errorf("fresh stands alone, not with %s", quote(rest))
		}
		err := p.end()
		p.v, p.fresh = nil, true
		return err
	}
	if p.v == nil {
		return fmt.Errorf("%s outside a vector; begin one with: vector \"NAME\" HOOK", quote(word))
	}
	return p.part(i, word, rest)
}

func (p *vectorParser) begin(i int, rest string) error {
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return fmt.Errorf("a vector is begun with: vector \"NAME\" HOOK, not %s", quote(rest))
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return err
	}
	words := strings.Fields(rest[len(quoted):])
	if len(words) == 0 {
		return fmt.Errorf("vector %s names no hook", quote(name))
	}
	h, err := p.layout.HookNamed(words[0])
	if err != nil {
		return err
	}
	v := Vector{Name: name, Hook: h, Tick: 1, Epoch: 1, Line: i + 1, last: i, Fresh: p.fresh}
	for _, w := range words[1:] {
		key, s, _ := strings.Cut(w, "=")
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil || key != "tick" && key != "epoch" {
			return fmt.Errorf("%s is neither tick=N nor epoch=N", quote(w))
		}
		if key == "tick" {
			v.Tick = n
		} else {
			v.Epoch = n
		}
	}
	p.fresh = false
	p.file.Vectors = append(p.file.Vectors, v)
	p.v = &p.file.Vectors[len(p.file.Vectors)-1]
	return nil
}

func (p *vectorParser) part(i int, word, rest string) error {
	v := p.v
	switch word {
	case "globals":
		if v.Globals != nil {
			return errors.New("the globals are given twice")
		}
		rec, err := p.layout.parse(&v.Hook.Globals, strings.Fields(rest))
		if err != nil {
			return err
		}
		if f, ok := v.Hook.Globals.field(candidates); ok && !strings.Contains(rest, candidates+"=") {
			f.put(rec, f.largest()) // counted at the end
		}
		v.Globals, v.last = rec, i
	case "in":
		if v.N++; v.N > abi.MaxRecords {
			return fmt.Errorf("more than %d input records", abi.MaxRecords)
		}
		rec, err := p.layout.parse(&v.Hook.In, strings.Fields(rest))
		if err != nil {
			return err
		}
		v.In, v.last = append(v.In, rec...), i
	case "out":
		rec, err := p.layout.parse(&v.Hook.Out, strings.Fields(rest))
		if err != nil {
			return err
		}
		v.Out, v.outGiven = append(v.Out, rec...), v.outGiven+1
		v.answers = append(v.answers, i)
	case "status":
		n, err := strconv.ParseInt(rest, 0, 32)
		if err != nil || n < 0 || n > 255 {
			return fmt.Errorf("status is %s, must be 0 to 255; a negative one is: declined, or: fault bad_status", quote(rest))
		}
		v.Status = abi.Status(n)
		v.answers = append(v.answers, i)
	case "declined":
		v.Declined, v.Status = true, abi.StatusDeclined
		v.answers = append(v.answers, i)
	case "fault":
		if faultByte(rest) == 0 {
			return fmt.Errorf("fault names the class %s; the classes are %s", quote(rest), faultNames())
		}
		v.Fault = rest
		v.answers = append(v.answers, i)
	default:
		return fmt.Errorf("%s is none of vector, globals, in, out, status, declined, fault and fresh", quote(word))
	}
	return nil
}

// end checks and completes the vector under way.
func (p *vectorParser) end() error {
	v := p.v
	if v == nil {
		return nil
	}
	f, counted := v.Hook.Globals.field(candidates)
	if v.Globals == nil {
		v.Globals = make([]byte, v.Hook.Globals.Size)
		if counted {
			f.put(v.Globals, f.largest())
		}
	}
	if counted {
		if f.get(v.Globals) == f.largest() {
			f.put(v.Globals, uint64(p.countCandidates()))
		}
		if c := f.get(v.Globals); c > uint64(v.N) {
			return fmt.Errorf("vector %s has %d candidates and %d input records", quote(v.Name), c, v.N)
		}
	}
	v.NOut = v.Hook.Outs(v.N, v.Globals)
	if v.Declined || v.Fault != "" {
		if v.outGiven > 0 || v.Declined && v.Fault != "" {
			return fmt.Errorf("vector %s expects two things at once: out records, declined and fault exclude each other", quote(v.Name))
		}
		return nil
	}
	if v.outGiven != v.NOut && len(v.answers) > 0 {
		return fmt.Errorf("vector %s has %d out records, the hook answers %d; sluice policy test --rewrite writes them", quote(v.Name), v.outGiven, v.NOut)
	}
	return nil
}

// countCandidates counts the leading input records that stand for no running request.
func (p *vectorParser) countCandidates() int {
	v := p.v
	kind, ok := v.Hook.In.field("Kind")
	for i := range v.N {
		if ok && p.layout.text(kind, kind.get(v.In[i*v.Hook.In.Size:])) == "Running" {
			return i
		}
	}
	return v.N
}

// Answered says whether the file says what is expected of the vector.
func (v *Vector) Answered() bool { return len(v.answers) > 0 || v.NOut == 0 }

func (v *Vector) encode(b abi.Batch) {
	copy(b.Globals, v.Globals)
	copy(b.In, v.In)
}
