package plugins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"sluice/internal/text"
	"sluice/plugins/wasmbin"
)

// wazeroEngine compiles each module in a runtime of its own, so that closing a program frees everything of it, and so
// that no two runtimes share a compilation cache object.
type wazeroEngine struct {
	interpret   bool
	memoryPages uint32
	cacheDir    string        // empty: no cache
	files       *sync.RWMutex // of the cache: read while a module is compiled with it, written while it is emptied
	live        *atomic.Int64 // memories of instances
}

// compile compiles a module that the verifier has accepted. Where that fails with a cache and not without, a file of the
// cache is damaged, and would be for ever: the cache is emptied and the module compiled into it once more. A module that
// cannot be compiled at all costs nobody the cache.
func (e *wazeroEngine) compile(ctx context.Context, wasm []byte) (program, error) {
	p, err := e.compileOnce(ctx, wasm)
	if err == nil || e.cacheDir == "" || e.interpret {
		return p, err
	}
	plain := *e
	plain.cacheDir = ""
	without, err := plain.compileOnce(ctx, wasm)
	if err != nil {
		return nil, err
	}
	e.files.Lock()
	emptied := emptyCacheDir(e.cacheDir)
	e.files.Unlock()
	if emptied == nil {
		if p, err = e.compileOnce(ctx, wasm); err == nil {
			return p, without.close(ctx)
		}
	}
	return without, nil
}

func (e *wazeroEngine) compileOnce(ctx context.Context, wasm []byte) (_ program, err error) {
	p := &wazeroProgram{live: e.live}
	// wazero panics where the platform cannot run the compiler; a policy that cannot be loaded is an error here.
	defer func() {
		if r := recover(); r != nil {
			_ = p.close(ctx)
			err = reject("engine", "the WebAssembly engine stopped: %v", r)
		}
	}()
	cfg := wazero.NewRuntimeConfigCompiler()
	if e.interpret {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	// The memory is reserved by the allocator that instantiate passes, so its capacity is no matter of wazero's.
	cfg = cfg.WithCoreFeatures(api.CoreFeaturesV2.SetEnabled(api.CoreFeatureSIMD, false)).
		WithMemoryLimitPages(e.memoryPages).
		WithMemoryCapacityFromMax(false).
		WithCloseOnContextDone(false).
		WithDebugInfoEnabled(false)
	if e.cacheDir != "" && !e.interpret {
		e.files.RLock()
		defer e.files.RUnlock()
		cache, err := wazero.NewCompilationCacheWithDir(e.cacheDir)
		if err != nil {
			return nil, fmt.Errorf("plugin cache %s: %w", e.cacheDir, err)
		}
		p.cache = cache
		cfg = cfg.WithCompilationCache(cache)
	}
	p.runtime = wazero.NewRuntimeWithConfig(ctx, cfg)
	p.module, err = p.runtime.CompileModule(ctx, wasm)
	if err != nil {
		_ = p.close(ctx)
		return nil, reject("not_wasm", "not a WebAssembly module that this host runs: %v; build it for wasm32 without SIMD, threads or exceptions", err)
	}
	return p, nil
}

type wazeroProgram struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	module  wazero.CompiledModule
	wasi    bool
	live    *atomic.Int64 // memories of instances
}

func (p *wazeroProgram) surface() surface {
	s := surface{exports: map[string]signature{}}
	for _, f := range p.module.ImportedFunctions() {
		m, n, _ := f.Import()
		s.imports = append(s.imports, importName{m, n})
	}
	for _, m := range p.module.ImportedMemories() {
		mod, n, _ := m.Import()
		s.imports = append(s.imports, importName{mod, n})
	}
	for name, f := range p.module.ExportedFunctions() {
		s.exports[name] = signature{types(f.ParamTypes()), types(f.ResultTypes())}
	}
	for name := range p.module.ExportedMemories() {
		s.memories = append(s.memories, name)
	}
	return s
}

func types(ts []api.ValueType) string {
	words := make([]string, len(ts))
	for i, t := range ts {
		switch t {
		case api.ValueTypeI32:
			words[i] = "i32"
		case api.ValueTypeI64:
			words[i] = "i64"
		case api.ValueTypeF32:
			words[i] = "f32"
		case api.ValueTypeF64:
			words[i] = "f64"
		default:
			words[i] = "other"
		}
	}
	return strings.Join(words, " ")
}

func (p *wazeroProgram) instantiate(ctx context.Context) (machine, error) {
	if !p.wasi {
		if err := buildStubs(ctx, p.runtime); err != nil {
			return nil, err
		}
		p.wasi = true
	}
	m := &wazeroMachine{panicAt: -1}
	// The stubs find their machine through the context of the call, which is wazero's way to hand a host function
	// something of its caller's. It is made once, so a call allocates nothing.
	m.ctx = context.WithValue(context.Background(), machineKey{}, m)
	memories := memoryAllocator{live: p.live}
	mod, err := p.runtime.InstantiateModule(experimental.WithMemoryAllocator(m.ctx, &memories), p.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		memories.free()
		return nil, asTrap(err, m)
	}
	m.module, m.memory = mod, mod.Memory()
	if err := m.findMeter(); err != nil {
		_ = m.close(ctx)
		return nil, err
	}
	for e, name := range entryNames() {
		m.functions[e] = mod.ExportedFunction(name)
	}
	if init := mod.ExportedFunction("_initialize"); init != nil {
		m.fuelLeft.Set(uint64(loadFuel))
		if err := init.CallWithStack(m.ctx, m.stack[:0]); err != nil {
			err = asTrap(err, m)
			_ = m.close(ctx)
			return nil, err
		}
	}
	return m, nil
}

// entryNames is the export behind each entry.
func entryNames() [entries]string {
	return [entries]string{
		entryArena: "sluice_arena", entryConfigure: "sluice_configure",
		entryGate: "sluice_gate_v1", entryReserve: "sluice_reserve_v1", entryAdmit: "sluice_admit_v1", entryScore: "sluice_score_v1",
		entrySave: "sluice_state_save", entryLoad: "sluice_state_load",
	}
}

func (p *wazeroProgram) close(ctx context.Context) error {
	var errs []error
	if p.runtime != nil {
		errs = append(errs, p.runtime.Close(ctx))
	}
	if p.cache != nil {
		errs = append(errs, p.cache.Close(ctx))
	}
	return errors.Join(errs...)
}

// wazeroMachine keeps everything that a call needs: functions looked up once and one stack, so that a call allocates
// nothing.
type wazeroMachine struct {
	ctx       context.Context
	module    api.Module
	memory    api.Memory
	functions [entries]api.Function
	fuelLeft  api.MutableGlobal
	depth     api.Global
	stack     [2]uint64
	tick      uint64
	written   [1 << 10]byte
	length    int
	panicAt   int // where the words of a panic start in written; -1: there are none
}

// panicBytes is the room in written that is kept for the words of a panic.
const panicBytes = 256

// say keeps a part of what the guest prints.
func (m *wazeroMachine) say(words []byte) {
	if m.panicAt < 0 && (bytes.HasPrefix(words, []byte("panic: ")) || bytes.HasPrefix(words, []byte("fatal error: "))) {
		m.panicAt = m.length
	}
	room := m.written[:len(m.written)-panicBytes]
	if m.panicAt >= 0 {
		room = m.written[:]
	}
	if m.length < len(room) {
		m.length += copy(room[m.length:], words)
	}
}

// lastWords is the line that says why the guest stopped, fit to be shown: its panic, else the first that it printed.
func (m *wazeroMachine) lastWords() string {
	return text.Line(firstLine(string(m.written[max(m.panicAt, 0):m.length])), maxPrinted)
}

type machineKey struct{}

// findMeter looks up the globals of the metering pass. A module without them never runs.
func (m *wazeroMachine) findMeter() error {
	fuel, ok := m.module.ExportedGlobal(wasmbin.GlobalFuel).(api.MutableGlobal)
	depth := m.module.ExportedGlobal(wasmbin.GlobalDepth)
	if !ok || depth == nil {
		return fmt.Errorf("the module is not metered: it exports no %s and %s", wasmbin.GlobalFuel, wasmbin.GlobalDepth)
	}
	m.fuelLeft, m.depth = fuel, depth
	return nil
}

func (m *wazeroMachine) fuel() int64 { return max(0, int64(m.fuelLeft.Get())) }

// pay takes what the host did for the guest off its fuel. False means that there is not enough: nothing is to be done, and
// the call ends as one that spent its fuel.
func (m *wazeroMachine) pay(units int64) bool {
	left := max(int64(m.fuelLeft.Get())-units, -1)
	m.fuelLeft.Set(uint64(left))
	return left >= 0
}

func (m *wazeroMachine) invoke(e entry, a, b uint32, fuel int64) (uint64, error) {
	f := m.functions[e]
	if f == nil {
		return 0, &trap{FaultTrap, "missing export", entryNames()[e]}
	}
	m.fuelLeft.Set(uint64(fuel))
	m.stack[0], m.stack[1] = uint64(a), uint64(b)
	if err := f.CallWithStack(m.ctx, m.stack[:]); err != nil {
		return 0, asTrap(err, m)
	}
	if int64(m.fuelLeft.Get()) < 0 {
		return 0, outOfFuel()
	}
	return m.stack[0], nil
}

func (m *wazeroMachine) view(at, size uint32) []byte {
	if m.memory == nil {
		return nil
	}
	b, ok := m.memory.Read(at, size)
	if !ok {
		return nil
	}
	return b
}

func (m *wazeroMachine) pages() uint32 {
	if m.memory == nil {
		return 0
	}
	return m.memory.Size() >> 16
}

func (m *wazeroMachine) setTick(tick uint64) { m.tick, m.length, m.panicAt = tick, 0, -1 }

func (m *wazeroMachine) printed() []byte { return m.written[:m.length] }

// close unmaps the memory, so nothing may look at it or run on it afterwards.
func (m *wazeroMachine) close(ctx context.Context) error {
	m.memory, m.functions = nil, [entries]api.Function{}
	return m.module.Close(ctx)
}

func outOfFuel() *trap { return &trap{FaultOutOfFuel, "", "its fuel is spent"} }

// asTrap turns wazero's error into a trap with a short kind.
func asTrap(err error, m *wazeroMachine) error {
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return &trap{FaultTrap, fmt.Sprintf("exit %d", exit.ExitCode()), m.lastWords()}
	}
	if m.fuelLeft != nil && int64(m.fuelLeft.Get()) < 0 {
		return outOfFuel()
	}
	if m.depth != nil && uint32(m.depth.Get()) > costs().Depth {
		return &trap{FaultStackDepth, "", fmt.Sprintf("its calls nest deeper than %d frames; recurse less", costs().Depth)}
	}
	line := text.Line(firstLine(err.Error()), maxPrinted)
	kind, isTrap := strings.CutPrefix(line, "wasm error: ")
	if !isTrap {
		kind = "error"
	}
	if said := m.lastWords(); said != "" {
		line = said
	}
	return &trap{FaultTrap, kind, line}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
