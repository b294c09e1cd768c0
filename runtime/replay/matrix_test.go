package replay

import (
	"testing"
	"time"

	"sluice/gpu/host"
	"sluice/kvcache/index"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// stage is where the requests of a cell of S27 are when the cause strikes.
type stage struct {
	name   string
	config func(*WorldConfig)
	// enter brings a fresh request there and returns it, with those it needs beside it.
	enter func(s *sim, n int) (id uint64, beside []uint64)
	// ends has one letter a cause: aborted, failed, or at its length.
	ends string
}

// cause is how they end: before is called before the request is offered, strike once it is where it is to be.
type cause struct {
	name   string
	before func(s *sim)
	strike func(s *sim, id uint64)
}

// matrixRequests is how many requests a cell ends, one after the other.
const matrixRequests = 10

// chunksOf has f say how the chunks of one request fare.
func (s *sim) chunksOf(id uint64, f func(chunk int) transfer.Chunk) {
	was := s.script.chunk
	s.script.chunk = func(k transfer.Key, chunk int) transfer.Chunk {
		if k.Room == roomOf(id) {
			return f(chunk)
		}
		if was != nil {
			return was(k, chunk)
		}
		return transfer.Chunk{}
	}
}

// slow has the data of a request take so long.
func (s *sim) slow(id uint64, d time.Duration) {
	s.chunksOf(id, func(int) transfer.Chunk { return transfer.Chunk{At: d} })
}

func slowLoads(c *WorldConfig) {
	c.Delay = func(r int) host.Delay {
		return func(op host.Op, _ int) uint64 {
			if op == host.Load {
				return uint64(12 + 3*r)
			}
			return 0
		}
	}
}

func stages() []stage {
	next := func(s *sim) uint64 { return s.nextID + 1 }
	reach := func(s *sim, id uint64, q schedule.Queue) { s.until("the stage", s.in(q, id)) }
	return []stage{
		{"bootstrapping", nil, func(s *sim, n int) (uint64, []uint64) {
			id := s.Submit(Request{Namespace: "default", Tokens: counting(1000*n, 16), Limit: 4, NoPrefill: true})
			reach(s, id, schedule.QueuePrealloc)
			return id, nil
		}, "AAFFFFF"},
		{"prealloc without pages", nil, func(s *sim, n int) (uint64, []uint64) {
			full := next(s)
			s.slow(full, 15*tick)
			s.add(1<<20, 4*s.cfg.Schedule.L1Pages, 1)
			reach(s, full, schedule.QueueTransfer)
			id := s.add(1000*n, 16, 4)
			reach(s, id, schedule.QueuePrealloc)
			return id, []uint64{full}
		}, "AAAFFFL"},
		{"prealloc with pages", nil, func(s *sim, n int) (uint64, []uint64) {
			id := next(s)
			s.slow(id, 25*tick)
			s.add(1000*n, 16, 4)
			reach(s, id, schedule.QueueTransfer)
			return id, nil
		}, "AAAFFFL"},
		{"load out", slowLoads, func(s *sim, n int) (uint64, []uint64) {
			s.warm(1000*n, 8)
			s.demote()
			id := next(s)
			s.slow(id, 20*tick)
			s.add(1000*n, 16, 4)
			s.until("the load", func() bool { return s.Books(index.L1).Loading == 2 && s.stores[0].Outstanding() > 0 })
			return id, nil
		}, "AAAFFFF"},
		{"transferring", nil, func(s *sim, n int) (uint64, []uint64) {
			id := next(s)
			s.chunksOf(id, func(chunk int) transfer.Chunk {
				return transfer.Chunk{At: time.Duration(1+20*chunk) * tick, Flight: tick}
			})
			s.add(1000*n, 16, 4)
			s.until("a chunk", func() bool { return s.recv[0].Poll(id).ArrivedPages > 0 })
			return id, nil
		}, "AAAFFFL"},
		{"waiting", func(c *WorldConfig) { c.Schedule.MaxRunning = 1 }, func(s *sim, n int) (uint64, []uint64) {
			run := s.add(500000+1000*n, 8, 30)
			reach(s, run, schedule.QueueRunning)
			id := s.add(1000*n, 16, 4)
			reach(s, id, schedule.QueueWaiting)
			return id, []uint64{run}
		}, "AALLLLL"},
		{"running", nil, func(s *sim, n int) (uint64, []uint64) {
			id := s.add(1000*n, 16, 20)
			reach(s, id, schedule.QueueRunning)
			return id, nil
		}, "AALLLLL"},
		{"retracted with a copy", func(c *WorldConfig) { c.Schedule.Overcommit = 0.05; c.Schedule.L1Pages = 14 }, func(s *sim, n int) (uint64, []uint64) {
			old := s.add(500000+1000*n, 16, 40)
			reach(s, old, schedule.QueueRunning)
			id := s.add(1000*n, 16, 24)
			reach(s, id, schedule.QueueRetracted)
			s.until("its copy", func() bool { return s.stores[0].Outstanding() == 0 && s.stores[1].Outstanding() == 0 })
			return id, []uint64{old}
		}, "AALLLLF"},
	}
}

func causes() []cause {
	return []cause{
		{"client abort", nil, func(s *sim, id uint64) { s.Abort(id) }},
		{"abort behind the stream", nil, func(s *sim, id uint64) { s.leader.Add(schedule.AppendAbort(nil, id)) }},
		{"timeout", nil, func(s *sim, id uint64) {
			s.chunksOf(id, func(int) transfer.Chunk { return transfer.Chunk{Drop: true} })
		}},
		{"peer dies", nil, func(s *sim, _ uint64) { s.CrashPeer() }},
		{"one rank loses the peer", nil, func(s *sim, _ uint64) { s.CutPeer(1) }},
		{"peer fails it", nil, func(s *sim, id uint64) { s.peer.Abort(roomOf(id)) }},
		{"copies back fail", func(s *sim) { s.inject(1, host.Fault{Kind: host.Load, Err: errCopy, DelayTicks: 9}) }, nil},
	}
}

// TestS27 ends ten requests in every stage by every cause. Whatever the cell, everything is back where it was, and the
// next request is served.
func TestS27EveryStageEndsByEveryCause(t *testing.T) {
	for _, st := range stages() {
		for i, c := range causes() {
			end := map[byte]schedule.FinishKind{'A': schedule.FinishAborted, 'F': schedule.FinishFailed, 'L': schedule.FinishLength}[st.ends[i]]
			t.Run(st.name+"/"+c.name, func(t *testing.T) { cell(t, st, c, end) })
		}
	}
}

func cell(t *testing.T, st stage, c cause, end schedule.FinishKind) {
	t.Helper()
	cfg := simConfig(2, 4, 40, 120)
	cfg.TransferTicks, cfg.DrainTicks, cfg.RestartDelay = 60, 30, 2*tick
	if st.config != nil {
		st.config(&cfg)
	}
	s := newSim(t, cfg)
	for n := range matrixRequests {
		s.script.chunk = nil
		if c.before != nil {
			c.before(s)
		}
		id, beside := st.enter(s, n+1)
		if c.strike != nil {
			c.strike(s, id)
		}
		s.until("the end", s.done(append(beside, id)...))
		if got := s.Outcome(id).Ends[0]; got.Kind != end {
			t.Errorf("request %d ended as %v (%s), want %v", n+1, got.Kind, got.Reason, end)
		}
		s.untilIdle()
		s.Flush()
		s.steps(3)
		s.until("the peer", func() bool { return s.ranks[0].Schedule().NumPeers() == 1 && !s.leader.Pending() })
		for r, k := range s.ranks {
			l1, l2, sched := k.Schedule().Books(index.L1), k.Schedule().Books(index.L2), &s.cfg.Schedule
			if l1.Free != sched.L1Pages || l2.Free != sched.L2Pages {
				t.Fatalf("request %d: rank %d is idle and flushed with books %+v and %+v", n+1, r, l1, l2)
			}
			if s.stores[r].Outstanding() != 0 {
				t.Fatalf("request %d: rank %d is idle with copies out", n+1, r)
			}
		}
	}
	last := s.add(900000, 16, 4)
	s.until("the next request", s.done(last))
	if s.wantTokens(last, 4); s.FreedUnderWriter > 0 {
		t.Errorf("%d pages were freed under a writer", s.FreedUnderWriter)
	}
	s.untilIdle()
}
