//go:build wasip1

package state

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
)

var (
	saver  guest.SaveFunc
	loader guest.LoadFunc
	arena  []byte
)

// Register makes save and load the module's, over at most size bytes of state, 1 to abi.MaxStateBytes. It is called from
// init.
func Register(size int, save guest.SaveFunc, load guest.LoadFunc) {
	saver, loader = save, load
	arena = export.Offer(abi.ArenaState, min(size, abi.MaxStateBytes))
}

//go:wasmexport sluice_state_save
func saveEntry(limit uint32) int64 { return guest.RunSave(saver, arena, limit) }

//go:wasmexport sluice_state_load
func loadEntry(n, schema uint32) int32 { return guest.RunLoad(loader, arena, n, schema) }
