// Package archtest checks the rules of the architecture that the compiler does not: who may import whom, where cgo may
// stand, and that the pure set starts no goroutine and hands out nothing that reaches into its state.
//
// It reads sources with go/parser and judges syntax alone, so that it needs no build and sees every build tag at once.
// It may import the standard library only, and is used by tests. Check holds no state.
//
//	violations, err := archtest.Check(os.DirFS("../.."))
package archtest
