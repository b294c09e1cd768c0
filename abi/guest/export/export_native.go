//go:build !wasip1

package export

import (
	"sluice/abi"
	"sluice/abi/guest"
)

// Offer returns size bytes: outside a module no host asks for an arena.
func Offer(_ abi.Arena, size int) []byte { return make([]byte, size) }

// Configure does nothing outside a module: a native test calls the policy's own function.
func Configure(guest.ConfigureFunc) {}
