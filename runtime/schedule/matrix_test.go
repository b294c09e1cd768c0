package schedule

import (
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

// cell is one run of S27's matrix: requests are brought to a stage, then something ends them.
type cell struct {
	*group
	stage   string
	healed  bool // facts are good again
	gone    bool // one rank has lost the peer
	giveUp  bool
	failNow bool // transfers fail
	badCopy bool // copies end short on rank 1
	rejects bool
	inc     uint64
}

var stages = []string{"bootstrapping", "prealloc without pages", "prealloc with pages", "load out", "transferring", "waiting", "running",
	"retracted, saving", "retracted with copy", "retracted, resuming"}

var causes = []string{"client abort", "disconnect", "timeout", "peer failure", "peer lost", "restore failure"}

func newCell(t *testing.T, stage string) *cell {
	cfg := testConfig(2, 4, 40, 40)
	cfg.MetadataSlots, cfg.MaxRunning = 8, 5
	cfg.LoadFailures = 255
	if stage == "waiting" {
		cfg.MaxRunning = 1
	}
	c := &cell{group: newGroup(t, cfg), stage: stage, inc: 1, healed: true}
	c.warm(0, 8, 1) // the shared prefix of the load stage
	is := func(s string) bool { return !c.healed && stage == s }
	c.shake = func(_ int, id uint64) abi.Poll {
		if is("bootstrapping") {
			if c.failNow {
				return abi.PollFailed
			}
			return abi.PollBootstrapping
		}
		return abi.PollWaitingForInput
	}
	c.raw = func(rank int, _ uint64, _ uint32) abi.Poll {
		switch {
		case c.healed:
			return abi.PollSuccess
		case c.failNow && rank == 1:
			return abi.PollFailed
		case is("prealloc with pages"):
			return abi.PollWaitingForInput
		case is("transferring"):
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	c.vote = func(rank int, raw abi.Poll, st abi.RestoreStatus, _ uint64) (abi.Poll, bool) {
		if raw == abi.PollSuccess && st == abi.RestorePending {
			raw = abi.PollTransferring
		}
		return raw, c.giveUp && rank == 1
	}
	c.load = func(rank int, op OperationView, _ bool) (bool, int, bool) {
		switch {
		case op.Kind == OperationBackup:
			return true, op.Pages, false
		case c.badCopy:
			return true, op.Pages * (1 - rank), false
		case is("load out") && op.Kind == OperationLoad, is("retracted, saving") && op.Kind == OperationSave, is("retracted, resuming") && op.Kind == OperationResume:
			return false, 0, false
		}
		return true, op.Pages, false
	}
	c.held = func(int) uint64 {
		if is("prealloc without pages") || is("retracted with copy") {
			return 1000
		}
		return 0
	}
	c.token = func(id uint64, n int) uint32 {
		if n > 0 && !c.healed {
			return NoToken
		}
		return uint32(100000 + int(id)*1000 + n)
	}
	c.peerUp = func(rank int, _ PeerView) bool { return !(c.gone && rank == 1) }
	c.admit = func(_ int, out []byte, n int) []byte {
		for i := range n {
			if c.rejects {
				abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(i), Verdict: abi.VerdictReject, Reason: abi.ReasonDeadline})
			}
		}
		return out
	}
	return c
}

// there says whether request id has reached the stage.
func (c *cell) there(id uint64) bool {
	q, s := c.where(id), c.ranks[0]
	saving := func() bool { return s.reqs[s.byID[id]].saveOp >= 0 }
	switch c.stage {
	case "bootstrapping", "prealloc without pages":
		return q == QueuePrealloc
	case "prealloc with pages", "transferring":
		return q == QueueTransfer
	case "load out":
		return q == QueueTransfer && s.reqs[s.byID[id]].pending > 0
	case "waiting":
		return q == QueueWaiting || q == QueueRunning
	case "retracted, saving":
		return q == QueueRetracted && saving()
	case "retracted with copy":
		return q == QueueRetracted && !saving()
	case "retracted, resuming":
		return q == QueueResuming
	}
	return q == QueueRunning
}

// round brings five requests to the stage, applies the cause, heals everything and runs to the end.
func (c *cell) round(cause string) {
	c.t.Helper()
	c.demote()
	c.healed = false
	var ids []uint64
	for i := range 5 {
		base := 1000 * (i + 1)
		if c.stage == "load out" {
			base = 0
		}
		ids = append(ids, c.add(base, 9+i, 4))
	}
	c.until("the stage", func() bool {
		for _, id := range ids {
			if c.stage[:min(9, len(c.stage))] == "retracted" && c.where(id) == QueueRunning {
				c.retract(id)
			}
			if !c.there(id) {
				return false
			}
		}
		return true
	})
	switch cause {
	case "client abort":
		for _, id := range ids {
			c.abort(id)
		}
	case "disconnect":
		for _, id := range ids {
			c.stream = AppendAbort(c.stream, id)
		}
	case "timeout":
		c.giveUp = true
		c.rejects = c.stage == "bootstrapping" || c.stage == "prealloc without pages"
	case "peer failure":
		c.failNow = true
	case "peer lost":
		c.gone = true
	case "restore failure":
		c.badCopy = true
	}
	c.steps(4)
	c.giveUp, c.failNow, c.badCopy, c.rejects, c.healed = false, false, false, false, true
	if c.gone {
		c.gone = false
		c.inc++
		c.stream = AppendPeer(c.stream, 1, c.inc)
	}
	c.untilIdle()
	for _, id := range ids {
		n := 0
		for rank := range c.ranks {
			if _, ok := c.finished(rank, id); ok {
				n++
			}
		}
		if n != len(c.ranks) {
			c.t.Fatalf("request %d ended on %d ranks of %d", id, n, len(c.ranks))
		}
	}
	c.baseline()
	for rank := range c.events {
		c.events[rank] = c.events[rank][:0]
		clear(c.results[rank])
	}
}

// baseline checks that nothing is held.
func (c *cell) baseline() {
	c.t.Helper()
	for rank, s := range c.ranks {
		k, h := s.Books(index.L1), s.Books(index.L2)
		st := s.CacheStats()
		if k.Free+k.Evictable != 40 || h.Private+h.Loading+h.Quarantined+h.Saving != 0 || st.Locks+st.Ops != 0 ||
			len(s.freeSlots) != s.cfg.MetadataSlots || len(s.rooms)+len(s.byID)+len(s.rests)+len(s.opList) != 0 {
			c.t.Fatalf("rank %d: books %+v and %+v, %d locks, %d operations, %d slots free", rank, k, h, st.Locks, st.Ops, len(s.freeSlots))
		}
		if d := c.devices[rank]; len(d.sends)+len(d.ops)+len(d.rows) != 0 {
			c.t.Fatalf("rank %d still has %d transfers, %d copies and %d rows", rank, len(d.sends), len(d.ops), len(d.rows))
		}
	}
}

// TestS27 ends 100 requests in every stage by every cause; after each cell all counters are at their baseline, and
// request 101 is served, its restore included.
func TestS27EveryWayOut(t *testing.T) {
	for _, stage := range stages {
		for _, cause := range causes {
			t.Run(stage+", "+cause, func(t *testing.T) {
				c := newCell(t, stage)
				for range 20 {
					c.round(cause)
				}
				c.warm(0, 8, 1) // other requests may have pushed the prefix out
				before := c.ranks[0].Counts()
				c.demote()
				last := c.add(0, 12, 3)
				c.until("request 101", func() bool { return c.ended(last) })
				c.wantFinish(last, FinishLength, 0)
				if n := c.ranks[0].Counts().LoadPages - before.LoadPages; n != 2 {
					t.Errorf("request 101 restored %d pages, want 2", n)
				}
			})
		}
	}
}
