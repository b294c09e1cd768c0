package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/rank"
)

// policyBench makes the policies of groups in virtual time. A set is made once for each choice and rank and kept:
// the shipped policies hold no state, and instantiating a Go guest costs milliseconds.
type policyBench struct {
	host *plugins.Host
	info abi.HostInfo
	sets map[string]*plugins.Set
}

func newPolicyBench(cacheDir string, log *slog.Logger, info abi.HostInfo) *policyBench {
	return &policyBench{host: plugins.NewHost(plugins.Options{CacheDir: cacheDir, Log: log}), info: info, sets: map[string]*plugins.Set{}}
}

// hooks returns the rank's hooks for the specs, and the set behind them; key names the choice.
func (b *policyBench) hooks(ctx context.Context, key string, specs []plugins.Spec, r int) (rank.Hooks, *plugins.Set, error) {
	key = fmt.Sprintf("%s#%d", key, r)
	set, ok := b.sets[key]
	if !ok {
		var err error
		if set, err = b.host.NewSet(ctx, specs, b.info); err != nil {
			return rank.Hooks{}, nil, err
		}
		b.sets[key] = set
	}
	return rank.NewPolicies(set, nil).Hooks(), set, nil
}

func (b *policyBench) close(ctx context.Context) error {
	var errs []error
	for _, s := range b.sets {
		errs = append(errs, s.Close(ctx))
	}
	return errors.Join(append(errs, b.host.Close(ctx))...)
}

// policyFlag reads one --policy value: HOOK=NAME of a shipped policy, or HOOK=FILE.wasm.
func policyFlag(text string) (plugins.Spec, error) {
	hook, value, ok := strings.Cut(text, "=")
	if !ok || value == "" {
		return plugins.Spec{}, fmt.Errorf("--policy %q: want HOOK=FILE.wasm or HOOK=NAME, with HOOK gate, reserve, admit or score", text)
	}
	var s plugins.Spec
	for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		if h.String() == hook {
			s.Hook = h
		}
	}
	if s.Hook == 0 {
		return s, fmt.Errorf("--policy %q: no hook is named %q; hooks are gate, reserve, admit and score", text, hook)
	}
	if !strings.HasSuffix(value, ".wasm") {
		s.Builtin = value
		return s, nil
	}
	b, err := plugins.ReadModule(value)
	if err != nil {
		return s, fmt.Errorf("--policy %q: %w", text, err)
	}
	s.Module, s.Name = b, filepath.Base(value)
	return s, nil
}
