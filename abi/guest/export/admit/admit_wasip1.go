//go:build wasip1

package admit

import (
	"unsafe"

	"sluice/abi/guest"
	"sluice/abi/guest/export"
)

var policy guest.AdmitFunc

// Register makes f the module's admit policy. It is called from init.
func Register(f guest.AdmitFunc) { policy = f }

//go:wasmexport sluice_admit_v1
func entry(batch unsafe.Pointer) int32 {
	return guest.RunAdmit(policy, export.Batch(batch))
}
