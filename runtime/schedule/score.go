package schedule

import (
	"slices"

	"sluice/abi"
	"sluice/kvcache/index"
)

// ScoreWindow is the most cache nodes that the score policy is asked about in one tick. With more of them the ticks take
// turns through the cache, so that no node waits for ever.
const ScoreWindow = 64

// encodeScore builds the batch that the coming tick's score answers, from replicated state alone: nodes that have no key
// yet, and those used since they were last shown.
func (s *Scheduler) encodeScore() {
	s.scoreNodes = s.scoreNodes[:0]
	if !s.PolicyAnswers(abi.Score) {
		return
	}
	if s.scoreNext == 0 {
		if s.clock < s.scoreSince {
			return // nothing was used since the last turn, which showed every node without a key
		}
		s.scoreTurn = s.clock + 1 // what is used from now on belongs to the next turn
	}
	s.scoreNodes, s.scoreNext = s.x.AppendUnscored(s.scoreNodes, s.scoreNext, s.scoreSince, ScoreWindow)
	if s.scoreNext == 0 {
		s.scoreSince = s.scoreTurn
	}
	n := len(s.scoreNodes)
	if n == 0 {
		return
	}
	size := abi.BatchSize(abi.Score, n, n)
	s.scoreBatch = slices.Grow(s.scoreBatch[:0], size)[:size]
	b, err := abi.Begin(s.scoreBatch, abi.Score, s.tick, s.policyEpoch, n, n)
	if err != nil {
		s.keep(err)
		return
	}
	p := s.cfg.PageSize
	free, available := s.x.Books(index.L1).Free, s.x.Available()
	b.PutScoreGlobals(&abi.ScoreGlobals{TimeNS: s.timeNS, PageSize: uint32(p), Nodes: uint32(s.x.Nodes()),
		TotalTokens: uint64(s.cfg.L1Pages * p), FreeTokens: uint64(free * p), EvictableTokens: uint64((available - free) * p)})
	for i, id := range s.scoreNodes {
		s.putNode(b, i, id)
	}
}

func (s *Scheduler) putNode(b abi.Batch, i int, id index.NodeID) {
	n, _ := s.x.Node(id)
	p := s.cfg.PageSize
	rec := abi.ScoreRecord{NodeKey: uint64(id), LastUse: n.Clock, Hits: n.Found,
		Tokens: uint32(n.Pages * p), DepthTokens: uint32(n.Start * p), Tenant: n.Owner}
	if n.L2 {
		rec.Flags |= abi.ScoreFlagBackedUp
	}
	if n.L1 == index.L1Valid {
		rec.Flags |= abi.ScoreFlagOnDevice
	}
	switch {
	case n.Scored:
		rec.Class = abi.ScoreKeyed
	case n.Awaits:
		rec.Class = abi.ScoreAwaiting
	}
	b.PutScore(i, &rec)
}

// ScoreBatch says how many nodes the coming tick's score batch has; 0 when nobody asks.
func (s *Scheduler) ScoreBatch() int { return len(s.scoreNodes) }

// EncodeScore copies the batch's globals and input records into b, which was begun with ScoreBatch's count.
func (s *Scheduler) EncodeScore(b abi.Batch) {
	n := len(s.scoreNodes)
	from, err := abi.View(s.scoreBatch, abi.Score, n, n)
	if err != nil {
		return
	}
	copy(b.Globals, from.Globals)
	copy(b.In, from.In)
}

// takeScores gives the nodes that were shown their keys. It comes before anything that could remove one of them.
func (s *Scheduler) takeScores(answer []byte) {
	b := abi.Batch{Out: answer}
	for i, id := range s.scoreNodes {
		s.keep(s.x.SetScore(id, b.ScoreKey(i)))
	}
	s.counts.Scored += uint64(len(s.scoreNodes))
}

// resetScores starts a policy epoch of the score hook, where there is one: no key of an earlier one counts.
func (s *Scheduler) resetScores() {
	if s.cfg.Score {
		s.x.ResetScores(true)
		s.scoreNext, s.scoreSince = 0, 0
	}
}

// owned notes whose request made a leaf, for the score policy.
func (s *Scheduler) owned(res index.InsertResult, tenant uint16) {
	if s.cfg.Score && res.NewNodes > 0 {
		s.keep(s.x.SetOwner(res.Node, tenant))
	}
}
