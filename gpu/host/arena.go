package host

import (
	"fmt"
	"math"
	"sync/atomic"

	"sluice/gpu"
)

// arena is one memory map cut into pages.
//
// words has one word a page: its generation in the high half and, in the low half, how many reads,
// writes and copies are touching it this moment. An access enters by adding one to the low half
// while the high half is the generation it names, in a single compare-and-swap, so a page cannot
// change its generation between an access's check and its end.
type arena struct {
	spec   gpu.ArenaSpec
	stride int // bytes from one page to the next
	mem    []byte
	words  []atomic.Uint64
	log    *writeLog // of a Memory arena; nil elsewhere
}

const pageAlign = 16

func newArena(spec gpu.ArenaSpec) (*arena, error) {
	if spec.PageBytes < 1 || spec.Pages < 1 {
		return nil, fmt.Errorf("%w: arena %q has %d pages of %d bytes; both must be 1 or more", gpu.ErrSpec, spec.Name, spec.Pages, spec.PageBytes)
	}
	if spec.Kind < gpu.Memory || spec.Kind > gpu.Host {
		return nil, fmt.Errorf("%w: arena %q is of unknown %v", gpu.ErrSpec, spec.Name, spec.Kind)
	}
	if spec.Pages > math.MaxUint32 || spec.PageBytes > math.MaxInt-pageAlign {
		return nil, fmt.Errorf("%w: arena %q has %d pages of %d bytes, more than page numbers or memory reach", gpu.ErrSpec, spec.Name, spec.Pages, spec.PageBytes)
	}
	stride := (spec.PageBytes + pageAlign - 1) &^ (pageAlign - 1)
	if spec.Pages > math.MaxInt/stride {
		return nil, fmt.Errorf("%w: arena %q of %d pages of %d bytes is larger than the address space", gpu.ErrNoMemory, spec.Name, spec.Pages, spec.PageBytes)
	}
	mem, err := mapMemory(spec.Pages * stride)
	if err != nil {
		return nil, fmt.Errorf("%w: arena %q of %d bytes: %w; ask for fewer pages", gpu.ErrNoMemory, spec.Name, spec.Pages*stride, err)
	}
	a := &arena{spec: spec, stride: stride, mem: mem, words: make([]atomic.Uint64, spec.Pages)}
	if spec.Kind == gpu.Memory {
		a.log = new(writeLog)
	}
	return a, nil
}

// page is the bytes of page i, which the caller has entered.
func (a *arena) page(i uint32) []byte {
	off := int(i) * a.stride
	return a.mem[off : off+a.spec.PageBytes : off+a.spec.PageBytes]
}

// enter marks the page as touched, if ref names its present generation. Every nil result needs a
// leave.
func (a *arena) enter(ref gpu.Ref) error {
	if int64(ref.Index) >= int64(len(a.words)) {
		return fmt.Errorf("%w: %v; arena %q has %d pages", gpu.ErrNoPage, ref, a.spec.Name, a.spec.Pages)
	}
	w := &a.words[ref.Index]
	for {
		old := w.Load()
		if generation := uint32(old >> 32); generation != ref.Generation {
			return &gpu.StaleError{Ref: ref, Current: generation}
		}
		if w.CompareAndSwap(old, old+1) {
			return nil
		}
	}
}

// written notes a write to page i, before it and after.
func (a *arena) written(i uint32) {
	if a.log != nil {
		a.log.note(i)
	}
}

func (a *arena) leave(i uint32) { a.words[i].Add(^uint64(0)) }

// assign gives the page the generation of ref. A page that already has it stays as it is, even
// while it is touched.
func (a *arena) assign(ref gpu.Ref) error {
	if int64(ref.Index) >= int64(len(a.words)) {
		return fmt.Errorf("%w: %v; arena %q has %d pages", gpu.ErrNoPage, ref, a.spec.Name, a.spec.Pages)
	}
	w := &a.words[ref.Index]
	for {
		old := w.Load()
		generation, users := uint32(old>>32), uint32(old)
		if generation == ref.Generation {
			return nil
		}
		if users > 0 {
			return fmt.Errorf("%w: %v cannot be assigned while %d accesses under generation %d run; quarantine it until they end", gpu.ErrBusy, ref, users, generation)
		}
		if w.CompareAndSwap(old, uint64(ref.Generation)<<32) {
			return nil
		}
	}
}
