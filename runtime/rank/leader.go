package rank

import (
	"fmt"
	"sort"
	"sync"
	"time"

	"sluice/runtime/schedule"
)

// DefaultStreamBytes bounds the requests on the way into a group whose maker names no bound.
const DefaultStreamBytes = 64 << 20

// Leader is the group's way in, on rank 0: an ingress stream that the ballots carry in slices, and a list of
// urgent aborts. Its methods may be called from any goroutine and never block: nothing that is done under the mutex
// grows with the length of the stream, since the tick needs it twice.
//
// The stream is the messages that were added, one after another, each in the slice it came in. What no ballot has
// carried and none has been promised can still be taken out again, see Withdraw; all else the group will read.
type Leader struct {
	limit int

	mu     sync.Mutex
	queue  []message // from head on: what applies have not wholly taken, withdrawn messages among it
	head   int
	taken  int // bytes of the first message that applies have taken
	bound  int // index of the first message with no byte in the ballot under way or in the slice promised to the next
	gone   int // withdrawn messages in queue
	bytes  int // of the stream: not withdrawn, and no apply has taken them
	flying int // of them, in the ballot under way
	slice  []byte
	urgent []uint64
	early  int // aborts in the ballot under way
	wake   chan struct{}
}

// message is one message of the stream.
type message struct {
	data    []byte // nil: withdrawn
	request uint64 // the number of the request it adds; 0: it adds none
	upTo    uint64 // the greatest such number so far; the queue is sorted by it
}

// NewLeader makes an empty stream that takes in requests of DefaultStreamBytes together.
func NewLeader() *Leader { return NewLeaderOf(DefaultStreamBytes) }

// NewLeaderOf makes an empty stream that takes in requests of limit bytes together.
func NewLeaderOf(limit int) *Leader { return &Leader{limit: limit, wake: make(chan struct{}, 1)} }

// Add appends one whole message, made by an Append function of schedule. The slice is the leader's from then on:
// nobody writes to it. A request for which the stream has no room is not taken, and Add returns false; on an empty
// stream there is room for one of any size. Other messages are always taken.
func (l *Leader) Add(m []byte) bool {
	request := schedule.RequestOf(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(m) == 0:
		return true
	case request != 0 && l.bytes > 0 && l.bytes+len(m) > l.limit:
		return false
	}
	upTo := request
	if n := len(l.queue); n > 0 {
		upTo = max(upTo, l.queue[n-1].upTo)
	}
	l.queue = append(l.queue, message{m, request, upTo})
	l.bytes += len(m)
	l.signal()
	return true
}

// Withdraw takes a request's message out of the stream and reports whether it did: the group has then heard nothing
// of the request and never will. It does not once a ballot has carried, or has been promised, a byte of the message.
func (l *Leader) Withdraw(request uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.queue[l.bound:]
	i := sort.Search(len(free), func(i int) bool { return free[i].upTo >= request })
	if request == 0 || i == len(free) || free[i].request != request || free[i].data == nil {
		return false
	}
	l.bytes -= len(free[i].data)
	free[i].data = nil
	l.gone++
	l.tidy()
	return true
}

// Bytes is how many bytes of the stream no apply has taken yet.
func (l *Leader) Bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Abort puts the request into the urgent slot, ahead of the stream.
func (l *Leader) Abort(request uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.urgent = append(l.urgent, request)
	l.signal()
}

// Wake receives after Add or Abort; an idle group waits on it.
func (l *Leader) Wake() <-chan struct{} { return l.wake }

func (l *Leader) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Pending is true when something has been added that no apply has taken yet.
func (l *Leader) Pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes+len(l.urgent) > 0
}

// fill writes the leader lanes: the slice whose length was agreed, the length of the next, which is at most most
// bytes, and the urgent slot.
func (l *Leader) fill(s *schedule.Scheduler, b *schedule.Ballot, now time.Duration, most int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.SetLeaderTime(b, uint64(now))
	l.early = s.SetUrgent(b, l.urgent)
	agreed := s.IngressLen()
	if agreed > l.bytes {
		return fmt.Errorf("rank: the group expects %d bytes of the ingress stream, which holds %d", agreed, l.bytes)
	}
	slice, promise := l.cut(agreed, most)
	return s.SetIngress(b, slice, promise)
}

// cut takes the first agreed bytes as the ballot's slice and promises up to most of what follows to the next.
func (l *Leader) cut(agreed, most int) (slice []byte, promise int) {
	promise = min(l.bytes-agreed, most)
	l.flying, l.slice, l.bound = agreed, l.slice[:0], l.begun()
	left := promise
	for i, at := l.head, l.taken; agreed+left > 0; i, at = i+1, 0 {
		rest := l.queue[i].data[at:]
		n := min(agreed, len(rest))
		l.slice = append(l.slice, rest[:n]...)
		agreed -= n
		left -= min(left, len(rest)-n)
		l.bound = i + 1
	}
	return l.slice, promise
}

// begun is the index of the first message of which applies have taken nothing.
func (l *Leader) begun() int {
	if l.taken > 0 {
		return l.head + 1
	}
	return l.head
}

// sent drops what the last apply has taken.
func (l *Leader) sent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(l.flying)
	l.urgent = append(l.urgent[:0], l.urgent[l.early:]...)
	l.flying, l.early = 0, 0
}

// drop takes n bytes off the stream.
func (l *Leader) drop(n int) {
	l.bytes -= n
	for n > 0 {
		left := len(l.queue[l.head].data) - l.taken
		if n < left {
			l.taken += n
			break
		}
		n -= left
		l.pop()
	}
	l.tidy()
}

// pop lets go of the first message.
func (l *Leader) pop() {
	if l.queue[l.head].data == nil {
		l.gone--
	}
	l.queue[l.head] = message{}
	l.head++
	l.taken = 0
	l.bound = max(l.bound, l.head)
}

// tidy closes the gaps in the queue once they are more than half of it, so that each costs the move of one message.
func (l *Leader) tidy() {
	if 2*(l.head+l.gone) <= len(l.queue) {
		return
	}
	kept, bound := l.queue[:0], 0
	for i := l.head; i < len(l.queue); i++ {
		if l.queue[i].data == nil {
			continue
		}
		if i < l.bound {
			bound++
		}
		kept = append(kept, l.queue[i])
	}
	clear(l.queue[len(kept):])
	l.queue, l.head, l.bound, l.gone = kept, 0, bound, 0
}

// realign goes on after a resync, which took nothing of the ballot under way and made no promise. kept says whether
// the group still has the head of a message that is not whole; if not, the rest of it is dropped, and the request it
// was is returned.
func (l *Leader) realign(kept bool) (lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying, l.early = 0, 0
	l.bound = l.begun()
	if kept || l.taken == 0 {
		return 0
	}
	m := &l.queue[l.head]
	lost = m.request
	l.drop(len(m.data) - l.taken)
	return lost
}
