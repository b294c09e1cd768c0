package plugins

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// ReadModule reads a module's file. It refuses what is no regular file, an empty one, and one larger than a module may
// be, before reading it.
func ReadModule(path string) ([]byte, error) {
	b, err := readRegular(path, maxModuleBytes)
	if err != nil {
		return nil, fmt.Errorf("%w; name a readable Wasm module", err)
	}
	return b, nil
}

// readRegular reads a regular file of 1 to most bytes. It does not wait for a pipe that nobody writes to.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case st.Size() == 0:
		return nil, fmt.Errorf("%s is empty", path)
	case st.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes, it may have %d", path, st.Size(), most)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, fmt.Errorf("%s grew past the %d bytes that it may have", path, most)
	}
	return b, err
}
