package plugins

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice/abi"
	"sluice/internal/text"
)

const (
	markerPrefix = "sluice_abi_"
	needPrefix   = "sluice_need_"
)

// reactorHint is how a Go policy is built.
const reactorHint = "build it as a reactor: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared"

// checkSurface applies the load rules that need no code to run. The first one broken is the refusal.
func checkSurface(s surface) error {
	if _, command := s.exports["_start"]; command {
		if _, reactor := s.exports["_initialize"]; !reactor {
			return reject("command", "the module is a command (it exports _start and no _initialize); %s", reactorHint)
		}
	}
	if err := checkImports(s.imports); err != nil {
		return err
	}
	if err := checkMarker(s.exports); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.exports)) {
		if strings.HasPrefix(name, needPrefix) {
			return reject("need", "the module needs the feature %s, which this host does not have; update sluice, or build the policy without it",
				text.Quote(strings.TrimPrefix(name, needPrefix)))
		}
	}
	if len(s.memories) != 1 || s.memories[0] != "memory" {
		return reject("memory", "the module must export exactly one memory, named \"memory\"; it exports %d", len(s.memories))
	}
	return checkSignatures(s.exports)
}

// checkImports refuses every import that is not one of the deterministic stubs.
func checkImports(imports []importName) error {
	for _, i := range imports {
		if stubbed(i) {
			continue
		}
		fix := "remove it: a policy sees its batch and nothing else"
		switch {
		case i.module == wasiModule:
			fix = "remove the call: a policy has no files, sockets or processes"
		case i.module == "env" && i.name == "abort":
			fix = "build the AssemblyScript policy with --use abort="
		case i.module == "gojs":
			fix = reactorHint
		}
		return reject("import", "the module imports %s from %s, which is not served; %s", text.Quote(i.name), text.Quote(i.module), fix)
	}
	return nil
}

// checkMarker wants exactly one version marker, of this host's major version.
func checkMarker(exports map[string]signature) error {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(exports)) {
		if strings.HasPrefix(name, markerPrefix) {
			found = append(found, name)
		}
	}
	want := markerPrefix + strconv.Itoa(abi.Major)
	switch {
	case len(found) == 0:
		return reject("marker", "the module exports no %s<major>, so it is no policy; export %s, or name another file", markerPrefix, want)
	case len(found) > 1:
		return reject("marker", "the module exports the markers %s; a policy exports exactly one", text.List(found, 4))
	case found[0] == want:
		return nil
	}
	major, err := strconv.Atoi(strings.TrimPrefix(found[0], markerPrefix))
	if err != nil || major < abi.Major {
		return reject("marker", "the module exports %s, which no host has spoken; export %s", text.Quote(found[0]), want)
	}
	return reject("newer_major", "the module speaks policy ABI %d, this host speaks %d; update sluice, or rebuild the policy against ABI %d", major, abi.Major, abi.Major)
}

// checkSignatures compares the types of the exports that the host calls, and wants a hook to call at all.
func checkSignatures(exports map[string]signature) error {
	answers := 0
	for e, name := range entryNames() {
		want := signature{"i32", "i32"}
		switch entry(e) {
		case entryArena, entryLoad:
			want.params = "i32 i32"
		case entrySave:
			want.results = "i64"
		}
		got, ok := exports[name]
		switch {
		case !ok && entry(e) <= entryConfigure:
			return reject("export", "the module does not export %s; every SDK does, so build the policy with one, or export it", name)
		case !ok:
			continue
		case got != want:
			return reject("signature", "%s is (%s) -> (%s), it must be (%s) -> (%s)", name, got.params, got.results, want.params, want.results)
		}
		if entry(e) > entryConfigure && entry(e) < entrySave {
			answers++
		}
	}
	names := entryNames()
	_, saves := exports[names[entrySave]]
	if _, loads := exports[names[entryLoad]]; saves != loads {
		return reject("export", "the module exports one of %s and %s; a policy that hands its state on exports both", names[entrySave], names[entryLoad])
	}
	if init, ok := exports["_initialize"]; ok && init != (signature{}) {
		return reject("signature", "_initialize is (%s) -> (%s), it must take and return nothing", init.params, init.results)
	}
	if answers == 0 {
		return reject("export", "the module exports none of %s, %s, %s and %s, so it answers no hook; register a policy for one, as sluice policy new does", abi.Gate.Export(), abi.Reserve.Export(), abi.Admit.Export(), abi.Score.Export())
	}
	return nil
}
