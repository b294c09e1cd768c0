package kit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"sluice/abi"
	"sluice/plugins/kit"
)

// slowFile takes the head of a record at once and every later write only once it is let through.
type slowFile struct {
	bytes.Buffer
	began  chan struct{} // a write waits
	gate   chan struct{} // closed: writes go through
	fail   error         // of every write after the head
	closed int
}

func newSlowFile() *slowFile {
	return &slowFile{began: make(chan struct{}, 1), gate: make(chan struct{})}
}

func (f *slowFile) Write(p []byte) (int, error) {
	if f.Len() == 0 {
		return f.Buffer.Write(p)
	}
	select {
	case f.began <- struct{}{}:
	default:
	}
	<-f.gate
	if f.fail != nil {
		return 0, f.fail
	}
	return f.Buffer.Write(p)
}

func (f *slowFile) Close() error { f.closed++; return nil }

func ticksOf(t *testing.T, data []byte) map[uint32][]uint64 {
	t.Helper()
	r, err := kit.NewRecordReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint32][]uint64{}
	for {
		var f kit.Frame
		err := r.Next(&f)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[f.Rank] = append(out[f.Rank], f.Tick)
	}
}

// frameBytes is the size in a file of the frames that say writes.
const frameBytes = 8 + 36 + 100

func say(r *kit.Recorder, tick uint64) {
	r.Output(kit.Frame{Tick: tick, Hook: abi.Gate, Answer: make([]byte, 100)})
}

// While the disk takes nothing, a rank goes on: what fits waits, the rest is dropped and counted.
func TestRecordingNeverWaitsForTheDisk(t *testing.T) {
	f := newSlowFile()
	r, err := kit.NewRecording(f, kit.RecordingOptions{Ranks: 2, Buffer: 10 * frameBytes})
	if err != nil {
		t.Fatal(err)
	}
	say(r.Rank(0), 0)
	<-f.began // the goroutine has frame 0 and is stuck with it
	for tick := range uint64(100) {
		say(r.Rank(0), 1+tick)
	}
	say(r.Rank(1), 7) // the other rank has room of its own
	if got := r.Dropped(); got != 90 {
		t.Errorf("%d frames were dropped, want 90", got)
	}
	close(f.gate)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	say(r.Rank(0), 1000) // after the end
	got := ticksOf(t, f.Bytes())
	if w, d := r.Written(), r.Dropped(); len(got[0]) != 11 || got[0][10] != 10 || len(got[1]) != 1 || w != 12 || d != 91 {
		t.Errorf("the file has %v; %d written, %d dropped", got, w, d)
	}
	if err := r.Close(); err != nil || f.closed != 1 {
		t.Errorf("a second close: %v, the file was closed %d times", err, f.closed)
	}
}

func TestRecordingEndsWithTheFirstError(t *testing.T) {
	f := newSlowFile()
	f.fail = errors.New("no space left")
	close(f.gate)
	var log bytes.Buffer
	r, err := kit.NewRecording(f, kit.RecordingOptions{Ranks: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	const frames = 50
	for tick := range uint64(frames) {
		say(r.Rank(0), tick)
	}
	for range 2 {
		if err := r.Close(); !errors.Is(err, kit.ErrRecord) || !errors.Is(err, f.fail) {
			t.Errorf("error %v", err)
		}
	}
	if w, d := r.Written(), r.Dropped(); w != 0 || d != frames || f.closed != 1 {
		t.Errorf("%d written, %d dropped, closed %d times", w, d, f.closed)
	}
	if n := strings.Count(log.String(), "no space left"); n != 1 {
		t.Errorf("the log tells of it %d times:\n%s", n, log.String())
	}
}

func TestRecordingRefusesItsOptions(t *testing.T) {
	for _, o := range []kit.RecordingOptions{{}, {Ranks: -1}, {Ranks: 1, Buffer: -1}} {
		if _, err := kit.NewRecording(newSlowFile(), o); !errors.Is(err, kit.ErrRecord) {
			t.Errorf("%+v: error %v", o, err)
		}
	}
	if _, err := kit.NewRecording(closable{&brokenWriter{}}, kit.RecordingOptions{Ranks: 1}); !errors.Is(err, kit.ErrRecord) {
		t.Errorf("a file that takes no head: %v", err)
	}
	f := newSlowFile()
	r, err := kit.NewRecording(f, kit.RecordingOptions{Ranks: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rank(-1) != nil || r.Rank(0) == nil || r.Rank(1) != nil {
		t.Error("a recorder for a rank that there is not")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

type closable struct{ io.Writer }

func (closable) Close() error { return nil }

// Ranks that record at once have all their frames in the file, each its own in order, or counted as dropped.
func TestRanksRecordAtOnce(t *testing.T) {
	const ranks, frames = 4, 2000
	f := newSlowFile()
	close(f.gate)
	r, err := kit.NewRecording(f, kit.RecordingOptions{Ranks: ranks, Buffer: 5 * frameBytes})
	if err != nil {
		t.Fatal(err)
	}
	var most, late sync.WaitGroup
	for rank := range ranks {
		wait := &most
		if rank == 0 {
			wait = &late // it may still tick when the file is closed, as a rank that was stuck does
		}
		wait.Go(func() {
			for tick := range uint64(frames) {
				say(r.Rank(rank), tick)
			}
		})
	}
	most.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	late.Wait()
	written := uint64(0)
	for rank, ticks := range ticksOf(t, f.Bytes()) {
		written += uint64(len(ticks))
		for i := range ticks[1:] {
			if ticks[i+1] <= ticks[i] {
				t.Fatalf("rank %d: tick %d after tick %d", rank, ticks[i+1], ticks[i])
			}
		}
	}
	if w, d := r.Written(), r.Dropped(); w != written || w+d != ranks*frames {
		t.Errorf("%d written, %d in the file, %d dropped, of %d", w, written, d, ranks*frames)
	}
}

func TestRecordingBesideTicksAllocatesNothing(t *testing.T) {
	r, err := kit.NewRecording(closable{io.Discard}, kit.RecordingOptions{Ranks: 1, Buffer: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	set, err := host().NewSet(context.Background(), nil, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	encode := func(b abi.Batch) { b.PutGate(0, &abi.GateRecord{ReqKey: 1}) }
	tick := uint64(0)
	call := func() {
		tick++
		if _, err := r.Rank(0).Run(set.Gate, tick, 1, 32, 32, encode); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		call() // both buffers grow to their size
	}
	if n := testing.AllocsPerRun(500, call); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
	if err := errors.Join(r.Close(), set.Close(context.Background())); err != nil || r.Written() == 0 {
		t.Errorf("%d written, %v", r.Written(), err)
	}
}
