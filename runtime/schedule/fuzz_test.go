package schedule

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"sluice/abi"
)

// FuzzIngress feeds arbitrary bytes as the ingress stream: every rank takes them alike, a broken stream is an error that
// stays, and what was taken before it is a legal state.
func FuzzIngress(f *testing.F) {
	r := Request{ID: 1, Room: 3, Peer: 1, Limit: 4, Key: Space("a", "b", "c"), Stops: []uint32{9}, Tokens: []uint32{1, 2, 3, 4, 5}}
	whole := AppendPeer(nil, 1, 1)
	whole = AppendAdd(whole, &r)
	f.Add(whole, uint8(7))
	f.Add(AppendAbort(AppendVoid(AppendFlush(whole), 2), 1), uint8(64))
	f.Add(append(bytes.Clone(whole), 1, 0, 0, 0, 99), uint8(3))
	f.Add(append(bytes.Clone(whole), 0, 0, 0, 0), uint8(30))
	f.Add(append(bytes.Clone(whole), 255, 255, 255, 255, 1), uint8(30))
	f.Add(whole[:len(whole)-3], uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint8) {
		cfg := testConfig(1, 2, 8, 4)
		cfg.IngressSlice, cfg.MaxQueue = 64, 4
		s, err := New(cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		step := 1 + int(cut)%64
		for range 2 + len(stream)/step + 1 {
			b := neutralBallot(t, s)
			n := s.IngressLen()
			if err := s.SetIngress(b, stream[:n], min(step, len(stream)-n)); err != nil {
				t.Fatal(err)
			}
			stream = stream[n:]
			err := s.Apply(b, Proposals{}, &Effects{})
			if err != nil {
				if !errors.Is(err, ErrIngress) {
					t.Fatal(err)
				}
				if again := s.Apply(neutralBallot(t, s), Proposals{}, &Effects{}); !errors.Is(again, ErrIngress) {
					t.Fatalf("after a broken stream: %v", again)
				}
				return
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// neutralBallot is the ballot of a rank on which nothing has happened.
func neutralBallot(t *testing.T, s *Scheduler) *Ballot {
	b := newBallot(s.Shape())
	if err := s.FillHeader(b, 0, s.PolicyEpoch()); err != nil {
		t.Fatal(err)
	}
	for i := range s.NumHandshake() {
		s.SetHandshake(b, i, GateHandshake(abi.PollBootstrapping, 0, 0))
	}
	for i := range s.NumOperations() {
		s.SetOperation(b, i, false, 0, false)
	}
	s.SetUsable(b, s.cfg.L1Pages, s.cfg.L2Pages)
	s.SetBudget(b, 0)
	s.SetAdmit(b, nil, 1)
	s.SetTokenDigest(b, 0)
	s.SetLeaderTime(b, 0)
	s.SetUrgent(b, nil)
	return b
}

// FuzzApply drives a busy group with ballots whose lanes are arbitrary, header and shape aside: each is an error that
// stays, or leads to a legal state. Nothing panics.
func FuzzApply(f *testing.F) {
	f.Add(uint8(1), uint8(40), []byte{0})
	f.Add(uint8(2), uint8(30), []byte{1, 0, 0, 0, 5, 255})
	f.Add(uint8(5), uint8(60), []byte{255})
	f.Add(uint8(9), uint8(50), []byte{0x4f, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x3f, 0x5f})
	f.Add(uint8(17), uint8(70), bytes.Repeat([]byte{1, 2, 0, 0x5f, 0xff, 0xff, 0xff}, 9))
	f.Fuzz(func(t *testing.T, seed, ticks uint8, data []byte) {
		if len(data) == 0 {
			return
		}
		c := newChaos(t, uint64(seed))
		for range int(ticks) % 100 {
			c.arrive()
			c.tickOnce()
		}
		s := c.ranks[0]
		at := 0
		next := func() byte {
			at++
			return data[at%len(data)] + byte(at/len(data))
		}
		for range 12 {
			b := newBallot(s.Shape())
			head := numFields * s.cfg.Ranks
			for i := head; i < len(b.U64); i++ {
				b.U64[i] = uint64(next()) << (next() % 57)
			}
			for i := range b.U32 {
				b.U32[i] = binary.LittleEndian.Uint32([]byte{next(), next(), next(), next()})
			}
			for i := range b.U8 {
				b.U8[i] = next() % 3
			}
			for i := range b.Leader {
				b.Leader[i] = next()
			}
			for rank := range s.cfg.Ranks {
				if err := s.FillHeader(b, rank, s.PolicyEpoch()); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.IngressLen(); n > 0 {
				slice := b.Leader[s.lay.ingressAt():]
				if len(c.stream) >= n && next()%4 > 0 {
					copy(slice, c.stream[:n])
					c.stream = c.stream[n:]
				}
				binary.LittleEndian.PutUint32(slice[n:], crc32.Checksum(slice[:n], castagnoli()))
			}
			_, n := s.AdmitBatch()
			p := Proposals{Admit: make([]byte, n*abi.AdmitOutStride)}
			for i := range n {
				abi.PutAdmitOut(p.Admit[i*abi.AdmitOutStride:], &abi.AdmitOut{Verdict: abi.Verdict(next() % 4), Order: uint32(i) ^ uint32(next()&1)})
			}
			if next()%2 == 0 {
				s.SetAdmit(b, p.Admit, uint64(next()))
			}
			if err := s.Apply(b, p, &Effects{}); err != nil {
				if again := s.Apply(b, p, &Effects{}); again == nil {
					t.Fatalf("after %v the next ballot is taken", err)
				}
				return
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
