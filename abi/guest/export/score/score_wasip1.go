//go:build wasip1

package score

import (
	"unsafe"

	"sluice/abi/guest"
	"sluice/abi/guest/export"
)

var policy guest.ScoreFunc

// Register makes f the module's score policy. It is called from init.
func Register(f guest.ScoreFunc) { policy = f }

//go:wasmexport sluice_score_v1
func entry(batch unsafe.Pointer) int32 {
	return guest.RunScore(policy, export.Batch(batch))
}
