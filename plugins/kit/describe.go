package kit

import (
	"strconv"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/wasmbin"
)

// HostDescription is what a host supports, as sluice policy abi --json prints it.
type HostDescription struct {
	Version      string            `json:"version"` // newest, as people read it
	Majors       []int             `json:"majors"`
	Minors       map[string]int    `json:"minors"` // newest minor by major
	Hooks        []HookDescription `json:"hooks"`
	Exports      []string          `json:"required_exports"` // beside at least one hook's
	Optional     []string          `json:"optional_exports"` // beside the hooks'
	HostFeatures []string          `json:"host_features"`    // what a sluice_need_ marker may name
	WasmFeatures []string          `json:"wasm_features"`
	Imports      []string          `json:"allowed_imports"`
	Limits       Limits            `json:"limits"`
}

// HookDescription is one hook.
type HookDescription struct {
	Name        string `json:"name"`
	Kind        int    `json:"kind"`
	Export      string `json:"export"`
	Class       string `json:"class"`
	GlobalsSize int    `json:"globals_size"`
	InStride    int    `json:"in_stride"`
	OutStride   int    `json:"out_stride"`
}

// Limits are the host's bounds.
type Limits struct {
	HeaderSize         int `json:"header_size"`
	Align              int `json:"align"`
	MaxRecords         int `json:"max_records"`
	DefaultMemoryPages int `json:"default_memory_pages"`
	MaxMemoryPages     int `json:"max_memory_pages"`

	ModuleBytes   int    `json:"module_bytes"`
	Functions     int    `json:"functions"` // imports included
	FunctionBytes int    `json:"function_bytes"`
	Locals        int    `json:"locals"` // of one function
	TableEntries  int    `json:"table_entries"`
	CallDepth     int    `json:"call_depth"` // frames, fewer where they are large
	FuelBase      uint64 `json:"default_fuel_base"`
	FuelPerRecord uint64 `json:"default_fuel_per_record"`
}

// Describe says what this host supports. Imports repeats what the loader enforces; a test compares the two.
func (l *Layout) Describe() HostDescription {
	most, fuel := wasmbin.DefaultLimits(), plugins.DefaultFuel()
	d := HostDescription{
		Version: l.Version(), Majors: []int{abi.Major}, Minors: map[string]int{strconv.Itoa(abi.Major): abi.Minor}, Hooks: []HookDescription{},
		Exports:      []string{"memory", "sluice_abi_1", "sluice_arena", "sluice_configure"},
		Optional:     []string{"_initialize", "sluice_state_save", "sluice_state_load"},
		HostFeatures: []string{},
		WasmFeatures: []string{"mvp", "mutable-globals", "sign-extension", "saturating-float-to-int", "bulk-memory (memory.copy, memory.fill, memory.init, data.drop)"},
		Imports:      AllowedImports(),
		Limits: Limits{HeaderSize: abi.HeaderSize, Align: abi.Align, MaxRecords: abi.MaxRecords,
			DefaultMemoryPages: plugins.DefaultMemoryPages, MaxMemoryPages: plugins.MaxMemoryPages,
			ModuleBytes: most.Module, Functions: most.Functions, FunctionBytes: most.FunctionBytes, Locals: most.Locals, TableEntries: most.Table,
			CallDepth: int(wasmbin.DefaultCosts().Depth), FuelBase: fuel.Base, FuelPerRecord: fuel.PerRecord},
	}
	for _, h := range l.Hooks {
		if abi.BatchSize(h.Hook, 0, 0) == 0 {
			continue
		}
		d.Hooks = append(d.Hooks, HookDescription{Name: h.Name, Kind: int(h.Hook), Export: h.Export, Class: h.Class,
			GlobalsSize: h.Globals.Size, InStride: h.In.Size, OutStride: h.Out.Size})
	}
	return d
}

// AllowedImports lists the imports that a module may have, as MODULE.NAME: the deterministic stand-ins for what Go links.
func AllowedImports() []string {
	var out []string
	for _, name := range []string{"args_get", "args_sizes_get", "clock_time_get", "environ_get", "environ_sizes_get", "fd_write",
		"poll_oneoff", "proc_exit", "random_get", "sched_yield"} {
		out = append(out, "wasi_snapshot_preview1."+name)
	}
	return out
}
