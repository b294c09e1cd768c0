// Package wasmbin reads, judges, rewrites and writes core WebAssembly binaries: the static verifier and the metering pass
// that every policy module goes through before an engine sees it.
//
// It knows exactly the instructions that the supported toolchains emit (MVP, mutable globals, sign extension, saturating
// float-to-int, memory.copy, memory.fill, memory.init, data.drop, LEBs longer than needed) and refuses everything else by
// name, so that nothing unmetered can hide in an instruction that the rewriter does not understand.
//
//	m, err := wasmbin.Decode(file)                        // structure; errors name offset, section, function
//	err = wasmbin.Verify(m, wasmbin.DefaultLimits())      // limits, imports, indices; errors name the rule and the fix
//	metered, err := wasmbin.Meter(m, wasmbin.DefaultCosts())
//
// A metered module exports two mutable globals. The caller writes its budget to GlobalFuel (i64) before each call; the
// module stops with `unreachable` once it is spent and leaves GlobalFuel negative, or once its calls nest too deep and
// leaves GlobalDepth (i32) above Costs.Depth. An imported function may take from GlobalFuel what its own work costs; where
// that leaves it negative, the module stops at its next charge, or the call returns with it negative. Budgets are in units of about one instruction, the same on every engine.
//
// Types are not checked here: the rewriting preserves types both ways, so the engine's own validation of the rewritten
// module judges them. Indices are checked here, because the rewriting gives meaning to indices that had none.
//
// The package imports the standard library and internal/text only. A Module is plain data that aliases the bytes it was decoded from;
// nothing else is kept, and no function keeps its arguments.
package wasmbin
