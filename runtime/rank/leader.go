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
	stream []byte // not yet applied, this tick's slice first
	urgent []uint64
	flying int // bytes of stream in the ballot under way
	early  int // aborts in it
	wake   chan struct{}
}

// NewLeader makes an empty stream.
func NewLeader() *Leader { return &Leader{wake: make(chan struct{}, 1)} }

// Add appends one whole message, made by an Append function of schedule.
func (l *Leader) Add(message []byte) {
	l.mu.Lock()
	l.stream = append(l.stream, message...)
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
	return len(l.stream)+len(l.urgent) > 0
}

// fill writes the leader lanes: the slice whose length was agreed, the length of the next, the urgent slot.
func (l *Leader) fill(s *schedule.Scheduler, b *schedule.Ballot, now time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.SetLeaderTime(b, uint64(now))
	l.early = s.SetUrgent(b, l.urgent)
	l.flying = s.IngressLen()
	return s.SetIngress(b, l.stream[:l.flying], len(l.stream)-l.flying)
}

// sent drops what the last apply has taken.
func (l *Leader) sent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = append(l.stream[:0], l.stream[l.flying:]...)
	l.urgent = append(l.urgent[:0], l.urgent[l.early:]...)
	l.flying, l.early = 0, 0
}
