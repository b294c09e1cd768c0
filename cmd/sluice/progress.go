package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// quietFor is how long a command that writes to no terminal says nothing of how far it is.
const quietFor = 10 * time.Second

// progress tells on standard error how far a long command is.
type progress struct {
	to    io.Writer
	now   func() time.Duration
	after time.Duration // on the clock of now; nothing is said before
}

func newProgress(env *environment) *progress {
	p := &progress{to: env.stderr, now: env.clock.Now}
	if !terminal(env.stderr) {
		p.after = p.now() + quietFor
	}
	return p
}

// say writes a line. What cannot be written is lost, and the command goes on.
func (p *progress) say(format string, args ...any) {
	if p.now() >= p.after {
		fmt.Fprintf(p.to, format+"\n", args...)
	}
}

// terminal says whether somebody may be looking.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
