package wasmbin

import (
	"flag"
	"testing"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "run the random tests on this seed alone")
	rounds     = flag.Int("rounds", 60, "modules that each random test generates")
	randomFuel = int64(200_000)
)

// seeds are the seeds of a random test.
func seeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	all := make([]uint64, *rounds)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}

func arguments(m *Module) []uint64 {
	args := make([]uint64, len(m.Types[0].Params))
	for i := range args {
		args[i] = uint64(i)*0x1234567 + 3
		if t := m.Types[0].Params[i]; t == I32 || t == F32 {
			args[i] &= 0xFFFFFFFF
		}
	}
	return args
}

// Metered modules answer as the modules that they were made from, and spend the same on both engines.
func TestRandomModules(t *testing.T) {
	ran, trapped, spent := 0, 0, 0
	for _, s := range []shape{{}, {memory: true}, {floats: true}, {floats: true, memory: true}, {wild: true, memory: true}, {wild: true, floats: true, memory: true}} {
		for _, seed := range seeds() {
			m := newGenerator(seed, s).module()
			wasm := m.Encode()
			d, err := Decode(wasm)
			if err == nil {
				err = Verify(d, DefaultLimits())
			}
			if err != nil {
				t.Fatalf("shape %+v, -seed %d: %v", s, seed, err)
			}
			args := arguments(m)
			for _, c := range []Costs{DefaultCosts(), exact()} {
				out := metered(t, d, c)
				var first outcome
				var firstEngine string
				for engine, cfg := range engines() {
					o := runOnce(t, cfg, out, "f0", randomFuel, args...)
					if firstEngine == "" {
						first, firstEngine = o, engine
					} else if o.String() != first.String() || o.fuel != first.fuel || o.depth != first.depth {
						t.Errorf("shape %+v, -seed %d: %s: %v, fuel %d, depth %d; %s: %v, fuel %d, depth %d", s, seed,
							engine, o, o.fuel, o.depth, firstEngine, first, first.fuel, first.depth)
					}
				}
				ran++
				switch {
				case first.spent(c):
					spent++
					continue
				case first.trap != "":
					trapped++
				case first.depth != 0:
					t.Errorf("shape %+v, -seed %d: depth %d after the call", s, seed, first.depth)
				}
				// A module that ended within its fuel ends without metering too, and as it did; but for the bits of NaNs.
				if s.floats {
					continue
				}
				for engine, cfg := range engines() {
					if o := runOnce(t, cfg, wasm, "f0", 0, args...); o.String() != first.String() {
						t.Errorf("shape %+v, -seed %d: %s: unmetered %v, metered %v", s, seed, engine, o, first)
					}
				}
			}
		}
	}
	t.Logf("%d runs, %d ended in a trap of their own, %d were stopped", ran, trapped, spent)
	if *seedFlag == 0 && (trapped == 0 || spent == 0 || ran == trapped+spent) {
		t.Error("the generator is too tame to show anything")
	}
}

// Every instruction that runs was paid for: without slack exactly, with slack at least. The oracle counts them.
func TestFuelAgainstAnOracle(t *testing.T) {
	paid := 0
	for _, wild := range []bool{false, true} {
		for _, seed := range seeds() {
			m := newGenerator(seed, shape{wild: wild}).module()
			d := again(t, m)
			o := newOracle(d, exact())
			args := arguments(m)
			result, ended := o.call(0, args)
			if !ended || o.cost > randomFuel {
				continue
			}
			for name, c := range map[string]Costs{"exact": exact(), "slack": DefaultCosts()} {
				got := runOnce(t, engines()["compiler"], metered(t, d, c), "f0", 1<<40, args...)
				spent := 1<<40 - got.fuel
				if got.trap != "" || got.results[0] != result[0] {
					t.Errorf("wild %v, -seed %d: %s: %v, the oracle has %x", wild, seed, name, got, result)
				}
				if spent < o.cost || (name == "exact" && spent != o.cost) || spent > 40*o.cost {
					t.Errorf("wild %v, -seed %d: %s: spent %d, the oracle counts %d", wild, seed, name, spent, o.cost)
				}
				paid++
			}
		}
	}
	if *seedFlag == 0 && paid < *rounds {
		t.Errorf("only %d runs were compared", paid)
	}
}
