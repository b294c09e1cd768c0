package config

import "strings"

// Problem is one mistake, or one warning, and where it was made.
type Problem struct {
	// Source is "FILE:LINE", the flag as "--http.port", the name of an environment variable, or "default".
	Source string
	// Key is the full key, or the section, that the problem is about; empty for a syntax error.
	Key string
	// Text says what is wrong and what to do.
	Text string

	order int // level first, then line
}

// String is "SOURCE: TEXT", or the text alone where the source is not known.
func (p Problem) String() string {
	if p.Source == "" {
		return p.Text
	}
	return p.Source + ": " + p.Text
}

// Problems is the error of Load: everything that is wrong, by source (file, environment, flags) and within a file by line.
type Problems []Problem

// Error lists the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}
