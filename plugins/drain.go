package plugins

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math"

	"sluice/abi"
	"sluice/internal/text"
)

const (
	ringBytes    = abi.LogRingSize + abi.LogEntries*abi.LogEntrySize
	counterBytes = 8 * abi.Counters
)

// talker is a Caller whose policy logs and counts.
type talker interface {
	// drain adds to n what the policy counted since the last drain, and has j pass on what it logged and printed. It
	// allocates nothing but for lines that are passed on.
	drain(n *Stats, j *journal, s source)
	// lastLine is the last line that the last drain found in the log, "" where it found none.
	lastLine() string
}

var _ talker = (*Instance)(nil)

// arenas is what the host knows of an instance's LOG and COUNTERS arenas. It only ever reads them, so the guest, and the
// hash of its memory, are the same whether anybody looks or not. Both lie where the guest says, and what is in them is
// anything: an address is held against the memory at each look, and every number is cut to its range.
type arenas struct {
	log, counters uint32 // addresses; 0: the policy has none
	written       uint32 // LogRing.Written at the last look
	fresh         uint32 // entries that the last look found
	seen          [counterBytes]byte
	early         []earlyLine // from before the first batch
	overwritten   uint64      // entries from then that could not be read
}

type earlyLine struct {
	level slog.Level
	text  []byte
}

// look returns the bytes of the LOG arena with the first of the entries that are new in it, their number, at most
// abi.LogEntries, and how many more were overwritten. A number of entries that falls is no news: they are counted on from
// there.
func (a *arenas) look(m machine) (ring []byte, first, n uint32, lost uint64) {
	a.fresh = 0
	if a.log == 0 {
		return nil, 0, 0, 0
	}
	ring = m.view(a.log, ringBytes)
	if ring == nil {
		return nil, 0, 0, 0
	}
	written := abi.GetLogRing(ring).Written
	n = written - a.written
	a.written = written
	if n > math.MaxInt32 {
		return nil, 0, 0, 0
	}
	if n > abi.LogEntries {
		lost, n = uint64(n-abi.LogEntries), abi.LogEntries
	}
	a.fresh = n
	return ring, written - n, n, lost
}

// logEntry is number k of all entries that were ever written.
func logEntry(ring []byte, k uint32) (slog.Level, []byte) {
	at := ring[abi.LogRingSize+k%abi.LogEntries*abi.LogEntrySize:][:abi.LogEntrySize]
	e := abi.GetLogEntry(at)
	text := at[abi.LogEntrySize-abi.LogTextBytes:]
	return logLevel(e.Level), text[:min(int(e.Length), len(text))]
}

// count adds to sums by how much the counters have risen since the last look. One that fell adds nothing and is counted
// on from there: a policy's counters never go down, so it means nothing. A sum stays at its largest.
func (a *arenas) count(m machine, sums *[abi.Counters]uint64) {
	if a.counters == 0 {
		return
	}
	now := m.view(a.counters, counterBytes)
	if now == nil || bytes.Equal(now, a.seen[:]) {
		return
	}
	for i := range sums {
		was, is := binary.LittleEndian.Uint64(a.seen[8*i:]), binary.LittleEndian.Uint64(now[8*i:])
		if is > was {
			sums[i] += min(is-was, math.MaxUint64-sums[i])
		}
	}
	copy(a.seen[:], now)
}

// keep copies what the guest logged and printed before the first batch, since a batch may overwrite it.
func (a *arenas) keep(m machine) {
	ring, first, n, lost := a.look(m)
	for k := first; k != first+n; k++ {
		level, text := logEntry(ring, k)
		a.early = append(a.early, earlyLine{level, bytes.Clone(text)})
	}
	a.overwritten += lost
	for line, rest := nextLine(m.printed()); len(line) > 0; line, rest = nextLine(rest) {
		a.early = append(a.early, earlyLine{slog.LevelDebug, bytes.Clone(line)})
	}
}

// drain implements talker. What was said in configure comes out with the first call.
func (i *Instance) drain(n *Stats, j *journal, s source) {
	a := &i.arenas
	if len(a.early) > 0 || a.overwritten > 0 {
		before := s
		before.hook = "configure"
		j.overwritten(n, a.overwritten)
		for _, l := range a.early {
			j.line(n, &before, l.level, l.text)
		}
		a.early, a.overwritten = nil, 0
	}
	ring, first, lines, lost := a.look(i.machine)
	if lost > 0 {
		j.overwritten(n, lost)
	}
	for k := first; k != first+lines; k++ {
		level, text := logEntry(ring, k)
		j.line(n, &s, level, text)
	}
	for line, rest := nextLine(i.machine.printed()); len(line) > 0; line, rest = nextLine(rest) {
		j.line(n, &s, slog.LevelDebug, line)
	}
	a.count(i.machine, &n.Counters)
}

// lastLine implements talker.
func (i *Instance) lastLine() string {
	a := &i.arenas
	if a.fresh == 0 {
		return ""
	}
	ring := i.machine.view(a.log, ringBytes)
	if ring == nil {
		return ""
	}
	_, said := logEntry(ring, a.written-1)
	return text.Escape(string(said))
}
