//go:build !wasip1

package state

import "sluice/abi/guest"

// Register does nothing outside a module: a native test calls the policy's own functions.
func Register(int, guest.SaveFunc, guest.LoadFunc) {}
