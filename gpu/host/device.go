package host

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/gpu"
)

// Device is a gpu.Device on host memory, made by NewLive or NewVirtual.
type Device struct {
	live    bool
	options Options
	script  script

	quit    chan struct{} // closed by Close: running work stops at its next page
	closing atomic.Bool
	workers sync.WaitGroup

	// life is held for reading by whatever touches memory or looks a handle up, and for writing by
	// what adds one and by the end of Close.
	life    sync.RWMutex
	closed  bool
	arenas  []*arena // ArenaID-1
	streams []*stream
	events  []*event

	now atomic.Uint64 // virtual: the tick of the last Step
	seq atomic.Uint64 // virtual: submissions so far
}

var _ gpu.Device = (*Device)(nil)

// NewArena maps an arena. See gpu.Device.
func (d *Device) NewArena(spec gpu.ArenaSpec) (gpu.ArenaID, error) {
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed || d.closing.Load() {
		return 0, gpu.ErrClosed
	}
	a, err := newArena(spec)
	if err != nil {
		return 0, err
	}
	d.arenas = append(d.arenas, a)
	return gpu.ArenaID(len(d.arenas)), nil
}

// Arena is the spec an arena was made with.
func (d *Device) Arena(id gpu.ArenaID) (gpu.ArenaSpec, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	a, err := d.arena(id)
	if err != nil {
		return gpu.ArenaSpec{}, err
	}
	return a.spec, nil
}

// arena looks id up. The caller holds life.
func (d *Device) arena(id gpu.ArenaID) (*arena, error) {
	if d.closed {
		return nil, gpu.ErrClosed
	}
	if id == 0 || int64(id) > int64(len(d.arenas)) {
		return nil, fmt.Errorf("%w: arena %d; the device has %d", gpu.ErrNoArena, id, len(d.arenas))
	}
	return d.arenas[id-1], nil
}

// Assign sets the generations of pages. See gpu.Device.
func (d *Device) Assign(refs []gpu.Ref) error {
	d.life.RLock()
	defer d.life.RUnlock()
	for _, ref := range refs {
		a, err := d.arena(ref.Arena)
		if err != nil {
			return err
		}
		if err := a.assign(ref); err != nil {
			return err
		}
	}
	return nil
}

// Generation is the generation a page has now.
func (d *Device) Generation(id gpu.ArenaID, index uint32) (uint32, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	a, err := d.arena(id)
	if err != nil {
		return 0, err
	}
	if int64(index) >= int64(len(a.words)) {
		return 0, fmt.Errorf("%w: page %d; arena %q has %d pages", gpu.ErrNoPage, index, a.spec.Name, a.spec.Pages)
	}
	return uint32(a.words[index].Load() >> 32), nil
}

// Write puts b into a page. See gpu.Device.
func (d *Device) Write(ref gpu.Ref, off int, b []byte) error {
	d.life.RLock()
	defer d.life.RUnlock()
	a, err := d.enter(ref, off, len(b))
	if err != nil {
		return err
	}
	defer a.leave(ref.Index)
	fault := d.writeFault(ref)
	if err := fault.errAt(0); err != nil {
		return fmt.Errorf("gpu/host: write of %d bytes to %v: %w", len(b), ref, err)
	}
	a.written(ref.Index)
	defer a.written(ref.Index)
	at := a.page(ref.Index)[off : off+len(b)]
	copy(at, b)
	if fault.corrupts(0) {
		flip(at)
	}
	return nil
}

// writeFault is the fault that hits a write. It builds the batch that predicates see only where
// there is a script, since that allocates.
func (d *Device) writeFault(ref gpu.Ref) *Fault {
	d.script.mu.Lock()
	none := len(d.script.lines) == 0
	d.script.mu.Unlock()
	if none {
		return nil
	}
	return d.script.match(Write, d.options.Rank, gpu.Batch{Dst: []gpu.Ref{ref}})
}

// Read fills b from a page. See gpu.Device.
func (d *Device) Read(ref gpu.Ref, off int, b []byte) error {
	d.life.RLock()
	defer d.life.RUnlock()
	a, err := d.enter(ref, off, len(b))
	if err != nil {
		return err
	}
	defer a.leave(ref.Index)
	copy(b, a.page(ref.Index)[off:])
	return nil
}

// Hash is the checksum of a whole page.
func (d *Device) Hash(ref gpu.Ref) (uint64, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	a, err := d.enter(ref, 0, 0)
	if err != nil {
		return 0, err
	}
	defer a.leave(ref.Index)
	return gpu.Sum(a.page(ref.Index)), nil
}

// enter looks the page up, checks the range and enters it. The caller holds life.
func (d *Device) enter(ref gpu.Ref, off, n int) (*arena, error) {
	a, err := d.arena(ref.Arena)
	if err != nil {
		return nil, err
	}
	if off < 0 || off > a.spec.PageBytes || n > a.spec.PageBytes-off {
		return nil, fmt.Errorf("%w: %d bytes at %d of %v; pages of arena %q have %d bytes", gpu.ErrRange, n, off, ref, a.spec.Name, a.spec.PageBytes)
	}
	return a, a.enter(ref)
}

// Close ends the device. See gpu.Device. It waits for the page that each stream is at, no longer.
func (d *Device) Close() error {
	if !d.closing.CompareAndSwap(false, true) {
		d.workers.Wait()
		return nil
	}
	close(d.quit)
	d.workers.Wait()
	d.life.Lock()
	defer d.life.Unlock()
	for _, s := range d.streams {
		s.drain()
	}
	d.closed = true
	var errs []error
	for _, a := range d.arenas {
		if err := unmapMemory(a.mem); err != nil {
			errs = append(errs, fmt.Errorf("gpu/host: unmap arena %q: %w", a.spec.Name, err))
		}
		a.mem = nil
	}
	return errors.Join(errs...)
}
