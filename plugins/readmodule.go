package plugins

import (
	"fmt"
	"io"
	"os"
)

// ReadModule reads a module's file. It refuses what is no regular file, an empty one, and one larger than a module may
// be, before reading it.
func ReadModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name a readable Wasm module", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file; name a Wasm module", path)
	case st.Size() == 0:
		return nil, fmt.Errorf("%s is empty; name a Wasm module", path)
	case st.Size() > maxModuleBytes:
		return nil, fmt.Errorf("%s has %d bytes, a module may have %d", path, st.Size(), maxModuleBytes)
	}
	return io.ReadAll(io.LimitReader(f, maxModuleBytes+1))
}
