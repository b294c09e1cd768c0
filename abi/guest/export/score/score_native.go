//go:build !wasip1

package score

import "sluice/abi/guest"

// Register does nothing outside a module: a native test calls the policy's own function.
func Register(guest.ScoreFunc) {}
