package plugins

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// Live is how many instances of the host's modules have a memory: those in use, their spares, and those of staged and
// previous policies. That memory is reserved outside Go's heap, where no figure of the heap shows it. Any goroutine may ask.
func (h *Host) Live() int { return int(h.live.Load()) }

// reserved is the linear memory of an instance: address space for all that it may ever grow to, taken once. It never
// moves, and only what the guest touches is backed by memory of the machine; so growing copies nothing, and an instance
// costs its process no more than its limit.
type reserved struct{ all []byte }

// memoryAllocator gives one instance its memory.
type memoryAllocator struct {
	memory experimental.LinearMemory
	live   *atomic.Int64
}

// Allocate implements experimental.MemoryAllocator.
func (a *memoryAllocator) Allocate(_, most uint64) experimental.LinearMemory {
	var memory experimental.LinearMemory = &movable{}
	if all, err := mapMemory(most); err == nil {
		memory = &reserved{all}
	}
	a.live.Add(1)
	a.memory = &counted{LinearMemory: memory, live: a.live}
	return a.memory
}

// free gives the memory back where the instance was not made: wazero then has nothing to close.
func (a *memoryAllocator) free() {
	if a.memory != nil {
		a.memory.Free()
	}
}

// counted is a memory that is counted until it is freed.
type counted struct {
	experimental.LinearMemory
	live  *atomic.Int64
	freed bool
}

// Free implements experimental.LinearMemory.
func (m *counted) Free() {
	if m.freed {
		return
	}
	m.freed = true
	m.LinearMemory.Free()
	m.live.Add(-1)
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
