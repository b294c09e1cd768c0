package plugins

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"sluice/abi"
)

// wrongEngine is a compiler that gets every gate answer wrong: it flips a bit of the first vote after each call.
type wrongEngine struct{ engine }

func (e wrongEngine) compile(ctx context.Context, wasm []byte) (program, error) {
	p, err := e.engine.compile(ctx, wasm)
	return wrongProgram{p}, err
}

type wrongProgram struct{ program }

func (p wrongProgram) instantiate(ctx context.Context) (machine, error) {
	m, err := p.program.instantiate(ctx)
	return wrongMachine{m}, err
}

type wrongMachine struct{ machine }

func (m wrongMachine) invoke(e entry, a, b uint32, fuel int64) (uint64, error) {
	status, err := m.machine.invoke(e, a, b, fuel)
	if e == entryGate && err == nil {
		header := abi.GetHeader(m.view(a, abi.HeaderSize))
		if header.N > 0 {
			m.view(a+header.OutOff, 1)[0] ^= 1
		}
	}
	return status, err
}

// miscompiling is a host whose compiler is wrong and whose interpreter is right.
func miscompiling(log *slog.Logger) *Host {
	h := NewHost(Options{Log: log})
	right := h.engine
	h.engine = func(e Engine, pages uint32) engine {
		if e == EngineCompiler {
			return wrongEngine{right(e, pages)}
		}
		return right(e, pages)
	}
	return h
}

func TestAMiscompiledShippedModuleIsInterpreted(t *testing.T) {
	ctx := context.Background()
	var log bytes.Buffer
	h := miscompiling(slog.New(slog.NewTextHandler(&log, nil)))
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	set, err := h.NewSet(ctx, []Spec{{Hook: abi.Gate, Builtin: "restore-gated"}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Infos()[0].Engine; got != EngineInterpreter {
		t.Errorf("engine %d, want the interpreter", got)
	}
	if s := log.String(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, "interpreter") {
		t.Errorf("the log says %q", s)
	}
	a, err := set.Gate.Run(1, 1, 1, 1, func(b abi.Batch) {
		b.PutGate(0, &abi.GateRecord{RawPoll: abi.PollSuccess, Restore: abi.RestorePending})
	})
	if err != nil || a.Native || a.Batch.GateOut(0).Vote != abi.PollTransferring {
		t.Errorf("%+v, %v", a, err)
	}
	if err := set.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestAnyOtherMiscompiledModuleIsRefused(t *testing.T) {
	ctx := context.Background()
	h := miscompiling(nil)
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	// The shipped module given as a file is a module like any other.
	wasm, err := os.ReadFile("standard/standard.wasm")
	if err != nil {
		t.Fatal(err)
	}
	config := []byte(`{"builtin":{"gate":"ungated"}}`)
	_, err = h.NewSet(ctx, []Spec{{Hook: abi.Gate, Module: wasm, Name: "mine.wasm", Config: config}}, abi.HostInfo{})
	var f *Fault
	if !errors.As(err, &f) || f.Kind != "vectors" || !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "mine.wasm") {
		t.Errorf("error %v", err)
	}
}

// wrongFuel is a compiler whose code answers rightly and spends one unit too little.
type wrongFuel struct{ machine }

func (m wrongFuel) fuel() int64 { return m.machine.fuel() + 1 }

// wrongMemory is one whose code leaves a byte behind that nobody reads.
type wrongMemory struct{ machine }

func (m wrongMemory) invoke(e entry, a, b uint32, fuel int64) (uint64, error) {
	status, err := m.machine.invoke(e, a, b, fuel)
	last := m.pages()<<16 - 1
	m.view(last, 1)[0]++
	return status, err
}

type bentEngine struct {
	engine
	bend func(machine) machine
}

func (e bentEngine) compile(ctx context.Context, wasm []byte) (program, error) {
	p, err := e.engine.compile(ctx, wasm)
	return bentProgram{p, e.bend}, err
}

type bentProgram struct {
	program
	bend func(machine) machine
}

func (p bentProgram) instantiate(ctx context.Context) (machine, error) {
	m, err := p.program.instantiate(ctx)
	return p.bend(m), err
}

func TestFuelAndMemoryAreComparedToo(t *testing.T) {
	ctx := context.Background()
	wasm, err := os.ReadFile("testdata/hostile/nan.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		bend   func(machine) machine
		refuse bool
	}{
		{"right", func(m machine) machine { return m }, false},
		{"fuel", func(m machine) machine { return wrongFuel{m} }, true},
		{"memory", func(m machine) machine { return wrongMemory{m} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := NewHost(Options{})
			right := h.engine
			h.engine = func(e Engine, pages uint32) engine {
				if e == EngineCompiler {
					return bentEngine{right(e, pages), tc.bend}
				}
				return right(e, pages)
			}
			defer func() {
				if err := h.Close(ctx); err != nil {
					t.Error(err)
				}
			}()
			set, err := h.NewSet(ctx, []Spec{{Hook: abi.Gate, Module: wasm}}, abi.HostInfo{})
			if err == nil {
				if err := set.Close(ctx); err != nil {
					t.Error(err)
				}
			}
			var f *Fault
			if tc.refuse != (errors.As(err, &f) && f.Kind == "vectors") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestRoomIsMadeOffTheTick(t *testing.T) {
	ctx := context.Background()
	h := NewHost(Options{})
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	m, err := h.Shipped(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.Instantiate(ctx, abi.ClassLocal, abi.HostInfo{}, []byte(`{"builtin":{"gate":"ungated"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Reserve(4000); err != nil {
		t.Fatal(err)
	}
	at, size := i.in, i.size
	if _, err := i.Begin(abi.Admit, 1, 1, 4000, 4000); err != nil {
		t.Fatal(err)
	}
	if i.in != at || i.size != size {
		t.Errorf("the arena moved from %#x+%d to %#x+%d in a tick", at, size, i.in, i.size)
	}
	for _, n := range []int{-1, abi.MaxRecords + 1} {
		if err := i.Reserve(n); !errors.Is(err, abi.ErrBatchSize) {
			t.Errorf("room for %d records: %v", n, err)
		}
	}
	if err := i.Close(ctx); err != nil {
		t.Error(err)
	}
}
