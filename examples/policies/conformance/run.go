package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"sluice/abi"
	"sluice/plugins"
)

// ErrAnswer is what a wrong answer wraps.
var ErrAnswer = errors.New("answer differs from the vector")

// Run gives the vectors to one instance in their order and compares its answers with those of the named policy; "" are the
// answers of a file that names none. Errors name the vector and the first record that differs.
func Run(c plugins.Caller, vs []Vector, policy string) error {
	ran := 0
	for i := range vs {
		v := &vs[i]
		want, ok := v.Out[policy]
		if !ok {
			continue
		}
		ran++
		got, err := Answer(c, uint64(i)+1, v)
		if err != nil {
			return fmt.Errorf("vector %q: %w", v.Name, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("vector %q: %w", v.Name, difference(v, got, want))
		}
	}
	if ran == 0 {
		return fmt.Errorf("%w: none of the %d vectors has answers of policy %q", ErrText, len(vs), policy)
	}
	return nil
}

// Answer runs one vector and returns the output records. A status other than OK is an error.
func Answer(c plugins.Caller, tick uint64, v *Vector) ([]byte, error) {
	b, err := c.Begin(v.Hook, tick, 1, v.N(), v.Outs())
	if err != nil {
		return nil, err
	}
	v.Encode(b)
	status, err := c.Call(v.Hook)
	if err != nil {
		return nil, err
	}
	if status != abi.StatusOK {
		return nil, fmt.Errorf("%w: status %s", ErrAnswer, status)
	}
	if b, err = c.Answer(); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Out), nil
}

// difference names the first records that differ, field by field.
func difference(v *Vector, got, want []byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("%w: %d bytes, want %d", ErrAnswer, len(got), len(want))
	}
	lines := v.layout.Diff(&v.records, got, want, [2]string{"is", "want"}, 3)
	return fmt.Errorf("%w: %s", ErrAnswer, strings.Join(lines, "; "))
}
