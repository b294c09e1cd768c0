package kit

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// ErrRecipe is what every error about how to build a policy wraps.
var ErrRecipe = errors.New("build of a policy")

// Languages lists the languages that policies are written in, the default first.
func Languages() []string { return []string{"go", "c", "rust", "assemblyscript", "zig"} }

// Recipe is the one command that builds a policy reproducibly: the same sources and toolchain give the same bytes in any
// folder.
type Recipe struct {
	Language string
	Env      []string // NAME=VALUE, on top of the caller's
	Tool     string   // looked up in PATH
	Args     []string
	Output   string   // file name, in the folder
	Needs    []string // other tools that must be in PATH
	Missing  string   // what to do where a tool is not installed
}

// String is the command as one would type it in the folder.
func (r Recipe) String() string {
	words := append(append(append([]string{}, r.Env...), r.Tool), r.Args...)
	for i, w := range words {
		if strings.ContainsAny(w, " *$\"'\\") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// RecipeFor tells the language of the policy in dir by its files and returns its recipe. name is the policy's, which the
// output is called after. C, Rust, AssemblyScript and Zig policies are one file, policy.c, lib.rs, policy.ts or
// policy.zig, beside the SDK in the folder sluice.
func RecipeFor(dir fs.FS, name string) (Recipe, error) {
	marks := map[string]func(fs.FS, string) (Recipe, error){
		"go.mod": goRecipe, "policy.c": cRecipe, "lib.rs": rustRecipe, "policy.ts": assemblyScriptRecipe, "policy.zig": zigRecipe,
	}
	var found []string
	for _, mark := range []string{"go.mod", "policy.c", "lib.rs", "policy.ts", "policy.zig"} {
		if st, err := fs.Stat(dir, mark); err == nil && !st.IsDir() {
			found = append(found, mark)
		}
	}
	switch len(found) {
	case 0:
		return Recipe{}, fmt.Errorf("%w: no policy here: want go.mod, policy.c, lib.rs, policy.ts or policy.zig; start one with sluice policy new", ErrRecipe)
	case 1:
		return marks[found[0]](dir, name+".wasm")
	}
	return Recipe{}, fmt.Errorf("%w: %s lie side by side; keep one policy a folder", ErrRecipe, strings.Join(found, " and "))
}

// PolicyName is what the policy in a folder is called: the folder's name.
func PolicyName(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	name := filepath.Base(abs)
	if name == string(filepath.Separator) || name == "." {
		return "", fmt.Errorf("%w: the folder %s has no name to call the module after; name another", ErrRecipe, abs)
	}
	return name, nil
}

func goRecipe(_ fs.FS, out string) (Recipe, error) {
	return Recipe{
		Language: "go", Env: []string{"GOFLAGS=", "GOWASM=", "CGO_ENABLED=0", "GOWORK=off", "GOOS=wasip1", "GOARCH=wasm"}, Tool: "go", Output: out,
		Args:    []string{"build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "."},
		Missing: "install Go 1.26 or newer from https://go.dev/dl",
	}, nil
}

func cRecipe(_ fs.FS, out string) (Recipe, error) {
	return Recipe{
		Language: "c", Tool: "clang", Output: out, Needs: []string{"wasm-ld"},
		Args: []string{"--target=wasm32", "-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-ffreestanding", "-nostdlib", "-Isluice",
			"-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=4096", "-o", out, "policy.c"},
		Missing: "install clang and lld (Debian: apt-get install clang lld)",
	}, nil
}

func rustRecipe(_ fs.FS, out string) (Recipe, error) {
	return Recipe{
		Language: "rust", Tool: "bash", Args: []string{"build.sh", out}, Output: out, Needs: []string{"rustc", "wasm-ld"},
		Missing: "install Rust with the target wasm32v1-none (rustup target add wasm32v1-none; Debian: rustc-web rust-web-src) and lld",
	}, nil
}

func assemblyScriptRecipe(_ fs.FS, out string) (Recipe, error) {
	return Recipe{
		Language: "assemblyscript", Tool: "asc", Output: out, Needs: []string{"node"},
		Args:    []string{"policy.ts", "--runtime", "stub", "--noAssert", "-O3", "--use", "abort=", "-o", out},
		Missing: "install Node.js and AssemblyScript (npm install assemblyscript) and put node_modules/.bin in PATH",
	}, nil
}

// zigRecipe exports what the policy's source names: the linker refuses an export that is not there, and exporting
// everything would export the mutable stack pointer too.
func zigRecipe(dir fs.FS, out string) (Recipe, error) {
	text, err := fs.ReadFile(dir, "policy.zig")
	if err != nil {
		return Recipe{}, fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	args := []string{"build-exe", "-target", "wasm32-freestanding", "-O", "ReleaseFast", "-fstrip", "--dep", "sluice", "-Mroot=policy.zig",
		"-Msluice=sluice/sluice.zig", "-fno-entry", "--export=sluice_abi_1", "--export=sluice_arena", "--export=sluice_configure"}
	hooks := 0
	for _, hook := range []string{"gate", "reserve", "admit", "score"} {
		if strings.Contains(words, "."+hook+" = ") {
			args, hooks = append(args, "--export=sluice_"+hook+"_v1"), hooks+1
		}
	}
	if strings.Contains(words, ".state = .{") {
		args = append(args, "--export=sluice_state_save", "--export=sluice_state_load")
	}
	if hooks == 0 {
		return Recipe{}, fmt.Errorf("%w: policy.zig names no hook; write sluice.policy(.{ .gate = ... })", ErrRecipe)
	}
	return Recipe{
		Language: "zig", Tool: "zig", Output: out, Args: append(args, "--stack", "16384", "-femit-bin="+out),
		Missing: "install Zig 0.17 (https://ziglang.org/download, or pip install ziglang and put its folder in PATH)",
	}, nil
}
