// Package counters lets a Go policy count: abi.Counters numbers that only rise, which the host reads after each call and
// shows as metrics. What each counts is the policy's own:
//
//	const (
//		records = iota
//		held
//	)
//
//	counters.Add(held, 1)
//
// Importing the package makes a module offer the COUNTERS arena. It owns that arena, a package variable for the reason that
// package export gives. Natively it counts in the same way, for one goroutine at a time, so that a test reads it with Get.
package counters
