package manifest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// SourceHash is the hash of the sources in a folder: the SHA-256, in hex, of one line a file as sha256sum prints it
// ("<hex>  <path>\n"), sorted by path byte for byte. Left out are what a build makes (*.wasm, *.sig), names that begin with a
// dot, and the folders node_modules, target, zig-cache and zig-out. What is left out is not hashed, so keep no source there.
func SourceHash(dir fs.FS) (string, error) {
	var lines []string
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.IsDir() && leftOut(name):
			return fs.SkipDir
		case d.IsDir() || leftOut(name):
			return nil
		}
		if strings.ContainsAny(name, "\n\\") {
			return fmt.Errorf("%q has a line break or a backslash in its name; rename it", name)
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return fmt.Errorf("%w; a source must be a file that can be read", err)
		}
		lines = append(lines, fmt.Sprintf("%s\x00%x  %s\n", name, sha256.Sum256(text), name))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash of the sources: %w", err)
	}
	slices.Sort(lines) // by path: no name holds the byte that ends it here
	h := sha256.New()
	for _, l := range lines {
		_, line, _ := strings.Cut(l, "\x00")
		h.Write([]byte(line))
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// leftOut says whether a file or folder is none of a policy's sources.
func leftOut(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, ".") || slices.Contains([]string{"node_modules", "target", "zig-cache", "zig-out"}, base) ||
		slices.Contains([]string{".wasm", ".sig"}, path.Ext(base))
}
