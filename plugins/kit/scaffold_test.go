package kit_test

import (
	"errors"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"sluice/plugins/kit"
	"sluice/plugins/manifest"
)

// Every language has a template for every hook. Each gives a folder that its own recipe knows, whose vectors are read, and in
// which no placeholder is left.
func TestScaffolds(t *testing.T) {
	l := layout(t)
	for _, language := range kit.Languages() {
		hooks := kit.TemplateHooks(language)
		for _, h := range l.Hooks {
			if !slices.Contains(hooks, h.Name) {
				t.Errorf("%s has no template for %s", language, h.Name)
			}
		}
		for _, hook := range hooks {
			t.Run(language+"/"+hook, func(t *testing.T) {
				files, err := kit.Scaffold(root(), language, hook, "my-"+hook)
				if err != nil {
					t.Fatal(err)
				}
				dir := fstest.MapFS{}
				sdk := 0
				for name, text := range files {
					dir[name] = &fstest.MapFile{Data: text}
					if strings.HasPrefix(name, "sluice/") {
						sdk++
					} else if strings.Contains(string(text), "{{NAME}}") || strings.Contains(string(text), "{{HOOK}}") {
						t.Errorf("%s holds a placeholder", name)
					}
				}
				r, err := kit.RecipeFor(dir, "my-"+hook)
				if err != nil || r.Language != language || r.Output != "my-"+hook+".wasm" || !strings.Contains(r.String(), r.Output) || r.Missing == "" {
					t.Errorf("recipe %+v, %v", r, err)
				}
				if sdk == 0 || len(files["README.md"]) == 0 {
					t.Errorf("%d files of the SDK, README of %d bytes", sdk, len(files["README.md"]))
				}
				column := 0
				for line := range strings.Lines(string(files["README.md"])) {
					if at := strings.Index(line, "  # "); at > 0 && column > 0 && at != column {
						t.Errorf("a comment of the README is at column %d, those above at %d: %s", at, column, line)
					} else if at > 0 {
						column = at
					}
				}
				if column == 0 {
					t.Error("no command of the README has a comment")
				}
				v, err := l.ParseVectors(string(files["vectors.txt"]))
				if err != nil || v.Vectors[0].Hook.Name != hook {
					t.Errorf("vectors: %v", err)
				}
				checkManifest(t, files, "my-"+hook)
				if language == "go" {
					checkImports(t, files)
				}
			})
		}
	}
}

// checkManifest wants a manifest that is read as it is, and with every example in it switched on.
func checkManifest(t *testing.T, files map[string][]byte, name string) {
	t.Helper()
	text := string(files["manifest.toml"])
	m, err := manifest.ParseTOML([]byte(text))
	if err != nil || m.Name != name || m.Version == "" {
		t.Errorf("manifest %+v, %v", m, err)
	}
	var all []string
	for line := range strings.Lines(text) {
		rest, comment := strings.CutPrefix(line, "# ")
		if comment && (strings.Contains(rest, " = ") || strings.HasPrefix(rest, "[")) {
			line = rest
		}
		all = append(all, line)
	}
	m, err = manifest.ParseTOML([]byte(strings.Join(all, "")))
	if err != nil || m.Author == "" || m.Description == "" || m.Licence == "" || len(m.Counters) == 0 || len(m.Reasons) == 0 ||
		m.State.Schema == 0 || m.Fuel.Base == 0 || len(m.Config) == 0 {
		t.Errorf("with its examples: %+v, %v", m, err)
	}
}

// checkImports wants imports of the standard library and of the module itself only.
func checkImports(t *testing.T, files map[string][]byte) {
	t.Helper()
	n := 0
	for name, text := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		n++
		tree, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range tree.Imports {
			p, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own := strings.HasPrefix(p, "my-")
			if strings.HasPrefix(p, "sluice") || strings.Contains(strings.Split(p, "/")[0], ".") || own && len(files[strings.SplitN(p, "/", 2)[1]+"/doc.go"]) == 0 {
				t.Errorf("%s imports %s", name, p)
			}
		}
		if strings.HasSuffix(name, "_test.go") && name != "policy_test.go" {
			t.Errorf("%s is a test of the SDK", name)
		}
	}
	if n < 10 {
		t.Errorf("%d Go files", n)
	}
}

func TestScaffoldRefuses(t *testing.T) {
	for _, c := range []struct{ what, language, hook, name, want string }{
		{"an empty name", "go", "gate", "", "cannot be a module's"},
		{"a path", "go", "gate", "a/b", "cannot be a module's"},
		{"capitals", "go", "gate", "Gate", "cannot be a module's"},
		{"a dot", "go", "gate", "..", "cannot be a module's"},
		{"a device of Windows", "go", "gate", "con", "go refuses it as a module's"},
		{"a numbered device", "go", "gate", "lpt9", "my-lpt9 say"},
		{"a digit first", "go", "gate", "1a", "cannot be a module's"},
		{"a very long name", "go", "gate", strings.Repeat("a", 65), "cannot be a module's"},
		{"Go's own", "go", "gate", "sort", "use another, my-sort say"},
		{"ours", "go", "gate", "sluice", "is taken"},
		{"an unknown language", "cobol", "gate", "x", "use go, c, rust, assemblyscript, zig"},
		{"an unknown hook", "go", "gat", "x", "use admit, gate, reserve, score"},
		{"an unknown hook in C", "c", "all", "x", "no c template for the hook \"all\"; use admit, gate, reserve, score"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := kit.Scaffold(root(), c.language, c.hook, c.name)
			if !errors.Is(err, kit.ErrTemplate) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for _, language := range kit.Languages() {
		if _, err := kit.Scaffold(fstest.MapFS{}, language, "gate", "x"); !errors.Is(err, kit.ErrTemplate) || !strings.Contains(err.Error(), "holds no SDK") {
			t.Errorf("%s without its SDK: %v", language, err)
		}
	}
}

func TestRecipes(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct {
		name string
		dir  fstest.MapFS
		want string // in the command, or in the error
		ok   bool
	}{
		{"go", fstest.MapFS{"go.mod": file("module x\n")},
			"GOFLAGS= GOWASM= CGO_ENABLED=0 GOWORK=off GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -buildmode=c-shared '-ldflags=-s -w' -o p.wasm .", true},
		{"c", fstest.MapFS{"policy.c": file("")}, "clang --target=wasm32 ", true},
		{"rust", fstest.MapFS{"lib.rs": file("")}, "bash build.sh p.wasm", true},
		{"assemblyscript", fstest.MapFS{"policy.ts": file("")}, "asc policy.ts --runtime stub --noAssert -O3 --use abort= -o p.wasm", true},
		{"zig", fstest.MapFS{"policy.zig": file("sluice.policy(.{ .gate = g,\n .admit  = a });")}, "--export=sluice_gate_v1 --export=sluice_admit_v1 --stack", true},
		{"zig with state", fstest.MapFS{"policy.zig": file("sluice.policy(.{ .gate = g, .state = .{ .bytes = 8 } });")},
			"--export=sluice_gate_v1 --export=sluice_state_save --export=sluice_state_load --stack", true},
		{"zig without a hook", fstest.MapFS{"policy.zig": file("sluice.policy(.{});")}, "names no hook", false},
		{"nothing", fstest.MapFS{"main.go": file("")}, "want go.mod, policy.c", false},
		{"a folder of that name", fstest.MapFS{"go.mod/x": file("")}, "want go.mod, policy.c", false},
		{"two", fstest.MapFS{"go.mod": file(""), "policy.c": file("")}, "go.mod and policy.c lie side by side", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := kit.RecipeFor(c.dir, "p")
			if c.ok && (err != nil || !strings.Contains(r.String(), c.want)) || !c.ok && (!errors.Is(err, kit.ErrRecipe) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %q, %v; want %q", r, err, c.want)
			}
		})
	}
	if _, err := kit.PolicyName("/"); !errors.Is(err, kit.ErrRecipe) {
		t.Errorf("the root: %v", err)
	}
	if name, err := kit.PolicyName("some/where/../here"); err != nil || name != "here" {
		t.Errorf("got %q, %v", name, err)
	}
}
