package replay

import (
	"context"
	"math/rand/v2"
	"testing"

	"sluice/abi"
	"sluice/collective"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// logged is one tick of a run: the reduced ballot, rank 0's proposal, and what came of them.
type logged struct {
	ballot collective.Vector
	admit  []byte
	score  []byte
	digest uint64
}

func newPool(t *testing.T) *wasmPool {
	t.Helper()
	p := &wasmPool{plugins.NewHost(plugins.Options{}), map[wasmKey]*plugins.Set{}}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
		if err := p.host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestSameSeedSameRun makes some runs twice.
func TestSameSeedSameRun(t *testing.T) {
	pool := newPool(t)
	seen := map[uint64]bool{}
	for seed := range uint64(60) {
		var digests [2]uint64
		for i := range digests {
			c, err := newChaos(seed+1, pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.run(); err != nil {
				t.Fatalf("seed %d: %v", seed+1, err)
			}
			digests[i] = c.digest
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if digests[0] != digests[1] {
			t.Errorf("seed %d: digests %#x and %#x", seed+1, digests[0], digests[1])
		}
		if seen[digests[0]] {
			t.Errorf("seed %d gives another seed's digest: the digest says nothing", seed+1)
		}
		seen[digests[0]] = true
	}
}

// TestLocalFactsEnterOnlyThroughTheBallot replays the reduced ballots of real runs into fresh schedulers that stand
// beside other local facts: each fills ballots of its own from noise and offers another proposal wherever the group's
// own did not count. Every digest is that of the run.
func TestLocalFactsEnterOnlyThroughTheBallot(t *testing.T) {
	pool := newPool(t)
	ticks, unused := 0, 0
	for seed := uint64(1); seed <= 80; seed++ {
		log, cfg := record(t, seed, pool)
		for side := range uint64(2) {
			s, err := schedule.New(cfg, 1)
			if err != nil {
				t.Fatal(err)
			}
			noise := rand.New(rand.NewPCG(seed, side))
			var e schedule.Effects
			var b collective.Vector
			for n, l := range log {
				makeNoise(t, s, noise)
				copyVector(&b, &l.ballot)
				admit, score := l.admit, l.score
				if !s.PolicyAnswers(abi.Score) || s.ScoreBatch() > 0 && b.U8[len(b.U8)-1] == 0 {
					score = make([]byte, noise.IntN(64))
				}
				if !proposalCounts(s, &b) {
					unused++
					admit = make([]byte, noise.IntN(64))
				}
				e.Reset()
				if err := s.Apply(&schedule.Ballot{U64: b.U64, U32: b.U32, U8: b.U8, Leader: b.Leader}, schedule.Proposals{Admit: admit, Score: score}, &e); err != nil {
					t.Fatalf("seed %d, side %d, tick %d: %v", seed, side, n+1, err)
				}
				if s.Digest() != l.digest {
					t.Fatalf("seed %d, side %d, tick %d: digest %#x, the run had %#x", seed, side, n+1, s.Digest(), l.digest)
				}
			}
			if err := s.Check(); err != nil {
				t.Errorf("seed %d, side %d: %v", seed, side, err)
			}
			ticks += len(log)
		}
	}
	if ticks < 10000 || unused < 100 {
		t.Errorf("%d ticks with %d proposals that did not count: the test reaches too little", ticks, unused)
	}
}

// record makes a run and keeps its log.
func record(t *testing.T, seed uint64, pool *wasmPool) ([]logged, schedule.Config) {
	t.Helper()
	var log []logged
	c, err := newChaos(seed, pool, func(r *rank.Rank, _, reduced *collective.Vector) {
		s := r.Schedule()
		if s.Tick() == uint64(len(log)) {
			return // another rank's copy of the same
		}
		if len(log) > 0 {
			log[len(log)-1].digest = s.Digest()
		}
		l := logged{admit: append([]byte(nil), r.Proposal()...), score: append([]byte(nil), r.Scores()...)}
		copyVector(&l.ballot, reduced)
		log = append(log, l)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	log[len(log)-1].digest = c.ranks[0].Schedule().Digest()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return log, c.cfg.Schedule
}

// proposalCounts says whether the group agreed on an admit answer in this ballot.
func proposalCounts(s *schedule.Scheduler, b *collective.Vector) bool {
	// The flags of the hooks come first, in their order; admit's is the third.
	return b.U8[2] != 0 && s.PolicyAnswers(abi.Admit)
}

// makeNoise does what a rank does before the exchange, with facts that are not so.
func makeNoise(t *testing.T, s *schedule.Scheduler, r *rand.Rand) {
	t.Helper()
	shape := s.Shape()
	var v collective.Vector
	v.Reset(collective.Shape{U64: shape.U64, U32: shape.U32, U8: shape.U8, Leader: shape.Leader})
	b := schedule.Ballot{U64: v.U64, U32: v.U32, U8: v.U8, Leader: v.Leader}
	if err := s.FillHeader(&b, 0, r.Uint64()); err != nil {
		t.Fatal(err)
	}
	for i := range s.NumOperations() {
		s.SetOperation(&b, i, r.IntN(2) == 0, r.IntN(s.Operation(i).Pages+1), r.IntN(2) == 0)
	}
	for i := range s.NumHandshake() {
		s.Handshake(i)
		s.SetHandshake(&b, i, schedule.GateHandshake(abi.Poll(r.IntN(5)), abi.Reason(r.IntN(20)), r.IntN(3)))
	}
	for i := range s.NumTransfer() {
		e := s.Transfer(i)
		o := schedule.Observation{Raw: abi.Poll(r.IntN(5)), Restore: abi.RestoreStatus(r.IntN(3)), Reason: abi.Reason(r.IntN(20))}
		vote, _ := schedule.Gate(o, abi.Poll(r.IntN(5)), abi.Reason(r.IntN(20)), r.IntN(3))
		s.SetTransfer(&b, i, vote, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0)
		s.SetFirstToken(&b, i, r.Uint32())
		for op := range s.NumOperations() {
			s.Waits(e.Row, op)
		}
	}
	for i := range s.NumQuarantine() {
		s.SetDrained(&b, i, r.IntN(2) == 0)
	}
	for i := range s.NumPeers() {
		s.SetPeer(&b, i, r.IntN(2) == 0)
	}
	s.SetUsable(&b, r.IntN(100), r.IntN(100))
	s.SetBudget(&b, r.Uint64())
	s.SetHook(&b, abi.Gate, r.IntN(2) == 0)
	s.SetHook(&b, abi.Reserve, r.IntN(2) == 0)
	s.SetHook(&b, abi.Admit, r.IntN(2) == 0)
	s.SetAdmit(&b, make([]byte, r.IntN(64)), r.Uint64())
	s.SetHook(&b, abi.Score, r.IntN(2) == 0)
	s.SetScore(&b, make([]byte, r.IntN(64)), r.Uint64())
	s.SetTokenDigest(&b, r.Uint64())
	s.SetLeaderTime(&b, r.Uint64())
	for i := range s.NumStep() {
		s.SetStepToken(&b, i, r.Uint32())
	}
	s.SetUrgent(&b, []uint64{r.Uint64N(40)})
	s.Pools()
	if n, nOut := s.AdmitBatch(); n > 0 {
		buf := make([]byte, abi.BatchSize(abi.Admit, n, nOut))
		batch, err := abi.Begin(buf, abi.Admit, s.Tick(), s.PolicyEpoch(), n, nOut)
		if err != nil {
			t.Fatal(err)
		}
		s.EncodeAdmit(batch)
	}
}
