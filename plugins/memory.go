package plugins

import "github.com/tetratelabs/wazero/experimental"

// reserved is the linear memory of an instance: address space for all that it may ever grow to, taken once. It never
// moves, and only what the guest touches is backed by memory of the machine; so growing copies nothing, and an instance
// costs its process no more than its limit.
type reserved struct{ all []byte }

// memoryAllocator gives one instance its memory.
type memoryAllocator struct{ memory experimental.LinearMemory }

// Allocate implements experimental.MemoryAllocator.
func (a *memoryAllocator) Allocate(_, most uint64) experimental.LinearMemory {
	a.memory = &movable{}
	if all, err := mapMemory(most); err == nil {
		a.memory = &reserved{all}
	}
	return a.memory
}

// free gives the memory back where the instance was not made: wazero then has nothing to close.
func (a *memoryAllocator) free() {
	if a.memory != nil {
		a.memory.Free()
	}
}

// Reallocate implements experimental.LinearMemory.
func (m *reserved) Reallocate(size uint64) []byte {
	if size > uint64(len(m.all)) {
		return nil
	}
	return m.all[:size:size]
}

// Free implements experimental.LinearMemory; closing the instance calls it.
func (m *reserved) Free() {
	if m.all != nil {
		unmapMemory(m.all)
		m.all = nil
	}
}

// movable is a linear memory where no address space can be reserved: it grows by copying.
type movable struct{ all []byte }

// Reallocate implements experimental.LinearMemory.
func (m *movable) Reallocate(size uint64) []byte {
	if size > uint64(cap(m.all)) {
		grown := make([]byte, size)
		copy(grown, m.all)
		m.all = grown
	}
	m.all = m.all[:size]
	return m.all
}

// Free implements experimental.LinearMemory.
func (m *movable) Free() { m.all = nil }
