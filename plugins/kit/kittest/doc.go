// Package kittest makes small policy modules for tests, byte by byte, so that no toolchain is needed:
//
//	wasm := kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Votes(kittest.Const(3))})
//
// It imports the standard library only and keeps no state. Nothing but tests uses it.
package kittest
