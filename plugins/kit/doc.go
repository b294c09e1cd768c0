// Package kit is what an author does with a policy outside a server: describe the ABI, start a policy from a template,
// build it, look into it, try it on vectors and random batches, measure it, and replay recorded batches. The command
// sluice policy is a thin face on it, and tests may use it directly.
//
// Everything that concerns records goes by the description of the ABI (Layout), so a new field, record or hook is shown,
// written in vectors and compared without a line of this package changing.
//
//	lay, err := kit.ParseLayout(description) // abi/abi.json
//	module, err := host.Compile(ctx, wasm)
//	p, err := kit.Open(ctx, kit.Compiled(module), kit.Options{Name: "mine.wasm"})
//	defer p.Close(ctx)
//	file, err := lay.ParseVectors(text)
//	failures, err := file.Run(ctx, p) // field by field
//
// It imports abi, plugins, plugins/wasmbin and, for Reference alone, wazero; nothing of runtime: driving a whole group in
// virtual time is the command's part. It keeps no package state. A Policy belongs to one goroutine.
package kit
