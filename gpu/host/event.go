package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/gpu"
)

// event is reached when every recording up to the last one has been.
type event struct {
	recorded atomic.Uint64 // the newest recording that was queued
	reached  atomic.Uint64 // the newest recording that a stream has come to

	mu      sync.Mutex
	waiters chan struct{} // closed and dropped at the next reach; nil while nobody waits
}

func (e *event) isReached() bool { return e.reached.Load() >= e.recorded.Load() }

// reach is called by a stream that has come to a recording.
func (e *event) reach(mark uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reached.Store(max(mark, e.reached.Load()))
	if e.waiters != nil {
		close(e.waiters)
		e.waiters = nil
	}
}

// NewEvent makes an event. See gpu.Device.
func (d *Device) NewEvent() (gpu.Event, error) {
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed || d.closing.Load() {
		return 0, gpu.ErrClosed
	}
	d.events = append(d.events, &event{})
	return gpu.Event(len(d.events)), nil
}

func (d *Device) event(id gpu.Event) (*event, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.closed || d.closing.Load() {
		return nil, gpu.ErrClosed
	}
	if id == 0 || int64(id) > int64(len(d.events)) {
		return nil, fmt.Errorf("%w: event %d; the device has %d", gpu.ErrNoEvent, id, len(d.events))
	}
	return d.events[id-1], nil
}

// Record moves an event to the present end of a stream. See gpu.Device. One goroutine at a time
// records an event.
func (d *Device) Record(id gpu.Stream, ev gpu.Event) error {
	e, err := d.event(ev)
	if err != nil {
		return err
	}
	return d.submit(id, command{act: actRecord, event: e, mark: e.recorded.Load() + 1})
}

// Query reports whether an event is reached. See gpu.Device.
func (d *Device) Query(ev gpu.Event) (bool, error) {
	e, err := d.event(ev)
	if err != nil {
		return false, err
	}
	return e.isReached(), nil
}

// Wait waits for an event. See gpu.Device. On a virtual device, where only Step makes progress, it
// returns gpu.ErrNotReady at once where Query would report false.
func (d *Device) Wait(ctx context.Context, ev gpu.Event) error {
	e, err := d.event(ev)
	if err != nil {
		return err
	}
	for {
		e.mu.Lock()
		if e.isReached() {
			e.mu.Unlock()
			return nil
		}
		if !d.live {
			e.mu.Unlock()
			return fmt.Errorf("%w: event %d of a virtual device; call Step", gpu.ErrNotReady, ev)
		}
		if e.waiters == nil {
			e.waiters = make(chan struct{})
		}
		next := e.waiters
		e.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.quit:
			return gpu.ErrClosed
		}
	}
}
