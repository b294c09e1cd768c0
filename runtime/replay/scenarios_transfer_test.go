package replay

import (
	"errors"
	"testing"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/kvcache/index"
	"sluice/plugins"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// TestS01 has a peer write on into a request that its client has aborted. The four pages stay out of reach until the
// drain ack; meanwhile a policy may let a small request pass one that does not fit.
func TestS01PagesStayAwayFromALateWriter(t *testing.T) {
	for _, staged := range []bool{false, true} {
		cfg := simConfig(1, 4, 8, 0)
		cfg.Hooks = nativesWith(func(int) plugins.NativePolicy { return plugins.NativePolicy{Admit: smallestFirst} })
		if staged {
			cfg.PrefillShards, cfg.RingPages = 2, 8
			cfg.Model.BytesPerTokenLayer = 16
		}
		s := newSim(t, cfg)
		var a uint64
		s.script.chunk = func(k transfer.Key, chunk int) transfer.Chunk {
			if k.Room != roomOf(a) {
				return transfer.Chunk{}
			}
			at := [...]time.Duration{1, 2, 25, 26}[chunk] * tick
			return transfer.Chunk{At: at, Flight: at} // nothing stops a chunk that has been issued
		}
		s.script.ack = func(transfer.Key) transfer.Ack { return transfer.Ack{Delay: tick} }
		a = s.nextID + 1
		s.add(0, 16, 1)
		s.until("two chunks", func() bool { return s.recv[0].Poll(a).ArrivedPages == 2 })
		s.Abort(a)
		s.step()
		aborted := s.tick
		b, c := s.add(1000, 20, 1), s.add(2000, 16, 1)
		s.until("C", s.done(c))
		if s.where(b) != schedule.QueuePrealloc || s.where(a) != schedule.QueueQuarantine {
			t.Errorf("staged %v: with C done, B is %v and A %v; want them in prealloc and quarantine", staged, s.where(b), s.where(a))
		}
		s.wantBooks(index.Books{Evictable: 4, Quarantined: 4})
		if end := s.wantEnd(a, schedule.FinishAborted, abi.ReasonAborted); end.Tick != aborted {
			t.Errorf("A's client was told at tick %d, want %d: at once", end.Tick, aborted)
		}
		s.until("A to drain", s.in(schedule.QueueNone, a))
		drained := s.tick
		s.until("B", s.done(b))
		if end := s.wantEnd(b, schedule.FinishLength, abi.ReasonNone); end.Tick <= drained {
			t.Errorf("B ended at tick %d, A was drained at %d", end.Tick, drained)
		}
		s.wantTokens(b, 1)
		s.wantTokens(c, 1)
		s.untilIdle()
		if n := s.recv[0].Counts().Chunks; n < 4+4+5-2 {
			t.Errorf("%d chunks landed: A's late ones did not, and the scenario does not bite", n)
		}
	}
}

// TestS02 gives the decode side transfers that are no good, in four ways.
func TestS02FailedReceiveIsNoSuccess(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason abi.Reason
		unsent bool
		spoil  func(s *sim, a uint64)
	}{
		{"the write of a page fails", abi.ReasonTransferFailed, false, func(s *sim, a uint64) {
			s.script.chunk = func(_ transfer.Key, chunk int) transfer.Chunk {
				if chunk == 1 {
					return transfer.Chunk{Err: errLink}
				}
				return transfer.Chunk{}
			}
		}},
		{"the peer does not know the room", abi.ReasonDeadline, true, func(*sim, uint64) {}},
		{"the page is out of range", abi.ReasonTransferFailed, false, func(s *sim, a uint64) {
			s.inject(0, host.Fault{Kind: host.Write, After: 1, Err: gpu.ErrNoPage})
		}},
		{"the page has a newer generation", abi.ReasonStaleReference, false, func(s *sim, a uint64) {
			s.script.chunk = func(_ transfer.Key, chunk int) transfer.Chunk { return transfer.Chunk{At: 4 * tick} }
			s.until("the transfer", s.in(schedule.QueueTransfer, a))
			ref := s.recv[0].InFlight(nil, a)[1]
			ref.Generation++
			if err := s.devs[0].Assign([]gpu.Ref{ref}); err != nil {
				s.t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := simConfig(1, 4, 16, 0)
			cfg.TransferTicks = 20
			s := newSim(t, cfg)
			a := s.Submit(Request{Namespace: "default", Tokens: counting(0, 12), Limit: 4, NoPrefill: c.unsent})
			c.spoil(s, a)
			s.until("the end", s.done(a))
			s.wantEnd(a, schedule.FinishFailed, c.reason)
			s.wantTokens(a, 0)
			s.untilIdle()
			s.wantBooks(index.Books{Free: 16})
			if n := s.recv[0].Counts().Failed; !c.unsent && n != 1 {
				t.Errorf("%d failed transfers are counted, want 1", n)
			}
			s.script.chunk = nil
			again := s.add(0, 12, 4)
			s.until("the retry", s.done(again))
			s.wantEnd(again, schedule.FinishLength, abi.ReasonNone)
			s.wantTokens(again, 4)
			s.untilIdle()
		})
	}
}

// TestOneRoomTwoPrompts has the router lose the first of two requests under one room on its way to the peer, and the
// second, of the same length, on its way to decode: the peer's KV is another prompt's, and nobody may read it.
func TestOneRoomTwoPrompts(t *testing.T) {
	for _, namespace := range []string{"default", "another"} {
		s := newSim(t, simConfig(2, 4, 16, 0))
		tokens := counting(0, 10)
		a := s.Submit(Request{Namespace: "default", Tokens: tokens, Limit: 4, NoPrefill: true})
		other := transfer.Request{Room: roomOf(a), Namespace: string(schedule.Space(namespace, "stand-in", "default")), Tokens: counting(0, 10)}
		if namespace == "default" {
			other.Tokens[3]++
		}
		if err := s.peer.Submit(other); err != nil {
			t.Fatal(err)
		}
		s.until("the end", s.done(a))
		s.wantEnd(a, schedule.FinishFailed, abi.ReasonCoverageDiffers)
		s.wantTokens(a, 0)
		s.untilIdle()
		s.wantBooks(index.Books{Free: 16})
	}
}

// TestHandshakesEnd has a room that the peer never gets to know. The wait ends after transfer_ticks, counted from when
// the rank first asks; a request that the peer knows may wait for pages as long as it takes.
func TestHandshakesEnd(t *testing.T) {
	cfg := simConfig(2, 4, 8, 0)
	cfg.TransferTicks, cfg.Schedule.AdmitWindow = 20, 2
	s := newSim(t, cfg)
	full := s.nextID + 1
	s.chunksOf(full, func(chunk int) transfer.Chunk { return transfer.Chunk{At: time.Duration(15*(chunk+1)) * tick} })
	s.add(0, 32, 1)
	s.until("the device to be full", s.in(schedule.QueueTransfer, full))
	patient := s.add(1000, 8, 2)
	unknown := func(base int) uint64 {
		return s.Submit(Request{Namespace: "default", Tokens: counting(base, 8), Limit: 2, NoPrefill: true})
	}
	a, b := unknown(2000), unknown(3000) // b is behind the window until a has gone
	s.until("a asked about", s.in(schedule.QueuePrealloc, a))
	asked := s.tick
	s.until("both", s.done(a, b))
	if first := s.wantEnd(a, schedule.FinishFailed, abi.ReasonDeadline); first.Tick < asked+20 || first.Tick > asked+22 {
		t.Errorf("the first ended at tick %d, want 20 ticks after %d", first.Tick, asked)
	} else if second := s.wantEnd(b, schedule.FinishFailed, abi.ReasonDeadline); second.Tick < first.Tick+20 || second.Tick > first.Tick+22 {
		t.Errorf("the second ended at tick %d, want 20 ticks after the first at %d", second.Tick, first.Tick)
	}
	if s.where(patient) != schedule.QueuePrealloc {
		t.Errorf("the one that the peer knows is in %v, want it to wait for pages", s.where(patient))
	}
	s.until("the others", s.done(full, patient))
	s.wantEnd(patient, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(patient, 2)
	s.untilIdle()
}

// TestS09 has the peer declare other tokens than it was promised room for.
func TestS09CoverageIsChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		record func(*transfer.Record)
		late   time.Duration // rank 1 hears of it so much later
	}{
		{"one token", func(r *transfer.Record) { r.From, r.To = 0, 1 }, 0},
		{"a page short", func(r *transfer.Record) { r.To = 36 }, 0},
		{"rank 1 is told later", func(r *transfer.Record) { r.From, r.To = 0, 1 }, 7 * tick},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSim(t, simConfig(2, 4, 24, 0))
			s.warm(0, 8)
			s.script.finish = func(k transfer.Key) transfer.Finish {
				f := transfer.Finish{Record: c.record, Reason: abi.ReasonAborted, Message: "prompt refused", Status: 400}
				if k.Rank == 1 {
					f.Delay = c.late
				}
				return f
			}
			a := s.add(0, 40, 4)
			s.until("the transfer", s.in(schedule.QueueTransfer, a))
			if o := s.Outcome(a); o.Promise != 8 || o.L1 != 8 {
				t.Fatalf("A is promised %d tokens, %d on the device; want 8 and 8", o.Promise, o.L1)
			}
			s.wantBooks(index.Books{Free: 24 - 2 - 8 - 0, Locked: 2, Private: 8})
			heard := func() transfer.Poll { return s.recv[0].Poll(a) }
			s.until("rank 0 to hear", func() bool { return heard().Raw == abi.PollFailed })
			if p := heard(); p.Message != "prompt refused" || p.Status != 400 {
				t.Errorf("rank 0 knows %q and status %d, want the peer's words", p.Message, p.Status)
			}
			s.until("the end", s.done(a))
			s.wantEnd(a, schedule.FinishFailed, abi.ReasonCoverageDiffers)
			s.wantTokens(a, 0)
			s.untilIdle()
			s.wantBooks(index.Books{Free: 22, Evictable: 2})
		})
	}
}

// TestS20 has rooms collide.
func TestS20CollidingRooms(t *testing.T) {
	s := newSim(t, simConfig(2, 4, 32, 0))
	s.script.chunk = func(transfer.Key, int) transfer.Chunk { return transfer.Chunk{At: 5 * tick} }
	first := s.Submit(Request{Namespace: "default", Tokens: counting(0, 8), Limit: 3, Room: 7})
	second := s.Submit(Request{Namespace: "default", Tokens: counting(500, 8), Limit: 3, Room: 7})
	var samples []uint64
	for range 4 {
		samples = append(samples, s.add(100, 8, 3))
	}
	s.until("all ends", s.done(append(samples, first, second)...))
	s.wantEnd(first, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(first, 3)
	s.wantEnd(second, schedule.FinishRefused, abi.ReasonDuplicate)
	rooms := map[uint64]bool{}
	for _, id := range samples {
		s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
		s.wantTokens(id, 3)
		rooms[roomOf(id)] = true
	}
	if len(rooms) != 4 {
		t.Errorf("4 samples had %d rooms", len(rooms))
	}
	again := s.Submit(Request{Namespace: "default", Tokens: counting(500, 8), Limit: 3, Room: 7})
	s.until("the retry", s.done(again))
	s.wantEnd(again, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(again, 3)
	s.untilIdle()
}

// TestS30 aborts requests in prealloc and in transfer while the device is full.
func TestS30Abort(t *testing.T) {
	s := newSim(t, simConfig(2, 4, 8, 0))
	full := s.nextID + 1
	s.script.chunk = func(k transfer.Key, _ int) transfer.Chunk {
		if k.Room == roomOf(full) {
			return transfer.Chunk{At: 20 * tick, Flight: 20 * tick}
		}
		return transfer.Chunk{}
	}
	s.add(0, 32, 1)
	s.until("the device to be full", s.in(schedule.QueueTransfer, full))
	var ids []uint64
	for i := range 5 {
		ids = append(ids, s.add(1000*(i+1), 8, 2))
	}
	s.until("all in prealloc", func() bool { return s.ranks[0].Schedule().QueueLen(schedule.QueuePrealloc) == 5 })
	s.Abort(0)
	s.Abort(ids[0])
	s.step()
	if s.where(ids[0]) != schedule.QueueNone {
		t.Errorf("the aborted request is still in %v after a tick", s.where(ids[0]))
	}
	s.wantEnd(ids[0], schedule.FinishAborted, abi.ReasonAborted)
	for _, id := range ids[1:] {
		if s.where(id) != schedule.QueuePrealloc {
			t.Errorf("request %d is %v, want in prealloc: it was not aborted", id, s.where(id))
		}
	}
	before := s.peer.Counts().Acks
	s.Abort(full)
	s.Abort(full)
	s.step()
	s.wantEnd(full, schedule.FinishAborted, abi.ReasonAborted)
	s.until("the others", s.done(ids...))
	for _, id := range ids[1:] {
		s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
		s.wantTokens(id, 2)
	}
	s.untilIdle()
	if n := s.peer.Counts().Acks - before; n != 2 {
		t.Errorf("the peer acknowledged %d times, want once a rank", n)
	}
}

// TestOldTransfersFenceNoNewIncarnation has a peer die and come back while a rank takes long to revoke the dead one's
// right to write. What still waits for that must not cost the peer its new incarnation.
func TestOldTransfersFenceNoNewIncarnation(t *testing.T) {
	cfg := simConfig(2, 4, 16, 0)
	cfg.DrainTicks, cfg.RestartDelay, cfg.RevokeDelay = 10, 2*tick, 60*tick
	s := newSim(t, cfg)
	s.script.chunk = func(transfer.Key, int) transfer.Chunk { return transfer.Chunk{At: 40 * tick} }
	old := s.add(0, 8, 2)
	s.until("the transfer", s.in(schedule.QueueTransfer, old))
	s.CrashPeer()
	s.until("the fence", s.in(schedule.QueueQuarantine, old))
	s.until("the peer", func() bool { return s.ranks[0].Schedule().NumPeers() == 1 })
	a := s.add(500, 8, 2)
	s.until("the next request", s.done(a))
	if s.where(old) != schedule.QueueQuarantine {
		t.Errorf("the old transfer is in %v, want it to wait for the revocation", s.where(old))
	}
	s.wantEnd(old, schedule.FinishFailed, abi.ReasonPeerLost)
	s.wantEnd(a, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(a, 2)
	s.untilIdle()
	if n := s.peer.Incarnation(); n != 2 {
		t.Errorf("the peer has incarnation %d, want 2: nobody had a reason to fence it again", n)
	}
}

// TestSlowScattersFenceNoPeer has a rank scatter the chunks of an aborted request long after the peer has acknowledged:
// its pages wait, the peer keeps its right to write for the others.
func TestSlowScattersFenceNoPeer(t *testing.T) {
	cfg := simConfig(2, 4, 16, 0)
	cfg.PrefillShards, cfg.RingPages = 1, 8
	cfg.DrainTicks, cfg.RestartDelay = 10, 2*tick
	s := newSim(t, cfg)
	s.inject(1, host.Fault{Kind: host.Move, DelayTicks: 60})
	a := s.nextID + 1
	s.chunksOf(a, func(chunk int) transfer.Chunk { return transfer.Chunk{At: time.Duration(1+30*chunk) * tick} })
	s.add(0, 8, 2)
	s.until("a chunk in the ring", func() bool {
		return s.where(a) == schedule.QueueTransfer && s.recv[1].Poll(a).Raw == abi.PollTransferring
	})
	s.Abort(a)
	s.until("the quarantine", s.in(schedule.QueueQuarantine, a))
	s.steps(int(cfg.DrainTicks) + 20)
	if s.where(a) != schedule.QueueQuarantine {
		t.Errorf("the aborted request is in %v while a scatter still writes its pages", s.where(a))
	}
	s.untilIdle()
	b := s.add(500, 8, 2)
	s.until("the next request", s.done(b))
	s.wantEnd(b, schedule.FinishLength, abi.ReasonNone)
	s.untilIdle()
	if n := s.peer.Incarnation(); n != 1 {
		t.Errorf("the peer has incarnation %d, want 1: it had acknowledged in time", n)
	}
}

// TestModelStepFailsAndGoesOn has one rank's write of new KV fail: that step makes no token on any rank, the next does.
func TestModelStepFailsAndGoesOn(t *testing.T) {
	cfg := simConfig(2, 4, 8, 0)
	cfg.StepMayFail = true
	s := newSim(t, cfg)
	a := s.add(0, 5, 6)
	s.until("it runs", s.in(schedule.QueueRunning, a))
	s.inject(1, host.Fault{Kind: host.Write, Err: errors.New("injected: the device is busy"), Times: 2})
	s.until("the end", s.done(a))
	s.wantEnd(a, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(a, 6)
	if s.StepErrors == 0 {
		t.Error("no step failed")
	}
	s.untilIdle()
}
