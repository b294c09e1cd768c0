package host

import (
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/gpu"
	"sluice/internal/clock"
)

// DefaultQueueDepth is how many operations a stream holds where Options does not say.
const DefaultQueueDepth = 1024

// Delay says how many ticks an operation of a virtual device takes, from the tick of the last Step
// to the one in which it ends; it is called once an operation, in submission order. A later
// operation of a stream never ends before an earlier one.
type Delay func(kind Op, pages int) uint64

// SeededDelay draws a delay of lo to hi ticks (both included) for each operation. Equal seeds draw
// equal delays. A hi below lo counts as lo.
func SeededDelay(seed uint64, lo, hi uint64) Delay {
	rng := rand.New(rand.NewPCG(seed, 0x736c75696365))
	span := max(hi, lo) - lo
	return func(Op, int) uint64 {
		if span == 0 {
			return lo
		}
		return lo + rng.Uint64()%(span+1)
	}
}

// Options configures a device. The zero value is usable.
type Options struct {
	Rank       int     // which rank's device this is; faults name ranks
	QueueDepth int     // operations a stream holds, one that runs not counted; 0 = DefaultQueueDepth
	Faults     []Fault // the script; Inject adds to it

	Delay Delay // virtual only; nil = every operation ends in the next Step

	// Live only: what a fault's DelayTicks mean there. Both are needed to inject such a fault.
	Clock clock.Clock
	Tick  time.Duration
}

// NewLive makes a device whose streams run on goroutines of their own, until Close.
func NewLive(o Options) (*Device, error) {
	if o.Delay != nil {
		return nil, fmt.Errorf("%w: a live device takes the time its copies take; Delay is for NewVirtual", gpu.ErrSpec)
	}
	return newDevice(o, true)
}

// NewVirtual makes a device whose work runs inside Step.
func NewVirtual(o Options) (*Device, error) { return newDevice(o, false) }

func newDevice(o Options, live bool) (*Device, error) {
	if o.QueueDepth < 0 {
		return nil, fmt.Errorf("%w: queue depth %d is negative", gpu.ErrSpec, o.QueueDepth)
	}
	if o.QueueDepth == 0 {
		o.QueueDepth = DefaultQueueDepth
	}
	d := &Device{live: live, options: o, quit: make(chan struct{})}
	for _, f := range o.Faults {
		if err := d.Inject(f); err != nil {
			return nil, err
		}
	}
	return d, nil
}
