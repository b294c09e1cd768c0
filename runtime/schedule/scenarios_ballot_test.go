package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/kvcache/index"
)

// TestS15 lets local facts differ in every way that once changed what a rank sends: shape and outcome stay the same.
func TestS15BallotIsNotShapedByLocalState(t *testing.T) {
	setup := func(t *testing.T) *group {
		g := newGroup(t, testConfig(2, 4, 8, 8))
		g.warm(0, 8, 1)
		g.demote()
		g.shake = func(_ int, id uint64) abi.Poll {
			if id <= 3 {
				return abi.PollWaitingForInput
			}
			return abi.PollBootstrapping
		}
		g.raw = func(int, uint64, uint32) abi.Poll { return abi.PollTransferring }
		g.add(0, 8, 1) // restores two pages
		g.add(500, 4, 1)
		for i := range 4 {
			g.add(1000*(i+1), 4, 1)
		}
		g.load = func(int, OperationView, bool) (bool, int, bool) { return false, 0, false }
		g.until("two in transfer, four waiting", func() bool {
			s := g.ranks[0]
			return s.QueueLen(QueueTransfer) == 2 && s.QueueLen(QueuePrealloc) == 4 && s.NumOperations() == 1
		})
		return g
	}
	for _, c := range []struct {
		name  string
		facts func(g *group)
	}{
		{"transfers done on one rank only", func(g *group) {
			g.raw = func(rank int, _ uint64, _ uint32) abi.Poll {
				return []abi.Poll{abi.PollSuccess, abi.PollTransferring}[rank]
			}
		}},
		{"fewer pages on one rank", func(g *group) {
			g.usable = func(rank int) (int, int) { return 8 - rank, 8 }
			g.held = func(rank int) uint64 { return uint64(4 * rank) }
			g.shake = nil
		}},
		{"load ended on one rank only", func(g *group) {
			g.load = func(rank int, op OperationView, _ bool) (bool, int, bool) { return rank == 0, op.Pages, false }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := setup(t)
			c.facts(g)
			for range 5 {
				bs := g.ballots()
				a, b := bs[0], bs[1]
				if len(a.U64) != len(b.U64) || len(a.U32) != len(b.U32) || len(a.U8) != len(b.U8) || len(a.Leader) != len(b.Leader) {
					t.Fatalf("tick %d: the ranks' ballots have different shapes", g.tick)
				}
				g.step()
			}
		})
	}
	t.Run("one extra item on rank 1", func(t *testing.T) {
		g := setup(t)
		s := g.ranks[1]
		s.prealloc = append(s.prealloc, s.prealloc[0])
		s.prepareNext()
		bs := g.ballots()
		for i, v := range bs[1].U64 {
			bs[0].U64[i] = min(bs[0].U64[i], v)
		}
		copy(bs[1].U64, bs[0].U64)
		for rank, want := range []string{"4 prealloc, 2 transfer", "5 prealloc, 2 transfer"} {
			err := g.ranks[rank].Apply(bs[rank], Proposals{}, &Effects{})
			var m *Mismatch
			if !errors.As(err, &m) || m.Field != "layout hash" || len(m.Values) != 2 || m.Values[0] == m.Values[1] || !strings.Contains(m.Here, want) ||
				!strings.Contains(err.Error(), "rank 1 has") {
				t.Errorf("rank %d: %v; want the layout hash named with both values, and %q", rank, err, want)
			}
		}
	})
}

// TestHeaderMismatch alters each field on each rank: the error names field, ranks and values, nothing else of the
// ballot is used, and the next good ballot is taken.
func TestHeaderMismatch(t *testing.T) {
	for f := range numFields {
		for rank := range 3 {
			g := newGroup(t, testConfig(3, 4, 8, 8))
			g.add(0, 6, 3)
			g.steps(2)
			bs := g.ballots()
			good := bs[rank].U64[f*3+rank]
			bs[rank].U64[f*3+rank] = good ^ 0x55
			reduce(bs)
			for at, s := range g.ranks {
				before := s.Checksum()
				err := s.Apply(bs[at], Proposals{Admit: g.prop[at]}, &Effects{})
				if f == fieldReady {
					if err != nil {
						t.Errorf("ready policy epochs may differ: %v", err)
					}
					continue
				}
				var m *Mismatch
				if !errors.As(err, &m) || m.Field != fieldNames[f] || m.Values[rank] != good^0x55 || m.Values[(rank+1)%3] == m.Values[rank] {
					t.Fatalf("field %s altered on rank %d: %v", fieldNames[f], rank, err)
				}
				if s.Checksum() != before {
					t.Fatalf("field %s: the state moved in spite of the mismatch", fieldNames[f])
				}
			}
			if f != fieldReady {
				g.untilIdle()
			}
		}
	}
}

// TestBallotOfAnotherShape has a sound header and other lane counts.
func TestBallotOfAnotherShape(t *testing.T) {
	g := newGroup(t, testConfig(1, 4, 8, 8))
	for name, cut := range map[string]func(b *Ballot){
		"no u64 lanes":      func(b *Ballot) { b.U64 = nil },
		"one u64 lane more": func(b *Ballot) { b.U64 = append(b.U64, 0) },
		"one u32 lane more": func(b *Ballot) { b.U32 = append(b.U32, 0) },
		"one flag fewer":    func(b *Ballot) { b.U8 = b.U8[1:] },
		"leader bytes gone": func(b *Ballot) { b.Leader = b.Leader[:8] },
	} {
		b := g.ballots()[0]
		cut(b)
		err := g.ranks[0].Apply(b, Proposals{}, &Effects{})
		var shape *ShapeError
		if !errors.As(err, &shape) || shape.Tick != g.ranks[0].Tick() || shape.Want != g.ranks[0].Shape() {
			t.Errorf("%s: %v, want a shape error with both shapes", name, err)
		}
		if g.ranks[0].FillHeader(b, 0, 0) == nil {
			t.Errorf("%s: the header was filled into it", name)
		}
	}
	if err := g.ranks[0].FillHeader(g.ballots()[0], 1, 0); err == nil {
		t.Error("rank 1 of one filled a header")
	}
	g.step()
}

// TestDamagedSlice flips one bit of an ingress slice: every rank refuses the ballot and holds still.
func TestDamagedSlice(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 8, 8))
	g.add(0, 6, 3)
	kept := slices.Clone(g.stream)
	g.step()
	bs := g.ballots()
	bs[0].Leader[g.ranks[0].lay.ingressAt()] ^= 1
	reduce(bs)
	for rank, s := range g.ranks {
		before := s.Checksum()
		if err := s.Apply(bs[rank], Proposals{}, &Effects{}); !errors.Is(err, ErrIngress) || s.Checksum() != before {
			t.Errorf("rank %d: %v, state moved: %v", rank, err, s.Checksum() != before)
		}
	}
	g.stream = kept
	id := g.nextID
	g.until("the end", func() bool { return g.ended(id) })
}

// TestS16 rejects by age. The age is the agreed time's, rank 0's, so every rank drops the same request in one tick; a
// policy that looked at its own clock is overruled on all ranks.
func TestS16AgreedTime(t *testing.T) {
	const limit = 10_000_000_000
	for _, local := range []bool{false, true} {
		g := newGroup(t, testConfig(2, 4, 8, 8))
		g.shake = func(int, uint64) abi.Poll { return abi.PollBootstrapping }
		now := uint64(0)
		g.now = func() uint64 { return now }
		arrived := map[uint64]uint64{}
		var ids []uint64
		for i := range 5 {
			ids = append(ids, g.add(100*i, 4, 2))
			arrived[ids[i]] = 1_000_000_000
			if i == 2 {
				arrived[ids[i]] = 0
			}
		}
		g.until("five waiting", func() bool { return g.ranks[0].QueueLen(QueuePrealloc) == 5 })
		offset := [2]uint64{0, 2_000_000} // rank 1's own clock is 2 ms behind
		g.admit = func(rank int, out []byte, n int) []byte {
			v, ok := guest.OpenAdmit(g.ranks[rank].batch)
			if !ok {
				t.Fatal("the batch does not open")
			}
			clock := v.Globals().TimeNS()
			if local {
				clock -= min(clock, offset[rank])
			}
			for i := range n {
				r := v.At(i)
				a := abi.AdmitOut{Order: uint32(i)}
				if clock > arrived[r.ReqKey()]+limit {
					a.Verdict, a.Reason = abi.VerdictReject, abi.ReasonDeadline
				}
				abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &a)
			}
			return out
		}
		now = 9_999_000_000
		g.steps(2)
		now = 10_001_000_000
		g.steps(2)
		if local {
			if n := g.ranks[0].QueueLen(QueuePrealloc); n != 5 || g.ranks[0].Faults(abi.Admit) == 0 {
				t.Errorf("answers that differ between ranks: %d of 5 left, %d faults counted", n, g.ranks[0].Faults(abi.Admit))
			}
			continue
		}
		g.wantFinish(ids[2], FinishRefused, abi.ReasonDeadline)
		for rank, s := range g.ranks {
			if n := s.QueueLen(QueuePrealloc); n != 4 {
				t.Errorf("rank %d: %d waiting, want 4", rank, n)
			}
			if s.TimeNS() != now {
				t.Errorf("rank %d: agreed time %d, want %d", rank, s.TimeNS(), now)
			}
		}
		now = 5 // the agreed time never goes back
		g.step()
		if g.ranks[1].TimeNS() != 10_001_000_000 {
			t.Errorf("the agreed time went back to %d", g.ranks[1].TimeNS())
		}
	}
	// give_up by one rank's own clock is reduced: all give up in one tick.
	g := newGroup(t, testConfig(2, 4, 8, 8))
	g.raw = func(int, uint64, uint32) abi.Poll { return abi.PollTransferring }
	g.vote = func(rank int, raw abi.Poll, _ abi.RestoreStatus, _ uint64) (abi.Poll, bool) {
		return raw, rank == 1 && g.tick > 10
	}
	id := g.add(0, 4, 2)
	g.until("the end", func() bool { return g.ended(id) })
	g.wantFinish(id, FinishAborted, abi.ReasonDeadline)
	g.untilIdle()
}

// TestModelDisagreement counts ticks in which a rank's own tokens differ.
func TestModelDisagreement(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 8, 8))
	g.tap = func(b *Ballot, _ Proposals) {
		if g.tick == 5 {
			l := g.ranks[0].lay
			b.U64[l.scalar(laneTokenDigest)] = 1 // MIN of unequal digests and of their complements
		}
	}
	g.steps(6)
	if n := g.ranks[0].Counts().ModelDisagreed; n != 1 {
		t.Errorf("counted %d ticks, want 1", n)
	}
}

// TestPolicyEpochFlips takes the lowest epoch that every rank has ready, everywhere in one tick.
func TestPolicyEpochFlips(t *testing.T) {
	g := newGroup(t, testConfig(3, 4, 8, 8))
	ready := [3]uint64{}
	g.epoch = func(rank int) uint64 { return ready[rank] }
	for _, c := range []struct {
		ready [3]uint64
		want  uint64
	}{{[3]uint64{1, 0, 1}, 0}, {[3]uint64{1, 1, 1}, 1}, {[3]uint64{3, 2, 5}, 2}, {[3]uint64{0, 0, 0}, 2}} {
		ready = c.ready
		g.step()
		if got := g.ranks[0].PolicyEpoch(); got != c.want {
			t.Errorf("with %v ready the epoch is %d, want %d", c.ready, got, c.want)
		}
	}
	if k := g.books(index.L1); k.Free != 8 {
		t.Errorf("books %+v", k)
	}
}
