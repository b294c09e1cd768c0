package conformance_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins/standard"
)

// The sizes of the arenas that a policy need not have, as the host asks for them.
const (
	logBytes      = abi.LogRingSize + abi.LogEntries*abi.LogEntrySize
	countersBytes = 8 * abi.Counters
	keptBytes     = 16 // the most state of a talker
)

const stateTaken = "state taken over, € and 🌊 whole"

// said is what a talker's arenas must hold: the rules of abi/testdata/talker/README.md, written down once more with none of
// the SDKs.
type said struct {
	log      [logBytes]byte
	counters [2]uint64
	seen     uint64
}

func (s *said) line(level abi.LogLevel, text string) {
	written := binary.LittleEndian.Uint32(s.log[:])
	e := s.log[abi.LogRingSize+written%abi.LogEntries*abi.LogEntrySize:][:abi.LogEntrySize]
	e[0] = byte(level)
	e[1] = byte(copy(e[abi.LogEntrySize-abi.LogTextBytes:], text))
	binary.LittleEndian.PutUint32(s.log[:], written+1)
}

func (s *said) gate(b abi.Batch) {
	n := int(b.Info().N)
	ready := 0
	for i := range n {
		if b.GateOut(i).Vote == abi.PollSuccess {
			ready++
		}
	}
	s.seen += uint64(n)
	s.counters[0] += uint64(n)
	s.counters[1] += uint64(ready)
	if n > 0 {
		s.line(abi.LogLevel(n%4), fmt.Sprintf("gate of %d records, ready against all: %d", n, ready-n))
	}
	if n >= 8 {
		s.line(abi.LogDebug, fmt.Sprintf("a long line is cut at the end of its entry, wherever that is; "+
			"what lies before it stays as it is. Records up to now: %déé", s.seen))
	}
}

// talker is a module beside what it must have said.
type talker struct {
	raw
	log, counters uint32 // addresses
	want          said
}

// newTalker asks for the arenas before configure, as the host does.
func newTalker(t *testing.T, wasm []byte) *talker {
	t.Helper()
	r := newRaw(t, wasm)
	x := &talker{raw: r, log: r.arena(abi.ArenaLog, logBytes), counters: r.arena(abi.ArenaCounters, countersBytes)}
	for _, at := range []uint32{x.log, x.counters} {
		if at == 0 || at%abi.Align != 0 {
			t.Fatalf("the LOG arena is at %#x, COUNTERS at %#x", x.log, x.counters)
		}
	}
	info := r.arena(abi.ArenaHostInfo, abi.HostInfoSize)
	record := make([]byte, abi.HostInfoSize)
	abi.PutHostInfo(record, &abi.HostInfo{Major: abi.Major, Minor: abi.Minor})
	if !r.module.Memory().Write(info, record) {
		t.Fatal("the HOSTINFO arena is not in memory")
	}
	if status := r.call("sluice_configure", uint64(info)); status != 0 {
		t.Fatalf("sluice_configure: status %d", int32(status))
	}
	x.judge("at the start")
	return x
}

// read copies an arena.
func (x *talker) read(at, size uint32) []byte {
	x.t.Helper()
	b, ok := x.module.Memory().Read(at, size)
	if !ok {
		x.t.Fatalf("%d bytes at %#x are not in memory", size, at)
	}
	return bytes.Clone(b)
}

// judge compares the whole arenas.
func (x *talker) judge(when string) {
	x.t.Helper()
	if got := x.read(x.log, logBytes); !bytes.Equal(got, x.want.log[:]) {
		for off := 0; off < len(got); off += 16 {
			if w := x.want.log[off : off+16]; !bytes.Equal(got[off:off+16], w) {
				x.t.Fatalf("%s: the LOG arena differs at %d: %q, want %q", when, off, got[off:off+16], w)
			}
		}
	}
	want := make([]byte, countersBytes)
	for i, c := range x.want.counters {
		binary.LittleEndian.PutUint64(want[8*i:], c)
	}
	got := x.read(x.counters, countersBytes)
	for i := 0; i < countersBytes; i += 8 {
		if !bytes.Equal(got[i:i+8], want[i:i+8]) {
			x.t.Fatalf("%s: counter %d is %x, want %x", when, i/8, got[i:i+8], want[i:i+8])
		}
	}
}

// run gives it a batch of n records and compares its answers with the native gate's.
func (x *talker) run(n int) {
	x.t.Helper()
	batch := make([]byte, abi.BatchSize(abi.Gate, n, n))
	b, err := abi.Begin(batch, abi.Gate, x.want.seen, 1, n, n)
	if err != nil {
		x.t.Fatal(err)
	}
	for i := range n {
		b.PutGate(i, &abi.GateRecord{RawPoll: abi.Poll((i + n) % 5), Restore: abi.RestoreStatus((i + n) % 3)})
	}
	native, ok := standard.Gate("restore-gated")
	if !ok {
		x.t.Fatal("no native gate")
	}
	status, after := x.gate(batch)
	if natively := guest.RunGate(native, batch); status != natively || !bytes.Equal(after, batch) {
		x.t.Fatalf("%d records: status %d, natively %d; answers equal: %v", n, status, natively, bytes.Equal(after, batch))
	}
	x.want.gate(b)
	x.judge(fmt.Sprintf("after %d records of %d", n, x.want.seen))
}

// save returns the status and the state as the host reads it.
func (x *talker) save(limit uint32) (abi.Status, []byte) {
	x.t.Helper()
	out, err := x.module.ExportedFunction("sluice_state_save").Call(context.Background(), uint64(limit))
	if err != nil {
		x.t.Fatalf("sluice_state_save: %v", err)
	}
	status, n := abi.Status(int64(out[0])>>32), uint32(out[0])
	if status != abi.StatusOK {
		return status, nil
	}
	return status, x.read(x.arena(abi.ArenaState, n), n)
}

func (x *talker) load(state []byte, schema uint32) abi.Status {
	x.t.Helper()
	at := x.arena(abi.ArenaState, uint32(len(state)))
	if at == 0 || at%abi.Align != 0 || !x.module.Memory().Write(at, state) {
		x.t.Fatalf("the STATE arena at %#x does not take %d bytes", at, len(state))
	}
	return abi.Status(int32(x.call("sluice_state_load", uint64(len(state)), uint64(schema))))
}

// saves compares the whole of what it would hand to a successor.
func (x *talker) saves() {
	x.t.Helper()
	want := binary.LittleEndian.AppendUint64(nil, x.want.seen)
	for _, limit := range []uint32{8, keptBytes, abi.MaxStateBytes, 1<<32 - 1} {
		if status, got := x.save(limit); status != abi.StatusOK || !bytes.Equal(got, want) {
			x.t.Fatalf("with a limit of %d it saves %x with status %s, want %x", limit, got, status, want)
		}
	}
	for _, limit := range []uint32{0, 7} {
		if status, _ := x.save(limit); status != abi.StatusNoCapacity {
			x.t.Errorf("with a limit of %d: status %s", limit, status)
		}
	}
}

// talks runs everything on one module.
func talks(t *testing.T, wasm []byte) {
	t.Helper()
	first := newTalker(t, wasm)
	// The state is of one, two and three digits where a long line is cut; the numbers of the lines go round the ring twice.
	for _, n := range []int{0, 9, 1, 2, 3, 0, 4, 8, 25, 60, 7, 900, 11} {
		first.run(n)
	}
	for n := range 2 * abi.LogEntries {
		first.run(n % 11)
	}
	first.saves()
	first.judge("after a save")

	second := newTalker(t, wasm)
	if status := second.load(first.read(first.arena(abi.ArenaState, 8), 8), 1); status != abi.StatusOK {
		t.Fatalf("a state of the same policy: status %s", status)
	}
	second.want.seen = first.want.seen
	second.want.line(abi.LogInfo, stateTaken)
	second.judge("after a load")
	second.run(12)
	second.saves()
	for _, tc := range []struct {
		name   string
		state  []byte
		schema uint32
		want   abi.Status
	}{
		{"an unknown schema", make([]byte, 8), 3, abi.StatusDeclined},
		{"no schema", make([]byte, 8), 0, abi.StatusDeclined},
		{"a schema that is known in its low byte", make([]byte, 8), 1<<8 | 1, abi.StatusDeclined},
		{"schema 1 with the size of schema 2", make([]byte, 16), 1, abi.StatusDeclined},
		{"schema 2 with the size of schema 1", make([]byte, 8), 2, abi.StatusDeclined},
		{"a short state", make([]byte, 7), 1, abi.StatusDeclined},
	} {
		if status := second.load(tc.state, tc.schema); status != tc.want {
			t.Errorf("%s: status %s, want %s", tc.name, status, tc.want)
		}
		second.want.line(abi.LogWarn, "this state is of no use here")
		second.judge("after " + tc.name)
		second.saves()
	}

	third := newTalker(t, wasm)
	if status := third.load(append(binary.LittleEndian.AppendUint64(nil, 1<<40+5), "and more"...), 2); status != abi.StatusOK {
		t.Fatalf("a state of the older schema: status %s", status)
	}
	third.want.seen = 1<<40 + 5
	third.want.line(abi.LogInfo, stateTaken)
	third.run(8)
	third.saves()
	third.refuses(map[abi.Arena]uint32{abi.ArenaLog: logBytes, abi.ArenaCounters: countersBytes, abi.ArenaState: keptBytes, abi.ArenaOut: 0})
}

// refuses looks at the largest request that each kind of arena grants.
func (r raw) refuses(most map[abi.Arena]uint32) {
	r.t.Helper()
	for kind, size := range most {
		for _, bytes := range []uint32{size + 1, 1 << 20, 1 << 31, 1<<32 - 1} {
			if at := r.arena(kind, bytes); at != 0 {
				r.t.Errorf("a %s arena of %d bytes is granted at %#x, it has %d", kind, bytes, at, size)
			}
		}
		if size == 0 {
			continue
		}
		at := r.arena(kind, size)
		if again := r.arena(kind, 1); at == 0 || again != at {
			r.t.Errorf("the %s arena of %d bytes is at %#x, of one byte at %#x", kind, size, at, again)
		}
	}
}

// quiet is a module that uses none of this: it offers none of the arenas, and saves nothing.
func quiet(t *testing.T, wasm []byte) {
	t.Helper()
	r := newRaw(t, wasm)
	r.refuses(map[abi.Arena]uint32{abi.ArenaLog: 0, abi.ArenaCounters: 0, abi.ArenaState: 0, abi.ArenaOut: 0})
	for _, name := range []string{"sluice_state_save", "sluice_state_load"} {
		if r.module.ExportedFunction(name) != nil {
			t.Errorf("it exports %s", name)
		}
	}
}

func TestFrozenTalkersSayTheSame(t *testing.T) {
	for _, dir := range releases(t) {
		files, err := filepath.Glob(filepath.Join(dir, "talker-*.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) < 4 { // C, Rust, AssemblyScript and Zig; a Go module is too large to keep twice
			t.Errorf("%s has %d talkers, want one of each language but Go", filepath.Base(dir), len(files))
		}
		for _, path := range files {
			t.Run(filepath.Base(dir)+"/"+filepath.Base(path), func(t *testing.T) {
				wasm, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				runVectors(t, wasm, golden(t, abi.Gate), "restore-gated")
				talks(t, wasm)
			})
		}
	}
}

// The judge itself: each way to say something else is found.
func TestWhatATalkerMustSay(t *testing.T) {
	var s said
	buf := make([]byte, abi.BatchSize(abi.Gate, 9, 9))
	b, err := abi.Begin(buf, abi.Gate, 0, 1, 9, 9)
	if err != nil {
		t.Fatal(err)
	}
	abi.PutGateOut(b.Out, &abi.GateOut{Vote: abi.PollSuccess})
	s.gate(b)
	if got := abi.GetLogRing(s.log[:]); got.Written != 2 {
		t.Errorf("%d lines", got.Written)
	}
	l, ok := guest.OpenLog(s.log[:])
	if !ok {
		t.Fatal("no log")
	}
	if level, text := l.Entry(0); level != abi.LogInfo || text != "gate of 9 records, ready against all: -8" {
		t.Errorf("%s %q", level, text)
	}
	if level, text := l.Entry(1); level != abi.LogDebug || len(text) != abi.LogTextBytes || text[116:] != " 9é" {
		t.Errorf("%s %q", level, text)
	}
	if s.counters != [2]uint64{9, 1} || s.seen != 9 {
		t.Errorf("counters %v, seen %d", s.counters, s.seen)
	}
}
