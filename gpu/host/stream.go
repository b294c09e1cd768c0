package host

import (
	"fmt"
	"sync"

	"sluice/gpu"
)

// stream is one ordered queue: a ring of commands that never grows.
type stream struct {
	name string
	mu   sync.Mutex
	ring []command
	head int
	n    int // commands queued; one that runs has left
	last uint64
	shut bool          // Close has passed: nothing is taken in any more
	wake chan struct{} // live: one token while the ring may be non-empty
}

type action uint8

const (
	actCopy action = iota
	actFill
	actRecord
)

// command is one queued operation.
type command struct {
	act   action
	batch gpu.Batch
	value byte            // fill
	done  *gpu.Completion // copy, fill
	event *event          // record
	mark  uint64          // record: which recording of the event this is
	fault *Fault          // what the script has in store for it, or nil
	due   uint64          // virtual: the tick it runs in
	seq   uint64          // virtual: orders streams among commands of one tick
}

// NewStream makes a stream. See gpu.Device.
func (d *Device) NewStream(name string) (gpu.Stream, error) {
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed || d.closing.Load() {
		return 0, gpu.ErrClosed
	}
	s := &stream{name: name, ring: make([]command, d.options.QueueDepth), wake: make(chan struct{}, 1)}
	d.streams = append(d.streams, s)
	if d.live {
		d.workers.Go(func() { d.work(s) })
	}
	return gpu.Stream(len(d.streams)), nil
}

// stream looks a handle up. The caller holds life.
func (d *Device) stream(id gpu.Stream) (*stream, error) {
	if d.closed || d.closing.Load() {
		return nil, gpu.ErrClosed
	}
	if id == 0 || int64(id) > int64(len(d.streams)) {
		return nil, fmt.Errorf("%w: stream %d; the device has %d", gpu.ErrNoStream, id, len(d.streams))
	}
	return d.streams[id-1], nil
}

// Copy queues a batch. See gpu.Device.
func (d *Device) Copy(id gpu.Stream, b gpu.Batch, c *gpu.Completion) error {
	switch {
	case len(b.Dst) != len(b.Src):
		return fmt.Errorf("%w: copy %d has %d destinations and %d sources", gpu.ErrBatch, b.Op, len(b.Dst), len(b.Src))
	case b.Sums != nil && len(b.Sums) != len(b.Src):
		return fmt.Errorf("%w: copy %d has %d pages and %d checksums", gpu.ErrBatch, b.Op, len(b.Src), len(b.Sums))
	case b.Check && b.Sums == nil && len(b.Src) > 0:
		return fmt.Errorf("%w: copy %d is to be checked but has no checksums", gpu.ErrBatch, b.Op)
	case c == nil:
		return fmt.Errorf("%w: copy %d has no completion", gpu.ErrBatch, b.Op)
	}
	return d.submit(id, command{act: actCopy, batch: b, done: c})
}

// Fill queues a fill. See gpu.Device.
func (d *Device) Fill(id gpu.Stream, dst []gpu.Ref, value byte, c *gpu.Completion) error {
	if c == nil {
		return fmt.Errorf("%w: fill of %d pages has no completion", gpu.ErrBatch, len(dst))
	}
	return d.submit(id, command{act: actFill, batch: gpu.Batch{Dst: dst}, value: value, done: c})
}

func (d *Device) submit(id gpu.Stream, cmd command) error {
	d.life.RLock()
	defer d.life.RUnlock()
	s, err := d.stream(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return gpu.ErrClosed
	}
	if s.n == len(s.ring) {
		return fmt.Errorf("%w: stream %q holds %d operations; retry after some have ended", gpu.ErrQueueFull, s.name, s.n)
	}
	if cmd.done != nil && !cmd.done.Begin() {
		return fmt.Errorf("%w: operation %d on stream %q", gpu.ErrInFlight, cmd.batch.Op, s.name)
	}
	var delay uint64
	if cmd.act == actRecord {
		cmd.event.recorded.Store(cmd.mark)
	} else {
		kind := d.kindOf(&cmd)
		cmd.fault = d.script.match(kind, d.options.Rank, cmd.batch)
		if d.options.Delay != nil {
			delay = d.options.Delay(kind, len(cmd.batch.Dst))
		}
		if cmd.fault != nil {
			delay += uint64(cmd.fault.DelayTicks)
		}
	}
	if !d.live {
		cmd.due = max(d.now.Load()+delay, s.last)
		s.last = cmd.due
		cmd.seq = d.seq.Add(1)
	}
	s.ring[(s.head+s.n)%len(s.ring)] = cmd
	s.n++
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// kindOf tells loads, backups and moves apart by the arenas of the first page. The caller holds life.
func (d *Device) kindOf(cmd *command) Op {
	if cmd.act == actFill {
		return Fill
	}
	if len(cmd.batch.Dst) == 0 {
		return Move
	}
	dst, err := d.arena(cmd.batch.Dst[0].Arena)
	if err != nil {
		return Move
	}
	src, err := d.arena(cmd.batch.Src[0].Arena)
	if err != nil {
		return Move
	}
	switch to, from := dst.spec.Kind == gpu.Memory, src.spec.Kind == gpu.Memory; {
	case to && !from:
		return Load
	case from && !to:
		return Backup
	}
	return Move
}

// pop takes the next command off the ring.
func (s *stream) pop() (command, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return command{}, false
	}
	cmd := s.ring[s.head]
	s.ring[s.head] = command{}
	s.head = (s.head + 1) % len(s.ring)
	s.n--
	return cmd, true
}

// drain shuts the stream and gives what it still holds the outcome ErrClosed.
func (s *stream) drain() {
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	for cmd, ok := s.pop(); ok; cmd, ok = s.pop() {
		if cmd.done != nil {
			cmd.done.Finish(gpu.Outcome{Err: gpu.ErrClosed})
		}
	}
}
