//go:build unix

package host

import "golang.org/x/sys/unix"

// mapMemory gets n zeroed bytes outside the Go heap.
func mapMemory(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	adviseHuge(mem)
	return mem, nil
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }
