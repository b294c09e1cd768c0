package schedule

import (
	"errors"
	"slices"

	"sluice/kvcache/index"
)

// A Resync makes ranks equal again that were found to have parted. It runs outside the tick, in rounds of one fixed
// shape that are reduced by MIN as ballots are:
//
//	q := NewResync(s)
//	for !q.Done() {
//		q.Fill(u64, u8)      // ResyncShape lanes, all ones before
//		// ... one exchange ...
//		q.Take(u64, u8)
//	}
//	err := s.FinishResync(q, &effects)
//
// A request stays where its whole record (queue, lengths, page numbers, tokens) is equal on all ranks and no
// operation touches it; the others are aborted with a reason that invites a retry. Every page and slot that a
// record which does not stay names on any rank is quarantined on all, until each rank reports its old transfers
// drained and its old copies ended; a request that stays but names such a page does not stay either. Of the cache
// only the prefixes held by requests that stay are kept. Every decision is made from reduced values.
type Resync struct {
	s     *Scheduler
	phase resyncPhase
	last  uint64  // request numbers up to here are decided
	cand  uint64  // the one under way
	asked bool    // its number is agreed, its hash comes next
	stay  []int32 // slab entries of the records that all ranks hold alike
	tier  index.Tier
	at    int       // page or slot the chunk under way begins with
	bad   [2][]bool // by tier and page: some rank's record that does not stay names it
	slots []bool    // the same for metadata slots
	same  [numSame]bool
	most  [numMost]uint64
}

type resyncPhase uint8

const (
	resyncScalars resyncPhase = iota
	resyncRequests
	resyncPages
	resyncSlots
	resyncDone
)

// Scalars whose greatest value all ranks go on from, so that no number is used twice.
const (
	mostTick = iota
	mostTime
	mostLastID
	mostOperation
	mostCommit
	mostGeneration
	mostPolicyEpoch
	mostEpoch
	numMost
)

// Parts of the state that are kept only where they are equal on all ranks.
const (
	samePartial = iota // an ingress message that is not whole yet
	samePeers
	sameQuarantined
	sameConfig
	numSame
)

const (
	resync64    = numMost + 2*numSame
	resyncChunk = 4096
)

// ResyncShape is the shape of every round.
func ResyncShape() Shape { return Shape{U64: resync64, U8: resyncChunk} }

// ErrResync marks a resync that cannot make the ranks equal.
var ErrResync = errors.New("schedule: the ranks cannot be made equal")

// NewResync starts this rank's part.
func NewResync(s *Scheduler) *Resync {
	return &Resync{s: s, bad: [2][]bool{make([]bool, s.cfg.L1Pages), make([]bool, s.cfg.L2Pages)}, slots: make([]bool, s.cfg.MetadataSlots)}
}

// Done says whether all rounds are over.
func (q *Resync) Done() bool { return q.phase == resyncDone }

// KeptPartial says whether the unfinished ingress message was kept; if not, its sender must drop the rest of it.
func (q *Resync) KeptPartial() bool { return q.same[samePartial] }

// Fill writes this rank's lanes of the coming round.
func (q *Resync) Fill(u64 []uint64, u8 []byte) {
	switch q.phase {
	case resyncScalars:
		for i, v := range q.mine() {
			u64[i] = ^v // the least complement is the greatest value
		}
		for i, v := range q.parts() {
			u64[numMost+2*i], u64[numMost+2*i+1] = v, ^v
		}
	case resyncRequests:
		if !q.asked {
			u64[0] = q.next()
			return
		}
		// Zero and zero are no value and its complement: this rank has no such record, or one that cannot stay.
		u64[0], u64[1] = 0, 0
		if i, ok := q.s.byID[q.cand]; ok && q.s.stayable(i) {
			h := q.s.recordHash(i)
			u64[0], u64[1] = h, ^h
		}
	case resyncPages:
		fillFlags(u8, q.bad[q.tier], q.at)
	case resyncSlots:
		fillFlags(u8, q.slots, q.at)
	}
}

// Take reads a reduced round.
func (q *Resync) Take(u64 []uint64, u8 []byte) {
	switch q.phase {
	case resyncScalars:
		for i := range q.most {
			q.most[i] = ^u64[i]
		}
		for i := range q.same {
			q.same[i] = u64[numMost+2*i] == ^u64[numMost+2*i+1]
		}
		q.phase = resyncRequests
	case resyncRequests:
		q.takeRequest(u64)
	case resyncPages:
		takeFlags(u8, q.bad[q.tier], q.at)
		q.at += resyncChunk
		q.skipPages()
	case resyncSlots:
		takeFlags(u8, q.slots, q.at)
		if q.at += resyncChunk; q.at >= len(q.slots) {
			q.phase = resyncDone
			q.close()
		}
	}
}

func fillFlags(u8 []byte, bad []bool, at int) {
	for i, v := range bad[at:min(len(bad), at+resyncChunk)] {
		u8[i] = flag(!v)
	}
}

func takeFlags(u8 []byte, bad []bool, at int) {
	for i := range bad[at:min(len(bad), at+resyncChunk)] {
		bad[at+i] = u8[i] == 0
	}
}

func (q *Resync) mine() [numMost]uint64 {
	s := q.s
	return [numMost]uint64{mostTick: s.tick, mostTime: s.timeNS, mostLastID: s.in.lastID, mostOperation: s.opID,
		mostCommit: s.commits, mostGeneration: s.generation(), mostPolicyEpoch: s.policyEpoch, mostEpoch: s.epoch}
}

func (q *Resync) parts() [numSame]uint64 {
	s := q.s
	peers, quarantined := uint64(len(s.peers)), uint64(0)
	for _, p := range s.peers {
		peers = mix(mix(peers, uint64(p.id)), p.incarnation)
	}
	for h := range s.hooks {
		quarantined = mix(quarantined, uint64(flag(s.hooks[h].quarantined)))
	}
	return [numSame]uint64{samePartial: mix(hashBytes(s.in.partial), s.in.lastID), samePeers: peers,
		sameQuarantined: quarantined, sameConfig: s.cfgHash}
}

// next is this rank's least request number that is not decided yet.
func (q *Resync) next() uint64 {
	least := ^uint64(0)
	for id := range q.s.byID {
		if id > q.last {
			least = min(least, id)
		}
	}
	return least
}

func (q *Resync) takeRequest(u64 []uint64) {
	switch {
	case q.asked:
		if u64[0] == ^u64[1] {
			q.stay = append(q.stay, q.s.byID[q.cand])
		}
		q.last, q.asked = q.cand, false
	case u64[0] == ^uint64(0):
		q.mark()
		q.phase = resyncPages
		q.skipPages()
	default:
		q.cand, q.asked = u64[0], true
	}
}

func (q *Resync) skipPages() {
	for q.at >= len(q.bad[q.tier]) {
		if q.tier == index.L2 {
			q.phase, q.at = resyncSlots, 0
			return
		}
		q.tier, q.at = index.L2, 0
	}
}

// mark notes every page and slot that a record which does not stay names on this rank, and all that an operation
// reads or writes.
func (q *Resync) mark() {
	s := q.s
	for i := range s.reqs {
		if r := &s.reqs[i]; r.live && !slices.Contains(q.stay, int32(i)) {
			q.spoil(r)
		}
	}
	for _, i := range s.opList {
		o := &s.ops[i]
		if o.node == 0 {
			continue // the pages of saves and resumes are their request's
		}
		s.src, s.dst = s.x.AppendOp(s.src[:0], s.dst[:0], o.node)
		from, to := index.L2, index.L1
		if o.kind == OperationBackup {
			from, to = to, from
		}
		q.taint(from, s.src)
		q.taint(to, s.dst)
	}
}

func (q *Resync) spoil(r *request) {
	q.taint(index.L1, r.pages)
	q.taint(index.L2, r.saved)
	if r.slot >= 0 {
		q.slots[r.slot] = true
	}
	for _, v := range r.slots {
		q.slots[v] = true
	}
}

func (q *Resync) taint(t index.Tier, pages []index.Page) {
	for _, p := range pages {
		if p != index.NoPage {
			q.bad[t][p] = true
		}
	}
}

// close drops what stays only in name: a request with a page that some rank wrote for another record. Its own pages
// are in doubt then too, so this goes on until nothing changes. Marks and records are equal on all ranks.
func (q *Resync) close() {
	for again := true; again; {
		again = false
		q.stay = slices.DeleteFunc(q.stay, func(i int32) bool {
			r := &q.s.reqs[i]
			if !q.names(index.L1, r.pages) && !q.names(index.L2, r.saved) {
				return false
			}
			q.spoil(r)
			again = true
			return true
		})
	}
}

func (q *Resync) names(t index.Tier, pages []index.Page) bool {
	return slices.ContainsFunc(pages, func(p index.Page) bool { return q.bad[t][p] })
}

// stayable says whether a record can stay at all: nothing is being written for it. The host pages of a retracted
// request have their checksums under the generations of the old epoch, so it does not stay.
func (s *Scheduler) stayable(i int32) bool {
	r := &s.reqs[i]
	if r.aborted || r.answered || r.saveOp >= 0 {
		return false
	}
	switch r.queue {
	case QueuePrealloc, QueueWaiting, QueueRunning:
		return true
	}
	return false
}

// recordHash digests everything of a record that decides its future.
func (s *Scheduler) recordHash(i int32) uint64 {
	r := &s.reqs[i]
	h := mix(r.id, uint64(r.queue)<<32|uint64(r.held))
	for _, v := range [...]uint64{r.room, uint64(r.peer), uint64(r.tenant)<<16 | uint64(r.priority), uint64(r.prompt), uint64(r.limit),
		uint64(flag(r.ignoreEOS)), r.order, uint64(r.tree), uint64(r.retracts), uint64(len(r.tokens)), uint64(len(r.pages)), uint64(len(r.saved))} {
		h = mix(h, v)
	}
	h = mix(h, hashBytes(r.key))
	for _, list := range [2][]uint32{r.tokens, r.stops} {
		for _, t := range list {
			h = mix(h, uint64(t))
		}
	}
	for _, list := range [2][]index.Page{r.pages, r.saved} {
		for _, p := range list {
			h = mix(h, uint64(p))
		}
	}
	return h
}
