// Package conformance runs test vectors on policies: the golden ones of the shipped policies and those of the examples, on
// native builds, on the frozen modules of every released ABI version, and on modules that were just built.
//
// A file of vectors is text, one batch a vector, in the order in which one instance sees them; the tick is the vector's
// place, from 1 on:
//
//	vector "the more urgent goes first" admit
//	globals BudgetTokens=1000 FreeRows=4 FreeSlots=4
//	in ReqKey=1 Flags=1 NeedTokens=100
//	in ReqKey=2 Flags=1 NeedTokens=100 Priority=5
//	out Verdict=1 Order=1
//	out Verdict=1 Order=0
//
// The hook stands behind the name, or in the golden files is the first word of it. Fields have the names of abi/README.md,
// numbers or names as values, and are zero where they are left out; a record may also stand as its bytes in hex. A line "policy NAME"
// begins the answers of one of several policies. An admit batch has as many candidates as answers.
//
// An example tests its native build so:
//
//	vs, err := conformance.Read("testdata/vectors.txt")
//	...
//	err = conformance.Run(plugins.NewNative(plugins.NativePolicy{Admit: p.admit}), vs, "")
//
// The package imports abi, plugins, plugins/kit (whose records and values these are) and the embedded description; it keeps
// no state.
package conformance
