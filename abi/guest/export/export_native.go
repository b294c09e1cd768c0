//go:build !wasip1

package export

import "sluice/abi/guest"

// Configure does nothing outside a module: a native test calls the policy's own function.
func Configure(guest.ConfigureFunc) {}
