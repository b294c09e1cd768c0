package plugins_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
)

// An arena that ends in no time is one fault with one class, and its text says it once.
func TestArenaOutOfFuelIsToldOnce(t *testing.T) {
	const gtU = 0x4B
	endless := code(op(opLocalGet, 1), i32(1<<19), op(gtU, opIf, 0x40), op(opLoop, 0x40, opBr, 0, opEnd), op(opEnd), fixedArenas())
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{Fuel: plugins.Fuel{Base: 10_000, PerRecord: 1}})
	defer closing(t, host.Close)
	m, err := host.Compile(ctx, guestModule{gate: i32(0), arena: endless}.bytes())
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.Instantiate(ctx, abi.ClassLocal, abi.HostInfo{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, i.Close)
	_, err = i.Begin(abi.Gate, 1, 1, 20_000, 20_000)
	var fault *plugins.Fault
	if !errors.As(err, &fault) || fault.Class != plugins.FaultOutOfFuel || fault.Kind != "arena" {
		t.Fatalf("got %v, want out_of_fuel{arena}", err)
	}
	if text := fault.Error(); strings.Count(text, "out_of_fuel") != 1 || !strings.HasSuffix(text, "out_of_fuel{arena}: sluice_arena stopped: its fuel is spent") {
		t.Errorf("got %s", text)
	}
}
