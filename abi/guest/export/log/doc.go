// Package log lets a Go policy say something to the operator: lines of at most abi.LogTextBytes bytes, the last
// abi.LogEntries of which the host finds after each call, one that trapped included.
//
//	log.Info("no page is free")
//	log.Line(abi.LogWarn).Text("held ").Uint(n).Text(" ticks").End()
//
// Nothing here allocates. It is not for every record of a batch: when more lines than the ring has are written in one call,
// the first ones are lost.
//
// Importing the package makes a module offer the LOG arena. It owns that arena, a package variable for the reason that
// package export gives. Natively the lines are kept in the same way, for one goroutine at a time, so that a test reads what
// a policy said:
//
//	from := log.Written()
//	gate(b)
//	level, text := log.Entry(from)
package log
