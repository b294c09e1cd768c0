package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"sluice/abi"
	"sluice/internal/text"
	"sluice/plugins"
	"sluice/plugins/wasmbin"
)

// Build is something that instances of one module are made of: the host's compiled module, or a Reference.
type Build interface {
	Has(h abi.Hook) bool
	Instance(ctx context.Context, class abi.Class, info abi.HostInfo, config []byte) (plugins.Caller, error)
}

// Compiled is a host's module as a Build. Its instances are those of a server's set where the operator says nothing.
func Compiled(m *plugins.Module) Build { return compiled{m} }

type compiled struct{ *plugins.Module }

func (c compiled) Instance(ctx context.Context, class abi.Class, info abi.HostInfo, config []byte) (plugins.Caller, error) {
	i, err := instantiate(ctx, c.Module, class, info, config)
	if err != nil {
		return nil, err // no typed nil
	}
	return i, nil
}

// instantiate makes an instance as a server's set does where the operator says nothing: the configuration is held to the
// manifest's schema, and the calls to its hint of fuel.
func instantiate(ctx context.Context, m *plugins.Module, class abi.Class, info abi.HostInfo, config []byte) (*plugins.Instance, error) {
	if err := m.CheckConfig(config); err != nil {
		return nil, err
	}
	i, err := m.Instantiate(ctx, class, info, config)
	if err != nil {
		return nil, err
	}
	for _, h := range Hooks(m) {
		i.SetFuel(h, m.Fuel())
	}
	return i, nil
}

// Reference is a second host, kept small: the same metered module on the interpreter, with stand-ins for the imports that
// were written apart from the host's. What both say of a batch is right of the engine and of the host's side of the ABI,
// or wrong in two ways at once. It also shows what the host does not: the size of an instance's memory. It is some sixty
// times slower, and made for tools alone.
type Reference struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	fuel    plugins.Fuel
}

// NewReference meters and interprets a module, whose calls may spend fuel, as Module.Fuel says, say. Errors are those of wasmbin, and of an engine that refuses the module.
func NewReference(ctx context.Context, wasm []byte, fuel plugins.Fuel) (*Reference, error) {
	metered, err := meter(wasm)
	if err != nil {
		return nil, err
	}
	return newReference(ctx, wazero.NewRuntimeConfigInterpreter(), metered, fuel)
}

func newReference(ctx context.Context, cfg wazero.RuntimeConfig, wasm []byte, fuel plugins.Fuel) (_ *Reference, err error) {
	cfg = cfg.WithCoreFeatures(api.CoreFeaturesV2.SetEnabled(api.CoreFeatureSIMD, false)).WithMemoryLimitPages(plugins.DefaultMemoryPages)
	r := &Reference{runtime: wazero.NewRuntimeWithConfig(ctx, cfg), fuel: fuel}
	if err := r.imports(ctx); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	if r.module, err = r.runtime.CompileModule(ctx, wasm); err != nil {
		return nil, errors.Join(fmt.Errorf("the engine refuses the module: %s", text.Line(err.Error(), 1<<10)), r.Close(ctx))
	}
	return r, nil
}

// Close frees everything, instances included.
func (r *Reference) Close(ctx context.Context) error { return r.runtime.Close(ctx) }

// Has implements Build.
func (r *Reference) Has(h abi.Hook) bool {
	name := h.Export()
	_, ok := r.module.ExportedFunctions()[name]
	return name != "" && ok
}

// tickKey finds the tick, which is all that the guest's clock shows, in the context of a call.
type tickKey struct{}

// imports are what a Go module links. Each leaves the guest as the policy ABI promises: no arguments, no environment,
// zeros for random numbers, a clock that moves one millisecond a tick, nowhere to write to, and waits that end at once.
func (r *Reference) imports(ctx context.Context) error {
	const badFile, fault = 8, 21
	b := r.runtime.NewHostModuleBuilder("wasi_snapshot_preview1")
	// Each stand-in takes memory and arguments and returns an error number of WASI.
	add := func(name string, params string, do func(ctx context.Context, mem api.Memory, a []uint64) uint64) {
		var types []api.ValueType
		for _, c := range params {
			types = append(types, map[rune]api.ValueType{'i': api.ValueTypeI32, 'l': api.ValueTypeI64}[c])
		}
		b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, a []uint64) {
			a[0] = do(ctx, m.Memory(), a)
		}), types, []api.ValueType{api.ValueTypeI32}).Export(name)
	}
	store := func(ok bool) uint64 {
		if ok {
			return 0
		}
		return fault
	}
	nothing := func(context.Context, api.Memory, []uint64) uint64 { return 0 }
	noSizes := func(_ context.Context, mem api.Memory, a []uint64) uint64 {
		return store(mem.WriteUint32Le(uint32(a[0]), 0) && mem.WriteUint32Le(uint32(a[1]), 0))
	}
	add("args_get", "ii", nothing)
	add("environ_get", "ii", nothing)
	add("args_sizes_get", "ii", noSizes)
	add("environ_sizes_get", "ii", noSizes)
	add("poll_oneoff", "iiii", func(_ context.Context, mem api.Memory, a []uint64) uint64 {
		out, ok := mem.Read(uint32(a[1]), 32*uint32(a[2]))
		if uint32(a[2]) > 64 || !ok {
			return fault
		}
		if !mem.WriteUint32Le(uint32(a[3]), uint32(a[2])) {
			return fault
		}
		clear(out)
		return 0
	})
	add("random_get", "ii", func(_ context.Context, mem api.Memory, a []uint64) uint64 {
		b, ok := mem.Read(uint32(a[0]), uint32(a[1]))
		clear(b)
		return store(ok)
	})
	add("clock_time_get", "ili", func(ctx context.Context, mem api.Memory, a []uint64) uint64 {
		tick, _ := ctx.Value(tickKey{}).(*uint64)
		if tick == nil {
			return fault
		}
		return store(mem.WriteUint64Le(uint32(a[2]), (*tick+1)*1_000_000))
	})
	add("fd_write", "iiii", func(_ context.Context, mem api.Memory, a []uint64) uint64 {
		if fd := uint32(a[0]); fd != 1 && fd != 2 {
			return badFile
		}
		total := uint32(0)
		for i := range uint32(a[2]) {
			size, ok := mem.ReadUint32Le(uint32(a[1]) + 8*i + 4)
			if !ok || i == 64 {
				return fault
			}
			total += size
		}
		return store(mem.WriteUint32Le(uint32(a[3]), total))
	})
	b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, a []uint64) { a[0] = 0 }),
		nil, []api.ValueType{api.ValueTypeI32}).Export("sched_yield")
	b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, a []uint64) {
		panic(sys.NewExitError(uint32(a[0]))) // how wazero has a host function stop its guest
	}), []api.ValueType{api.ValueTypeI32}, nil).Export("proc_exit")
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("install the imports: %w", err)
	}
	return nil
}

// Instance implements Build.
func (r *Reference) Instance(_ context.Context, class abi.Class, info abi.HostInfo, config []byte) (plugins.Caller, error) {
	i := &referenceInstance{fuel: r.fuel, functions: map[string]api.Function{}}
	i.ctx = context.WithValue(context.Background(), tickKey{}, &i.tick)
	var err error
	i.module, err = r.runtime.InstantiateModule(i.ctx, r.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("the engine cannot start the module: %w", err)
	}
	if err := i.start(class, info, config); err != nil {
		return nil, errors.Join(err, i.module.Close(i.ctx))
	}
	return i, nil
}

// referenceInstance is an instance of a Reference.
type referenceInstance struct {
	functions map[string]api.Function
	stack     [2]uint64
	ctx       context.Context
	module    api.Module
	left      api.MutableGlobal
	fuel      plugins.Fuel
	tick      uint64
	hook      abi.Hook
	n, nOut   int
	at        uint32
	size      int
	spent     int64
}

const referenceStartFuel = 200_000_000

func (i *referenceInstance) start(class abi.Class, info abi.HostInfo, config []byte) error {
	left, ok := i.module.ExportedGlobal(wasmbin.GlobalFuel).(api.MutableGlobal)
	if !ok {
		return fmt.Errorf("the metered module exports no %s", wasmbin.GlobalFuel)
	}
	i.left = left
	if i.module.ExportedFunction("_initialize") != nil {
		if _, err := i.invoke("_initialize", referenceStartFuel); err != nil {
			return err
		}
	}
	at, err := i.invoke("sluice_arena", referenceStartFuel, uint64(abi.ArenaConfig), uint64(len(config)))
	if err != nil {
		return err
	}
	if len(config) > 0 && !i.module.Memory().Write(uint32(at), config) {
		return fmt.Errorf("the CONFIG arena at %#x is not %d bytes of memory", at, len(config))
	}
	if at, err = i.invoke("sluice_arena", referenceStartFuel, uint64(abi.ArenaHostInfo), abi.HostInfoSize); err != nil {
		return err
	}
	if err := i.grow(abi.BatchSize(abi.Admit, 256, 256)); err != nil {
		return err
	}
	// What the host asks for before configure, in its order: a policy that logs does more than one that may not.
	for _, a := range []struct {
		kind abi.Arena
		size uint64
	}{{abi.ArenaLog, abi.LogRingSize + abi.LogEntries*abi.LogEntrySize}, {abi.ArenaCounters, abi.Counters * 8}} {
		if _, err := i.invoke("sluice_arena", referenceStartFuel, uint64(a.kind), a.size); err != nil {
			return err
		}
	}
	info.Major, info.Minor, info.Class, info.ConfigBytes = abi.Major, abi.Minor, class, uint32(len(config))
	rec := make([]byte, abi.HostInfoSize)
	abi.PutHostInfo(rec, &info)
	if !i.module.Memory().Write(uint32(at), rec) {
		return fmt.Errorf("the HOSTINFO arena at %#x is not %d bytes of memory", at, abi.HostInfoSize)
	}
	status, err := i.invoke("sluice_configure", referenceStartFuel, at)
	if err == nil && abi.Status(int32(status)) < 0 {
		err = fmt.Errorf("sluice_configure says %q", abi.Status(int32(status)))
	}
	return err
}

func (i *referenceInstance) invoke(name string, fuel int64, args ...uint64) (uint64, error) {
	f := i.functions[name]
	if f == nil {
		if f = i.module.ExportedFunction(name); f == nil {
			return 0, fmt.Errorf("the module does not export %s", name)
		}
		i.functions[name] = f
	}
	i.left.Set(uint64(fuel))
	i.stack = [2]uint64{}
	copy(i.stack[:], args)
	err := f.CallWithStack(i.ctx, i.stack[:])
	i.spent = fuel - max(0, int64(i.left.Get()))
	if err != nil {
		return 0, i.failed(err)
	}
	return i.stack[0], nil
}

// failed tells the class of a stop as the metering pass leaves it.
func (i *referenceInstance) failed(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	f := &plugins.Fault{Class: plugins.FaultTrap, Hook: i.hook, Detail: text.Line(line, 256)}
	switch depth := i.module.ExportedGlobal(wasmbin.GlobalDepth); {
	case int64(i.left.Get()) < 0:
		f.Class = plugins.FaultOutOfFuel
	case depth != nil && uint32(depth.Get()) > wasmbin.DefaultCosts().Depth:
		f.Class = plugins.FaultStackDepth
	}
	return f
}

func (i *referenceInstance) grow(size int) error {
	if size <= i.size {
		return nil
	}
	at, err := i.invoke("sluice_arena", referenceStartFuel, uint64(abi.ArenaIn), uint64(size))
	if err == nil && at == 0 {
		err = fmt.Errorf("the module refuses an IN arena of %d bytes", size)
	}
	i.at, i.size = uint32(at), size
	return err
}

// Begin implements plugins.Caller.
func (i *referenceInstance) Begin(hook abi.Hook, tick, epoch uint64, n, nOut int) (abi.Batch, error) {
	size := abi.BatchSize(hook, n, nOut)
	if size == 0 {
		return abi.Batch{}, fmt.Errorf("%s batch of %d records: %w", hook, n, abi.ErrBatchSize)
	}
	i.tick, i.hook, i.n, i.nOut = tick, hook, n, nOut
	if size > i.size {
		if err := i.grow(2 * size); err != nil {
			return abi.Batch{}, &plugins.Fault{Class: plugins.FaultTrap, Hook: hook, Kind: "arena", Detail: err.Error()}
		}
	}
	buf, ok := i.module.Memory().Read(i.at, uint32(size))
	if !ok {
		return abi.Batch{}, &plugins.Fault{Class: plugins.FaultTrap, Hook: hook, Kind: "arena", Detail: "the IN arena is not in memory"}
	}
	return abi.Begin(buf, hook, tick, epoch, n, nOut)
}

// Call implements plugins.Caller.
func (i *referenceInstance) Call(hook abi.Hook) (abi.Status, error) {
	got, err := i.invoke(hook.Export(), int64(i.fuel.Base)+int64(i.fuel.PerRecord)*int64(i.n), uint64(i.at))
	if err != nil {
		return 0, err
	}
	status := abi.Status(int32(uint32(got)))
	if status != abi.StatusDeclined && (status < 0 || status > 255) {
		return 0, &plugins.Fault{Class: plugins.FaultBadStatus, Hook: hook, Kind: fmt.Sprint(int32(status)), Detail: status.String()}
	}
	return status, nil
}

// Answer implements plugins.Caller.
func (i *referenceInstance) Answer() (abi.Batch, error) {
	buf, ok := i.module.Memory().Read(i.at, uint32(abi.BatchSize(i.hook, i.n, i.nOut)))
	if !ok {
		return abi.Batch{}, &plugins.Fault{Class: plugins.FaultTrap, Hook: i.hook, Kind: "arena", Detail: "the IN arena is no longer in memory"}
	}
	return abi.View(buf, i.hook, i.n, i.nOut)
}

// Close implements plugins.Caller.
func (i *referenceInstance) Close(ctx context.Context) error { return i.module.Close(ctx) }

// Spent is the fuel of the last call.
func (i *referenceInstance) Spent() uint64 { return uint64(i.spent) }

// Pages is the size of the memory in pages of 64 KiB.
func (i *referenceInstance) Pages() uint32 { return i.module.Memory().Size() >> 16 }
