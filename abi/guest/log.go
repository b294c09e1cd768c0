package guest

import "sluice/abi"

// LogBytes is the size of a LOG arena.
const LogBytes = abi.LogRingSize + abi.LogEntries*abi.LogEntrySize

const logText = abi.LogEntrySize - abi.LogTextBytes // where the text of an entry begins

// Log is a view of a LOG arena: the policy writes lines into it, a test reads them back. It allocates nothing. It is for
// one goroutine, as a module instance has one thread.
type Log struct{ p *[LogBytes]byte }

// OpenLog takes the view of the LOG arena at the start of buf; false for fewer bytes than it has.
func OpenLog(buf []byte) (Log, bool) {
	if len(buf) < LogBytes {
		return Log{}, false
	}
	return Log{(*[LogBytes]byte)(buf)}, true
}

func (l Log) ring() LogRing { return LogRing{(*[abi.LogRingSize]byte)(l.p[:])} }

func (l Log) at(k uint32) *[abi.LogEntrySize]byte {
	return (*[abi.LogEntrySize]byte)(l.p[abi.LogRingSize+k%abi.LogEntries*abi.LogEntrySize:])
}

// Written is how many lines were ever written; it wraps after 2^32.
func (l Log) Written() uint32 { return l.ring().Written() }

// Entry reads line number k, counted from 0. Only the last abi.LogEntries lines are there: an older k reads what took its
// place. It allocates the text, so it is for tests.
func (l Log) Entry(k uint32) (abi.LogLevel, string) {
	p := l.at(k)
	e := LogEntry{p}
	return e.Level(), string(p[logText : logText+min(int(e.Length()), abi.LogTextBytes)])
}

// Write writes one line, cut after abi.LogTextBytes bytes.
func (l Log) Write(level abi.LogLevel, text string) { l.Line(level).Text(text).End() }

// Line begins a line that is put together of texts and numbers; End writes it. It is ended before another one begins.
func (l Log) Line(level abi.LogLevel) Line {
	e := LogEntry{l.at(l.Written())}
	e.SetLevel(level)
	e.SetLength(0)
	return Line{l, e}
}

// Line is a line under way. What is past abi.LogTextBytes bytes is cut. It is built where it will be read, so it costs no
// more than its bytes.
type Line struct {
	log Log
	e   LogEntry
}

// Text appends s.
func (n Line) Text(s string) Line {
	have := n.e.Length()
	n.e.SetLength(have + uint8(copy(n.e.p[logText+int(have):], s)))
	return n
}

// Uint appends x in decimal.
func (n Line) Uint(x uint64) Line {
	unit := uint64(1)
	for x/unit >= 10 {
		unit *= 10
	}
	for ; unit > 0; unit /= 10 {
		n.put('0' + byte(x/unit%10))
	}
	return n
}

// Int appends x in decimal, with a minus sign where it is negative.
func (n Line) Int(x int64) Line {
	if x < 0 {
		n.put('-')
		return n.Uint(-uint64(x))
	}
	return n.Uint(uint64(x))
}

func (n Line) put(c byte) {
	if have := n.e.Length(); have < abi.LogTextBytes {
		n.e.p[logText+have] = c
		n.e.SetLength(have + 1)
	}
}

// End writes the line: from now on the host sees it.
func (n Line) End() { n.log.ring().SetWritten(n.log.Written() + 1) }
