//go:build !unix

package plugins

import "errors"

func mapMemory(uint64) ([]byte, error) {
	return nil, errors.New("address space is not reserved on this platform")
}

func unmapMemory([]byte) {}
