package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"sluice/abi"
	"sluice/plugins/manifest"
)

// Limits of Options.
const (
	DefaultMemoryPages = 1024     // 64 MiB an instance
	MaxMemoryPages     = 65536    // what a 32-bit memory can have
	maxModuleBytes     = 64 << 20 // larger files are refused unread
)

// Options says how modules are loaded. The zero value is usable.
type Options struct {
	MemoryPages uint32       // most memory of an instance whose Spec sets none, in pages of 64 KiB; 0: DefaultMemoryPages
	CacheDir    string       // where compiled modules are kept, mode 0700; empty: nowhere
	Fuel        Fuel         // of each call of a hook whose Spec sets none; zero: DefaultFuel
	Log         *slog.Logger // warnings at load; nil: dropped
	LogLimit    LogLimit     // of what each policy's instances log; zero: the defaults
}

// Host loads modules: each is compiled once, by one goroutine, and found again by its SHA-256 and its limit of memory. Who
// wants a module that is being compiled waits for it, and for no other. What
// only sets use is freed when the last of them is closed, but for the keptModules used last; what Compile returned is kept
// until Close. It is safe for concurrent use; what it makes is not.
type Host struct {
	log      *slog.Logger
	pages    uint32
	cacheDir string
	fuel     Fuel
	logLimit LogLimit
	engine   func(e Engine, pages uint32) engine
	prepare  func(wasm []byte, pages uint32) ([]byte, error) // verifies and meters

	mu        sync.Mutex // held for look-ups and assignments only
	modules   map[moduleKey]*Module
	compiling map[moduleKey]*compilation
	releases  atomic.Uint64 // of modules by their last users
	files     sync.RWMutex  // of the cache: read while a module is compiled, written while it is emptied
	live      atomic.Int64  // memories of instances
}

type moduleKey struct {
	sha    [sha256.Size]byte
	engine Engine
	pages  uint32
}

// NewHost makes a host. A cache directory that cannot be used, or that others can write, is left aside with a warning:
// starts are slower without, and nothing else changes.
func NewHost(o Options) *Host {
	h := &Host{log: o.Log, pages: o.MemoryPages, modules: map[moduleKey]*Module{}, compiling: map[moduleKey]*compilation{}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.pages == 0 || h.pages > MaxMemoryPages {
		h.pages = DefaultMemoryPages
	}
	if o.CacheDir != "" {
		dir, err := openCacheDir(o.CacheDir)
		if err != nil {
			h.log.Warn("compiled policies are not cached", "error", err)
		}
		h.cacheDir = dir
	}
	h.fuel = o.Fuel.or(DefaultFuel())
	h.logLimit = o.LogLimit
	h.prepare = prepare
	h.engine = func(e Engine, pages uint32) engine {
		return &wazeroEngine{interpret: e == EngineInterpreter, memoryPages: pages, cacheDir: h.cacheDir, files: &h.files, live: &h.live}
	}
	return h
}

// Compile returns the module with these bytes; unless an earlier call did, it is verified, metered and compiled. A refusal
// is a *Fault of class load_rejected, which wraps ErrRejected and names the rule and the fix. The module stays until the
// host is closed.
func (h *Host) Compile(ctx context.Context, wasm []byte) (*Module, error) {
	return h.kept(ctx, wasm, EngineCompiler, h.pages)
}

// compile makes the module behind a key. It takes as long as an engine does, and no lock.
func (h *Host) compile(ctx context.Context, wasm []byte, key moduleKey) (*Module, error) {
	if len(wasm) > maxModuleBytes {
		return nil, reject("size", "%d bytes, the limit is %d", len(wasm), maxModuleBytes)
	}
	metered, err := h.prepare(wasm, key.pages)
	if err != nil {
		return nil, err
	}
	about, err := manifest.Read(wasm)
	if err != nil {
		return nil, reject("manifest", "%v", err)
	}
	p, err := h.engine(key.engine, key.pages).compile(ctx, metered)
	if err != nil {
		return nil, err
	}
	m, err := newModule(p, key, h.fuel, &h.releases)
	if err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	m.manifest = about
	return m, nil
}

var errClosed = errors.New("plugin host is closed")

// Close frees every module. Instances must be closed before. A module that is being compiled is freed by who compiles it.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	all := h.modules
	h.modules = nil
	h.mu.Unlock()
	var errs []error
	for _, m := range all {
		errs = append(errs, m.program.close(ctx))
	}
	return errors.Join(errs...)
}

// Module is a compiled module. It is immutable; instances of it may be made from several goroutines, one at a time.
type Module struct {
	program  program
	key      moduleKey
	fuel     Fuel
	hooks    [abi.Score + 1]bool
	manifest *manifest.Manifest
	handsOn  bool // it exports both functions of a state

	users    users
	releases *atomic.Uint64 // of the host

	mu      sync.Mutex
	checked map[[sha256.Size]byte]bool // configurations whose vectors were run
}

// SHA256 is the hash of the module's bytes as they were given, before metering, in hex.
func (m *Module) SHA256() string { return fmt.Sprintf("%x", m.key.sha) }

// Engine is what runs the module.
func (m *Module) Engine() Engine { return m.key.engine }

// Has says whether the module exports the hook's entry point.
func (m *Module) Has(h abi.Hook) bool { return int(h) < len(m.hooks) && m.hooks[h] }

// Manifest is what the module says about itself, nil where it says nothing. It is read from the bytes as they were given,
// and belongs to the module: nobody writes to it.
func (m *Module) Manifest() *manifest.Manifest { return m.manifest }

// Fuel is what each call of a hook may spend where the operator says nothing: the host's default, lowered to what the
// module's manifest hints at.
func (m *Module) Fuel() Fuel { return m.fuel.hinted(m.manifest) }

// CheckConfig holds a configuration, canonical JSON, to the schema of the module's manifest. An error is a *Fault of class
// load_rejected, and names no value.
func (m *Module) CheckConfig(config []byte) error {
	if err := m.manifest.CheckConfig(config); err != nil {
		return reject("config", "%v", err)
	}
	return nil
}

// StateSchema is the schema of the module's saved state and those that it can load, its own among them; ok is false where
// its manifest names none, so that its state is never carried. The slice is the caller's.
func (m *Module) StateSchema() (schema uint32, loads []uint32, ok bool) {
	return m.manifest.StateSchema()
}

func newModule(p program, key moduleKey, fuel Fuel, releases *atomic.Uint64) (*Module, error) {
	s := p.surface()
	if err := checkSurface(s); err != nil {
		return nil, err
	}
	m := &Module{program: p, key: key, fuel: fuel, releases: releases, checked: map[[sha256.Size]byte]bool{}}
	for _, h := range hooks() {
		_, m.hooks[h] = s.exports[h.Export()]
	}
	_, m.handsOn = s.exports[entryNames()[entrySave]]
	return m, nil
}

// hooks lists the hooks in the order in which they run in a tick.
func hooks() []abi.Hook { return []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} }
