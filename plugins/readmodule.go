package plugins

import (
	"fmt"

	"sluice/internal/files"
)

// ReadModule reads a module's file. It refuses what is no regular file, an empty one, and one larger than a module may
// be.
func ReadModule(path string) ([]byte, error) {
	b, err := files.Read(path, maxModuleBytes)
	if err != nil {
		return nil, fmt.Errorf("%w; name a readable Wasm module", err)
	}
	return b, nil
}
