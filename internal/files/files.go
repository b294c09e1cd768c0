// Package files opens the files that a person names: modules, keys, vectors, configurations. A name that leads to a
// pipe, a device or a folder is refused at once instead of being waited for, and no more is read than a limit.
//
//	b, err := files.Read("policy.wasm", 64<<20)
//
// It imports the standard library alone and holds no state.
package files

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Open opens a regular file for reading. It does not wait for a pipe that nobody writes to.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = fmt.Errorf("%s is a folder", path)
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file", path)
	default:
		return f, nil
	}
	_ = f.Close()
	return nil, err
}

// Read reads a regular file of at most `most` bytes, more than 0.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && st.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, it may have %d", path, st.Size(), most)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > most:
		return nil, fmt.Errorf("%s grew past the %d bytes that it may have", path, most)
	case len(b) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return b, nil
}
