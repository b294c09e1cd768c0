package plugins

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// wasiModule is the one import module that is served, with the functions that a Go guest links and no others.
const wasiModule = "wasi_snapshot_preview1"

// procExit is the one function that does not return.
const procExit = "proc_exit"

// Error numbers of WASI preview 1.
const (
	wasiOK     = 0
	wasiBadF   = 8
	wasiFault  = 21
	wasiNoSys  = 52
	clockStep  = 1_000_000 // ns that the guest's clock moves a tick
	maxVectors = 64        // more parts than this of one write are refused

	// What a call of a stub costs the guest, in fuel: entering the host, and what it then does.
	stubFuel        = 256
	vectorFuel      = 16 // a part of a write
	randomFuelShift = 3  // a unit for 8 bytes of entropy
)

// stub is a deterministic stand-in for one WASI function: what it returns is a function of the guest's own memory and
// of the tick.
type stub struct {
	name   string
	params []api.ValueType
	call   func(m *wazeroMachine, mem api.Memory, stack []uint64) uint32
}

// stubs lists the ten functions. proc_exit stops the guest, which is a fault. poll_oneoff says at once that the wait
// is over: Go's runtime waits a little before it prints a panic, and the author is to see that text. A guest that waits
// for the clock to move spins, since it stands still within a tick, and pays for each turn until its fuel ends.
func stubs() []stub {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	return []stub{
		{"sched_yield", nil, func(*wazeroMachine, api.Memory, []uint64) uint32 { return wasiOK }},
		{"args_get", []api.ValueType{i32, i32}, func(*wazeroMachine, api.Memory, []uint64) uint32 { return wasiOK }},
		{"args_sizes_get", []api.ValueType{i32, i32}, zeroSizes},
		{"environ_get", []api.ValueType{i32, i32}, func(*wazeroMachine, api.Memory, []uint64) uint32 { return wasiOK }},
		{"environ_sizes_get", []api.ValueType{i32, i32}, zeroSizes},
		{"clock_time_get", []api.ValueType{i32, i64, i32}, clockTime},
		{"random_get", []api.ValueType{i32, i32}, randomZeros},
		{"fd_write", []api.ValueType{i32, i32, i32, i32}, fdWrite},
		{"poll_oneoff", []api.ValueType{i32, i32, i32, i32}, pollOneoff},
	}
}

// stubbed says whether an import is served.
func stubbed(i importName) bool {
	if i.module != wasiModule {
		return false
	}
	for _, s := range stubs() {
		if s.name == i.name {
			return true
		}
	}
	return i.name == procExit
}

func zeroSizes(_ *wazeroMachine, mem api.Memory, s []uint64) uint32 {
	if !mem.WriteUint32Le(uint32(s[0]), 0) || !mem.WriteUint32Le(uint32(s[1]), 0) {
		return wasiFault
	}
	return wasiOK
}

// clockTime shows the tick, from one step on: Go's runtime stops where the clock reads zero.
func clockTime(m *wazeroMachine, mem api.Memory, s []uint64) uint32 {
	if !mem.WriteUint64Le(uint32(s[2]), (m.tick+1)*clockStep) {
		return wasiFault
	}
	return wasiOK
}

func randomZeros(m *wazeroMachine, mem api.Memory, s []uint64) uint32 {
	b, ok := mem.Read(uint32(s[0]), uint32(s[1]))
	if !ok || !m.pay(int64(len(b))>>randomFuelShift) {
		return wasiFault
	}
	clear(b)
	return wasiOK
}

// pollOneoff ends every wait: as many events as were waited for, all of them good.
func pollOneoff(m *wazeroMachine, mem api.Memory, s []uint64) uint32 {
	const event = 32 // bytes
	at, n, result := uint32(s[1]), uint32(s[2]), uint32(s[3])
	if n > maxVectors || !m.pay(int64(n)*vectorFuel) {
		return wasiFault
	}
	out, ok := mem.Read(at, n*event)
	if !ok || !mem.WriteUint32Le(result, n) {
		return wasiFault
	}
	clear(out)
	return wasiOK
}

// fdWrite keeps the first part of what a guest says, for the log and the words of a fault, and swallows the rest.
func fdWrite(m *wazeroMachine, mem api.Memory, s []uint64) uint32 {
	fd, at, n, result := uint32(s[0]), uint32(s[1]), uint32(s[2]), uint32(s[3])
	if fd != 1 && fd != 2 {
		return wasiBadF
	}
	if n > maxVectors || !m.pay(int64(n)*vectorFuel) {
		return wasiFault
	}
	parts, ok := mem.Read(at, n*8)
	if !ok {
		return wasiFault
	}
	var total uint32
	for ; len(parts) > 0; parts = parts[8:] {
		text, ok := mem.Read(binary.LittleEndian.Uint32(parts), binary.LittleEndian.Uint32(parts[4:]))
		if !ok {
			return wasiFault
		}
		m.say(text)
		total += uint32(len(text))
	}
	if !mem.WriteUint32Le(result, total) {
		return wasiFault
	}
	return wasiOK
}

// buildStubs puts the ten functions into a runtime.
func buildStubs(ctx context.Context, rt wazero.Runtime) error {
	b := rt.NewHostModuleBuilder(wasiModule)
	for _, s := range stubs() {
		call := s.call
		b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
			m, ok := ctx.Value(machineKey{}).(*wazeroMachine)
			mem := mod.Memory()
			if !ok || mem == nil || !m.pay(stubFuel) {
				stack[0] = wasiNoSys
				return
			}
			stack[0] = uint64(call(m, mem, stack))
		}), s.params, []api.ValueType{api.ValueTypeI32}).Export(s.name)
	}
	b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) {
		// wazero takes a panic of a host function as the way to unwind the guest.
		panic(sys.NewExitError(uint32(stack[0])))
	}), []api.ValueType{api.ValueTypeI32}, nil).Export(procExit)
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("install the WASI stubs: %w", err)
	}
	return nil
}
