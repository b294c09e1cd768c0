package kit

import (
	"context"
	"fmt"
	"strings"

	"sluice/abi"
	"sluice/plugins/manifest"
)

// Failure is one vector that a policy does not answer as expected.
type Failure struct {
	Vector string
	Line   int
	Lines  []string // what differs, field by field
}

// said is an answer by value.
type said struct {
	out    []byte
	status abi.Status
	fault  string
	why    string
	about  *manifest.Manifest // what the side that answered says about itself, nil where that is nothing
}

// ask has p answer v. A hook that p lacks is an error.
func (v *Vector) ask(ctx context.Context, p *Policy) (said, error) {
	if v.Fresh {
		if err := p.Fresh(ctx); err != nil {
			return said{}, err
		}
	}
	a, err := p.Ask(v.Hook.Hook, v.Tick, v.Epoch, v.N, v.NOut, v.encode)
	if err != nil {
		return said{}, fmt.Errorf("%w: line %d: %w", ErrVectors, v.Line, err)
	}
	s := said{out: a.Out, status: a.Status}
	if a.Fault != nil {
		s.fault, s.why = a.Fault.Class.String(), a.Fault.Error()
	}
	return s, nil
}

// diffLines bounds the records of one vector that are told apart in words.
const diffLines = 8

// Run has a policy answer every vector, in order, and returns those that it answers otherwise than expected. An error is
// a vector that cannot be asked: the policy lacks its hook, or no answer is expected of it.
func (f *File) Run(ctx context.Context, p *Policy) ([]Failure, error) {
	var failed []Failure
	for i := range f.Vectors {
		v := &f.Vectors[i]
		if !v.Answered() {
			return failed, fmt.Errorf("%w: line %d: vector %s says no answer; add out lines, or have --rewrite write them", ErrVectors, v.Line, quote(v.Name))
		}
		s, err := v.ask(ctx, p)
		if err != nil {
			return failed, err
		}
		if lines := f.layout.judge(v, s); len(lines) > 0 {
			failed = append(failed, Failure{Vector: v.Name, Line: v.Line, Lines: lines})
		}
	}
	return failed, nil
}

func (l *Layout) judge(v *Vector, s said) []string {
	var lines []string
	switch {
	case v.Fault != "" && s.fault == "":
		return []string{"the policy answers, want the fault " + v.Fault}
	case v.Fault != "" && s.fault != v.Fault:
		return []string{fmt.Sprintf("fault is %s, want %s: %s", s.fault, v.Fault, s.why)}
	case v.Fault != "":
		return nil
	case s.fault != "":
		return []string{"the policy fails: " + s.why}
	case s.status == abi.StatusDeclined && !v.Declined:
		return []string{"the policy declines, want an answer"}
	case s.status != v.Status:
		lines = append(lines, fmt.Sprintf("status is %d, want %d", s.status, v.Status))
	}
	if v.Declined {
		return lines
	}
	return append(lines, l.Diff(&v.Hook, s.out, v.Out, [2]string{"is", "want"}, diffLines)...)
}

// Rewrite has a policy answer every vector and returns the file's text with these answers in the place of the expected
// ones; comments, inputs and order stay as they are.
func (f *File) Rewrite(ctx context.Context, p *Policy) (string, error) {
	after := map[int][]string{} // answer lines that follow a line
	drop := map[int]bool{}
	for i := range f.Vectors {
		v := &f.Vectors[i]
		s, err := v.ask(ctx, p)
		if err != nil {
			return "", err
		}
		var lines []string
		switch {
		case s.fault != "":
			lines = append(lines, "fault "+s.fault)
		case s.status == abi.StatusDeclined:
			lines = append(lines, "declined")
		default:
			if s.status != abi.StatusOK {
				lines = append(lines, fmt.Sprintf("status %d", s.status))
			}
			for k := range v.NOut {
				lines = append(lines, strings.TrimSpace("out "+f.layout.format(&v.Hook.Out, at(s.out, k, v.Hook.Out.Size))))
			}
		}
		for _, k := range v.answers {
			drop[k] = true
		}
		after[v.last] = lines
	}
	var out strings.Builder
	for i, line := range f.lines {
		if !drop[i] {
			out.WriteString(line + "\n")
		}
		for _, a := range after[i] {
			out.WriteString(a + "\n")
		}
	}
	return out.String(), nil
}

// AppendVector appends a batch in the format of vector files, without an answer.
func (l *Layout) AppendVector(text []byte, name string, h *HookLayout, tick, epoch uint64, globals, in []byte) []byte {
	text = fmt.Appendf(text, "vector %q %s tick=%d epoch=%d\n", name, h.Name, tick, epoch)
	text = fmt.Appendf(text, "%s\n", strings.TrimSpace("globals "+l.format(&h.Globals, globals)))
	for i := range len(in) / h.In.Size {
		text = fmt.Appendf(text, "%s\n", strings.TrimSpace("in "+l.format(&h.In, at(in, i, h.In.Size))))
	}
	return text
}
