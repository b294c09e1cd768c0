package plugins

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"sluice/abi"
)

func TestBudgets(t *testing.T) {
	for _, tc := range []struct {
		name string
		fuel Fuel
		n    int
		want int64
	}{
		{"no records", Fuel{100, 7, 0}, 0, 100},
		{"ten records", Fuel{100, 7, 0}, 10, 170},
		{"less than none", Fuel{100, 7, 0}, -1, 100},
		{"nothing per record", Fuel{100, 0, 0}, math.MaxInt32, 100},
		{"a large base", Fuel{math.MaxUint64, 0, 0}, 0, maxFuel},
		{"large per record", Fuel{0, math.MaxUint64, 0}, 2, maxFuel},
		{"a large sum", Fuel{uint64(maxFuel), 1, 0}, 1, maxFuel},
		{"a cap", Fuel{100, 7, 150}, 10, 150},
		{"a cap that is not met", Fuel{100, 7, 171}, 10, 170},
		{"a cap below the base", Fuel{100, 7, 50}, 0, 50},
		{"a cap above the largest", Fuel{math.MaxUint64, 7, math.MaxUint64}, 5, maxFuel},
		{"the largest", Fuel{uint64(maxFuel) - 3, 1, 0}, 3, maxFuel},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.fuel.budget(tc.n); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
	if got := (Fuel{}).or(Fuel{1, 2, 0}); got != (Fuel{1, 2, 0}) {
		t.Errorf("no fuel is %v", got)
	}
	if got := (Fuel{PerRecord: 3}).or(Fuel{1, 2, 0}); got != (Fuel{PerRecord: 3}) {
		t.Errorf("some fuel is %v", got)
	}
}

// localSet is the shipped gate and reserve over one instance.
func localSet(t *testing.T, h *Host, gate, reserve Fuel) *Set {
	t.Helper()
	set, err := h.NewSet(context.Background(), []Spec{
		{Hook: abi.Gate, Builtin: "restore-gated", Fuel: gate}, {Hook: abi.Reserve, Builtin: "until-retired", Fuel: reserve},
	}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return set
}

// Each hook has its own fuel though one instance answers both, and the same batch takes the same fuel each time.
func TestEachHookHasItsFuel(t *testing.T) {
	ctx := context.Background()
	h := NewHost(Options{Fuel: Fuel{Base: 1_000_000, PerRecord: 1_000}})
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	set := localSet(t, h, Fuel{}, Fuel{Base: 50})
	instance := func() *Instance { return set.Gate.slot.caller().(*Instance) }
	if instance() != set.Reserve.slot.caller() {
		t.Fatal("gate and reserve have two instances")
	}
	gate := func() Answer {
		a, err := set.Gate.Run(1, 1, 10, 10, func(abi.Batch) {})
		if err != nil || a.Fault != nil {
			t.Fatal(err, a.Fault)
		}
		return a
	}
	gate()
	spent := instance().Spent()
	gate()
	if again := instance().Spent(); spent == 0 || again != spent {
		t.Errorf("the same call spends %d, then %d", spent, again)
	}
	a, err := set.Reserve.Run(1, 1, 0, 1, func(abi.Batch) {})
	if err != nil || a.Fault == nil || a.Fault.Class != FaultOutOfFuel || !strings.Contains(a.Fault.Error(), "50 units") || !a.Native {
		t.Errorf("%+v, %v", a.Fault, err)
	}
	if err := set.Reserve.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	// A budget of exactly what is needed is enough; one unit less is not.
	for _, tc := range []struct {
		base  uint64
		fault bool
	}{{spent, false}, {spent - 1, true}} {
		set := localSet(t, h, Fuel{Base: tc.base}, Fuel{})
		a, err := set.Gate.Run(1, 1, 10, 10, func(abi.Batch) {})
		if err != nil || (a.Fault != nil) != tc.fault {
			t.Errorf("with %d units: %v, %v", tc.base, a.Fault, err)
		}
	}
}

// What Decode and Encode leave of the shipped module still gives the native policies' answers on the vectors.
func TestTheShippedModuleReencodedAnswersTheSame(t *testing.T) {
	ctx := context.Background()
	h := NewUnmeteredHost(Options{})
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	set := localSet(t, h, Fuel{}, Fuel{})
	for _, info := range set.Infos()[:2] {
		if info.Engine != EngineCompiler {
			t.Errorf("%s fell back to engine %d", info.Name, info.Engine)
		}
	}
	if spent := set.Gate.slot.caller().(*Instance).Spent(); spent != 0 {
		t.Errorf("%d units spent without metering", spent)
	}
}

// gateOf is a fresh machine of a module of testdata/hostile.
func gateOf(t *testing.T, e Engine, name string) machine {
	t.Helper()
	ctx := context.Background()
	wasm, err := os.ReadFile("testdata/hostile/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	h := NewHost(Options{})
	m, err := h.kept(ctx, wasm, e, DefaultMemoryPages)
	if err != nil {
		t.Fatal(err)
	}
	mc, err := m.program.instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(mc.close(ctx), h.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	return mc
}

// What the host does for a guest costs the guest: entropy by the byte, and any call something.
func TestTheHostsWorkIsPaidFor(t *testing.T) {
	const fuel, bytes, at = 3_000_000, 7 << 16, 512
	for _, e := range []Engine{EngineCompiler, EngineInterpreter} {
		mc := gateOf(t, e, "random_storm")
		_, err := mc.invoke(entryGate, 0, 0, fuel)
		var stopped *trap
		if !errors.As(err, &stopped) || stopped.class != FaultOutOfFuel || mc.fuel() != 0 {
			t.Errorf("engine %d: %v, %d left", e, err, mc.fuel())
		}
		calls := binary.LittleEndian.Uint32(mc.view(at, 4))
		if most := uint32(fuel/(bytes>>randomFuelShift)) + 1; calls == 0 || calls > most {
			t.Errorf("engine %d: %d calls of %d bytes, %d units pay for %d", e, calls, bytes, fuel, most)
		}
	}
}

// A guest that returns at once after a call that it could not pay for has spent its fuel all the same.
func TestALastCallThatIsNotPaidFor(t *testing.T) {
	for _, e := range []Engine{EngineCompiler, EngineInterpreter} {
		mc := gateOf(t, e, "last_call")
		if _, err := mc.invoke(entryGate, 0, 0, 1_000); err != nil {
			t.Errorf("engine %d: %v", e, err)
		}
		spent := 1_000 - mc.fuel()
		if spent <= stubFuel {
			t.Errorf("engine %d: a call with a stub spends %d", e, spent)
		}
		if _, err := mc.invoke(entryGate, 0, 0, spent); err != nil || mc.fuel() != 0 {
			t.Errorf("engine %d: with %d: %v, %d left", e, spent, err, mc.fuel())
		}
		_, err := mc.invoke(entryGate, 0, 0, spent-1)
		var stopped *trap
		if !errors.As(err, &stopped) || stopped.class != FaultOutOfFuel {
			t.Errorf("engine %d: with %d: %v", e, spent-1, err)
		}
	}
}

func TestAnUnmeteredModuleNeverRuns(t *testing.T) {
	ctx := context.Background()
	h := NewHost(Options{})
	h.prepare = func(wasm []byte, _ uint32) ([]byte, error) { return wasm, nil }
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	wasm, err := os.ReadFile("testdata/hostile/endless_loop.wasm")
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.NewSet(ctx, []Spec{{Hook: abi.Gate, Module: wasm}}, abi.HostInfo{})
	if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "not metered") {
		t.Errorf("error %v", err)
	}
}
