package schedule

import (
	"encoding/binary"
	"testing"

	"sluice/abi"
)

// load is a scheduler in the steady state of a busy group: 256 requests run, 256 are in transfer, and 64 wait for pages
// that are promised to those.
type load struct {
	s      *Scheduler
	b      *Ballot
	p      Proposals
	e      Effects
	tokens bool // the step makes tokens, so that pages are taken
	left   int  // ticks before the running requests end
}

const (
	loadRunning, loadTransfer, loadWaiting = 256, 256, 64
	loadLimit                              = 4000
)

func newLoad(tb testing.TB, tokens bool) *load {
	tb.Helper()
	// 64+4000-1 tokens of 16 are 254 pages a running request, 64+64-1 are 8 a transfer; 4 pages are left.
	cfg := testConfig(2, 16, 254*loadRunning+8*loadTransfer+4, 1024)
	cfg.MaxRunning, cfg.MetadataSlots, cfg.AdmitNative = loadRunning, loadTransfer, "fifo-headroom"
	cfg.IngressSlice = 1 << 20
	s, err := New(cfg, 1)
	if err != nil {
		tb.Fatal(err)
	}
	l := &load{s: s, tokens: tokens, left: loadLimit - 2}
	id := uint64(0)
	add := func(stream []byte, n, prompt, limit int) []byte {
		for range n {
			id++
			r := Request{ID: id, Room: id, Peer: 1, Limit: uint32(limit), Key: Space("a", "b", "c"), Tokens: counting(int(id)<<12, prompt)}
			stream = AppendAdd(stream, &r)
		}
		return stream
	}
	l.feed(tb, add(AppendPeer(nil, 1, 1), loadRunning, 64, loadLimit))
	for s.QueueLen(QueueRunning) < loadRunning || s.NumOperations() > 0 {
		l.tick(tb, Success)
	}
	l.feed(tb, add(nil, loadTransfer, 64, 64))
	for s.QueueLen(QueueTransfer) < loadTransfer {
		l.tick(tb, Transferring)
	}
	l.feed(tb, add(nil, loadWaiting, 128, 64))
	for s.QueueLen(QueuePrealloc) < loadWaiting || s.reqs[s.prealloc[loadWaiting-1]].handshake < WaitingForInput {
		l.tick(tb, Transferring)
	}
	// Warm the scratch buffers and the effects.
	l.fill(tb, Transferring, nil, 0)
	for range 40 {
		l.apply(tb)
	}
	return l
}

// fill writes the lanes as two ranks' MIN would be.
func (l *load) fill(tb testing.TB, v Value, slice []byte, next int) {
	s := l.s
	l.b = newBallot(s.Shape())
	for i := range s.NumHandshake() {
		s.SetHandshake(l.b, i, GateHandshake(abi.PollWaitingForInput, 0, 0))
	}
	raw := abi.PollTransferring
	if v == Success {
		raw = abi.PollSuccess
	}
	for i := range s.NumTransfer() {
		vote, _ := Gate(Observation{Raw: raw, Restore: abi.RestoreReady}, raw, 0, 0)
		s.SetTransfer(l.b, i, vote, false, v == Success, true)
		s.SetFirstToken(l.b, i, 1)
	}
	for i := range s.NumOperations() {
		s.SetOperation(l.b, i, true, s.Operation(i).Pages, false)
	}
	s.SetUsable(l.b, s.cfg.L1Pages, s.cfg.L2Pages)
	s.SetBudget(l.b, 0)
	s.SetTokenDigest(l.b, 0)
	s.SetUrgent(l.b, nil)
	for i := range s.NumStep() {
		token := uint32(NoToken)
		if l.tokens && slice == nil && next == 0 {
			token = 7
		}
		s.SetStepToken(l.b, i, token)
	}
	if err := s.SetIngress(l.b, slice, next); err != nil {
		tb.Fatal(err)
	}
}

func (l *load) apply(tb testing.TB) {
	s := l.s
	l.p = Proposals{}
	if s.nOut > 0 && s.PolicyAnswers(abi.Admit) {
		l.p.Admit = s.runNative()
		s.nativeRun = false
	}
	s.SetAdmit(l.b, l.p.Admit, 1<<40)
	for rank := range s.cfg.Ranks {
		if err := s.FillHeader(l.b, rank, s.policyEpoch); err != nil {
			tb.Fatal(err)
		}
	}
	binary.LittleEndian.PutUint64(l.b.Leader, s.tick*1e6)
	l.e.Reset()
	if err := s.Apply(l.b, l.p, &l.e); err != nil {
		tb.Fatal(err)
	}
}

func (l *load) tick(tb testing.TB, v Value) {
	tokens := l.tokens
	l.tokens = false
	l.fill(tb, v, nil, 0)
	l.apply(tb)
	l.tokens = tokens
}

func (l *load) feed(tb testing.TB, stream []byte) {
	l.fill(tb, Transferring, nil, len(stream))
	l.apply(tb)
	l.fill(tb, Transferring, stream, 0)
	l.apply(tb)
}

func (l *load) check(tb testing.TB) {
	tb.Helper()
	s := l.s
	if s.QueueLen(QueueRunning) != loadRunning || s.QueueLen(QueueTransfer) != loadTransfer || s.QueueLen(QueuePrealloc) != loadWaiting {
		tb.Fatalf("%d run, %d in transfer, %d wait: not the steady state", s.QueueLen(QueueRunning), s.QueueLen(QueueTransfer), s.QueueLen(QueuePrealloc))
	}
}

// BenchmarkApply is one tick of a busy group on one rank: header, apply, the next admit batch and its native answer.
// "held" steps make no tokens; "stepping" ones give 256 tokens a tick, and a page to every sixteenth request.
func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name   string
		tokens bool
	}{{"held", false}, {"stepping", true}} {
		b.Run(c.name, func(b *testing.B) {
			l := newLoad(b, c.tokens)
			left := l.left - 100
			b.ReportAllocs()
			for b.Loop() {
				if left--; c.tokens && left == 0 {
					b.StopTimer()
					l.check(b)
					l = newLoad(b, c.tokens)
					left = l.left - 100
					b.StartTimer()
				}
				l.apply(b)
			}
			l.check(b)
		})
	}
}

// TestApplyAllocatesNothing holds BenchmarkApply's steady state to its figure.
func TestApplyAllocatesNothing(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		l := newLoad(t, tokens)
		before := l.s.Counts().OutputTokens
		if n := testing.AllocsPerRun(600, func() { l.apply(t) }); n != 0 {
			t.Errorf("tokens %v: %v allocations a tick, want 0", tokens, n)
		}
		l.check(t)
		if got := l.s.Counts().OutputTokens - before; (got > 0) != tokens {
			t.Errorf("%d tokens were made, want some: %v", got, tokens)
		}
	}
}
