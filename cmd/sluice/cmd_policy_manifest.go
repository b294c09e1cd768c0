package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/files"
	"sluice/internal/text"
	"sluice/plugins/kit/signature"
	"sluice/plugins/manifest"
	"sluice/plugins/wasmbin"
)

func newPolicyManifestCommand(env *environment) *cobra.Command {
	var set, out string
	cmd := &cobra.Command{
		Use:   "manifest FILE.wasm",
		Short: "Print or set what a module says about itself",
		Long: `Print or set what a module says about itself: the JSON of its section sluice.manifest. --set takes it from a TOML file with
the same names, as sluice policy build does where the policy's folder has a manifest.toml; the hash of the sources stays as it
was, unless the file gives one. Every other byte of the module stays as it is, but the file gets another hash: set the manifest
before signing, and pin the hash afterwards.`,
		Args: wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			if set == "" {
				if out != "" {
					return usage(errors.New("-o names the module that --set writes; give --set, or leave -o out"))
				}
				return printManifest(env, args[0], wasm)
			}
			if out == "" {
				out = args[0]
			}
			return setManifest(env, args[0], set, out, wasm)
		},
	}
	cmd.Flags().StringVar(&set, "set", "", "take the manifest from this TOML file and write the module")
	cmd.Flags().StringVarP(&out, "output", "o", "", "where --set writes the module; empty: back to FILE.wasm")
	return cmd
}

func printManifest(env *environment, path string, wasm []byte) error {
	m, err := manifest.Read(wasm)
	switch {
	case err != nil:
		return usage(fmt.Errorf("%s: %w", path, err))
	case m == nil:
		return fmt.Errorf("%s has no manifest; write one with --set %s", path, manifest.File)
	}
	return asJSON(env, m)
}

func setManifest(env *environment, path, from, to string, wasm []byte) error {
	if _, err := wasmbin.Decode(wasm); err != nil {
		return usage(fmt.Errorf("%s is no policy: %w", path, err))
	}
	m, err := readManifestFile(from)
	if err != nil {
		return usage(err)
	}
	// A module with a manifest that is no good gets a good one; only its hash of the sources is not known.
	if old, err := manifest.Read(wasm); err == nil && old != nil && m.SourceSHA256 == "" {
		m.SourceSHA256 = old.SourceSHA256
	}
	written, err := manifest.Write(wasm, m)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", from, err))
	}
	if err := os.WriteFile(to, written, 0o644); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	text := fmt.Sprintf("%s\nsize   %d bytes\nsha256 %x\n", to, len(written), sha256.Sum256(written))
	if _, err := os.Stat(to + signature.Extension); err == nil {
		text += fmt.Sprintf("%s is of the bytes before; sign again\n", to+signature.Extension)
	}
	return say(env, text)
}

// readManifestFile reads an author's file.
func readManifestFile(path string) (manifest.Manifest, error) {
	text, err := files.Read(path, manifest.MaxBytes)
	if err != nil {
		return manifest.Manifest{}, fmt.Errorf("the manifest: %w; name a TOML file, which sluice policy new makes", err)
	}
	m, err := manifest.ParseTOML(text)
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// folderManifest is the manifest of a policy's folder with the hash of its sources, nil where it has none.
func folderManifest(dir string) (*manifest.Manifest, error) {
	path := filepath.Join(dir, manifest.File)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m, err := readManifestFile(path)
	if err != nil {
		return nil, err
	}
	if m.SourceSHA256 != "" {
		return nil, fmt.Errorf("%s: source_sha256 is written by the build; remove it", path)
	}
	m.SourceSHA256, err = manifest.SourceHash(os.DirFS(dir))
	return &m, err
}

// embedManifest writes a manifest into a module's file and returns the module.
func embedManifest(path string, wasm []byte, m *manifest.Manifest) ([]byte, error) {
	if m == nil {
		return wasm, nil
	}
	out, err := manifest.Write(wasm, *m)
	if err != nil {
		return nil, err
	}
	return out, os.WriteFile(path, out, 0o644)
}

// hinted is a part of a hint of fuel.
func hinted(n uint64) string {
	if n == 0 {
		return "the default"
	}
	return fmt.Sprint(n)
}

// shownDefault is a key's default on one line.
func shownDefault(v any) string {
	switch v := v.(type) {
	case string:
		return text.Quote(v)
	case []string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// describeManifest is a manifest as inspect shows it.
func describeManifest(line func(name, format string, args ...any), m *manifest.Manifest) {
	head := strings.TrimSpace(m.Name + " " + m.Version)
	for _, part := range []string{m.Author, m.Licence} {
		if part != "" {
			head += ", " + part
		}
	}
	line("manifest", "%s", strings.TrimPrefix(head, ", "))
	if m.Description != "" {
		for text := range strings.Lines(m.Description) {
			line("about", "%s", strings.TrimSuffix(text, "\n"))
		}
	}
	if m.SourceSHA256 != "" {
		line("sources", "sha256 %s", m.SourceSHA256)
	}
	for _, r := range slices.Sorted(maps.Keys(m.Reasons)) {
		line("reason", "%d: %s", r, m.Reasons[r])
	}
	for i, name := range m.Counters {
		line("counter", "%d: %s", i, name)
	}
	if schema, loads, ok := m.StateSchema(); ok {
		line("state", "schema %d, loads %s", schema, strings.Trim(strings.ReplaceAll(fmt.Sprint(loads), " ", ", "), "[]"))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Config)) {
		k := m.Config[name]
		text := name + ": " + k.Want()
		switch {
		case k.Required:
			text += ", required"
		case k.Default != nil:
			text += ", " + shownDefault(k.Default) + " by default"
		}
		if k.Doc != "" {
			text += "; " + strings.ReplaceAll(k.Doc, "\n", " ")
		}
		line("setting", "%s", text)
	}
	if m.Config != nil && len(m.Config) == 0 {
		line("settings", "none are taken")
	}
	if m.Fuel != (manifest.Fuel{}) {
		line("fuel hint", "%s, and %s a record", hinted(m.Fuel.Base), hinted(m.Fuel.PerRecord))
	}
}
