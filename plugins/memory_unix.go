//go:build unix

package plugins

import (
	"errors"
	"math"
	"syscall"
)

// mapMemory reserves zeroed address space.
func mapMemory(size uint64) ([]byte, error) {
	if size == 0 || size > math.MaxInt {
		return nil, errors.New("no such size")
	}
	return syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

// unmapMemory gives back what mapMemory returned. It fails for nothing else, and then there is nothing to give back.
func unmapMemory(b []byte) { _ = syscall.Munmap(b) }
