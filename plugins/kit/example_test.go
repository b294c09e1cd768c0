package kit_test

import (
	"context"
	"fmt"
	"os"

	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
)

// A gate that holds everything, tried on a vector that wants a finished transfer to count as ready.
func Example() {
	ctx := context.Background()
	text, err := os.ReadFile("../../abi/abi.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	layout, err := kit.ParseLayout(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	host := plugins.NewHost(plugins.Options{})
	defer func() { _ = host.Close(ctx) }()
	module, err := host.Compile(ctx, kittest.Module(kittest.Export{Name: "sluice_gate_v1", Body: kittest.Votes(kittest.Const(3))}))
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, err := kit.Open(ctx, kit.Compiled(module), kit.Options{Name: "hold.wasm"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = policy.Close(ctx) }()
	file, err := layout.ParseVectors("vector \"ready\" gate\nin RawPoll=Success Restore=Ready\nout Vote=Success\n")
	if err != nil {
		fmt.Println(err)
		return
	}
	failures, err := file.Run(ctx, policy)
	fmt.Println(failures, err)
	// Output: [{ready 1 [out 0: Vote is Transferring, want Success]}] <nil>
}
