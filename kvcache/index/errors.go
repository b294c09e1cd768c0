package index

import (
	"errors"
	"fmt"
)

// Errors that calls wrap; test for them with errors.Is. A call that returns an error has changed nothing.
var (
	ErrConfig  = errors.New("bad index configuration")
	ErrShort   = errors.New("free pages are short")
	ErrPage    = errors.New("page is not in the expected state")
	ErrNode    = errors.New("unknown node")
	ErrSpace   = errors.New("unknown key space")
	ErrReceipt = errors.New("unknown lock receipt")
	ErrOp      = errors.New("unknown operation")
	ErrState   = errors.New("node is not in a state that allows this")
	ErrRange   = errors.New("argument out of range")
	ErrPath    = errors.New("the tree does not hold these pages")
	ErrBusy    = errors.New("index is in use")
)

// ShortError says how short the free list of a tier is. It is ErrShort for errors.Is.
type ShortError struct {
	Tier Tier
	Need int // pages asked for
	Free int // pages on the free list
}

// Error implements error.
func (e *ShortError) Error() string {
	return fmt.Sprintf("%s: need %d pages, %d are free: evict %d first", e.Tier, e.Need, e.Free, e.Need-e.Free)
}

// Unwrap returns ErrShort.
func (e *ShortError) Unwrap() error { return ErrShort }

// PageError names a page whose state is not what the caller says. It is ErrPage for errors.Is.
type PageError struct {
	Tier Tier
	Page Page
	Have State // state found; meaningless when the number is outside the tier
	Want State
	Out  bool // the number is outside the tier
}

// Error implements error.
func (e *PageError) Error() string {
	if e.Out {
		return fmt.Sprintf("%s page %d is outside the tier: pass numbers that Alloc gave", e.Tier, e.Page)
	}
	return fmt.Sprintf("%s page %d is %s, not %s: pass each page once, with its present state", e.Tier, e.Page, e.Have, e.Want)
}

// Unwrap returns ErrPage.
func (e *PageError) Unwrap() error { return ErrPage }

func errNode(id NodeID) error { return fmt.Errorf("node %d: %w", id, ErrNode) }

func errState(id NodeID, n *node, want string) error {
	return fmt.Errorf("node %d (L1 %s, L2 numbers %t, load %d, save %d) must be %s: %w",
		id, n.state, n.l2 != nil, n.load, n.save, want, ErrState)
}
