package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/abi"
	"sluice/internal/config"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/schedule"
)

// mostColumns bounds the runs of one command.
const mostColumns = 64

// column is one of the runs that are shown side by side.
type column struct {
	name  string // the policies that the columns differ in
	specs []plugins.Spec
}

// columns are the runs that the flags ask for: one, or where a hook is given several policies one for each of them. Hooks
// without a policy have their default shipped one in all of them.
func (f *replayFlags) columns() ([]column, error) {
	given, err := f.given()
	if err != nil {
		return nil, err
	}
	n, most := 1, abi.Hook(0)
	for _, h := range configured() {
		switch k := len(given[h]); {
		case k > mostColumns:
			return nil, fmt.Errorf("--policy names %d policies for %s; compare at most %d in one command", k, h, mostColumns)
		case k > 1 && n > 1 && k != n:
			return nil, fmt.Errorf("--policy names %d policies for %s and %d for %s; give one, or as many for both: the first of each run together, then the second", n, most, k, h)
		case k > 1:
			n, most = k, h
		}
	}
	if err := f.health(); err != nil {
		return nil, err
	}
	out := make([]column, n)
	for i := range out {
		var differ []string
		for _, h := range configured() {
			s := plugins.Spec{Hook: h, Builtin: standard.Default(h)}
			switch k := len(given[h]); {
			case k == 1:
				s = given[h][0]
			case k > 1:
				s = given[h][i]
				differ = append(differ, s.Name+s.Builtin)
			}
			if f.o.HoldOnFault[schedule.Lane(h)] {
				s.OnFault = plugins.OnFaultHold
			}
			s.Native = s.Builtin != "" && (f.engine == config.EngineNative || plainLRU(&s))
			out[i].specs = append(out[i].specs, s)
		}
		out[i].name = strings.Join(differ, " ")
	}
	return out, nil
}

// given are the policies of --policy by hook, in their order, with the configurations of --policy-config.
func (f *replayFlags) given() (map[abi.Hook][]plugins.Spec, error) {
	given, paths := map[abi.Hook][]plugins.Spec{}, map[abi.Hook][]string{}
	for _, text := range f.policies {
		s, err := policyFlag(text)
		if err != nil {
			return nil, err
		}
		_, path, _ := strings.Cut(text, "=")
		given[s.Hook], paths[s.Hook] = append(given[s.Hook], s), append(paths[s.Hook], path)
	}
	for h, specs := range given {
		tellApart(specs, paths[h])
	}
	configs := map[abi.Hook][]string{}
	for _, text := range f.configs {
		h, table, ok := hookFlag(text)
		if !ok || !slices.ContainsFunc(given[h], func(s plugins.Spec) bool { return s.Builtin == "" }) {
			return nil, errors.New("--policy-config: want HOOK=JSON with a HOOK for which --policy names a module; shipped policies have no settings")
		}
		configs[h] = append(configs[h], table)
	}
	for h, tables := range configs {
		if n := len(given[h]); len(tables) != 1 && len(tables) != n {
			return nil, fmt.Errorf("--policy-config is given %d times for %s, --policy %d times; give one configuration for all modules, or one for each policy (of a shipped one it is {})", len(tables), h, n)
		}
		for i := range given[h] {
			s := &given[h][i]
			table, one := tables[i%len(tables)], len(tables) == 1
			if s.Builtin != "" {
				if !one && table != "{}" {
					return nil, fmt.Errorf("--policy-config %s: %s is a shipped policy, which has no settings; give {} in its place", h, s.Builtin)
				}
				continue
			}
			var err error
			if s.Config, err = canonicalConfig(table); err != nil {
				return nil, err
			}
			if len(tables) > 1 {
				s.Name += table
			}
		}
	}
	return given, nil
}

// tellApart names modules by their paths where modules at other paths have the same base name.
func tellApart(specs []plugins.Spec, paths []string) {
	first, shared := map[string]string{}, map[string]bool{}
	for i, s := range specs {
		if s.Builtin != "" {
			continue
		}
		if path, seen := first[s.Name]; seen && path != paths[i] {
			shared[s.Name] = true
		} else if !seen {
			first[s.Name] = paths[i]
		}
	}
	for i := range specs {
		if s := &specs[i]; shared[s.Name] {
			s.Name = paths[i]
		}
	}
}
