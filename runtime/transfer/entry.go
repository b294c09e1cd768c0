package transfer

import (
	"cmp"
	"slices"

	"sluice/abi"
)

// entry is one request between Send and Forget on one rank.
type entry struct {
	info    Info
	attempt uint64
	conn    *conn

	sent      bool // the peer was told; before that it has no right to write
	began     bool // something has arrived
	failed    bool // final
	succeeded bool // final; nothing of the peer is let in any more
	failure   failure
	cancelled bool // the peer was told to stop, or could not be
	acked     bool // the peer has said that nothing is under way
	forgotten bool

	said     failure // what the peer said beside its metadata
	arrived  []bool  // by suffix page
	pages    int     // of them, those in place
	progress uint64
	writers  int       // writes into its pages or regions under way this moment
	regions  []*region // ring regions held
	staging  int       // of them, those that have landed
	scatters int       // scatters queued or running
}

func (e *entry) done() bool { return e.failed || e.succeeded }

// raw is the poll.
func (e *entry) raw() abi.Poll {
	switch {
	case e.failed:
		return abi.PollFailed
	case e.succeeded:
		return abi.PollSuccess
	case e.began:
		return abi.PollTransferring
	}
	return abi.PollWaitingForInput
}

// closed says that the peer has no right to write for the request, or has given it up.
func (r *Receiver) closed(e *entry) bool {
	return !e.sent || e.acked || e.succeeded || e.conn.revoked
}

// fail makes the request fail, unless it has ended.
func (r *Receiver) fail(e *entry, f failure) {
	if e.done() || e.forgotten {
		return
	}
	e.failed, e.failure = true, f
	r.counts.Failed++
}

// settle ends a request as soon as what has arrived says how.
func (r *Receiver) settle(e *entry) {
	if e.done() || !e.sent || e.forgotten {
		return
	}
	switch rec := &r.slots[e.info.Slot]; {
	case rec.Stamp == 0:
	case rec.Stamp != e.info.Room:
		r.fail(e, failure{reason: abi.ReasonStampDiffers, message: e.said.message, status: e.said.status})
	case int(rec.From) != e.info.PromiseTokens || int(rec.To) != e.info.PromptTokens:
		r.fail(e, failure{reason: abi.ReasonCoverageDiffers, message: e.said.message, status: e.said.status})
	case e.pages == len(e.arrived) && e.scatters == 0:
		e.succeeded = true
	}
}

// find is the request a message is about, or nil: the room is no longer this attempt's, or the
// incarnation has no right to write.
func (r *Receiver) find(k linkKey) *entry {
	e := r.rooms[k.room]
	if e == nil || e.attempt != k.attempt || e.conn.key.incarnation != k.incarnation || e.conn.revoked {
		r.counts.Refused++
		return nil
	}
	return e
}

// releaseRegions gives back the ring regions of a request that no scatter reads.
func (r *Receiver) releaseRegions(e *entry) {
	kept := e.regions[:0]
	for _, g := range e.regions {
		if g.landed {
			kept = append(kept, g)
			continue
		}
		r.releaseRegion(g)
	}
	clear(e.regions[len(kept):])
	e.regions = kept
}

// releaseRegion gives one region back and has peers that wait for the ring try again.
func (r *Receiver) releaseRegion(g *region) {
	r.ring.release(g)
	for _, p := range r.waiters {
		p.wake()
	}
	r.waiters = r.waiters[:0]
}

// dropConn forgets an incarnation that is over and that no request names.
func (r *Receiver) dropConn(c *conn) {
	if !c.connected && c.entries == 0 && c.writers == 0 && r.current[c.key.peer] != c {
		delete(r.conns, c.key)
	}
}

func sortPeers(p []PeerState) {
	slices.SortFunc(p, func(a, b PeerState) int { return cmp.Compare(a.ID, b.ID) })
}
