package schedule

import (
	"bytes"
	cli "flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sluice/abi"
)

var rewriteFlag = cli.Bool("rewrite", false, "rewrite the golden files under testdata")

var (
	allPolls    = [...]abi.Poll{abi.PollFailed, abi.PollBootstrapping, abi.PollWaitingForInput, abi.PollTransferring, abi.PollSuccess}
	allStatuses = [...]abi.RestoreStatus{abi.RestorePending, abi.RestoreReady, abi.RestoreFailed}
)

// wantClamp restates the table in DESIGN's words, not the code's.
func wantClamp(raw, vote abi.Poll, st abi.RestoreStatus) (Value, Rail) {
	inFlight := raw >= abi.PollBootstrapping && raw <= abi.PollTransferring
	value := map[bool]Value{true: Value(min(raw, vote)), false: Transferring}[inFlight]
	rail := RailNone
	if vote > raw {
		rail = VoteAbovePoll
	}
	if raw == abi.PollFailed {
		value = Failed // whatever the vote
	}
	if inFlight && vote == abi.PollFailed {
		value, rail = Value(raw), FailedBeforeTerminal // nobody fails a request that a peer may still be writing
	}
	if raw == abi.PollSuccess {
		switch vote {
		case abi.PollSuccess:
			value = map[abi.RestoreStatus]Value{abi.RestorePending: Transferring, abi.RestoreReady: Success, abi.RestoreFailed: RestoreFailed}[st]
			rail = map[abi.RestoreStatus]Rail{abi.RestorePending: SuccessWhilePending, abi.RestoreFailed: SuccessAfterFailure}[st]
		case abi.PollFailed:
			value = RestoreFailed
			if st == abi.RestorePending {
				value, rail = Transferring, FailedBeforeTerminal
			}
		}
	}
	return value, rail
}

func TestVoteTable(t *testing.T) {
	var got bytes.Buffer
	n := 0
	for _, raw := range allPolls {
		for _, vote := range allPolls {
			for _, st := range allStatuses {
				n++
				v, rail := Clamp(raw, vote, st)
				if w, wr := wantClamp(raw, vote, st); v != w || rail != wr {
					t.Errorf("raw %v, vote %v, restore %v: %v with rail %v, want %v with rail %v", raw, vote, st, v, rail, w, wr)
				}
				fmt.Fprintf(&got, "raw %-15v vote %-15v restore %-7v -> %-15v %v\n", raw, vote, st, v, rail)
			}
		}
	}
	if n != 75 {
		t.Fatalf("the table has %d entries, want 75", n)
	}
	const path = "testdata/votes.golden"
	if *rewriteFlag {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the vote table differs from %s; if that is meant, run with -rewrite. It is now:\n%s", path, got.String())
	}
}

func TestClampIsTotal(t *testing.T) {
	for raw := range 256 {
		for vote := range 256 {
			for _, st := range [...]abi.RestoreStatus{0, 1, 2, 3, 255} {
				r, v, s := abi.Poll(raw), abi.Poll(vote), st
				if r > abi.PollSuccess {
					r = abi.PollFailed
				}
				if v > abi.PollSuccess {
					v = r
				}
				if s > abi.RestoreFailed {
					s = abi.RestorePending
				}
				got, _ := Clamp(abi.Poll(raw), abi.Poll(vote), st)
				if want, _ := wantClamp(r, v, s); got != want {
					t.Fatalf("raw %d, vote %d, restore %d: %v, want %v", raw, vote, st, got, want)
				}
			}
		}
	}
}

func TestGateReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      Observation
		vote   abi.Poll
		policy abi.Reason
		want   Outcome
	}{
		{"transport names it", Observation{abi.PollFailed, abi.RestoreReady, abi.ReasonCoverageDiffers}, abi.PollFailed, 99, Outcome{Failed, abi.ReasonCoverageDiffers, 3}},
		{"transport is silent", Observation{abi.PollFailed, abi.RestoreReady, 0}, abi.PollSuccess, 99, Outcome{Failed, abi.ReasonUnknown, 3}},
		{"restore failed", Observation{abi.PollSuccess, abi.RestoreFailed, 0}, abi.PollSuccess, 99, Outcome{RestoreFailed, abi.ReasonRestoreFailed, 3}},
		{"policy fails a good one", Observation{abi.PollSuccess, abi.RestoreReady, 0}, abi.PollFailed, 99, Outcome{RestoreFailed, 99, 3}},
		{"policy gives no reason", Observation{abi.PollSuccess, abi.RestoreReady, 0}, abi.PollFailed, 0, Outcome{RestoreFailed, abi.ReasonGiveUp, 3}},
		{"no failure, no reason", Observation{abi.PollTransferring, abi.RestoreFailed, 0}, abi.PollFailed, 99, Outcome{Transferring, 0, -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, _ := Gate(c.o, c.vote, c.policy, 3)
			if got := parseLane(v.lane); got != c.want {
				t.Errorf("outcome %+v, want %+v", got, c.want)
			}
		})
	}
	for _, raw := range allPolls {
		v := GateHandshake(raw, 0, 2)
		if want := min(Value(raw), WaitingForInput); v.Value() != want {
			t.Errorf("handshake %v votes %v, want %v", raw, v.Value(), want)
		}
	}
}

// TestLanesUnderMin draws pairs of lanes: MIN must pick the least value, then the least reason, then the lowest rank.
func TestLanesUnderMin(t *testing.T) {
	seed := uint64(11)
	r := rand.New(rand.NewPCG(seed, 1))
	draw := func() (uint32, Outcome) {
		o := Outcome{Value: Value(r.IntN(6)), Reason: abi.Reason(r.IntN(256)), Rank: r.IntN(MaxRanks)}
		if r.IntN(4) == 0 {
			o.Reason = abi.ReasonUnknown
		}
		lane := makeLane(o.Value, o.Reason, o.Rank)
		if o.Value != Failed && o.Value != RestoreFailed {
			if lane&laneLow != laneLow {
				t.Fatalf("lane of %v has low bits %#x, want all ones", o.Value, lane&laneLow)
			}
			o.Reason, o.Rank = 0, -1
		}
		if got := parseLane(lane); got != o {
			t.Fatalf("lane of %+v reads as %+v", o, got)
		}
		return lane, o
	}
	for range 200000 {
		la, a := draw()
		lb, b := draw()
		want := a
		if b.Value < a.Value || b.Value == a.Value && (b.Reason < a.Reason || b.Reason == a.Reason && b.Rank < a.Rank) {
			want = b
		}
		if got := parseLane(min(la, lb)); got != want {
			t.Fatalf("seed %d: MIN of %+v and %+v is %+v, want %+v", seed, a, b, got, want)
		}
	}
	for known := abi.ReasonRestoreFailed; known < abi.ReasonUnknown; known++ {
		if got := parseLane(min(makeLane(Failed, abi.ReasonUnknown, 0), makeLane(Failed, known, 5))); got.Reason != known || got.Rank != 5 {
			t.Fatalf("unknown on rank 0 hides reason %v of rank 5: %+v", known, got)
		}
	}
	if got := parseLane(^uint32(0)); got.Value != Transferring {
		t.Errorf("a lane nobody voted in reads as %v, want Transferring: it must wait", got.Value)
	}
}

// TestOnlyGatesMakeVotes looks at the types: nothing else in the package makes a Vote, and a Vote that no gate made
// cannot reach a lane.
func TestOnlyGatesMakeVotes(t *testing.T) {
	for f := range reflect.TypeFor[Vote]().Fields() {
		if f.IsExported() {
			t.Errorf("field %s of Vote is exported: other packages could make one", f.Name)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	makers := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.CompositeLit); ok {
					if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "Vote" {
						makers[f.Name.Name] = true
					}
				}
				return true
			})
		}
	}
	if len(makers) != 2 || !makers["Gate"] || !makers["GateHandshake"] {
		t.Errorf("votes are made in %v, want Gate and GateHandshake alone", makers)
	}

	g := newGroup(t, testConfig(1, 4, 8, 8))
	g.shake = func(int, uint64) abi.Poll { return abi.PollBootstrapping }
	g.add(0, 4, 2)
	g.until("an entry in prealloc", func() bool { return g.ranks[0].NumHandshake() == 1 })
	s := g.ranks[0]
	b := newBallot(s.Shape())
	s.SetHandshake(b, 0, Vote{})
	if b.U32[0] != ^uint32(0) {
		t.Errorf("the zero Vote wrote handshake lane %#x", b.U32[0])
	}
	g.shake = nil
	g.raw = func(int, uint64, uint32) abi.Poll { return abi.PollTransferring }
	g.until("an entry in transfer", func() bool { return s.NumTransfer() == 1 })
	b = newBallot(s.Shape())
	s.SetTransfer(b, 0, Vote{}, true, false, false)
	if b.U32[s.lay.pre] != ^uint32(0) || b.U8[s.lay.giveUp(0)] != 255 {
		t.Errorf("the zero Vote wrote transfer lane %#x, give up %d", b.U32[s.lay.pre], b.U8[s.lay.giveUp(0)])
	}
	v := GateHandshake(abi.PollBootstrapping, 0, 0)
	for _, i := range []int{-1, s.lay.pre + s.lay.xfer, 99} {
		s.SetHandshake(b, i, v)
		s.SetTransfer(b, i, v, true, true, true)
	}
	if b.U32[s.lay.pre] != ^uint32(0) {
		t.Error("a vote out of range wrote a lane")
	}
}

// side is what one rank knows of an entry.
type side struct {
	raw abi.Poll
	st  abi.RestoreStatus
}

func (s side) inFlight() bool { return s.raw != abi.PollFailed && s.raw != abi.PollSuccess }
func (s side) good() bool     { return s.raw == abi.PollSuccess && s.st == abi.RestoreReady }

// native is the vote of the shipped restore gate.
func (s side) native() abi.Poll {
	switch {
	case s.raw == abi.PollSuccess && s.st == abi.RestorePending:
		return abi.PollTransferring
	case s.raw == abi.PollSuccess && s.st == abi.RestoreFailed:
		return abi.PollFailed
	}
	return s.raw
}

func sides() (all []side) {
	for _, raw := range allPolls {
		for _, st := range allStatuses {
			all = append(all, side{raw, st})
		}
	}
	return all
}

func outcome(a side, va abi.Poll, b side, vb abi.Poll) Outcome {
	x, _ := Gate(Observation{Raw: a.raw, Restore: a.st}, va, 0, 0)
	y, _ := Gate(Observation{Raw: b.raw, Restore: b.st}, vb, 0, 1)
	return parseLane(min(x.lane, y.lane))
}

// TestOutcomeOfTwoRanks is the outcome table of the seed under the six-value lattice: all 225 pairs of what two ranks
// can know, once with the native votes and once with every pair of votes a policy could cast.
func TestOutcomeOfTwoRanks(t *testing.T) {
	pairs := 0
	for _, a := range sides() {
		for _, b := range sides() {
			pairs++
			o := outcome(a, a.native(), b, b.native())
			want := Success
			switch {
			case a.raw == abi.PollFailed || b.raw == abi.PollFailed:
				want = Failed
			case a.inFlight() || b.inFlight():
				// Bounded by the lower raw poll; a pending restore counts as Transferring.
				want = min(Value(a.native()), Value(b.native()))
				if want == Failed {
					want = Value(min(a.raw, b.raw))
				}
			case a.st == abi.RestorePending || b.st == abi.RestorePending:
				want = Transferring
			case a.st == abi.RestoreFailed || b.st == abi.RestoreFailed:
				want = RestoreFailed
			}
			if o.Value != want {
				t.Errorf("%v/%v with %v/%v: %v, want %v", a.raw, a.st, b.raw, b.st, o.Value, want)
			}
			for _, va := range allPolls {
				for _, vb := range allPolls {
					o := outcome(a, va, b, vb)
					transport := a.raw == abi.PollFailed || b.raw == abi.PollFailed
					if (o.Value == Failed) != transport {
						t.Fatalf("%v/%v voting %v with %v/%v voting %v: %v", a.raw, a.st, va, b.raw, b.st, vb, o.Value)
					}
					if o.Value == RestoreFailed && (a.inFlight() || b.inFlight() || a.st == abi.RestorePending || b.st == abi.RestorePending) {
						t.Fatalf("%v/%v with %v/%v ends while a page is still written", a.raw, a.st, b.raw, b.st)
					}
					if o.Value == Success && !(a.good() && b.good()) {
						t.Fatalf("%v/%v with %v/%v is a success", a.raw, a.st, b.raw, b.st)
					}
				}
			}
		}
	}
	if pairs != 225 {
		t.Fatalf("%d pairs, want 225", pairs)
	}
	ready, flying := side{abi.PollSuccess, abi.RestoreReady}, side{abi.PollTransferring, abi.RestoreReady}
	for _, row := range []struct {
		name string
		a, b side
		want Value
	}{
		{"one restore failed, all terminal", ready, side{abi.PollSuccess, abi.RestoreFailed}, RestoreFailed},
		{"both in flight, one restore failed", flying, side{abi.PollTransferring, abi.RestoreFailed}, Transferring},
		{"the failed rank in flight", ready, side{abi.PollTransferring, abi.RestoreFailed}, Transferring},
		{"the other rank in flight", flying, side{abi.PollSuccess, abi.RestoreFailed}, Transferring},
		{"one pending", ready, side{abi.PollSuccess, abi.RestorePending}, Transferring},
		{"transport failed", side{abi.PollFailed, abi.RestoreReady}, flying, Failed},
	} {
		if o := outcome(row.a, row.a.native(), row.b, row.b.native()); o.Value != row.want {
			t.Errorf("%s: %v, want %v", row.name, o.Value, row.want)
		}
	}
}
