package transfer

import (
	"errors"
	"fmt"
	"slices"

	"sluice/abi"
	"sluice/gpu"
	"sluice/runtime/model"
)

// linkKey names one attempt of a room by one incarnation; every message of a peer carries it.
type linkKey struct {
	room, attempt, incarnation uint64
}

// hello registers a peer's incarnation. A layout that does not fit is remembered and returned.
func (r *Receiver) hello(p *Prefill, peer uint32, incarnation uint64, shape model.Shape, chunkPages int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if incarnation <= r.fenced[peer] {
		return fmt.Errorf("%w: peer %d, incarnation %d at rank %d; register with a newer one", ErrFenced, peer, incarnation, r.o.Rank)
	}
	if old := r.current[peer]; old != nil {
		if old.key.incarnation >= incarnation {
			return fmt.Errorf("%w: peer %d, incarnation %d at rank %d, which knows %d", ErrFenced, peer, incarnation, r.o.Rank, old.key.incarnation)
		}
		old.connected = false
		defer r.dropConn(old)
	}
	c := &conn{key: connKey{peer, incarnation}, p: p, connected: true, staged: shape.Shards != r.o.Shape.Shards}
	c.refusal = checkLayout(peer, r.o.Rank, shape, r.o.Shape, chunkPages, int(r.ring.size))
	r.current[peer], r.conns[c.key] = c, c
	if c.refusal != nil {
		r.log.Error("peer refused", "peer", peer, "incarnation", incarnation, "err", c.refusal)
	}
	return c.refusal
}

// lost ends the connection to an incarnation. Its writes may still be under way.
func (r *Receiver) lost(peer uint32, incarnation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.conns[connKey{peer, incarnation}]; c != nil {
		c.connected = false
		r.dropConn(c)
	}
}

// answer is the peer's answer to a handshake.
func (r *Receiver) answer(k linkKey, poll abi.Poll, f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hands[k.room]
	if h == nil || h.attempt != k.attempt || h.conn.key.incarnation != k.incarnation {
		r.counts.Refused++
		return
	}
	h.poll, h.failure = poll, f
}

// status is the peer's word that a request failed.
func (r *Receiver) status(k linkKey, f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.find(k); e != nil {
		e.progress++
		r.settle(e)
		r.fail(e, f)
	}
}

// begin opens a write into the request's pages or regions. Each true is followed by one of landed
// and broken.
func (r *Receiver) begin(k linkKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(k)
	if e == nil {
		return false
	}
	if r.closed(e) {
		r.counts.Refused++
		return false
	}
	e.writers++
	e.conn.writers++
	return true
}

// broken ends a write that did not put its bytes in place.
func (r *Receiver) broken(k linkKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endWrite(k)
}

// landed ends a write that put a chunk, the suffix pages [from, from+n), in place: in the pages, or
// in the region the chunk was granted.
func (r *Receiver) landed(k linkKey, g *region, from, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.endWrite(k)
	if e == nil {
		return
	}
	r.counts.Chunks++
	e.began = true
	e.progress++
	if g == nil {
		r.place(e, from, n)
		r.settle(e)
		return
	}
	if g.landed || g.free {
		r.counts.Duplicates++
		return
	}
	g.landed = true
	e.staging++
	e.scatters++
	r.scatters = append(r.scatters, &scatter{region: g, op: k.attempt})
	r.startScatters()
	r.wake()
}

// endWrite takes back what begin gave. nil where the request is forgotten meanwhile.
func (r *Receiver) endWrite(k linkKey) *entry {
	e := r.rooms[k.room]
	if e == nil || e.attempt != k.attempt {
		return nil
	}
	e.writers--
	e.conn.writers--
	return e
}

// place marks suffix pages as being where they belong.
func (r *Receiver) place(e *entry, from, n int) {
	again := true
	for i := from; i < from+n; i++ {
		if !e.arrived[i] {
			e.arrived[i], again = true, false
			e.pages++
		}
	}
	if again && n > 0 {
		r.counts.Duplicates++
	}
}

// meta writes the metadata slot, the stamp last, and takes what the peer says beside it.
func (r *Receiver) meta(k linkKey, rec Record, said failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(k)
	if e == nil {
		return
	}
	if r.closed(e) {
		r.counts.Refused++
		return
	}
	slot := &r.slots[e.info.Slot]
	slot.First, slot.Cached, slot.From, slot.To = rec.First, rec.Cached, rec.From, rec.To
	slot.Stamp = rec.Stamp
	e.said, e.began = said, true
	e.progress++
	r.settle(e)
}

// ack is the peer's word that nothing of the attempt is under way and nothing will follow.
func (r *Receiver) ack(k linkKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(k)
	if e == nil {
		return
	}
	e.acked = true
	e.progress++
	r.releaseRegions(e)
}

// grant gives the chunk of suffix pages [from, from+n) a region of the ring. wait says that the ring
// is full; neither that nor a region means that the request is no more.
func (r *Receiver) grant(k linkKey, p *Prefill, from, n int) (g *region, wait bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(k)
	if e == nil || r.closed(e) {
		return nil, false, nil
	}
	if uint64(n) > r.ring.size {
		return nil, false, fmt.Errorf("chunk of %d pages is larger than the ring of %d", n, r.ring.size)
	}
	r.harvest()
	if g = r.ring.grant(n); g == nil {
		r.counts.RingFull++
		r.await(p)
		return nil, true, nil
	}
	if err := r.o.Device.Assign(g.refs); err != nil {
		r.releaseRegion(g)
		if errors.Is(err, gpu.ErrBusy) {
			// A write of a request that was forgotten is still touching the page.
			r.await(p)
			return nil, true, nil
		}
		return nil, false, fmt.Errorf("ring region: %w", err)
	}
	g.owner, g.from = e, from
	e.regions = append(e.regions, g)
	return g, false, nil
}

// await has p told when a region is given back.
func (r *Receiver) await(p *Prefill) {
	if !slices.Contains(r.waiters, p) {
		r.waiters = append(r.waiters, p)
	}
}

// reasonOf is what a failed write is called.
func reasonOf(err error) abi.Reason {
	if errors.Is(err, gpu.ErrStale) {
		return abi.ReasonStaleReference
	}
	return abi.ReasonTransferFailed
}
