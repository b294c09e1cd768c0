package transfer

import (
	"errors"
	"fmt"

	"sluice/abi"
	"sluice/gpu"
	"sluice/runtime/model"
)

// Sentinel errors, wrapped with the room, peer or rank they are about.
var (
	ErrOptions       = errors.New("transfer: not usable options")
	ErrRoom          = errors.New("transfer: not a usable room")
	ErrDuplicateRoom = errors.New("transfer: another live request holds the room")
	ErrRefused       = errors.New("transfer: request refused")
	ErrLayout        = errors.New("transfer: peer has another layout")
	ErrFenced        = errors.New("transfer: incarnation is fenced")
	ErrDown          = errors.New("transfer: peer is down")
	ErrFailed        = errors.New("transfer: room failed")
)

// LayoutError is a peer whose pages are not laid out as the receiver's. errors.Is(err, ErrLayout)
// holds.
type LayoutError struct {
	Peer   uint32
	Rank   int
	Field  string // what differs
	Theirs int    // the peer's value
	Ours   int    // the receiver's
}

// Error names the field and both values.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("transfer: peer %d refused by rank %d: its %s is %d, ours is %d; start both sides with the same layout",
		e.Peer, e.Rank, e.Field, e.Theirs, e.Ours)
}

// Is reports whether target is ErrLayout.
func (e *LayoutError) Is(target error) bool { return target == ErrLayout }

// Info tells a peer where one rank wants a request's suffix.
type Info struct {
	Request       uint64
	Room          uint64 // never 0
	Peer          uint32
	Incarnation   uint64 // of the peer, as the group has agreed
	PromiseTokens int    // tokens the rank brings itself, a multiple of the page size
	PromptTokens  int
	Prompt        model.Prefix // of the whole prompt in its namespace; 0 = the peer does not compare it with its own
	Dst           []gpu.Ref    // pages of tokens [PromiseTokens, PromptTokens); the receiver's until Forget
	Slot          uint32       // metadata slot, this request's alone until Forget
}

// Poll is what one rank knows of a request in transfer. All of it is local.
type Poll struct {
	Raw          abi.Poll
	Reason       abi.Reason // why Raw is Failed; else ReasonNone
	Message      string     // the peer's own words, where it gave any
	Status       int        // HTTP status the peer asks for; 0 = none
	ArrivedPages int        // suffix pages in place
	Staged       bool       // chunks come through the ring
	StagingEmpty bool       // no chunk of the request is in the ring
	StampSeen    bool       // the metadata slot carries the room
	First        uint32     // the first token, with HasFirst
	HasFirst     bool       // Raw is Success
	Cached       uint32     // prompt tokens that the peer did not compute, with HasFirst
	Progress     uint64     // grows with everything that arrives
	Closed       bool       // the peer writes no more: it has acknowledged that, finished well, or lost its right to
}

// Record is one metadata slot. The peer writes the stamp last; 0 says not written.
type Record struct {
	First  uint32 // first output token
	Cached uint32 // prompt tokens that the peer did not compute
	From   uint32 // the peer declares the tokens [From, To)
	To     uint32
	Stamp  uint64 // the room
}

// PeerState is what a receiver knows of a peer's newest registration.
type PeerState struct {
	ID          uint32
	Incarnation uint64
	Connected   bool
	Err         error // why it is refused, nil where it is not
}

// checkLayout compares the layouts at first contact. chunk is the most pages the peer sends at once,
// ring how many the receiver's ring has.
func checkLayout(peer uint32, rank int, theirs, ours model.Shape, chunk, ring int) error {
	fail := func(field string, a, b int) error {
		return &LayoutError{Peer: peer, Rank: rank, Field: field, Theirs: a, Ours: b}
	}
	switch {
	case theirs.PageSize != ours.PageSize:
		return fail("page size in tokens", theirs.PageSize, ours.PageSize)
	case theirs.Layers != ours.Layers:
		return fail("number of layers", theirs.Layers, ours.Layers)
	case theirs.BytesPerTokenLayer != ours.BytesPerTokenLayer:
		return fail("item size in bytes over all shards", itemBytes(theirs), itemBytes(ours))
	case theirs.Stamp != ours.Stamp:
		return fail("page size in bytes", theirs.PageBytes(), ours.PageBytes())
	case theirs.Shards%ours.Shards != 0 && ours.Shards%theirs.Shards != 0:
		return fail("number of shards (one must divide the other)", theirs.Shards, ours.Shards)
	case theirs.Shards != ours.Shards && ring < chunk:
		return fail("chunk in pages, against the pages of the staging ring,", chunk, ring)
	}
	return nil
}

// itemBytes is a page over all shards.
func itemBytes(s model.Shape) int { return s.Layers * s.PageSize * s.BytesPerTokenLayer }
