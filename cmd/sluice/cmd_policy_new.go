package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"sluice"
	"sluice/plugins/kit"
)

func newPolicyNewCommand(env *environment) *cobra.Command {
	var language, hook string
	cmd := &cobra.Command{
		Use:   "new NAME | PATH",
		Short: "Start a policy: a folder that builds at once, SDK and vectors included",
		Long: `Start a policy: a folder with the policy of one hook in a few lines, golden vectors, a README and a copy of the SDK, and in
Go a test. It builds at once, with its language's toolchain and no network.

NAME makes the folder NAME here. PATH makes that folder, parents included; its last element names the policy. The folder
must be new or empty. A name is a letter a-z, then letters a-z, digits, - and _.`,
		Args: wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "" {
				return usage(errors.New("new policy: the name is empty; give a name, my-gate say, or a path that ends in one"))
			}
			dir := filepath.Clean(args[0])
			name, err := kit.PolicyName(dir)
			if err != nil {
				return usage(err)
			}
			files, err := kit.Scaffold(sluice.SDK, language, hook, name)
			if err != nil {
				return usage(err)
			}
			if err := writeNew(dir, files); err != nil {
				return usage(err)
			}
			return say(env, fmt.Sprintf("%s: %d files, a policy for the hook %s in %s; next: cd %s && sluice policy build\n", dir, len(files), hook, language, dir))
		},
	}
	cmd.Flags().StringVar(&language, "lang", "go", "the policy's language, one of "+strings.Join(kit.Languages(), ", "))
	cmd.Flags().StringVar(&hook, "hook", "gate", "the hook that it answers: gate, reserve, admit or score")
	return cmd
}

// writeNew writes files into a folder that does not exist or is empty.
func writeNew(dir string, files map[string][]byte) error {
	old, err := os.ReadDir(dir)
	switch {
	case err == nil && len(old) > 0:
		return fmt.Errorf("new policy: the folder %s exists and is not empty; name another, or empty it", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("new policy: %s is, or lies below, a file; name another folder", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("new policy: %w; name another folder", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("new policy: %w", err)
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("new policy: %w", err)
		}
	}
	return nil
}

func newPolicyBuildCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "build [FOLDER]",
		Short: "Build a policy reproducibly and print command, file, size and hash",
		Long: `Build the policy in FOLDER, the current one where none is given, and print command, file, size and hash. The language is
known by the file: go.mod, policy.c, lib.rs, policy.ts or policy.zig. The command is run in the folder with a toolchain from
PATH and writes a file there that is called after the folder; what the toolchain says goes to standard error. The same
sources and toolchain give the same bytes in any folder.

Where the folder has a manifest.toml, the module gets it as its manifest, with the hash of the folder's sources: the SHA-256
of one line a file as sha256sum prints it, sorted by path, without names that begin with a dot, *.wasm, *.sig, node_modules,
target, zig-cache and zig-out. Sign afterwards.`,
		Args: wantArgs(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return buildPolicy(c.Context(), env, dir)
		},
	}
	return cmd
}

func buildPolicy(ctx context.Context, env *environment, dir string) error {
	name, err := kit.PolicyName(dir)
	if err != nil {
		return usage(err)
	}
	r, err := kit.RecipeFor(os.DirFS(dir), name)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", dir, err))
	}
	tool := ""
	for _, name := range append(slices.Clone(r.Needs), r.Tool) {
		if tool, err = lookTool(name, env.environ); err != nil {
			return usage(fmt.Errorf("build %s: %s is not in PATH; %s", dir, name, r.Missing))
		}
	}
	about, err := folderManifest(dir)
	if err != nil {
		return usage(fmt.Errorf("build %s: %w", dir, err))
	}
	if err := say(env, r.String()+"\n"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, tool, r.Args...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(env.environ), r.Env...)
	cmd.Stdout, cmd.Stderr = env.stderr, env.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: the command above ended with %w; what it wrote is above", dir, err)
	}
	out := filepath.Join(dir, r.Output)
	wasm, err := os.ReadFile(out)
	if err != nil {
		return fmt.Errorf("build %s: the command above made no module: %w", dir, err)
	}
	if wasm, err = embedManifest(out, wasm, about); err != nil {
		return fmt.Errorf("build %s: %w", dir, err)
	}
	return say(env, fmt.Sprintf("%s\nsize   %d bytes\nsha256 %x\n", out, len(wasm), sha256.Sum256(wasm)))
}

// lookTool finds an executable file in the PATH of an environment.
func lookTool(name string, environ []string) (string, error) {
	path := ""
	for _, v := range environ {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			continue // the current folder is nobody's tool box
		}
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return filepath.Abs(file)
		}
	}
	return "", exec.ErrNotFound
}
