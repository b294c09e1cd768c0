package plugins

import (
	"context"
	_ "embed" // for the shipped module
	"fmt"

	"sluice/abi"
	"sluice/plugins/standard"
)

// shipped is the module built from standard/wasm; a string, so that nobody can write to it.
//
//go:embed standard/standard.wasm
var shipped string

// Shipped compiles the module of the shipped policies, once a host.
func (h *Host) Shipped(ctx context.Context) (*Module, error) {
	return h.Compile(ctx, []byte(shipped))
}

// shippedFor is the shipped module for one configuration, on an engine that gives the native policies' answers: the
// compiler, or, with a warning, the interpreter where the compiler's differ.
func (h *Host) shippedFor(ctx context.Context, class abi.Class, c standard.Config, info abi.HostInfo) (*Module, error) {
	reference, err := nativeOf(c)
	if err != nil {
		return nil, err
	}
	m, err := h.Shipped(ctx)
	if err == nil {
		err = m.agrees(ctx, class, info, c.JSON(), func(context.Context) (Caller, error) { return NewNative(reference), nil })
	}
	if err == nil {
		return m, nil
	}
	h.log.Warn("the compiler does not give the shipped policies' answers, falling back to the interpreter", "error", err)
	m, err = h.kept(ctx, []byte(shipped), EngineInterpreter, h.pages)
	if err != nil {
		return nil, err
	}
	err = m.agrees(ctx, class, info, c.JSON(), func(context.Context) (Caller, error) { return NewNative(reference), nil })
	if err != nil {
		return nil, fmt.Errorf("the shipped policies fail their vectors on both engines; set engine = \"native\": %w", err)
	}
	return m, nil
}

// nativeOf is the native build of a configuration of the shipped module.
func nativeOf(c standard.Config) (NativePolicy, error) {
	var p NativePolicy
	for _, hook := range hooks() {
		if c.Name(hook) == "" {
			continue
		}
		one, err := builtinNative(hook, c.Name(hook))
		if err != nil {
			return p, err
		}
		switch hook {
		case abi.Gate:
			p.Gate = one.Gate
		case abi.Reserve:
			p.Reserve = one.Reserve
		case abi.Admit:
			p.Admit = one.Admit
		case abi.Score:
			p.Score = one.Score
		}
	}
	return p, nil
}
