package plugins

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"testing"
	"unicode"
	"unicode/utf8"

	"sluice/abi"
)

// bytesMachine is a guest of which there is nothing but memory and what it printed.
type bytesMachine struct {
	machine
	memory, output []byte
}

func (m *bytesMachine) view(at, size uint32) []byte {
	if uint64(at)+uint64(size) > uint64(len(m.memory)) {
		return nil
	}
	return m.memory[at : at+size : at+size]
}

func (m *bytesMachine) printed() []byte { return m.output }

// checked is a slog handler that wants every line to be fit to be shown.
type checked struct {
	t     *testing.T
	lines *uint64
}

func (c checked) Enabled(context.Context, slog.Level) bool { return true }
func (c checked) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c checked) WithGroup(string) slog.Handler            { return c }
func (c checked) Handle(_ context.Context, r slog.Record) error {
	*c.lines++
	if r.Level < slog.LevelDebug || r.Level > slog.LevelError {
		c.t.Errorf("level %v", r.Level)
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "text" {
			return true
		}
		text := a.Value.String()
		if len(text) > 4*maxPrinted || !utf8.ValidString(text) {
			c.t.Errorf("a text of %d bytes: %q", len(text), text)
		}
		for _, r := range text {
			if !unicode.IsPrint(r) {
				c.t.Errorf("%q has %q", text, r)
			}
		}
		return true
	})
	return nil
}

// Whatever lies in the arenas, wherever they lie, and however it changes between two calls: the lines are few, short and
// printable, every one is accounted for, and the memory stays as it is.
func FuzzDrain(f *testing.F) {
	full := bytes.Repeat([]byte{0xFF}, ringBytes)
	f.Add([]byte{}, []byte{}, []byte("hello\n"), uint32(16), uint32(64), uint32(3))
	f.Add(full, full[:200], []byte("\x00\xff\n\n\n"), uint32(0), uint32(0), uint32(64))
	f.Add([]byte("\x05\x00\x00\x00"), full, full[:1024], uint32(1<<16-ringBytes), uint32(1<<16-counterBytes), uint32(65))
	f.Add([]byte("\x00\x00\x00\x80"), []byte{1}, []byte(" "), uint32(1<<16), uint32(math.MaxUint32-15), uint32(0))
	f.Fuzz(func(t *testing.T, first, second, output []byte, log, counters, burst uint32) {
		const calls = 3
		m := &bytesMachine{memory: make([]byte, 1<<16), output: output[:min(len(output), 1<<10)]}
		var n Stats
		var heard uint64
		j := newJournal(LogLimit{Burst: burst})
		j.log = slog.New(checked{t, &heard})
		i := &Instance{machine: m}
		i.arenas.log, i.arenas.counters = log, counters
		i.arenas.keep(m)
		printed := uint64(1 + bytes.Count(m.output, []byte("\n")))
		last := n
		for call := range uint64(calls) {
			fill := [calls][]byte{first, second, first}[call]
			if int(log) < len(m.memory) {
				copy(m.memory[log:], fill)
			}
			if int(counters) < len(m.memory) {
				copy(m.memory[counters:], fill)
			}
			before := bytes.Clone(m.memory)
			i.drain(&n, &j, source{policy: "p", hook: "gate", tick: call})
			i.lastLine()
			if !bytes.Equal(m.memory, before) {
				t.Fatal("the memory changed")
			}
			most := abi.LogEntries + printed
			if call == 0 {
				most *= 2 // and from before the first call
			}
			if lines := n.Lines + n.LinesLimited - last.Lines - last.LinesLimited; lines > most {
				t.Fatalf("%d lines in a call, at most %d can be", lines, most)
			}
			if n.LinesLost-last.LinesLost > 2*math.MaxInt32 {
				t.Fatalf("%d lost in a call", n.LinesLost-last.LinesLost)
			}
			for c := range n.Counters {
				if n.Counters[c] < last.Counters[c] {
					t.Fatalf("counter %d went from %d to %d", c, last.Counters[c], n.Counters[c])
				}
			}
			last = n
		}
		if heard != n.Lines {
			t.Fatalf("%d lines were heard, %d counted", heard, n.Lines)
		}
		if b := uint64(j.limit.Burst); heard > b {
			t.Fatalf("%d lines were heard in %d ticks, the limit is %d", heard, calls, b)
		}
	})
}
