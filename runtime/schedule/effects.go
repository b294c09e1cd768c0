package schedule

import (
	"sluice/abi"
	"sluice/kvcache/index"
)

// EffectKind says what a rank must do after apply. Effects run locally; one that fails is a local fact of the
// next tick.
type EffectKind uint8

// The effects. Fields that a kind does not name are zero.
const (
	// EffectSend tells the peer of Request (Room, Peer) where to write: Dst = device pages for the tokens from
	// Promise on, Slot = metadata slot, Row = the request's row.
	EffectSend EffectKind = iota
	// EffectCancel tells the peer that Request is aborted; its pages stay until every rank reports it drained.
	EffectCancel
	// EffectForget ends the transfer of Request on this rank: the receiver drops the room and resets Slot's stamp.
	EffectForget
	// EffectLoad copies Src (host) to Dst (device) as Operation.
	EffectLoad
	// EffectBackup copies Src (device) to Dst (host) as Operation.
	EffectBackup
	// EffectSave copies a retracted request's Src (device) to Dst (host) as Operation.
	EffectSave
	// EffectResume copies Src (host) back to Dst (device) as Operation.
	EffectResume
	// EffectRow writes Dst into Row of the page table from page At on. Value is 1 when the pages were handed out
	// just now.
	EffectRow
	// EffectFreeRow empties Row.
	EffectFreeRow
	// EffectAdmitted reports what Request was promised: Promise tokens, of them L1 on the device at that moment.
	EffectAdmitted
	// EffectToken delivers Token of Request to its client.
	EffectToken
	// EffectFinish ends Request for its client: Finish, Reason, Rank (who reported a failure, -1 for none),
	// Token (the stop token, where Finish is FinishStop), Value (pages it would need, where Reason is
	// abi.ReasonNeverFits; the device has Config.L1Pages).
	EffectFinish
	// EffectDiscard throws away the replicated instance of Hook; its successor is generation Value. Diverged says that
	// the ranks' answers of the hook, each of them valid, were not the same.
	EffectDiscard
	// EffectQuarantine takes Hook's policy out of use: the native one answers from now on.
	EffectQuarantine
	// EffectPolicyEpoch makes Value the policy epoch, from the next tick on: the instances staged as that epoch answer as
	// Generation, and nothing that was held against their predecessors holds against them. After a resync it repeats the
	// epoch that all ranks go on with, which some may not have flipped to yet.
	EffectPolicyEpoch
	// EffectFence cuts the peer Peer at incarnation Value off; what it had in transfer fails.
	EffectFence
)

// FinishKind is how a request ended.
type FinishKind uint8

// The terminal states. Every request reaches exactly one.
const (
	FinishStop    FinishKind = iota // a stop token
	FinishLength                    // its limit of tokens
	FinishFailed                    // the server's side failed it; the reason says whether a retry may help
	FinishAborted                   // its client, or a deadline, ended it
	FinishRefused                   // turned away before any page was held
)

var finishNames = [...]string{"stop", "length", "failed", "aborted", "refused"}

// String returns the terminal state's name.
func (k FinishKind) String() string {
	if int(k) < len(finishNames) {
		return finishNames[k]
	}
	return "unknown"
}

// Effect is one thing to do. Page lists are read through Effects.Src and Effects.Dst.
type Effect struct {
	Kind       EffectKind
	Finish     FinishKind
	Reason     abi.Reason
	Hook       abi.Hook
	Diverged   bool
	Request    uint64 // internal number
	Room       uint64
	Operation  uint64
	Value      uint64
	Generation uint64 // of policy instances
	Row        uint32
	At         uint32 // page offset in the row
	Slot       uint32
	Token      uint32
	Peer       uint32
	Promise    uint32 // tokens
	L1         uint32 // tokens
	Prompt     uint32 // tokens of the prompt
	Rank       int32

	src, dst [2]uint32
}

// Effects is the caller's buffer that Apply fills. Reset keeps its capacity.
type Effects struct {
	List  []Effect
	Pages []index.Page
}

// Reset empties the buffer.
func (e *Effects) Reset() { e.List, e.Pages = e.List[:0], e.Pages[:0] }

// Src returns the source pages of effect i, valid until the next Reset.
func (e *Effects) Src(i int) []index.Page { return e.Pages[e.List[i].src[0]:e.List[i].src[1]] }

// Dst returns the destination pages of effect i, valid until the next Reset.
func (e *Effects) Dst(i int) []index.Page { return e.Pages[e.List[i].dst[0]:e.List[i].dst[1]] }

// pages copies a list into the buffer and returns where it lies.
func (e *Effects) pages(p []index.Page) [2]uint32 {
	from := uint32(len(e.Pages))
	e.Pages = append(e.Pages, p...)
	return [2]uint32{from, uint32(len(e.Pages))}
}

func (e *Effects) add(f Effect) { e.List = append(e.List, f) }

// next is a zero effect at the end of the list, to be filled in place: the running batch has two a request and tick, and
// an effect is too large to be copied for nothing.
func (e *Effects) next() *Effect {
	n := len(e.List)
	if n == cap(e.List) {
		e.List = append(e.List, Effect{})
		return &e.List[n]
	}
	e.List = e.List[:n+1]
	f := &e.List[n]
	*f = Effect{}
	return f
}

func (e *Effects) row(row int32, at int, pages []index.Page) {
	if len(pages) == 0 {
		return
	}
	dst := e.pages(pages)
	f := e.next()
	f.Kind, f.Row, f.At, f.dst = EffectRow, uint32(row), uint32(at), dst
}
