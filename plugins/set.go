package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/abi"
	"sluice/plugins/manifest"
	"sluice/plugins/standard"
)

// Spec says which policy answers one hook.
type Spec struct {
	Hook abi.Hook
	// Builtin is the name of a shipped policy. Empty means Module.
	Builtin string
	// Module is the bytes of a module that exports the hook.
	Module []byte
	// Name is where Module is from, a path say; empty: its hash. The policy is called so where its manifest has no name.
	Name string
	// Native runs a shipped policy as plain Go instead of WebAssembly.
	Native bool
	// Config is the policy's own configuration table as canonical JSON; empty means none. The shipped policies take none.
	Config []byte
	// Fuel is what each call may spend; zero means what the module's manifest hints at, where that is less than the host's
	// default, else that. A native policy is not metered.
	Fuel Fuel
	// MemoryPages is the most memory of an instance of Module, in pages of 64 KiB, up to MaxMemoryPages; 0 means the
	// host's default. Hooks share an instance where their limits are the same.
	MemoryPages uint32
	// OnFault says who answers while the policy has failed and has no successor in use. Of admit that is the scheduler's
	// to say, for all ranks at once; the two must be told the same.
	OnFault OnFault
	// Pin says which bytes may be Module. A shipped policy is part of this binary and is not held to it.
	Pin Pin
	// Signature is the content of Module's signature file, for the Pin's key; empty where there is none.
	Signature []byte
}

// Info describes the policy of one hook, for reports.
type Info struct {
	Hook   abi.Hook
	Name   string // where it is from: what the Spec names, a builtin or a path say
	SHA256 string // of the module, in hex; empty for a native policy
	Engine Engine

	module  *Module // nil for a native policy
	builtin bool
}

// Policy is what the policy is called in metrics, in the log and in its faults: the name in its module's manifest, so that
// all versions of it have one name wherever they are from; else Name.
func (i Info) Policy() string {
	if m := i.Manifest(); m != nil && strings.TrimSpace(m.Name) != "" {
		return strings.TrimSpace(m.Name)
	}
	return i.Name
}

// Manifest is what the module says about itself, nil where it says nothing. The shipped policies have none of their own.
func (i Info) Manifest() *manifest.Manifest {
	if i.module == nil || i.builtin {
		return nil
	}
	return i.module.Manifest()
}

// CounterName is what the policy calls counter i, 0 to abi.Counters-1.
func (i Info) CounterName(n int) string {
	if i.module == nil {
		return strconv.Itoa(n)
	}
	return i.module.counterName(n)
}

// Set is one rank's policies: a runner for every hook, over the fewest instances (one a module, configuration and
// class). It belongs to the rank's tick loop.
type Set struct {
	Gate, Reserve, Admit, Score *Runner

	slots []*Slot
	infos []Info
	about [abi.Score + 1]*manifest.Manifest // by hook; nil where the policy has none
	host  *Host
	held  []*Module // in use until Close

	served bool // it is or was in use: Carry has handed something on to it or from it
}

// Runner is the hook's runner, nil for a number that is no hook.
func (s *Set) Runner(h abi.Hook) *Runner {
	switch h {
	case abi.Gate:
		return s.Gate
	case abi.Reserve:
		return s.Reserve
	case abi.Admit:
		return s.Admit
	case abi.Score:
		return s.Score
	}
	return nil
}

// Rest closes the spare instances of a set that no rank uses for now; those in use stay, with their state. The first Run
// that comes asks for spares again.
func (s *Set) Rest(ctx context.Context) error {
	var errs []error
	for _, slot := range s.slots {
		errs = append(errs, slot.Rest(ctx))
	}
	return errors.Join(errs...)
}

// Infos describes the policies in the order in which the hooks run. The slice is the caller's.
func (s *Set) Infos() []Info { return slices.Clone(s.infos) }

// ReasonText is a reason in words, as the policy of the hook means it: the text of its manifest for one of its own, else
// that of abi.ReasonText. It is for display only: ranks agree on numbers.
func (s *Set) ReasonText(h abi.Hook, r abi.Reason) string {
	if int(h) < len(s.about) && r >= abi.FirstPolicyReason {
		if text, ok := s.about[h].Reason(uint8(r)); ok {
			return text
		}
	}
	return abi.ReasonText(r)
}

// Close frees the set's instances, and of the modules that no set uses all but the last used.
func (s *Set) Close(ctx context.Context) error {
	var errs []error
	for _, slot := range s.slots {
		errs = append(errs, slot.Close(ctx))
	}
	for _, m := range s.held {
		m.release()
	}
	s.held = nil
	errs = append(errs, s.host.sweep(ctx))
	return errors.Join(errs...)
}

// NewSet makes one rank's policies. A hook without a spec is answered by its default shipped policy in plain Go. info is
// the same on all ranks. Every module is tried on the load vectors first: a shipped policy must answer as its native
// build does, any other module the same on both engines. A refusal is a *Fault that wraps ErrRejected.
func (h *Host) NewSet(ctx context.Context, specs []Spec, info abi.HostInfo) (*Set, error) {
	b := setBuilder{host: h, info: info, set: &Set{host: h}, slots: map[slotKey]*Slot{}}
	if err := b.collect(specs); err != nil {
		return nil, err
	}
	for _, hook := range hooks() {
		r, err := b.runner(ctx, hook)
		if err != nil {
			return nil, errors.Join(named(err, hook, b.specs[hook].label()), b.set.Close(ctx))
		}
		switch hook {
		case abi.Gate:
			b.set.Gate = r
		case abi.Reserve:
			b.set.Reserve = r
		case abi.Admit:
			b.set.Admit = r
		case abi.Score:
			b.set.Score = r
		}
	}
	return b.set, nil
}

// NewNativeSet makes native-only policies without a host, for callers that run no WebAssembly. names are shipped policies; an
// empty one is the default.
func NewNativeSet(names standard.Config) (*Set, error) {
	specs := make([]Spec, 0, len(hooks()))
	for _, hook := range hooks() {
		if n := names.Name(hook); n != "" {
			specs = append(specs, Spec{Hook: hook, Builtin: n, Native: true})
		}
	}
	return NewHost(Options{}).NewSet(context.Background(), specs, abi.HostInfo{})
}

// named puts hook and policy into a refusal.
func named(err error, hook abi.Hook, policy string) error {
	var f *Fault
	if errors.As(err, &f) {
		f.Hook, f.Policy = hook, policy
		return err
	}
	return fmt.Errorf("policy %q: %s: %w", policy, hook, err)
}

func (s Spec) label() string {
	switch {
	case s.Builtin != "":
		return s.Builtin
	case s.Name != "":
		return s.Name
	case len(s.Module) > 0:
		return fmt.Sprintf("%x", sha256.Sum256(s.Module))[:12] // as where it runs
	}
	return "module"
}

type slotKey struct {
	module *Module
	class  abi.Class
	config string
}

type setBuilder struct {
	host  *Host
	info  abi.HostInfo
	set   *Set
	specs [abi.Score + 1]Spec
	slots map[slotKey]*Slot
}

// collect sorts the specs by hook and fills in the defaults.
func (b *setBuilder) collect(specs []Spec) error {
	for _, s := range specs {
		if !slices.Contains(hooks(), s.Hook) {
			return reject("hook", "%s is not called by this host", s.Hook)
		}
		if b.specs[s.Hook].Hook != 0 {
			return reject("hook", "two policies are given for %s; give one", s.Hook)
		}
		if s.Builtin != "" && len(s.Module) > 0 {
			return named(reject("builtin", "both a shipped policy and a module are given; give one"), s.Hook, s.label())
		}
		b.specs[s.Hook] = s
	}
	for _, hook := range hooks() {
		if s := &b.specs[hook]; s.Hook == 0 {
			*s = Spec{Hook: hook, Builtin: standard.Default(hook), Native: true}
		}
	}
	return nil
}

func (b *setBuilder) runner(ctx context.Context, hook abi.Hook) (*Runner, error) {
	s := b.specs[hook]
	fallbackName := s.Builtin
	if fallbackName == "" {
		fallbackName = standard.Default(hook)
	}
	policy, err := builtinNative(hook, fallbackName)
	if err != nil {
		return nil, err
	}
	fallback := NewNative(policy)
	info := Info{Hook: hook, Name: s.label(), Engine: EngineNative, builtin: s.Builtin != ""}
	var slot *Slot
	if !s.Native {
		var m *Module
		if m, slot, err = b.slot(ctx, s); err != nil {
			return nil, err
		}
		info.SHA256, info.Engine, info.module = m.SHA256(), m.Engine(), m
		b.set.about[hook] = m.Manifest()
		if s.Builtin == "" && s.Name == "" {
			info.Name = info.SHA256[:12]
		}
	} else if s.Builtin == "" {
		return nil, reject("engine", "a module cannot run as native Go; set engine = \"wasm\"")
	} else if err := noConfig(s); err != nil {
		return nil, err
	}
	b.set.infos = append(b.set.infos, info)
	r, err := NewRunner(hook, info.Policy(), slot, fallback)
	if err == nil {
		r.SetOnFault(s.OnFault)
	}
	return r, err
}

// slot finds or makes the instances that answer a spec in WebAssembly.
func (b *setBuilder) slot(ctx context.Context, s Spec) (*Module, *Slot, error) {
	class := ClassOf(s.Hook)
	m, config, err := b.module(ctx, s, class)
	if err != nil {
		return nil, nil, err
	}
	// An instance answers every hook of its class, with each hook's own fuel.
	var fuel [abi.Score + 1]Fuel
	for _, hook := range hooks() {
		fuel[hook] = b.specs[hook].Fuel.or(m.Fuel())
	}
	key := slotKey{m, class, string(config)}
	if slot, ok := b.slots[key]; ok {
		slot.of.add(s.Hook, fuel[s.Hook])
		return m, slot, nil
	}
	slot, err := NewSlot(ctx, class, func(ctx context.Context) (Caller, error) {
		i, err := m.Instantiate(ctx, class, b.info, config)
		if err != nil {
			return nil, err
		}
		for hook, f := range fuel {
			i.SetFuel(abi.Hook(hook), f)
		}
		return i, nil
	})
	if err != nil {
		return nil, nil, err
	}
	slot.of = policyKey{module: m, config: string(config)}
	slot.of.add(s.Hook, fuel[s.Hook])
	slot.journal = newJournal(b.host.logLimit)
	b.slots[key] = slot
	b.set.slots = append(b.set.slots, slot)
	return m, slot, nil
}

// module finds the checked module of a spec, and the configuration bytes of its instances.
func (b *setBuilder) module(ctx context.Context, s Spec, class abi.Class) (*Module, []byte, error) {
	if s.Builtin != "" {
		if err := noConfig(s); err != nil {
			return nil, nil, err
		}
		c := b.builtins(class)
		m, err := b.host.shippedFor(ctx, class, c, b.info)
		return m, c.JSON(), err
	}
	if len(s.Module) == 0 {
		return nil, nil, reject("builtin", "neither a shipped policy nor a module is given; give builtin or path")
	}
	if err := s.Pin.check(s.Module, s.Signature); err != nil {
		return nil, nil, err
	}
	pages := s.MemoryPages
	switch {
	case pages == 0:
		pages = b.host.pages
	case pages > MaxMemoryPages:
		return nil, nil, reject("memory_pages", "%d pages of memory are allowed, a memory has at most %d", pages, MaxMemoryPages)
	}
	m, err := b.host.held(ctx, s.Module, EngineCompiler, pages)
	if err != nil {
		return nil, nil, err
	}
	b.set.held = append(b.set.held, m)
	if !m.Has(s.Hook) {
		return nil, nil, reject("export", "the module does not export %s, so it cannot answer %s; name it for a hook that it answers, which sluice policy inspect lists", s.Hook.Export(), s.Hook)
	}
	if err := m.CheckConfig(s.Config); err != nil {
		return nil, nil, err
	}
	reference := func(ctx context.Context) (Caller, error) {
		i, err := b.host.held(ctx, s.Module, EngineInterpreter, pages)
		if err != nil {
			return nil, err
		}
		defer i.release()
		return i.Instantiate(ctx, class, b.info, s.Config)
	}
	if err := m.agrees(ctx, class, b.info, s.Config, reference); err != nil {
		if errors.Is(err, errVectors) {
			err = reject("vectors", "compiler and interpreter disagree: %v; do not use the module, and report it with the engine", err)
		}
		return nil, nil, err
	}
	return m, s.Config, nil
}

// builtins is the configuration of the one instance that answers all shipped policies of a class.
func (b *setBuilder) builtins(class abi.Class) standard.Config {
	var c standard.Config
	for _, hook := range hooks() {
		s := b.specs[hook]
		if s.Builtin == "" || s.Native || ClassOf(hook) != class {
			continue
		}
		switch hook {
		case abi.Gate:
			c.Gate = s.Builtin
		case abi.Reserve:
			c.Reserve = s.Builtin
		case abi.Admit:
			c.Admit = s.Builtin
		case abi.Score:
			c.Score = s.Builtin
		}
	}
	return c
}

// noConfig refuses a configuration for a shipped policy, none of which takes one.
func noConfig(s Spec) error {
	if t := string(s.Config); t != "" && t != "{}" {
		return reject("config", "the shipped policy takes no configuration, it is given one %s; remove the table", outline(s.Config))
	}
	return nil
}
