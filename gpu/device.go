package gpu

import (
	"context"
	"fmt"
)

// ArenaID names an arena of one device. 0 names none.
type ArenaID uint32

// Stream names an ordered queue of work of one device. 0 names none.
type Stream uint32

// Event names a point in a stream of one device. 0 names none.
type Event uint32

// Kind says where an arena's memory is.
type Kind uint8

const (
	Memory Kind = iota + 1 // on the device (tier L1)
	Pinned                 // host memory that the device can copy from and to without a detour
	Host                   // ordinary host memory
)

// String is the kind's name as it stands in errors and metrics.
func (k Kind) String() string {
	switch k {
	case Memory:
		return "device"
	case Pinned:
		return "pinned"
	case Host:
		return "host"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ArenaSpec describes an arena: Pages pages of PageBytes bytes each.
type ArenaSpec struct {
	Name      string // for errors and metrics
	Kind      Kind
	PageBytes int // 1 or more; multiples of 16 copy fastest
	Pages     int // 1 or more
}

// Ref is one page as its holder knows it: the page number in its arena and the generation it had
// when the holder got it. Refs are values; they stay valid as numbers when the page moves on, and
// are then refused.
type Ref struct {
	Arena      ArenaID
	Index      uint32 // page number, 0 to Pages-1
	Generation uint32
}

// String gives the reference as errors print it.
func (r Ref) String() string {
	return fmt.Sprintf("page %d of arena %d (generation %d)", r.Index, r.Arena, r.Generation)
}

// Batch is one copy operation: page Src[i] to page Dst[i], for i rising from 0.
//
// The slices belong to the device from the call of Copy until its Completion is done.
type Batch struct {
	Op  uint64 // the caller's number for the operation; for errors and fault scripts
	Dst []Ref
	Src []Ref // as many as Dst

	// Sums has one checksum (see Sum) a page, or is nil for a copy without checksums. With Check
	// false the device stores there the sum of each page that it moved; with Check true it compares,
	// and a page whose sum differs ends the copy: that page and those after it are not good.
	Sums  []uint64
	Check bool
}

// Device is one accelerator, or what stands in for it. Its methods may be called from any
// goroutine, never block on queued work, and except for NewArena, NewStream, NewEvent, Close and
// the reporting of errors allocate nothing.
//
// Common errors: ErrNoArena, ErrNoPage, ErrRange (a page or offset that is not there), ErrStale (the
// page has another generation now), ErrClosed.
type Device interface {
	// NewArena makes an arena. Its pages start at generation 0, their bytes at zero. ErrSpec where
	// the spec is not usable, ErrNoMemory where the device has not that much left.
	NewArena(spec ArenaSpec) (ArenaID, error)
	// Arena is the spec an arena was made with.
	Arena(id ArenaID) (ArenaSpec, error)

	// Assign sets the generation of each page named by refs to the one in its ref, in order, and stops
	// at the first that it cannot: ErrBusy where the page is being read or written this moment, which
	// a caller that hands out only quiescent pages never meets.
	Assign(refs []Ref) error
	// Generation is the generation a page has now.
	Generation(arena ArenaID, index uint32) (uint32, error)

	// Write puts b into a page, off bytes from its start, and returns when it is there. It is the
	// receiving side of a transfer.
	Write(ref Ref, off int, b []byte) error
	// Read fills b from a page, off bytes from its start.
	Read(ref Ref, off int, b []byte) error
	// Hash is the checksum (see Sum) of a whole page.
	Hash(ref Ref) (uint64, error)

	// NewStream makes a stream. ErrSpec where the device has no more.
	NewStream(name string) (Stream, error)
	// Copy queues b on s. On an error nothing was queued and c is untouched: ErrBatch where the
	// slices of b do not fit each other, ErrNoStream, ErrQueueFull, ErrInFlight where c still serves
	// another operation. Else c is done later, with the number of leading pages that are good; of
	// the first page that is not, and only of that, the bytes may have been touched.
	Copy(s Stream, b Batch, c *Completion) error
	// Fill queues setting every byte of each page of dst to value. dst belongs to the device until c
	// is done. Errors as for Copy.
	Fill(s Stream, dst []Ref, value byte, c *Completion) error

	// NewEvent makes an event, which reads as reached until it is recorded.
	NewEvent() (Event, error)
	// Record moves e to the point that s has been given work up to. Errors as for Copy.
	Record(s Stream, e Event) error
	// Query reports whether the point e was last recorded at has been reached.
	Query(e Event) (bool, error)
	// Wait returns nil when Query would report true, and ctx's error when ctx ends first. It is for
	// start and shutdown; a tick queries.
	Wait(ctx context.Context, e Event) error

	// Close ends what runs, gives every queued operation the outcome ErrClosed with no good page, and
	// frees the memory. A second Close does nothing.
	Close() error
}
