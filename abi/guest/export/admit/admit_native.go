//go:build !wasip1

package admit

import "sluice/abi/guest"

// Register does nothing outside a module: a native test calls the policy's own function.
func Register(guest.AdmitFunc) {}
