//go:build wasip1

package gate

import (
	"unsafe"

	"sluice/abi/guest"
	"sluice/abi/guest/export"
)

var policy guest.GateFunc

// Register makes f the module's gate policy. It is called from init.
func Register(f guest.GateFunc) { policy = f }

//go:wasmexport sluice_gate_v1
func entry(batch unsafe.Pointer) int32 {
	return guest.RunGate(policy, export.Batch(batch))
}
