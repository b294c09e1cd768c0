package plugins

import "context"

// Engine is what runs a policy.
type Engine uint8

// The engines.
const (
	EngineCompiler    Engine = iota // WebAssembly, compiled to machine code at load
	EngineInterpreter               // WebAssembly, interpreted: some sixty times slower, for where the compiler is wrong
	EngineNative                    // plain Go, shipped policies only
)

// String is the engine as reports show it: both ways of running WebAssembly are "wasm".
func (e Engine) String() string {
	if e == EngineNative {
		return "native"
	}
	return "wasm"
}

// engine is all that this package wants from a WebAssembly runtime; wazero.go is the only file that knows which.
type engine interface {
	// compile turns the bytes of a metered module into a program, or refuses with a *Fault of class load_rejected.
	compile(ctx context.Context, wasm []byte) (program, error)
}

// program is a compiled module.
type program interface {
	surface() surface
	// instantiate makes a machine with _initialize already run, within loadFuel.
	instantiate(ctx context.Context) (machine, error)
	close(ctx context.Context) error
}

// entry is one of the exports that the host calls.
type entry uint8

const (
	entryArena entry = iota
	entryConfigure
	entryGate
	entryReserve
	entryAdmit
	entryScore
	entrySave // sluice_state_save
	entryLoad // sluice_state_load
	entries
)

// machine is one instance. It is not safe for concurrent use.
type machine interface {
	// invoke calls an export with up to two arguments. It spends at most fuel, which lies between 0 and maxFuel. A trap or
	// exit is a *trap. An i32 result is in the low half.
	invoke(e entry, a, b uint32, fuel int64) (uint64, error)
	// fuel is what the last invoke left of its fuel, never below 0.
	fuel() int64
	// view is size bytes of memory from at on, writable, until the next invoke; nil if they are not all there.
	view(at, size uint32) []byte
	// pages is the size of the memory in pages of 64 KiB.
	pages() uint32
	// setTick sets what the guest's clock shows.
	setTick(tick uint64)
	// printed is what the guest wrote to its standard streams since the last setTick, cut to a fixed length; good until
	// the next invoke.
	printed() []byte
	close(ctx context.Context) error
}

// trap is an error of invoke: the guest stopped instead of returning.
type trap struct {
	class  FaultClass // FaultTrap, FaultOutOfFuel or FaultStackDepth
	kind   string     // one or two words, empty where the class says it all
	detail string     // the runtime's own words, one line
}

func (t *trap) Error() string {
	if t.kind == "" {
		return t.class.String() + ": " + t.detail
	}
	return t.kind + ": " + t.detail
}

// signature is an export's or import's type, each value written as "i32", "i64", "f32", "f64" or "other".
type signature struct{ params, results string }

// surface is what can be known of a module without running it.
type surface struct {
	imports  []importName
	exports  map[string]signature
	memories []string // exported memories
}

type importName struct{ module, name string }
