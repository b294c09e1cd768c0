package kit

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// templates holds one folder a language: a folder a hook in it, and files that all hooks share. The folder all holds in
// the same form what the languages share.
//
//go:embed templates
var templates embed.FS

// ErrTemplate is what every error about a new policy wraps.
var ErrTemplate = errors.New("new policy")

// Scaffold makes the files of a new policy, by their slashed path: the SDK copied from sdk (the root of this module's
// sources), the policy of the hook in a few lines, its native test, its vectors, its manifest and a README. name becomes the policy's
// name and, in Go, its module. The directory builds with no network and imports nothing but itself. Errors wrap
// ErrTemplate.
func Scaffold(sdk fs.FS, language, hook, name string) (map[string][]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if !slices.Contains(Languages(), language) {
		return nil, fmt.Errorf("%w: no language is named %s; use %s", ErrTemplate, quote(language), strings.Join(Languages(), ", "))
	}
	files := map[string][]byte{}
	root := path.Join("templates", language)
	if _, err := fs.Stat(templates, root); err != nil {
		return nil, unsupported(language)
	}
	if err := copySDK(sdk, language, name, files); err != nil {
		return nil, err
	}
	if _, err := fs.Stat(templates, path.Join(root, hook)); err != nil {
		return nil, fmt.Errorf("%w: no %s template for the hook %s; use %s", ErrTemplate, language, quote(hook), strings.Join(TemplateHooks(language), ", "))
	}
	for _, dir := range []string{"templates/all", path.Join("templates/all", hook), root, path.Join(root, hook)} {
		if err := fill(dir, hook, name, files); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
		}
	}
	return files, nil
}

// fill adds the templates that lie in a folder, with hook and name filled in.
func fill(dir, hook, name string, files map[string][]byte) error {
	entries, err := fs.ReadDir(templates, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := fs.ReadFile(templates, path.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("{{NAME}}"), []byte(name))
		text = bytes.ReplaceAll(text, []byte("{{HOOK}}"), []byte(hook))
		file := strings.TrimSuffix(e.Name(), ".tmpl")
		if path.Ext(file) == ".md" {
			text = alignComments(text)
		}
		files[file] = text
	}
	return nil
}

// alignComments puts the comments of neighbouring commands into one column, whatever the length of the name in them.
func alignComments(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for from := 0; from < len(lines); from++ {
		to, width := from, 0
		for ; to < len(lines); to++ {
			command, _, ok := strings.Cut(lines[to], " # ")
			if !ok || !strings.HasPrefix(command, "    ") {
				break
			}
			width = max(width, len(strings.TrimRight(command, " ")))
		}
		for i := from; i < to; i++ {
			command, comment, _ := strings.Cut(lines[i], " # ")
			lines[i] = fmt.Sprintf("%-*s  # %s", width, strings.TrimRight(command, " "), comment)
		}
		from = max(from, to-1)
	}
	return []byte(strings.Join(lines, "\n"))
}

// TemplateHooks lists the hooks that a language has a template for.
func TemplateHooks(language string) []string {
	entries, err := fs.ReadDir(templates, path.Join("templates", language))
	if err != nil {
		return nil
	}
	var hooks []string
	for _, e := range entries {
		if e.IsDir() {
			hooks = append(hooks, e.Name())
		}
	}
	return hooks
}

// checkName wants a name that is a Go module, a file and a folder at once.
func checkName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] >= 'a' && name[0] <= 'z'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	if !ok {
		return fmt.Errorf("%w: the name %s cannot be a module's; use a letter a-z, then letters, digits, - and _", ErrTemplate, quote(name))
	}
	if slices.Contains(deviceNames(), name) {
		return fmt.Errorf("%w: the name %q is a device's on Windows, and go refuses it as a module's for that; use another, my-%s say", ErrTemplate, name, name)
	}
	if slices.Contains(takenNames(), name) {
		return fmt.Errorf("%w: the name %q is taken by a package of Go or by sluice itself; use another, my-%s say", ErrTemplate, name, name)
	}
	return nil
}

// deviceNames are those that no element of a Go module's path may have.
func deviceNames() []string {
	out := []string{"aux", "con", "nul", "prn"}
	for n := '1'; n <= '9'; n++ {
		out = append(out, "com"+string(n), "lpt"+string(n))
	}
	return out
}

// takenNames are the first elements of Go's own import paths, and ours.
func takenNames() []string {
	return []string{"all", "archive", "bufio", "builtin", "bytes", "cmd", "cmp", "compress", "container", "context", "crypto", "database",
		"debug", "embed", "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter",
		"log", "main", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "simd", "slices", "sluice", "sort",
		"std", "strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "tool", "unicode", "unique", "unsafe",
		"vendor", "weak"}
}

// copySDK adds the language's SDK below the folder sluice.
func copySDK(sdk fs.FS, language, name string, files map[string][]byte) error {
	found := false
	for _, top := range sdkFolders(language) {
		err := fs.WalkDir(sdk, top, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !sdkFile(language, top, file) {
				return skipMissing(err)
			}
			text, err := fs.ReadFile(sdk, file)
			if err != nil {
				return err
			}
			to := path.Join("sluice", strings.TrimPrefix(file, top+"/"))
			if language == "go" {
				to = path.Join("sluice", file)
				text = bytes.ReplaceAll(text, []byte(`"sluice/`), []byte(`"`+name+`/sluice/`))
			}
			files[to], found = text, true
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w: the %s SDK: %w", ErrTemplate, language, err)
		}
	}
	if !found {
		return unsupported(language)
	}
	return nil
}

func skipMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func unsupported(language string) error {
	return fmt.Errorf("%w: this binary holds no SDK for %s; write a policy against the record layouts of abi/README.md, or start with --lang go", ErrTemplate, language)
}

func sdkFolders(language string) []string {
	if language == "go" {
		return []string{"abi"}
	}
	return []string{"abi/" + language}
}

// sdkFile says whether a file is a part of the SDK that a policy needs.
func sdkFile(language, top, file string) bool {
	if language == "go" {
		inside := strings.HasPrefix(file, "abi/guest/") || path.Dir(file) == top
		return inside && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") || file == "abi/README.md"
	}
	return slices.Contains([]string{".h", ".rs", ".ts", ".zig", ".sh", ".toml", ".json"}, path.Ext(file))
}
