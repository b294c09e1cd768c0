package host

import (
	"fmt"
	"sync"

	"sluice/gpu"
)

// Op is the kind of an operation, as faults and delays tell them apart.
type Op uint8

const (
	AnyOp  Op = iota // in a Fault: every kind
	Load             // a copy from a host or pinned arena to a device arena
	Backup           // a copy from a device arena to a host or pinned arena
	Move             // a copy that stays on its side
	Fill             // a fill
	Write            // a synchronous write
)

// String is the name of the kind in errors and fault scripts.
func (k Op) String() string {
	switch k {
	case AnyOp:
		return "any"
	case Load:
		return "load"
	case Backup:
		return "backup"
	case Move:
		return "move"
	case Fill:
		return "fill"
	case Write:
		return "write"
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

const (
	AnyRank = -1 // in Fault.Rank: the device of every rank
	Forever = -1 // in Fault.Times: the fault never wears out
)

// Fault is one line of a fault script: what happens to the operation it matches. It matches an
// operation of its Kind, on the device of its Rank, that has more than Page pages, and that Match
// accepts.
type Fault struct {
	Kind  Op  // AnyOp matches all
	Rank  int // the zero value is rank 0; AnyRank matches all
	Page  int // the page of the operation that the fault hits, from 0; those before it are good
	After int // operations that match and are let through first
	Times int // operations it hits before it has worn out; 0 = one; Forever

	// Match narrows the fault further, by operation number or page, say; nil accepts. Fill and Write
	// show their pages as Dst. It must not call the device.
	Match func(gpu.Batch) bool

	// What happens; at least one of the three.
	Err        error // the copy of Page cannot run: the operation ends there, its rest untouched
	Corrupt    bool  // Page is copied, and a bit of the copy is wrong
	DelayTicks int   // the operation takes that much longer
}

// script is the faults of one device with how far each has come.
type script struct {
	mu    sync.Mutex
	lines []*line
}

type line struct {
	Fault
	seen int // matching operations let through so far
	hit  int // operations hit so far
}

// Inject adds a fault to the device's script. Faults are tried in the order they were added, and an
// operation is hit by one at most. ErrSpec where the fault does nothing or cannot be carried out.
func (d *Device) Inject(f Fault) error {
	switch {
	case f.Err == nil && !f.Corrupt && f.DelayTicks == 0:
		return fmt.Errorf("%w: fault of %v does nothing: set Err, Corrupt or DelayTicks", gpu.ErrSpec, f.Kind)
	case f.Kind > Write:
		return fmt.Errorf("%w: fault of unknown kind %v", gpu.ErrSpec, f.Kind)
	case f.Page < 0 || f.After < 0 || f.DelayTicks < 0 || f.Times < Forever || f.Rank < AnyRank:
		return fmt.Errorf("%w: fault of %v has a negative rank, page, count or delay", gpu.ErrSpec, f.Kind)
	case f.DelayTicks > 0 && f.Kind == Write:
		return fmt.Errorf("%w: a write is synchronous and cannot be delayed", gpu.ErrSpec)
	case f.DelayTicks > 0 && d.live && (d.options.Clock == nil || d.options.Tick <= 0):
		return fmt.Errorf("%w: a live device needs Options.Clock and Options.Tick to delay an operation", gpu.ErrSpec)
	}
	if f.Times == 0 {
		f.Times = 1
	}
	d.script.mu.Lock()
	defer d.script.mu.Unlock()
	d.script.lines = append(d.script.lines, &line{Fault: f})
	return nil
}

// match finds the fault that hits an operation, or nil, and counts it. It runs once an operation, as
// it is submitted.
func (s *script) match(kind Op, rank int, b gpu.Batch) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if l.hit == l.Times || !l.covers(kind, rank, b) {
			continue
		}
		if l.seen < l.After {
			l.seen++
			continue
		}
		if l.Times != Forever {
			l.hit++
		}
		return &l.Fault
	}
	return nil
}

func (f *Fault) covers(kind Op, rank int, b gpu.Batch) bool {
	return (f.Kind == AnyOp || f.Kind == kind) &&
		(f.Rank == AnyRank || f.Rank == rank) &&
		(kind != Write || f.Err != nil || f.Corrupt) && // a delay alone does nothing to a write
		f.Page < len(b.Dst) &&
		(f.Match == nil || f.Match(b))
}

// errAt is the error the fault gives an operation at page i, or nil. f may be nil.
func (f *Fault) errAt(i int) error {
	if f == nil || f.Page != i {
		return nil
	}
	return f.Err
}

// corrupts reports whether the fault breaks the bytes of page i. f may be nil.
func (f *Fault) corrupts(i int) bool { return f != nil && f.Corrupt && f.Page == i }

// flip breaks a page the way a fault does: one bit, in the middle.
func flip(page []byte) {
	if len(page) > 0 {
		page[len(page)/2] ^= 0x10
	}
}
