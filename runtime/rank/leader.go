package rank

import (
	"sync"
	"time"

	"sluice/runtime/schedule"
)

// Leader is the group's way in, on rank 0: an ingress stream that the ballots carry in slices, and a list of
// urgent aborts. Add and Abort may be called from any goroutine and never block.
type Leader struct {
	mu     sync.Mutex
	stream []byte // from head on: not yet applied, this tick's slice first
	head   int
	queue  []message // whole and part messages of the stream, in order
	taken  int       // bytes of the first message that applies have taken
	urgent []uint64
	flying int // bytes of stream in the ballot under way
	early  int // aborts in it
	wake   chan struct{}
}

// message is one message of the stream: its length and, for a request, its number.
type message struct {
	size    int
	request uint64
}

// NewLeader makes an empty stream.
func NewLeader() *Leader { return &Leader{wake: make(chan struct{}, 1)} }

// Add appends one whole message, made by an Append function of schedule.
func (l *Leader) Add(m []byte) {
	l.mu.Lock()
	if l.head > len(l.stream)/2 {
		l.stream, l.head = append(l.stream[:0], l.stream[l.head:]...), 0
	}
	l.stream = append(l.stream, m...)
	l.queue = append(l.queue, message{len(m), schedule.RequestOf(m)})
	l.mu.Unlock()
	l.signal()
}

// Abort puts the request into the urgent slot, ahead of the stream.
func (l *Leader) Abort(request uint64) {
	l.mu.Lock()
	l.urgent = append(l.urgent, request)
	l.mu.Unlock()
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
	return len(l.stream)-l.head+len(l.urgent) > 0
}

// fill writes the leader lanes: the slice whose length was agreed, the length of the next, the urgent slot.
func (l *Leader) fill(s *schedule.Scheduler, b *schedule.Ballot, now time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.SetLeaderTime(b, uint64(now))
	l.early = s.SetUrgent(b, l.urgent)
	l.flying = s.IngressLen()
	return s.SetIngress(b, l.stream[l.head:l.head+l.flying], len(l.stream)-l.head-l.flying)
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
	l.head += n
	for n > 0 {
		left := l.queue[0].size - l.taken
		if n < left {
			l.taken += n
			return
		}
		n -= left
		l.taken = 0
		l.queue = append(l.queue[:0], l.queue[1:]...)
	}
}

// realign goes on after a resync, which took nothing of the ballot under way. kept says whether the group still has
// the head of a message that is not whole; if not, the rest of it is dropped, and the request it was is returned.
func (l *Leader) realign(kept bool) (lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying, l.early = 0, 0
	if kept || l.taken == 0 {
		return 0
	}
	lost = l.queue[0].request
	l.drop(l.queue[0].size - l.taken)
	return lost
}
