package conformance_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins/standard"
)

// raw is a module without the host's checks around it, so that a test can write headers that no host of this version
// writes.
type raw struct {
	t      *testing.T
	module api.Module
}

// compiled is shared by the instances that are open at once: a Go module takes seconds to compile.
var compiled = sync.OnceValue(wazero.NewCompilationCache)

func newRaw(t *testing.T, wasm []byte) raw {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(compiled()))
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		t.Fatal(err)
	}
	m, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	return raw{t, m}
}

func (r raw) call(name string, args ...uint64) uint32 {
	r.t.Helper()
	out, err := r.module.ExportedFunction(name).Call(context.Background(), args...)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return uint32(out[0])
}

func (r raw) arena(kind abi.Arena, size uint32) uint32 {
	r.t.Helper()
	return r.call("sluice_arena", uint64(kind), uint64(size))
}

// gate writes the batch, runs it, and reads it back.
func (r raw) gate(batch []byte) (status int32, after []byte) {
	r.t.Helper()
	at := r.arena(abi.ArenaIn, 64<<10)
	if at == 0 || !r.module.Memory().Write(at, batch) {
		r.t.Fatalf("the IN arena at %#x does not take %d bytes", at, len(batch))
	}
	status = int32(r.call("sluice_gate_v1", uint64(at)))
	after, ok := r.module.Memory().Read(at, uint32(len(batch)))
	if !ok {
		r.t.Fatal("the IN arena is gone")
	}
	return status, bytes.Clone(after)
}

// newer is a batch of a host whose records, answers and globals have grown.
func newer(minor uint16) []byte {
	const n, inStride, outStride, globals = 40, 48, 24, 32
	const inOff = abi.HeaderSize + globals
	const outOff = inOff + n*inStride
	buf := make([]byte, outOff+n*outStride)
	for i := range outOff {
		buf[i] = 0xA5
	}
	abi.PutHeader(buf, &abi.Header{
		Major: abi.Major, Minor: minor, Kind: abi.Gate, Tick: 9, Epoch: 2, N: n, InStride: inStride, InOff: inOff,
		OutStride: outStride, OutOff: outOff, GlobalsOff: abi.HeaderSize, GlobalsSize: globals,
	})
	for i := range n {
		abi.PutGateRecord(buf[inOff+i*inStride:], &abi.GateRecord{ReqKey: uint64(i), RawPoll: abi.Poll(i % 5), Restore: abi.RestoreStatus(i % 3)})
	}
	return buf
}

func plain(t *testing.T) []byte {
	t.Helper()
	buf := make([]byte, abi.BatchSize(abi.Gate, 4, 4))
	b, err := abi.Begin(buf, abi.Gate, 1, 1, 4, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		b.PutGate(i, &abi.GateRecord{RawPoll: abi.PollSuccess, Restore: abi.RestoreStatus(i % 3)})
	}
	return buf
}

// Every SDK treats every header as the Go SDK does natively: the same status, the same bytes, and nothing written outside
// the answers.
func TestEverySDKReadsHeadersAlike(t *testing.T) {
	put32 := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	cases := []struct {
		name string
		base []byte
		edit func([]byte)
		want abi.Status
	}{
		{"this version", plain(t), func([]byte) {}, abi.StatusOK},
		{"longer records of a newer minor", newer(abi.Minor + 7), func([]byte) {}, abi.StatusOK},
		{"longer records under the same minor", newer(abi.Minor), func([]byte) {}, abi.StatusOK},
		{"a longer header", plain(t), put32(8, 80), abi.StatusOK},
		{"no records", plain(t), put32(32, 0), abi.StatusOK},
		{"another mark", plain(t), put32(0, 1), abi.StatusBadBatch},
		{"a newer major", plain(t), put32(4, abi.Major+1), abi.StatusBadBatch},
		{"a smaller header", plain(t), put32(8, 63), abi.StatusBadBatch},
		{"another kind", plain(t), put32(12, uint32(abi.Admit)), abi.StatusBadBatch},
		{"a kind that is its low byte", plain(t), put32(12, 1<<8|uint32(abi.Gate)), abi.StatusBadBatch},
		{"more records than any batch", plain(t), put32(32, abi.MaxRecords+1), abi.StatusBadBatch},
		{"a count that overflows", plain(t), put32(32, 1<<32-1), abi.StatusBadBatch},
		{"shorter input records, of an older minor", plain(t), put32(36, abi.GateStride-1), abi.StatusBadBatch},
		{"an in stride that overflows", plain(t), put32(36, 1<<32-1), abi.StatusBadBatch},
		{"an in offset outside", plain(t), put32(40, 1<<32-1), abi.StatusBadBatch},
		{"shorter answers, of an older minor", plain(t), put32(44, abi.GateOutStride-1), abi.StatusBadBatch},
		{"an out stride that overflows", plain(t), put32(44, 1<<31), abi.StatusBadBatch},
		{"an out offset outside", plain(t), put32(48, 1<<32-1), abi.StatusBadBatch},
		{"globals outside", plain(t), put32(56, 1<<32-1), abi.StatusBadBatch},
		{"smaller globals, of an older minor", plain(t), put32(60, abi.GateGlobalsSize-1), abi.StatusBadBatch},
	}
	native, ok := standard.Gate("restore-gated")
	if !ok {
		t.Fatal("no native gate")
	}
	frozen(t, func(t *testing.T, _ string, wasm []byte) {
		r := newRaw(t, wasm)
		for _, tc := range cases {
			batch := bytes.Clone(tc.base)
			tc.edit(batch)
			want := bytes.Clone(batch)
			if status := guest.RunGate(native, want); status != int32(tc.want) {
				t.Fatalf("%s: native status %d, want %s", tc.name, status, tc.want)
			}
			status, after := r.gate(batch)
			if status != int32(tc.want) {
				t.Errorf("%s: status %d, want %s", tc.name, status, tc.want)
			}
			if !bytes.Equal(after, want) {
				t.Errorf("%s: the batch is %x, natively %x", tc.name, after, want)
			}
		}
		if got := int32(r.call("sluice_gate_v1", 0)); got != int32(abi.StatusBadBatch) {
			t.Errorf("a batch at address 0: status %d", got)
		}
	})
}

func TestEverySDKHasArenas(t *testing.T) {
	kinds := []abi.Arena{abi.ArenaConfig, abi.ArenaIn, abi.ArenaHostInfo}
	frozen(t, func(t *testing.T, _ string, wasm []byte) {
		r := newRaw(t, wasm)
		type area struct{ at, end uint32 }
		var areas []area
		for _, k := range kinds {
			size := map[abi.Arena]uint32{abi.ArenaConfig: 4096, abi.ArenaIn: uint32(abi.BatchSize(abi.Admit, 4096, 4096)), abi.ArenaHostInfo: 128}[k]
			at := r.arena(k, size)
			if at == 0 || at%abi.Align != 0 || at+size > r.module.Memory().Size() {
				t.Errorf("arena %s of %d bytes at %#x, memory has %d", k, size, at, r.module.Memory().Size())
			}
			if again := r.arena(k, size); again != at {
				t.Errorf("arena %s moved from %#x to %#x", k, at, again)
			}
			for _, o := range areas {
				if at < o.end && o.at < at+size {
					t.Errorf("arena %s at %#x overlaps another at %#x", k, at, o.at)
				}
			}
			areas = append(areas, area{at, at + size})
			for _, most := range []uint32{64 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
				if got := r.arena(k, most); got != 0 {
					t.Errorf("arena %s of %d bytes is not refused: %#x", k, most, got)
				}
			}
		}
		for _, k := range []uint32{7, 256, 257, 1<<32 - 1} {
			if got := r.call("sluice_arena", uint64(k), 16); got != 0 {
				t.Errorf("arena kind %d is not refused: %#x", k, got)
			}
		}
	})
}

func TestEverySDKJudgesItsConfiguration(t *testing.T) {
	cases := []struct {
		name, config string
		edit         func(*abi.HostInfo)
		shift        uint32 // added to the address
		want         abi.Status
	}{
		{"no table", "", func(*abi.HostInfo) {}, 0, abi.StatusOK},
		{"an empty table", "{}", func(*abi.HostInfo) {}, 0, abi.StatusOK},
		{"a newer minor", "", func(h *abi.HostInfo) { h.Minor += 9 }, 0, abi.StatusOK},
		{"settings that it does not take", `{"a":1}`, func(*abi.HostInfo) {}, 0, abi.StatusBadConfig},
		{"two bytes that are no table", "[]", func(*abi.HostInfo) {}, 0, abi.StatusBadConfig},
		{"a newer major", "", func(h *abi.HostInfo) { h.Major++ }, 0, abi.StatusUnsupportedMinor},
		{"more bytes than the arena", "", func(h *abi.HostInfo) { h.ConfigBytes = 1 << 30 }, 0, abi.StatusBadConfig},
		{"another address", "", func(*abi.HostInfo) {}, 1 << 20, abi.StatusBadConfig},
	}
	frozen(t, func(t *testing.T, _ string, wasm []byte) {
		r := newRaw(t, wasm)
		for _, tc := range cases {
			config, info := r.arena(abi.ArenaConfig, 4096), r.arena(abi.ArenaHostInfo, abi.HostInfoSize)
			h := abi.HostInfo{Major: abi.Major, Minor: abi.Minor, ConfigBytes: uint32(len(tc.config))}
			tc.edit(&h)
			record := make([]byte, abi.HostInfoSize)
			abi.PutHostInfo(record, &h)
			if !r.module.Memory().Write(config, []byte(tc.config)) || !r.module.Memory().Write(info, record) {
				t.Fatal("the arenas are not in memory")
			}
			if got := int32(r.call("sluice_configure", uint64(info+tc.shift))); got != int32(tc.want) {
				t.Errorf("%s: status %d, want %s", tc.name, got, tc.want)
			}
		}
	})
}
