//go:build wasip1

package export

import (
	"unsafe"

	"sluice/abi"
	"sluice/abi/guest"
)

// maxArena bounds one arena, so that a host's mistake is refused and not an out-of-memory stop.
const maxArena = 32 << 20

var (
	arenas    [abi.ArenaHostInfo + 1][]byte
	configure guest.ConfigureFunc
)

// Offer makes the module offer an arena of a kind that a policy need not have, and returns its size bytes. It is for the
// packages below this one, at the module's start, once a kind.
func Offer(kind abi.Arena, size int) []byte {
	arenas[kind] = aligned(size)[:size:size]
	return arenas[kind]
}

// Configure registers f to be called once with the configuration. It is called from init.
func Configure(f guest.ConfigureFunc) { configure = f }

// Batch is the IN arena from the batch at p on; nil if p is no address in it. It is for the packages below this one.
func Batch(p unsafe.Pointer) []byte { return within(abi.ArenaIn, p) }

func within(kind abi.Arena, p unsafe.Pointer) []byte {
	a := arenas[kind]
	if len(a) == 0 {
		return nil
	}
	off := uintptr(p) - uintptr(unsafe.Pointer(unsafe.SliceData(a)))
	if off >= uintptr(len(a)) {
		return nil
	}
	return a[off:]
}

//go:wasmexport sluice_abi_1
func marker() {}

//go:wasmexport sluice_arena
func arena(kind, size int32) unsafe.Pointer {
	if kind < 0 || int(kind) >= len(arenas) || size < 0 || size > maxArena {
		return nil
	}
	if a := arenas[kind]; len(a) > 0 && len(a) >= int(size) {
		return unsafe.Pointer(unsafe.SliceData(a))
	}
	switch abi.Arena(kind) {
	case abi.ArenaConfig, abi.ArenaIn, abi.ArenaHostInfo:
		arenas[kind] = aligned(int(size))
		return unsafe.Pointer(unsafe.SliceData(arenas[kind]))
	}
	return nil
}

//go:wasmexport sluice_configure
func configureEntry(info unsafe.Pointer) int32 {
	b := within(abi.ArenaHostInfo, info)
	if len(b) < abi.HostInfoSize {
		return int32(abi.StatusBadConfig)
	}
	h := abi.GetHostInfo(b)
	if h.Major != abi.Major {
		return int32(abi.StatusUnsupportedMinor)
	}
	cfg := arenas[abi.ArenaConfig]
	if uint64(h.ConfigBytes) > uint64(len(cfg)) {
		return int32(abi.StatusBadConfig)
	}
	if configure == nil {
		return int32(abi.StatusOK)
	}
	return configure(h, cfg[:h.ConfigBytes])
}

// aligned is memory for an arena of at least size bytes.
func aligned(size int) []byte {
	raw := make([]byte, size+2*abi.Align)
	return raw[-uintptr(unsafe.Pointer(unsafe.SliceData(raw)))%abi.Align:]
}
