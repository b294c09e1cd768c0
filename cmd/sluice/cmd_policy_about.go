package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/text"
	"sluice/plugins/kit"
)

func newPolicyABICommand(env *environment) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "abi",
		Short: "Say which policy ABI this host supports",
		Args:  wantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			l, err := abiLayout()
			if err != nil {
				return err
			}
			d := l.Describe()
			if json {
				return asJSON(env, d)
			}
			return say(env, describeABI(&d))
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "as JSON")
	return cmd
}

func describeABI(d *kit.HostDescription) string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy ABI %s\n", d.Version)
	for _, h := range d.Hooks {
		fmt.Fprintf(&b, "hook %-8s %-17s %-10s globals %3d bytes, in %2d, out %2d\n", h.Name, h.Export, h.Class, h.GlobalsSize, h.InStride, h.OutStride)
	}
	fmt.Fprintf(&b, "exports  %s\nfeatures %s\n", strings.Join(d.Exports, ", "), strings.Join(d.WasmFeatures, ", "))
	fmt.Fprintf(&b, "limits   %d records a batch, %d pages of memory by default, %d at most\n", d.Limits.MaxRecords, d.Limits.DefaultMemoryPages, d.Limits.MaxMemoryPages)
	fmt.Fprintf(&b, "         %d functions of at most %d bytes and %d locals, %d table entries, a module of %d bytes\n",
		d.Limits.Functions, d.Limits.FunctionBytes, d.Limits.Locals, d.Limits.TableEntries, d.Limits.ModuleBytes)
	for _, i := range d.Imports {
		fmt.Fprintf(&b, "import   %s\n", i)
	}
	return b.String()
}

func newPolicyInspectCommand(env *environment) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "inspect FILE.wasm",
		Short: "Show what a module is made of, without running it",
		Args:  wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := abiLayout()
			if err != nil {
				return err
			}
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			in, err := l.Inspect(wasm)
			if err != nil {
				return usage(fmt.Errorf("%s, %d bytes, sha256 %s: %w", args[0], in.Size, in.SHA256, err))
			}
			if json {
				return asJSON(env, in)
			}
			return say(env, describeModule(args[0], &in))
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "as JSON")
	return cmd
}

// What inspect shows of a module's own names: bytes of each, and how many markers.
const (
	maxSymbol  = 256
	maxMarkers = 16
)

func describeModule(path string, in *kit.Inspection) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	line("file", "%s", path)
	line("size", "%d bytes: code %d, data %d", in.Size, in.CodeBytes, in.DataBytes)
	line("sha256", "%s", in.SHA256)
	line("hooks", "%s", listed(in.Hooks))
	line("markers", "%s", text.List(in.Markers, maxMarkers))
	for _, m := range in.Memories {
		line("memory", "pages of 64 KiB: %s", m)
	}
	for _, t := range in.Tables {
		line("table", "elements: %s", t)
	}
	line("functions", "%d, globals %d, start function %v", in.Functions, in.Globals, in.Start)
	switch {
	case in.ManifestError != "":
		line("manifest", "refused: %s", text.Line(in.ManifestError, 1<<10))
	case in.Manifest != nil:
		describeManifest(line, in.Manifest)
	}
	for _, part := range []struct {
		name    string
		symbols []kit.Symbol
	}{{"import", in.Imports}, {"export", in.Exports}, {"custom", in.Customs}} {
		for _, s := range part.symbols {
			line(part.name, "%s: %s", text.Line(s.Name, maxSymbol), s.Detail)
		}
	}
	return b.String()
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
