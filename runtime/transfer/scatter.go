package transfer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/abi"
	"sluice/gpu"
)

// scatter is one landed region on its way to the request's pages.
type scatter struct {
	region *region
	op     uint64
	queued bool // the stream has it
	done   gpu.Completion
}

// dst is where the region's pages belong.
func (s *scatter) dst() []gpu.Ref {
	g := s.region
	return g.owner.info.Dst[g.from : g.from+int(g.pages)]
}

// Pump brings the receiver up to now: it queues scatters, takes in those that have ended, and
// completes revocations. now does not go back; one goroutine pumps.
func (r *Receiver) Pump(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = max(r.now, now)
	r.startScatters()
	r.harvest()
	for _, c := range r.conns {
		if c.revoking && !c.revoked && c.writers == 0 && r.now >= c.revokeAt {
			r.revoke(c)
		}
	}
}

// revoke completes the withdrawal of an incarnation's right to write.
func (r *Receiver) revoke(c *conn) {
	c.revoked = true
	r.counts.RevokedPeers++
	for _, e := range r.entries {
		if e.conn == c {
			e.progress++
			r.releaseRegions(e)
		}
	}
	r.dropConn(c)
}

// startScatters hands landed regions to the stream, in the order they landed. Regions of a request
// that has ended are given back unread.
func (r *Receiver) startScatters() {
	full := false
	r.scatters = slices.DeleteFunc(r.scatters, func(s *scatter) bool {
		e := s.region.owner
		if s.queued || full {
			return false
		}
		if e.done() || e.forgotten {
			r.endScatter(s)
			return true
		}
		err := r.o.Device.Copy(r.o.Stream, gpu.Batch{Op: s.op, Dst: s.dst(), Src: s.region.refs}, &s.done)
		switch {
		case errors.Is(err, gpu.ErrQueueFull):
			full = true
			return false
		case err != nil:
			r.endScatter(s)
			r.fail(e, failure{reason: abi.ReasonTransferFailed, message: fmt.Sprintf("scatter: %v", err)})
			return true
		}
		s.queued = true
		return false
	})
}

// harvest takes in the scatters that have ended.
func (r *Receiver) harvest() {
	if len(r.scatters) == 0 {
		return
	}
	r.scatters = slices.DeleteFunc(r.scatters, func(s *scatter) bool {
		if !s.queued || !s.done.Done() {
			return false
		}
		e, g, out := s.region.owner, s.region, s.done.Outcome()
		r.endScatter(s)
		if out.Good == int(g.pages) && out.Err == nil {
			r.counts.Scattered += g.pages
			r.place(e, g.from, int(g.pages))
		} else {
			r.fail(e, failure{reason: reasonOf(out.Err), message: fmt.Sprintf("scatter: %d of %d pages: %v", out.Good, g.pages, out.Err)})
		}
		r.settle(e)
		return true
	})
}

// endScatter gives the region back.
func (r *Receiver) endScatter(s *scatter) {
	e, g := s.region.owner, s.region
	e.scatters--
	e.staging--
	e.progress++
	if i := slices.Index(e.regions, g); i >= 0 {
		e.regions = slices.Delete(e.regions, i, i+1)
	}
	r.releaseRegion(g)
}

// next is when Pump has something to do that no message announces.
func (r *Receiver) next() (at time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.scatters) > 0 {
		at, ok = r.now+r.o.Poll, true
	}
	for _, c := range r.conns {
		if c.revoking && !c.revoked && (!ok || c.revokeAt < at) {
			at, ok = max(c.revokeAt, r.now), true
			if c.writers > 0 {
				at = r.now + r.o.Poll
			}
		}
	}
	return at, ok
}
