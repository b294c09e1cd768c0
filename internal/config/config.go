package config

import (
	"cmp"
	"time"
)

// Config is one complete, checked configuration. Keys documents units and ranges of every field; sizes are in bytes,
// lengths in tokens, ages in ticks of the scheduler.
type Config struct {
	HTTP    HTTP
	Decode  Decode
	Prefill Prefill
	Model   Model
	Router  Router
	Policy  Policy
	Plugins Plugins
	Log     Log
}

// HTTP is the listener that clients talk to.
type HTTP struct {
	Host          string
	Port          int
	MaxBody       int64
	MaxQueue      int
	ShutdownGrace time.Duration
	ReadTimeout   time.Duration
	WriteStall    time.Duration
}

// Decode is the decode instance: its ranks, its tiers and the rules of its scheduler.
type Decode struct {
	Ranks                int
	PageSize             int
	MaxTotalTokens       int
	L2Ratio              float64
	MaxRunning           int
	MetadataSlots        int
	MaxNewTokens         int
	ReservedDecodeTokens int
	Overcommit           float64
	HoldTicks            int
	StarveTicks          int
	DrainTicks           int
	TransferTicks        int
	AdmitWindow          int
	Operations           int
	LoadFailures         int
	IdleTick             time.Duration
	ExchangeDeadline     time.Duration
	IngressSlice         int64
	Checksums            bool
	MaxTokensPerRequest  int
}

// Prefill is the prefill instance.
type Prefill struct {
	TP          int
	ChunkTokens int
	StagingRing int64
}

// Model is what makes tokens.
type Model struct {
	Name               string
	VocabSize          int
	Layers             int
	BytesPerTokenLayer int
	Seed               int
}

// Router is the part in front of prefill and decode.
type Router struct {
	Retries int
}

// Policy names the policy of each hook and says when a misbehaving one is quarantined where its own section does not.
type Policy struct {
	QuarantineFaults      int
	QuarantineWindowTicks int
	SlowCall              time.Duration // of one call; longer ones raise an alarm. 0: none
	Gate                  Hook
	Reserve               Hook
	Admit                 Hook
	Score                 Hook
}

// Hook is one policy. Exactly one of Builtin and Path is set; with a Path, Engine is EngineWasm.
type Hook struct {
	// Builtin is the name of a shipped policy.
	Builtin string
	// Path is a Wasm module. A relative path in a file starts at the file's folder, elsewhere at the working folder.
	Path string
	// Engine is EngineWasm or EngineNative.
	Engine string
	// Config is the policy's own table as one JSON object: keys sorted bytewise, no spaces, integers within 64 bits and
	// floats always with a point or an exponent. It is "{}" where no table is given.
	Config []byte
	// SHA256 is the hash that the module at Path must have, 64 hex digits; empty where it is not pinned, as without a Path.
	SHA256 string
	// Key is whose signature the module at Path must have beside it, "ed25519:" and base64; empty where none is needed.
	Key string
	// Fuel is what one call may spend.
	Fuel Fuel
	// MemoryPages is the most memory of an instance of the module at Path, in pages of 64 KiB; 0 is the host's default.
	MemoryPages int
	// ShadowTicks is for how many ticks a policy answers beside the one in use before it may take its place; 0: none.
	ShadowTicks int
	// OnFault is OnFaultNative or OnFaultHold.
	OnFault string
	// Quarantine is when this policy is quarantined. Policy.QuarantineOf fills in what it leaves out.
	Quarantine Quarantine
}

// Fuel is what one call may spend, in units of about one instruction: Base and PerRecord for each record, at most Cap. A
// part that is 0 is the host's default; there is no cap by default.
type Fuel struct{ Base, PerRecord, Cap int }

// Quarantine says how many faults within how many ticks quarantine a policy. 0 leaves it to [policy].
type Quarantine struct {
	Faults      int
	WindowTicks int
}

// QuarantineOf is when the policy of h, one of p's hooks, is quarantined: as its own section says, else as [policy] does.
func (p *Policy) QuarantineOf(h *Hook) Quarantine {
	return Quarantine{cmp.Or(h.Quarantine.Faults, p.QuarantineFaults), cmp.Or(h.Quarantine.WindowTicks, p.QuarantineWindowTicks)}
}

// PlainLRU says whether h, as the score policy, orders nothing but by the last use, which the cache does by itself.
func (h *Hook) PlainLRU() bool { return h.Path == "" && h.Builtin == "lru" }

// Who answers from the tick in which a policy faults until it is back.
const (
	OnFaultNative = "native" // the native policy
	OnFaultHold   = "hold"   // nobody: nothing is decided meanwhile
)

// The engines that can run a policy.
const (
	EngineWasm   = "wasm"
	EngineNative = "native"
)

// Plugins is the host side of policies.
type Plugins struct {
	// CacheDir holds compiled modules; empty means the user's cache folder.
	CacheDir string
}

// Log is what is logged, and how.
type Log struct {
	Level  string
	Format string
}
