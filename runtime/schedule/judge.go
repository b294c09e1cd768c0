package schedule

import "sluice/abi"

// judgeHooks reads the validity lanes: it counts faults, quarantines a policy that has too many, gives nodes the keys
// that the ranks agree on, and returns whether their admit answers may be used.
func (s *Scheduler) judgeHooks(b *Ballot, p Proposals, e *Effects) bool {
	for h := range numFixed + s.lay.score {
		k := &s.hooks[h]
		if b.U8[s.lay.hook(h)] == 0 && !k.quarantined && !(h >= hookAdmit && k.down) {
			s.fault(h)
		}
	}
	admit := s.judge(b, hookAdmit, s.readLanes(b, hookAdmit), p.Admit, e)
	if s.cfg.Score && s.judge(b, hookScore, s.readLanes(b, hookScore), p.Score, e) {
		s.takeScores(p.Score)
	}
	for h := range s.hooks {
		k := &s.hooks[h]
		if !k.quarantined && s.tooMany(h) {
			k.quarantined = true
			s.note(0x71756172, uint64(h))
			e.add(Effect{Kind: EffectQuarantine, Hook: hookOf(h)})
			if h == hookScore {
				s.x.ResetScores(false)
			}
		}
	}
	return admit
}

// agreement is what the reduced lanes say of one replicated hook.
type agreement struct {
	digest uint64
	same   bool   // the digest is equal on all ranks
	ready  uint64 // generation of the instance that every rank has ready
}

func (s *Scheduler) readLanes(b *Ballot, h int) agreement {
	x, not, ready := laneAdmitDigest, laneAdmitDigestNot, laneAdmitReady
	if h == hookScore {
		x, not, ready = laneScoreDigest, laneScoreDigestNot, laneScoreReady
	}
	a := agreement{digest: b.U64[s.lay.scalar(x)], ready: b.U64[s.lay.scalar(ready)]}
	a.same = a.digest == ^b.U64[s.lay.scalar(not)]
	return a
}

// judge says whether the ranks' answers of a replicated hook may be used, and has its instance go where they may not. A
// hook that is down is asked again from the next tick on once every rank has its successor ready. One whose instance is
// not there on some rank though it is not down has lost it to a fault of another hook that the same instance answers: it
// goes down too, and nothing is held against it.
func (s *Scheduler) judge(b *Ballot, h int, a agreement, answer []byte, e *Effects) (use bool) {
	k := &s.hooks[h]
	k.diverged = false
	if k.quarantined {
		return false
	}
	if k.down {
		if a.ready >= k.generation {
			k.down = false
			s.note(0x757067, k.generation)
		}
		return false
	}
	valid := b.U8[s.lay.hook(h)] != 0
	if valid && a.ready < k.generation {
		s.discard(h, e)
		return false
	}
	agreed := valid && a.same
	k.diverged = valid && !a.same
	own := agreed && hashBytes(answer) == a.digest
	use = own && s.wellFormed(h, answer)
	// What all ranks sent alike may still be malformed; it is a fault on all of them then.
	if broken := !agreed || own && !use; broken {
		if valid {
			s.fault(h)
		}
		s.discard(h, e)
	}
	return use
}

func (s *Scheduler) wellFormed(h int, answer []byte) bool {
	if h == hookScore {
		return len(answer) == len(s.scoreNodes)*abi.ScoreOutStride
	}
	return validOrder(answer, s.nOut, &s.order)
}

// discard has every rank throw a replicated hook's instance away and make the next one.
func (s *Scheduler) discard(h int, e *Effects) {
	k := &s.hooks[h]
	if k.quarantined {
		return
	}
	k.down = true
	k.generation++
	if h == hookScore {
		s.scoreNext, s.scoreSince = 0, 0 // every node is shown to its successor
	}
	s.note(0x646973, k.generation)
	e.add(Effect{Kind: EffectDiscard, Hook: hookOf(h), Value: k.generation, Diverged: k.diverged})
}

// tooMany says whether a hook's faults are enough to quarantine its policy: as many as its Quarantine says within its
// window, of any kind; or as many of the rails' within a longer one, since each takes a limit of ticks to show; or as many
// of the rails' since its policy last let anybody pass, however long what they let through has run meanwhile.
func (s *Scheduler) tooMany(h int) bool {
	k, q := &s.hooks[h], s.cfg.Quarantine[h]
	if len(k.faults) >= q.Faults && s.tick-k.faults[0] < uint64(q.Window) {
		return true
	}
	limit := s.cfg.StarveTicks
	if h == hookGate {
		limit = s.cfg.HoldTicks
	}
	return len(k.rails) >= q.Faults && (k.passed < k.rails[0] || s.tick-k.rails[0] < uint64(q.Window)+uint64(q.Faults)*uint64(limit))
}

// fault notes one fault of a hook in this tick; only as many are remembered as quarantine looks at.
func (s *Scheduler) fault(h int) {
	s.counts.HookFaults[h]++
	if s.hooks[h].faults.add(s.tick, s.cfg.Quarantine[h].Faults) {
		s.note(0x666c74, uint64(h))
	}
}

// railFault notes a fault that a rail found: what a policy kept waiting for as long as it may.
func (s *Scheduler) railFault(h int) {
	s.fault(h)
	s.hooks[h].rails.add(s.tick, s.cfg.Quarantine[h].Faults)
}

// passed notes that a hook's policy has let somebody pass whom a rail could else have had to.
func (s *Scheduler) passed(h int) { s.hooks[h].passed = s.tick }

// recent is the ticks of the latest faults, oldest first.
type recent []uint64

// add notes a tick, once, and forgets all but the latest most. It says whether the tick is new.
func (r *recent) add(tick uint64, most int) bool {
	if r.last(tick) {
		return false
	}
	if n := len(*r); n >= most {
		*r = append((*r)[:0], (*r)[n-most+1:]...)
	}
	*r = append(*r, tick)
	return true
}

// last says whether the tick is the latest one noted.
func (r recent) last(tick uint64) bool { return len(r) > 0 && r[len(r)-1] == tick }

// faulted says whether a fault of the hook has been noted in this tick.
func (s *Scheduler) faulted(h int) bool { return s.hooks[h].faults.last(s.tick) }
