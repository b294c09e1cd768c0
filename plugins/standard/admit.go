package standard

import (
	"sluice/abi"
	"sluice/abi/guest"
)

// limit bounds every count before arithmetic, so that no product or sum of this file leaves 64 bits.
const limit = 1 << 30

// tokenLimit is limit for token totals, of which only a few are added.
const tokenLimit = 1 << 56

func count(x uint32) int64 { return int64(min(x, limit)) }

func tokens(x uint64) int64 { return int64(min(x, tokenLimit)) }

// ledger is the arithmetic of fifo-headroom: sections 4.2 to 4.4 of the decode semantics, with the larger of K tokens an
// active request and the host's booked growth as head-room, so that what it admits passes the host's own check.
type ledger struct {
	pool     int64 // free and evictable, less what is held back for restores and what this call admitted
	k        int64 // head-room an active request
	active   int64 // running, transfer, waiting, and admitted in this call
	growth   int64 // what the host books for them
	single   int64 // what one running request needs to finish after all others are retracted
	prebuilt int64 // head-room of a prebuilt batch that is in no queue
	running  int64 // tokens that retraction could free
	clip     int64 // the most new tokens an estimate believes
	rows     int64
	slots    int64
}

func newLedger(b *guest.AdmitBatch) ledger {
	g := b.Globals()
	l := ledger{
		pool:    tokens(g.FreeTokens()) + tokens(g.EvictableTokens()) - tokens(g.HeldTokens()),
		k:       count(g.ReservedDecodeTokens()),
		active:  count(g.Running()) + count(g.Transfer()) + count(g.Waiting()),
		growth:  tokens(g.GrowthTokens()),
		running: tokens(g.RunningTokens()),
		clip:    count(g.ClipMaxNew()),
		rows:    count(g.FreeRows()),
		slots:   count(g.FreeSlots()),
	}
	l.active = min(l.active, limit)
	l.prebuilt = l.k * count(g.PrebuiltLast())
	for i := b.Candidates(); i < b.Len(); i++ {
		r := b.At(i)
		if r.Kind() == abi.AdmitRunning {
			l.single = max(l.single, l.newTokens(r)+count(r.PromptTokens())-l.running)
		}
	}
	return l
}

// newTokens is how many tokens the estimate believes the request generates.
func (l *ledger) newTokens(r guest.AdmitRecord) int64 {
	n := count(r.MaxNewTokens())
	if l.clip > 0 {
		n = min(n, l.clip)
	}
	return n
}

// budget is the number of tokens that may still be admitted, negative when the head-room is already short.
func (l *ledger) budget() int64 {
	return l.pool - max(l.k*l.active, l.single, l.growth) - l.prebuilt
}

// fits says whether the candidate passes the test of 4.4, and has its row and metadata slot.
func (l *ledger) fits(r guest.AdmitRecord) bool {
	resume := r.Kind() == abi.AdmitResume
	if l.rows == 0 || (l.slots == 0 && !resume) {
		return false
	}
	// The last token never has KV, so a request with m tokens to make needs room for m-1. The peer's formula counts
	// it, and all of K where the request cannot use it; a request that fills the device exactly would never enter.
	room := max(l.newTokens(r)-1, 0)
	required := count(r.NeedTokens()) + max(min(l.k, room), count(r.GrowthTokens()))
	if !resume {
		alone := count(r.PromptTokens()) - count(r.MatchL1Tokens()) + room - l.running
		required = max(required, alone)
	}
	return required <= l.budget()
}

// take books the candidate.
func (l *ledger) take(r guest.AdmitRecord) {
	l.pool -= count(r.NeedTokens())
	l.growth += count(r.GrowthTokens())
	l.active = min(l.active+1, limit)
	l.rows--
	if r.Kind() != abi.AdmitResume {
		l.slots--
	}
}

// ready says whether the candidate can be admitted at all: a retracted request has no handshake to wait for.
func ready(r guest.AdmitRecord) bool {
	return r.Kind() == abi.AdmitResume || r.Flags()&abi.AdmitFlagReady != 0
}

// fifoHeadroom admits in order while the candidates fit. The first that does not fit ends the walk, so that a large
// request is not overtaken for ever; one whose handshake is not done is passed over.
func fifoHeadroom(b guest.AdmitBatch) int32 {
	l := newLedger(&b)
	stopped := false
	for i := range b.Candidates() {
		r := b.At(i)
		verdict := abi.VerdictDefer
		if !stopped && ready(r) {
			if l.fits(r) {
				l.take(r)
				verdict = abi.VerdictAdmit
			} else {
				stopped = true
			}
		}
		b.Set(i, verdict, i)
	}
	return ok
}

// greedy admits whatever is ready, in order, and leaves it to the host to stop where the budget ends.
func greedy(b guest.AdmitBatch) int32 {
	for i := range b.Candidates() {
		verdict := abi.VerdictDefer
		if ready(b.At(i)) {
			verdict = abi.VerdictAdmit
		}
		b.Set(i, verdict, i)
	}
	return ok
}
