package decode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/gpu"
	"sluice/internal/clock"
	"sluice/internal/metrics"
	"sluice/kvcache"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// Seat is what one rank of a group works with. The rank's goroutine owns it while the group runs.
type Seat struct {
	Device    gpu.Device
	L1, L2    gpu.ArenaID
	Store     *kvcache.Store
	Transport rank.Transport
	Model     rank.Model
	Policies  *rank.Policies // nil with Options.Policies
}

// Peer is a prefill instance under one incarnation, which is never 0.
type Peer struct {
	ID          uint32
	Incarnation uint64
}

// Formation is what a group of one epoch is made of. Nothing of it is shared with another epoch.
type Formation struct {
	Seats []Seat // one a rank
	Peers []Peer // connected on every rank
	// Rejoin brings a peer back that the group has fenced, under a new incarnation. nil: it stays away. It is
	// called off the tick.
	Rejoin func(ctx context.Context, fenced Peer) (Peer, error)
	// Close frees everything. It is called once, after the last rank's goroutine has ended.
	Close func() error
}

// Options make an Instance. Times are on Clock.
type Options struct {
	Schedule schedule.Config // equal for every epoch
	// Form makes the group of an epoch, 1 and up. It is called by New and again after each end of a group.
	Form func(ctx context.Context, epoch uint64) (*Formation, error)

	// Policies has the instance make its policies itself, so that they can be changed while it runs. nil: the seats
	// bring them, and they stay.
	Policies *PolicyOptions

	Clock    clock.Clock
	Logger   *slog.Logger
	Registry *metrics.Registry

	Deadline time.Duration // of an exchange and of the model's own reduction, more than 0
	IdleTick time.Duration // between ticks of an idle group; at most a quarter of Deadline is used
	// Pace is the least time between the starts of two ticks: the stand-in model computes almost nothing, and
	// without it an age of 3,000 ticks would be milliseconds. 0: none.
	Pace time.Duration
	// MaxQueue is how many requests may wait for admission; one more is refused with server.ErrQueueFull.
	MaxQueue int
	// StreamBytes is how many bytes of prompts, at 4 a token, may wait to be told to the ranks; one more request is
	// refused with server.ErrQueueFull. 0: rank.DefaultStreamBytes.
	StreamBytes int
	// MaxRequestTokens bounds prompt and answer of one request together; 0: what fills L1.
	MaxRequestTokens int
	VocabSize        int // of the model, see model.Join

	TransferTicks, DrainTicks uint32 // see rank.Options
	// Reforms is how often within ReformWindow the group may form again; one more time it stays down.
	// 0: 8 times within a minute.
	Reforms      int
	ReformWindow time.Duration

	// ModelName, Fingerprint and Layout name the model and the arrangement of its pages: what /server_info
	// shows, and the parts of the canonical key beside the namespace.
	ModelName, Fingerprint, Layout string

	// BeforeTick, if not nil, runs at the start of every tick on its rank's goroutine. It is the place of
	// scripted faults: one that blocks stalls the rank, one that panics ends the group.
	BeforeTick func(rank int, tick uint64)

	tamper func(*rank.Options) // tests: makes one rank differ from the others
}

// Limits of pacing and of readiness.
const (
	staleAfter     = 5 * time.Second // without a completed tick a rank counts as stuck
	maxIdle        = time.Second     // so that an idle group is well within staleAfter
	defaultReforms = 8
	defaultWindow  = time.Minute
	refreshRetry   = time.Second // after a policy instance could not be made, or a peer not brought back
	maxUnread      = 1 << 16     // tokens that may wait for a reader
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Form == nil:
		return o, errors.New("decode: no way to form a group is given")
	case o.Clock == nil || o.Logger == nil || o.Registry == nil:
		return o, errors.New("decode: clock, logger and metrics registry are all needed")
	case o.Deadline <= 0:
		return o, fmt.Errorf("decode: the exchange deadline is %v, it must be more than 0", o.Deadline)
	case o.MaxQueue < 1:
		return o, fmt.Errorf("decode: room for %d waiting requests, it must be 1 or more", o.MaxQueue)
	}
	if o.StreamBytes < 0 {
		return o, fmt.Errorf("decode: room for %d bytes of prompts, it must not be negative", o.StreamBytes)
	}
	if o.StreamBytes == 0 {
		o.StreamBytes = rank.DefaultStreamBytes
	}
	if o.Policies != nil && o.Policies.Host == nil {
		return o, errors.New("decode: policies are to be made, and no plugin host is given")
	}
	if err := o.Schedule.Validate(); err != nil {
		return o, err
	}
	if o.IdleTick <= 0 {
		o.IdleTick = maxIdle
	}
	o.IdleTick = max(min(o.IdleTick, o.Deadline/4, maxIdle), time.Microsecond)
	if o.Reforms == 0 {
		o.Reforms = defaultReforms
	}
	if o.ReformWindow == 0 {
		o.ReformWindow = defaultWindow
	}
	return o, nil
}
