package config

import (
	"math"
	"strings"
	"time"
)

// Kind is the type of a key's value.
type Kind int

// The kinds of values. In TOML, durations and sizes are strings with a unit.
const (
	KindString Kind = iota
	KindEnum
	KindInt
	KindFloat
	KindBool
	KindDuration
	KindSize
	KindTable
)

// String is the kind in words, with its article, as messages use it.
func (k Kind) String() string {
	switch k {
	case KindString:
		return "a string"
	case KindEnum:
		return "one of a few names"
	case KindInt:
		return "an integer"
	case KindFloat:
		return "a number"
	case KindBool:
		return "true or false"
	case KindDuration:
		return `a duration with a unit, such as "30s"`
	case KindSize:
		return `a size with a unit, such as "8MiB"`
	case KindTable:
		return "a table"
	}
	return "an unknown kind"
}

// Key is one row of the table of keys.
type Key struct {
	// Name is the full key, such as "http.port": also the flag's name, and the file's section and key.
	Name string
	Kind Kind
	// Doc says what the key means and in which unit, in one or two sentences.
	Doc string
	// Default is the value as TOML text.
	Default string
	// Range is what is allowed, in words; empty where the kind says it all.
	Range string
	// Enum lists the names allowed for a KindEnum.
	Enum []string

	low, high   int64   // for KindInt, KindDuration (ns) and KindSize (bytes)
	flow, fhigh float64 // for KindFloat
	openLow     bool    // flow itself is not allowed
	optional    bool    // 0, or no text, is not set
	check       func(string) string
	get         func(*Config) any
	set         func(*Config, any)
	def         any
}

// Env is the name of the environment variable that sets the key: SLUICE_HTTP_PORT for "http.port".
func (k Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Section is the table that holds the key, such as "policy.gate", or the inline table "policy.gate.quarantine".
func (k Key) Section() string { return k.Name[:strings.LastIndexByte(k.Name, '.')] }

// Leaf is the key's name within its section.
func (k Key) Leaf() string { return k.Name[strings.LastIndexByte(k.Name, '.')+1:] }

// Section is one table of the file, in the file's order.
type Section struct {
	Name string
	Doc  string
}

const envPrefix = "SLUICE_"

// Keys returns the table of all keys in the order of the file. The caller may change the slice, not what it refers to.
func Keys() []Key { return keys() }

// Sections returns the tables of the file, in order, without those written inline.
func Sections() []Section { return sections() }

// InlineTables returns the tables that stand within their section as one value, { key = value, ... }.
func InlineTables() []Section { return inlineTables() }

// Default is the configuration with every key at its default.
func Default() *Config {
	c := &Config{}
	for _, k := range keys() {
		k.set(c, k.def)
	}
	return c
}

func finish[T any](k Key, def T, field func(*Config) *T) Key {
	k.get = func(c *Config) any { return *field(c) }
	k.set = func(c *Config, v any) { *field(c) = v.(T) }
	k.def = def
	k.Default = format(k, def)
	k.Range = rangeText(k)
	return k
}

func stringKey(name, def string, field func(*Config) *string, check func(string) string, doc string) Key {
	return finish(Key{Name: name, Kind: KindString, Doc: doc, check: check}, def, field)
}

func enumKey(name, def string, enum []string, field func(*Config) *string, doc string) Key {
	return finish(Key{Name: name, Kind: KindEnum, Doc: doc, Enum: enum}, def, field)
}

func intKey(name string, def, low, high int, field func(*Config) *int, doc string) Key {
	return finish(Key{Name: name, Kind: KindInt, Doc: doc, low: int64(low), high: int64(high)}, def, field)
}

// optionalIntKey is an integer that need not be set; its field is 0 then, and its text empty.
func optionalIntKey(name string, low, high int, field func(*Config) *int, doc string) Key {
	k := intKey(name, 0, low, high, field, doc)
	k.optional, k.Default = true, ""
	return k
}

func floatKey(name string, def, low, high float64, openLow bool, field func(*Config) *float64, doc string) Key {
	return finish(Key{Name: name, Kind: KindFloat, Doc: doc, flow: low, fhigh: high, openLow: openLow}, def, field)
}

func boolKey(name string, def bool, field func(*Config) *bool, doc string) Key {
	return finish(Key{Name: name, Kind: KindBool, Doc: doc}, def, field)
}

func durationKey(name string, def, low, high time.Duration, field func(*Config) *time.Duration, doc string) Key {
	return finish(Key{Name: name, Kind: KindDuration, Doc: doc, low: int64(low), high: int64(high)}, def, field)
}

func sizeKey(name string, def, low, high int64, field func(*Config) *int64, doc string) Key {
	return finish(Key{Name: name, Kind: KindSize, Doc: doc, low: low, high: high}, def, field)
}

func tableKey(name string, field func(*Config) *[]byte, doc string) Key {
	k := finish(Key{Name: name, Kind: KindTable, Doc: doc}, []byte(emptyTable), field)
	k.set = func(c *Config, v any) { *field(c) = append([]byte(nil), v.([]byte)...) }
	return k
}

// MaxTicks is the largest age and window that can be configured, in ticks.
const MaxTicks = 1_000_000_000

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	maxTokens = 1 << 28 // tokens in one pool: 2^28 fits every lane of the ballot with room to add
	maxTicks  = MaxTicks
	maxSeed   = math.MaxInt
	maxFuel   = 1_000_000_000 // 50 times what a call has by default
)
