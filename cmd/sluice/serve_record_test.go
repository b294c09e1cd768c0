package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"sluice/abi"
	"sluice/internal/metrics"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
)

// readRecord lists the frames of a record that ends where a frame does.
func readRecord(t *testing.T, path string) (out []kit.Frame) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := kit.NewRecordReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var f kit.Frame
		if err := r.Next(&f); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		f.Input, f.Answer = nil, nil
		out = append(out, f)
	}
}

// What a server records is what `sluice policy replay` reads: the policy that ran gives the same answers again, another
// one does not.
func TestServeRecords(t *testing.T) {
	raw, hold := wasmFile(t, "raw.wasm", kittest.Votes(kittest.InByte(8))), wasmFile(t, "hold.wasm", kittest.Votes(kittest.Const(3)))
	file := filepath.Join(t.TempDir(), "batches")
	s := startRecorded(t, file, map[string]string{"policy.gate.engine": "wasm", "policy.gate.builtin": "", "policy.gate.path": raw}, nil)
	for i := range 4 {
		if status, a := s.post("/generate", body(fmt.Sprintf("prompt %d of some length", i), 4, "")); status != http.StatusOK {
			t.Fatalf("status %d, %+v", status, a)
		}
	}
	s.end()
	frames := readRecord(t, file)
	type key struct {
		rank uint32
		hook abi.Hook
	}
	count, last := map[key]int{}, map[key]uint64{}
	for i, f := range frames {
		k := key{f.Rank, f.Hook}
		if count[k] > 0 && f.Tick <= last[k] {
			t.Fatalf("frame %d: rank %d, %s: tick %d after tick %d", i, f.Rank, f.Hook, f.Tick, last[k])
		}
		count[k]++
		last[k] = f.Tick
		if f.Native || f.Fault != "" || f.Status != abi.StatusOK || (f.Fuel > 0) != (f.Hook == abi.Gate) {
			t.Fatalf("frame %d: %+v", i, f)
		}
	}
	for rank := range uint32(2) {
		for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
			if n := count[key{rank, h}]; n == 0 || n != count[key{0, h}] {
				t.Errorf("rank %d, %s: %d frames, rank 0 has %d", rank, h, n, count[key{0, h}])
			}
		}
	}
	if w, d := s.value("record_frames_total"), s.value("record_dropped_total"); w != float64(len(frames)) || d != 0 {
		t.Errorf("%v frames are counted as written and %v as dropped, the file has %d", w, d, len(frames))
	}
	out, _ := policyRun(t, exitOK, "replay", file, raw)
	wantAll(t, out, "same: ", fmt.Sprintf("%d frames", len(frames)))
	out, _ = policyRun(t, exitBroken, "replay", file, hold)
	wantAll(t, out, "first difference at tick ")
	out, _ = policyRun(t, exitBroken, "replay", file, raw, hold)
	wantAll(t, out, "first difference at tick ")
}

func TestServeWithoutRecordHasNoSuchMetric(t *testing.T) {
	s := startServe(t, nil, nil)
	for _, name := range []string{"record_frames_total", "record_dropped_total"} {
		if v, ok := s.reg.Value(name); ok {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// A start that failed leaves a record without a frame, and the next start takes it.
func TestARecordWithoutFramesIsTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "batches")
	for range 2 {
		reg := metrics.New()
		r, err := startRecord(file, 1, reg, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"record_frames_total", "record_dropped_total"} {
			if v, ok := reg.Value(name); !ok || v != 0 {
				t.Errorf("%s is %v at the start, there %v", name, v, ok)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if got := readRecord(t, file); len(got) != 0 {
			t.Errorf("%d frames", len(got))
		}
	}
}
