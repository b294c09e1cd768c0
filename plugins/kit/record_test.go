package kit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
)

func writeFrames(t testing.TB, frames ...kit.Frame) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := kit.NewRecordWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for i := range frames {
		if err := w.Append(&frames[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func readFrames(data []byte) ([]kit.Frame, error) {
	r, err := kit.NewRecordReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var out []kit.Frame
	for {
		var f kit.Frame
		if err := r.Next(&f); err != nil {
			return out, err
		}
		f.Input, f.Answer = slices.Clone(f.Input), slices.Clone(f.Answer)
		out = append(out, f)
	}
}

func randomFrame(r *rand.Rand) kit.Frame {
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	return kit.Frame{Tick: r.Uint64(), Rank: r.Uint32(), Hook: abi.Hook(r.IntN(8)), Class: abi.Class(r.IntN(2)), Native: r.IntN(2) == 0,
		Fault: []string{"", "trap", "illegal_answer", "memory_growth"}[r.IntN(4)], Status: abi.Status(r.IntN(300) - 10), Fuel: r.Uint64(), Input: noise(r.IntN(200)), Answer: noise(r.IntN(100))}
}

func TestFramesRoundTrip(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	var frames []kit.Frame
	for range 100 {
		frames = append(frames, randomFrame(r))
	}
	got, err := readFrames(writeFrames(t, frames...))
	if !errors.Is(err, io.EOF) || errors.Is(err, kit.ErrRecord) || len(got) != len(frames) {
		t.Fatalf("seed %d: %d frames, %v", seed, len(got), err)
	}
	for i := range got {
		if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", frames[i]) {
			t.Fatalf("seed %d: frame %d is %+v, was %+v", seed, i, got[i], frames[i])
		}
	}
}

// A file cut anywhere keeps its whole frames and says that it was cut; no cut is mistaken for an end, but those between
// frames.
func TestCutFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 0))
	frames := []kit.Frame{randomFrame(r), randomFrame(r), randomFrame(r)}
	data := writeFrames(t, frames...)
	ends := map[int]int{}
	for i := range len(frames) + 1 {
		ends[len(writeFrames(t, frames[:i]...))] = i
	}
	for cut := 8; cut < len(data); cut++ {
		got, err := readFrames(data[:cut])
		if n, whole := ends[cut]; whole {
			if !errors.Is(err, io.EOF) || errors.Is(err, kit.ErrRecord) || len(got) != n {
				t.Fatalf("cut between frames at %d: %d frames, %v", cut, len(got), err)
			}
		} else if !errors.Is(err, kit.ErrCut) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	for cut := range 8 {
		if _, err := readFrames(data[:cut]); !errors.Is(err, kit.ErrRecord) {
			t.Fatalf("cut in the head at %d: %v", cut, err)
		}
	}
}

// No flipped bit goes unseen: the checksum, or a length that no longer fits, tells.
func TestFlippedBitsAreSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 0))
	data := writeFrames(t, randomFrame(r), randomFrame(r))
	for bit := range len(data) * 8 {
		bad := slices.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := readFrames(bad); !errors.Is(err, kit.ErrRecord) {
			t.Fatalf("bit %d of byte %d is flipped and nobody minds: %v", bit%8, bit/8, err)
		}
	}
}

func FuzzRecordReader(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 0))
	f.Add(writeFrames(f, randomFrame(r), randomFrame(r)))
	f.Add([]byte("SLBATCH1"))
	f.Add([]byte("SLBATCH1\xff\xff\xff\x0f\x00\x00\x00\x00rest"))
	l := layout(f)
	m := compile(f, gate(kittest.Votes(kittest.InByte(8))))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readFrames(data); err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, kit.ErrRecord) {
			t.Fatalf("ends with %v", err)
		}
		rr, err := kit.NewRecordReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		_, err = l.Replay(context.Background(), rr, func() (*kit.Policy, error) {
			return kit.Open(context.Background(), kit.Compiled(m), kit.Options{Name: "x"})
		}, nil)
		if err != nil && !errors.Is(err, kit.ErrRecord) {
			t.Fatalf("replay ends with %v", err)
		}
	})
}

type brokenWriter struct{ after int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestRecorderKeepsItsFirstError(t *testing.T) {
	if _, err := kit.NewRecordWriter(&brokenWriter{}); !errors.Is(err, kit.ErrRecord) {
		t.Errorf("head: %v", err)
	}
	w, err := kit.NewRecordWriter(&brokenWriter{after: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := kit.NewRecorder(w, 0)
	for range 3 {
		r.Output(kit.Frame{Hook: abi.Gate, Tick: 1})
	}
	if err := r.Err(); !errors.Is(err, kit.ErrRecord) || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

// record has two ranks answer ticks with a policy, and returns the file.
func record(t *testing.T, body []byte, ticks int) []byte {
	t.Helper()
	ctx := context.Background()
	var out bytes.Buffer
	w, err := kit.NewRecordWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	wasm := gate(body)
	rng := rand.New(rand.NewPCG(21, 0))
	for rank := range 2 {
		set, err := host().NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: "x"}}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		rec := kit.NewRecorder(w, rank)
		for tick := range uint64(ticks) {
			n := int(tick) % 5
			rs := make([]abi.GateRecord, n)
			for i := range rs {
				rs[i] = abi.GateRecord{ReqKey: uint64(i), RawPoll: abi.Poll(rng.IntN(5)), Restore: abi.RestoreStatus(rng.IntN(3))}
			}
			if _, err := rec.Run(set.Gate, tick, 4, n, n, func(b abi.Batch) {
				for i := range rs {
					b.PutGate(i, &rs[i])
				}
			}); err != nil {
				t.Fatal(err)
			}
			if err := set.Gate.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(rec.Err(), set.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func opener(t *testing.T, name string, body []byte) kit.Opener {
	return func() (*kit.Policy, error) {
		return kit.Open(context.Background(), kit.Compiled(compile(t, gate(body))), kit.Options{Name: name})
	}
}

func replay(t *testing.T, data []byte, a, b kit.Opener) (kit.ReplayResult, error) {
	t.Helper()
	r, err := kit.NewRecordReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return layout(t).Replay(context.Background(), r, a, b)
}

func TestReplayFindsTheFirstDifference(t *testing.T) {
	raw := kittest.Votes(kittest.InByte(8))
	data := record(t, raw, 20)
	same, err := replay(t, data, opener(t, "raw", raw), nil)
	if err != nil || same.First != nil || same.Frames != 40 || same.Asked != 40 || same.Differ != 0 || same.LastTick != 19 || same.Cut {
		t.Errorf("the policy that was recorded: %+v, %v", same, err)
	}
	// Votes Transferring for a raw Success, as a hold would: differs where one is in the batch.
	lower := kittest.Votes(slices.Concat(kittest.InByte(8), kittest.InByte(8), kittest.Const(4), []byte{0x46, 0x6B}))
	for name, b := range map[string]kit.Opener{"recorded": nil, "another": opener(t, "raw", raw)} {
		got, err := replay(t, data, opener(t, "lower", lower), b)
		if err != nil || got.First == nil || got.Differ == 0 || got.Differ >= got.Asked {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		want := "Vote is Transferring, was recorded as Success"
		if b != nil {
			want = "Vote by lower is Transferring, by raw is Success"
		}
		if !strings.Contains(got.First.Lines[0], want) || got.First.Hook != abi.Gate {
			t.Errorf("%s: %+v", name, got.First)
		}
		if _, err := layout(t).ParseVectors(got.First.Vector); err != nil {
			t.Errorf("%s: the batch is no vector: %v", name, err)
		}
	}
	cut, err := replay(t, data[:len(data)-3], opener(t, "raw", raw), nil)
	if err != nil || !cut.Cut || cut.Frames != 39 {
		t.Errorf("a cut file: %+v, %v", cut, err)
	}
}

// A recorded fault is the same where the policy still fails so, and a difference where it does not.
func TestReplayComparesFaultsAndDeclines(t *testing.T) {
	trap, decline := kittest.Unreachable(), kittest.Const(-5)
	for _, c := range []struct {
		name           string
		recorded, asks []byte
		want           string
	}{
		{"trap again", trap, trap, ""},
		{"trap mended", trap, kittest.Const(0), "the fault is none, was recorded as trap"},
		{"trap new", kittest.Const(0), trap, "the fault is trap"},
		{"declined again", decline, decline, ""},
		{"declined no more", decline, kittest.Const(0), "the status is 0 (ok), was recorded as -5 (declined)"},
		{"another status", kittest.Const(1), kittest.Const(2), "the status is 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := replay(t, record(t, c.recorded, 3), opener(t, "x", c.asks), nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && got.First != nil || c.want != "" && (got.First == nil || !strings.HasPrefix(got.First.Lines[0], c.want)) {
				t.Errorf("got %+v, want %q", got.First, c.want)
			}
		})
	}
}

// A reason of the policy's own is shown with the text that its module's manifest has for it; a recorded one by its number.
func TestReplayNamesReasons(t *testing.T) {
	wasm, err := manifest.Write(gate(kittest.Fails(77)), manifest.Manifest{Reasons: map[uint8]string{77: "too far"}})
	if err != nil {
		t.Fatal(err)
	}
	named := func() (*kit.Policy, error) {
		m, err := host().Compile(context.Background(), wasm)
		if err != nil {
			return nil, err
		}
		return kit.Open(context.Background(), kit.Compiled(m), kit.Options{Name: "named"})
	}
	data := record(t, kittest.Fails(78), 3)
	for name, c := range map[string]struct {
		b    kit.Opener
		want string
	}{
		"recorded": {nil, "Reason is 77 (too far), was recorded as 78"},
		"another":  {opener(t, "plain", kittest.Fails(79)), "Reason by named is 77 (too far), by plain is 79"},
	} {
		got, err := replay(t, data, named, c.b)
		if err != nil || got.First == nil || !strings.Contains(got.First.Lines[0], c.want) {
			t.Errorf("%s: %+v, %v; want %q", name, got.First, err, c.want)
		}
	}
}

// An answer that the native policy gave in the place of one that was not asked, as in quarantine, is not the policy's: the
// policy sees the batch, and nothing is compared.
func TestReplayLeavesOutWhatWasNotAsked(t *testing.T) {
	ctx := context.Background()
	set, err := host().NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: gate(kittest.Votes(kittest.Const(1))), Name: "x"}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := kit.NewRecordWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	rec := kit.NewRecorder(w, 0)
	for tick := range uint64(4) {
		if tick == 2 {
			set.Gate.Disable()
		}
		if _, err := rec.Run(set.Gate, tick, 1, 1, 1, func(b abi.Batch) { b.PutGate(0, &abi.GateRecord{RawPoll: abi.PollTransferring}) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(rec.Err(), set.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	got, err := replay(t, out.Bytes(), opener(t, "x", kittest.Votes(kittest.Const(1))), nil)
	if err != nil || got.First != nil || got.Frames != 4 || got.Asked != 2 || got.Skipped != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReplayRefusesWrongInputs(t *testing.T) {
	buf := make([]byte, abi.BatchSize(abi.Gate, 1, 1))
	if _, err := abi.Begin(buf, abi.Gate, 1, 1, 1, 1); err != nil {
		t.Fatal(err)
	}
	input := buf[:abi.HeaderSize+abi.GateGlobalsSize+abi.GateStride]
	for name, f := range map[string]kit.Frame{
		"no header":     {Hook: abi.Gate, Input: input[:10]},
		"short":         {Hook: abi.Gate, Input: input[:len(input)-1]},
		"another hook":  {Hook: abi.Admit, Input: input},
		"a hook of old": {Hook: 77, Input: input},
	} {
		if _, err := replay(t, writeFrames(t, f), opener(t, "x", kittest.Const(0)), nil); !errors.Is(err, kit.ErrRecord) || !strings.Contains(err.Error(), "frame 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := replay(t, writeFrames(t, kit.Frame{Hook: abi.Gate, Input: input, Answer: make([]byte, abi.GateOutStride)}), opener(t, "x", kittest.Const(0)), nil)
	if err != nil || got.First != nil || got.Asked != 1 {
		t.Errorf("a good frame: %+v, %v", got, err)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	w, err := kit.NewRecordWriter(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	rec := kit.NewRecorder(w, 1)
	set, err := host().NewSet(context.Background(), nil, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	encode := func(b abi.Batch) { b.PutGate(0, &abi.GateRecord{ReqKey: 1}) }
	tick := uint64(0)
	got := testing.AllocsPerRun(100, func() {
		tick++
		if _, err := rec.Run(set.Gate, tick, 1, 32, 32, encode); err != nil {
			t.Fatal(err)
		}
	})
	if err := errors.Join(rec.Err(), set.Close(context.Background())); err != nil || got != 0 {
		t.Errorf("%v allocations a call, %v", got, err)
	}
}
