package rank

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/runtime/schedule"
)

func addMessage(id uint64, tokens int) []byte {
	return schedule.AppendAdd(nil, &schedule.Request{ID: id, Key: []byte("k"), Tokens: make([]uint32, tokens)})
}

// modelMessage is a message as the test keeps it.
type modelMessage struct {
	data      []byte
	request   uint64
	withdrawn bool
}

// modelStream says what a Leader has to do, in the plainest way.
type modelStream struct {
	all       []modelMessage
	delivered []byte
	promised  int // bytes that the next ballot will carry
	flying    int // bytes in the ballot under way
	held      int // beside flying: bytes promised by the ballot under way
}

// stream is what the group is to read in the end, and where each message begins in it.
func (m *modelStream) stream() (whole []byte, at []int) {
	for _, x := range m.all {
		at = append(at, len(whole))
		if !x.withdrawn {
			whole = append(whole, x.data...)
		}
	}
	return whole, at
}

// Under any order of calls the group reads the messages that were not withdrawn, whole and in order, in slices of
// the lengths that were promised; a message is withdrawn exactly while no byte of it has been sent or promised.
func TestLeaderRandom(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { leaderRandom(t, seed) })
	}
}

func leaderRandom(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	const limit = 4000
	l, m := NewLeaderOf(limit), &modelStream{}
	most := 1 + rng.IntN(600)
	id := uint64(0)
	for range 400 {
		switch op := rng.IntN(10); {
		case op < 4:
			msg, request := schedule.AppendPeer(nil, 1, 7), uint64(0)
			if rng.IntN(4) > 0 {
				id += 1 + uint64(rng.IntN(3))
				msg, request = addMessage(id, 1+rng.IntN(60)), id
			}
			whole, _ := m.stream()
			waiting := len(whole) - len(m.delivered)
			want := request == 0 || waiting == 0 || waiting+len(msg) <= limit
			if got := l.Add(msg); got != want {
				t.Fatalf("add of %d bytes to %d: %v, want %v", len(msg), waiting, got, want)
			}
			if want {
				m.all = append(m.all, modelMessage{msg, request, false})
			}
		case op < 7 && len(m.all) > 0:
			i := rng.IntN(len(m.all))
			x := &m.all[i]
			_, at := m.stream()
			safe := len(m.delivered) + m.flying + max(m.promised, m.held)
			want := x.request != 0 && !x.withdrawn && at[i] >= safe
			if got := l.Withdraw(x.request); got != want {
				t.Fatalf("withdraw of request %d at %d, bytes up to %d are sent or promised: %v, want %v", x.request, at[i], safe, got, want)
			}
			x.withdrawn = x.withdrawn || want
		default:
			leaderTick(t, rng, l, m, most)
		}
		whole, _ := m.stream()
		if got, want := l.Bytes(), len(whole)-len(m.delivered); got != want {
			t.Fatalf("%d bytes wait, want %d", got, want)
		}
		if live := len(l.queue) - l.head - l.gone; len(l.queue) > 2*live {
			t.Fatalf("the queue is %d long for %d messages", len(l.queue), live)
		}
	}
	for l.Pending() {
		leaderTick(t, nil, l, m, most)
	}
	if whole, _ := m.stream(); !bytes.Equal(m.delivered, whole) {
		t.Fatalf("the group read %d bytes, want %d", len(m.delivered), len(whole))
	}
}

// leaderTick is one ballot, with withdrawals while it is under way; now and then a resync comes in place of its apply.
func leaderTick(t *testing.T, rng *rand.Rand, l *Leader, m *modelStream, most int) {
	t.Helper()
	slice, promise := l.cut(m.promised, most)
	whole, at := m.stream()
	rest := whole[len(m.delivered):]
	if len(slice) != m.promised || !bytes.Equal(slice, rest[:len(slice)]) {
		t.Fatalf("a slice of %d bytes that is not the next of the stream, %d were promised", len(slice), m.promised)
	}
	if want := min(len(rest)-len(slice), most); promise != want {
		t.Fatalf("promised %d bytes, want %d", promise, want)
	}
	m.flying, m.held, m.promised = len(slice), promise, 0
	resync := false
	if rng != nil {
		for i := range m.all {
			if x := &m.all[i]; rng.IntN(8) == 0 && x.request != 0 && !x.withdrawn {
				want := at[i] >= len(m.delivered)+m.flying+m.held
				if got := l.Withdraw(x.request); got != want {
					t.Fatalf("withdraw during a ballot: %v, want %v", got, want)
				}
				x.withdrawn = want
			}
		}
		resync = rng.IntN(10) == 0
	}
	if resync {
		m.flying, m.held = 0, 0
		leaderResync(t, rng.IntN(2) == 0, l, m)
		return
	}
	l.sent()
	m.delivered = append(m.delivered, slice...)
	m.promised, m.flying, m.held = promise, 0, 0
}

// leaderResync has the group keep or lose the message that it has in part.
func leaderResync(t *testing.T, kept bool, l *Leader, m *modelStream) {
	t.Helper()
	want := uint64(0)
	_, at := m.stream()
	for i := range m.all {
		x := &m.all[i]
		if n := len(m.delivered) - at[i]; !kept && !x.withdrawn && n > 0 && n < len(x.data) {
			// Of a message that is lost the group has read the head and will read no more.
			want, x.data, x.request = x.request, x.data[:n], 0
		}
	}
	if got := l.realign(kept); got != want {
		t.Fatalf("realign lost request %d, want %d", got, want)
	}
}

func TestLeaderBound(t *testing.T) {
	l := NewLeaderOf(100)
	if !l.Add(addMessage(1, 500)) {
		t.Error("an empty stream refused a request")
	}
	if l.Add(addMessage(2, 1)) {
		t.Error("a full stream took a request")
	}
	if !l.Add(schedule.AppendFlush(nil)) || !l.Add(schedule.AppendPeer(nil, 1, 1)) {
		t.Error("a full stream refused what is no request")
	}
	if !l.Withdraw(1) || l.Withdraw(1) || l.Withdraw(0) {
		t.Error("a request is withdrawn once, and what is no request never")
	}
	if !l.Add(addMessage(3, 1)) {
		t.Error("the room of a withdrawn request was not given back")
	}
}

// Add takes over the slice and copies nothing; a steady stream allocates nothing.
func TestLeaderAllocatesNothing(t *testing.T) {
	l := NewLeader()
	var messages [8][]byte
	for i := range messages {
		messages[i] = addMessage(uint64(i+1), 10_000)
	}
	promised := 0
	round := func() {
		for i := range messages {
			if !l.Add(messages[i]) {
				t.Fatal("refused")
			}
			l.Abort(uint64(i))
		}
		// The stream has the slices themselves.
		if last := l.queue[len(l.queue)-1].data; &last[0] != &messages[7][0] {
			t.Fatal("a message was copied")
		}
		if !l.Withdraw(8) {
			t.Fatal("not withdrawn")
		}
		for l.Bytes() > 0 {
			_, promised = l.cut(promised, 1<<16)
			l.early = len(l.urgent)
			l.sent()
		}
	}
	round()
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
