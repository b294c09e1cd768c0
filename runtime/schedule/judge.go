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
		q := s.cfg.Quarantine[h]
		if !k.quarantined && len(k.faults) >= q.Faults && s.tick-k.faults[len(k.faults)-q.Faults] < uint64(q.Window) {
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

// fault notes one fault of a hook in this tick; only as many are remembered as quarantine looks at.
func (s *Scheduler) fault(h int) {
	k := &s.hooks[h]
	s.counts.HookFaults[h]++
	if n := len(k.faults); n > 0 && k.faults[n-1] == s.tick {
		return
	}
	if most := s.cfg.Quarantine[h].Faults; len(k.faults) >= most {
		k.faults = append(k.faults[:0], k.faults[len(k.faults)-most+1:]...)
	}
	k.faults = append(k.faults, s.tick)
	s.note(0x666c74, uint64(h))
}

// faulted says whether a fault of the hook has been noted in this tick.
func (s *Scheduler) faulted(h int) bool {
	f := s.hooks[h].faults
	return len(f) > 0 && f[len(f)-1] == s.tick
}
