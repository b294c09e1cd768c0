//go:build wasip1

package reserve

import (
	"unsafe"

	"sluice/abi/guest"
	"sluice/abi/guest/export"
)

var policy guest.ReserveFunc

// Register makes f the module's reserve policy. It is called from init.
func Register(f guest.ReserveFunc) { policy = f }

//go:wasmexport sluice_reserve_v1
func entry(batch unsafe.Pointer) int32 {
	return guest.RunReserve(policy, export.Batch(batch))
}
