package plugins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// engineVersion names the engine's release in the cache's path: what it writes is machine code that no other release may
// load, and in a test binary the engine itself does not know its version. A test compares it with go.mod.
const engineVersion = "wazero-v1.12.0"

// errCacheDir is why a cache directory is not used.
var errCacheDir = errors.New("plugin cache directory is not safe")

// openCacheDir makes dir and a folder for this engine's release in it, and refuses one that others can write: its files
// are machine code which this process will run.
func openCacheDir(dir string) (string, error) {
	for _, d := range []string{dir, filepath.Join(dir, engineVersion)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", fmt.Errorf("make plugin cache directory: %w", err)
		}
		st, err := os.Lstat(d)
		if err != nil {
			return "", fmt.Errorf("look at plugin cache directory: %w", err)
		}
		switch {
		case !st.IsDir():
			return "", fmt.Errorf("%w: %s is not a directory itself; name the directory, not a link to it", errCacheDir, d)
		case st.Mode().Perm()&0o022 != 0:
			return "", fmt.Errorf("%w: %s can be written by others (mode %04o); chmod 700 it, or name another in [plugins] cache_dir", errCacheDir, d, st.Mode().Perm())
		case !ownedByUs(st):
			return "", fmt.Errorf("%w: %s belongs to another user; name another in [plugins] cache_dir", errCacheDir, d)
		}
	}
	return filepath.Join(dir, engineVersion), nil
}

// emptyCacheDir removes what the engine has written below a folder that openCacheDir made. The folder is this engine's
// alone, and everything in it can be made again.
func emptyCacheDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("empty plugin cache directory: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty plugin cache directory: %w", err)
		}
	}
	return nil
}
