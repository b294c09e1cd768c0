package guest

import "sluice/abi"

// A policy's functions to hand its state to a successor. They are plain functions, so a test calls them natively.
type (
	// SaveFunc writes the policy's state to dst and says how many bytes it has; false if they do not fit into dst. It
	// changes nothing of the policy: the host may go on with it.
	SaveFunc func(dst []byte) (n int, ok bool)
	// LoadFunc takes over a state that a policy saved under that schema. It returns abi.StatusOK; or abi.StatusDeclined for
	// a schema or a size that it does not know, and then changes nothing. src is valid during the call only.
	LoadFunc func(src []byte, schema uint32) int32
)

// RunSave runs f over the STATE arena, of which the host takes at most limit bytes. The result is that of
// sluice_state_save: the status in the upper 32 bits, the bytes of state in the lower.
func RunSave(f SaveFunc, arena []byte, limit uint32) int64 {
	dst := arena[:min(uint64(len(arena)), uint64(limit))]
	n, ok := f(dst)
	if !ok || n < 0 || n > len(dst) {
		return int64(abi.StatusNoCapacity) << 32
	}
	return int64(n)
}

// RunLoad runs f over the first n bytes of the STATE arena. The result is that of sluice_state_load.
func RunLoad(f LoadFunc, arena []byte, n, schema uint32) int32 {
	if uint64(n) > uint64(len(arena)) {
		return int32(abi.StatusNoCapacity)
	}
	return f(arena[:n:n], schema)
}
