package wasmbin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// engines are the two that must agree.
func engines() map[string]wazero.RuntimeConfig {
	all := map[string]wazero.RuntimeConfig{"compiler": wazero.NewRuntimeConfigCompiler(), "interpreter": wazero.NewRuntimeConfigInterpreter()}
	for name, c := range all {
		all[name] = c.WithCoreFeatures(api.CoreFeaturesV2.SetEnabled(api.CoreFeatureSIMD, false)).WithMemoryLimitPages(64)
	}
	return all
}

// instance is a module in an engine.
type instance struct {
	module api.Module
	close  func()
}

// compiled is a module that an engine has compiled, of which instances can be made one after another.
type compiled struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
}

func compile(t testing.TB, cfg wazero.RuntimeConfig, wasm []byte) compiled {
	t.Helper()
	ctx := context.Background()
	c := compiled{runtime: wazero.NewRuntimeWithConfig(ctx, cfg)}
	var err error
	if c.module, err = c.runtime.CompileModule(ctx, wasm); err != nil {
		c.close(t)
		t.Fatal(err)
	}
	return c
}

func (c compiled) close(t testing.TB) {
	if err := c.runtime.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func (c compiled) instantiate(t testing.TB) instance {
	t.Helper()
	ctx := context.Background()
	m, err := c.runtime.InstantiateModule(ctx, c.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		c.close(t)
		t.Fatal(err)
	}
	return instance{m, func() {
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	}}
}

// instantiate is an instance that is alone in its engine.
func instantiate(t testing.TB, cfg wazero.RuntimeConfig, wasm []byte) instance {
	t.Helper()
	c := compile(t, cfg, wasm)
	return instance{c.instantiate(t).module, func() { c.close(t) }}
}

// outcome is all that can be seen of a call.
type outcome struct {
	results []uint64
	trap    string
	memory  [sha256.Size]byte
	pages   uint32
	state   string // exported globals, those of the metering left out
	fuel    int64  // left; 0 for a module that is not metered
	depth   uint32
}

func (o outcome) String() string {
	return fmt.Sprintf("results %x, trap %q, %d pages %x, globals %s", o.results, o.trap, o.pages, o.memory[:4], o.state)
}

// spent says whether the module was stopped for want of fuel or of call stack.
func (o outcome) spent(c Costs) bool { return o.fuel < 0 || o.depth > c.Depth }

// run calls an export with a budget.
func (i instance) run(t testing.TB, name string, fuel int64, args ...uint64) outcome {
	t.Helper()
	if g, ok := i.module.ExportedGlobal(GlobalFuel).(api.MutableGlobal); ok {
		g.Set(uint64(fuel))
	}
	results, err := i.module.ExportedFunction(name).Call(context.Background(), args...)
	o := outcome{results: results}
	if err != nil {
		o.trap, _, _ = strings.Cut(err.Error(), "\n")
	}
	mem := i.module.Memory()
	all, _ := mem.Read(0, mem.Size())
	o.memory, o.pages = sha256.Sum256(all), mem.Size()>>16
	for k := 0; ; k++ {
		g := i.module.ExportedGlobal(fmt.Sprint("g", k))
		if g == nil {
			break
		}
		o.state += fmt.Sprintf("%x ", g.Get())
	}
	if g := i.module.ExportedGlobal(GlobalFuel); g != nil {
		o.fuel, o.depth = int64(g.Get()), uint32(i.module.ExportedGlobal(GlobalDepth).Get())
	}
	return o
}

// runOnce calls an export of a fresh instance.
func runOnce(t testing.TB, cfg wazero.RuntimeConfig, wasm []byte, name string, fuel int64, args ...uint64) outcome {
	t.Helper()
	i := instantiate(t, cfg, wasm)
	defer i.close()
	return i.run(t, name, fuel, args...)
}

// metered is the module after the pass, which must leave a module that decodes again.
func metered(t testing.TB, m *Module, c Costs) []byte {
	t.Helper()
	out, err := Meter(m, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(out); err != nil {
		t.Fatalf("the metered module does not decode: %v", err)
	}
	return out
}
