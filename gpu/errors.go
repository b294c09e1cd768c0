package gpu

import (
	"errors"
	"fmt"
)

// Sentinel errors of every backend. They are wrapped with the page, stream or arena they are about.
var (
	ErrClosed    = errors.New("gpu: device is closed")
	ErrSpec      = errors.New("gpu: not a usable specification")
	ErrNoMemory  = errors.New("gpu: out of memory")
	ErrNoArena   = errors.New("gpu: no such arena")
	ErrNoPage    = errors.New("gpu: no such page")
	ErrNoStream  = errors.New("gpu: no such stream")
	ErrNoEvent   = errors.New("gpu: no such event")
	ErrRange     = errors.New("gpu: bytes outside the page")
	ErrStale     = errors.New("gpu: page has another generation")
	ErrBusy      = errors.New("gpu: page is in use")
	ErrBatch     = errors.New("gpu: malformed batch")
	ErrQueueFull = errors.New("gpu: stream queue is full")
	ErrInFlight  = errors.New("gpu: completion still serves another operation")
	ErrSum       = errors.New("gpu: page checksum differs")
	ErrNotReady  = errors.New("gpu: event is not reached and nothing here can wait for it")
)

// StaleError is an access to a page under a generation it no longer, or does not yet, have.
// errors.Is(err, ErrStale) holds.
type StaleError struct {
	Ref     Ref    // as the caller knows the page
	Current uint32 // the generation the page has
}

// Error names both generations.
func (e *StaleError) Error() string {
	return fmt.Sprintf("gpu: %v has generation %d now; the reference is stale", e.Ref, e.Current)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// SumError is a page whose bytes are not those its checksum was taken of. errors.Is(err, ErrSum)
// holds.
type SumError struct {
	Ref       Ref // the page the bytes were read from
	Want, Got uint64
}

// Error names the page and both sums.
func (e *SumError) Error() string {
	return fmt.Sprintf("gpu: %v has checksum %016x, want %016x: its bytes have changed; drop the copy", e.Ref, e.Got, e.Want)
}

// Is reports whether target is ErrSum.
func (e *SumError) Is(target error) bool { return target == ErrSum }
