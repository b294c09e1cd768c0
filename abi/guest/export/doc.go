// Package export holds what every Go policy module exports: the version marker, the arenas and configure. The entry
// points lie in the packages below, one a hook, so that a module exports exactly the hooks that it imports:
//
//	package main
//
//	import (
//		"sluice/abi/guest"
//		"sluice/abi/guest/export/gate"
//	)
//
//	func init() { gate.Register(policy) }
//
//	func policy(b guest.GateBatch) int32 { ... }
//
//	func main() {}
//
// built with
//
//	CGO_ENABLED=0 GOWORK=off GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -buildmode=c-shared -ldflags='-s -w' -o policy.wasm .
//
// Three more packages are for what a policy has to say: log and counters, which the host reads after each call, and state,
// which it moves to the policy's successor. A module that imports none of them offers no such arena.
//
// A module instance is a process of its own with one caller and one thread, which is why the arenas and the registered
// functions are package variables here and nowhere else. Outside wasip1 the package holds nothing and Register and
// Configure do nothing, so that a policy's main package also builds and is tested natively. What log and counters are
// told is kept natively too, so that a test reads it back.
package export
