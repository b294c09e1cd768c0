package host

import (
	"fmt"
	"time"

	"sluice/gpu"
)

// work is the goroutine of one live stream.
func (d *Device) work(s *stream) {
	for {
		select {
		case <-d.quit:
			s.drain()
			return
		case <-s.wake:
		}
		for {
			cmd, ok := s.pop()
			if !ok {
				break
			}
			if cmd.fault != nil && cmd.fault.DelayTicks > 0 {
				d.linger(time.Duration(cmd.fault.DelayTicks) * d.options.Tick)
			}
			d.execute(&cmd)
		}
	}
}

// linger holds a live stream for as long as a fault says, or until Close.
func (d *Device) linger(wait time.Duration) {
	t := d.options.Clock.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C():
	case <-d.quit:
	}
}

// Step runs, on a virtual device, everything that is due at tick now or before, in the order (due
// tick, submission), and returns how many operations ended. Ticks do not go back: a now below that
// of an earlier Step counts as that one. On a live device it does nothing. One goroutine steps a
// device.
func (d *Device) Step(now uint64) int {
	if d.live {
		return 0
	}
	now = max(now, d.now.Load())
	d.now.Store(now)
	ended := 0
	for {
		s, due := d.earliest()
		if s == nil || due > now {
			return ended
		}
		cmd, ok := s.pop()
		if !ok {
			return ended
		}
		d.execute(&cmd)
		if cmd.done != nil {
			ended++
		}
	}
}

// Next is the tick at which the earliest queued work of a virtual device is due; ok is false where
// nothing is queued.
func (d *Device) Next() (due uint64, ok bool) {
	if d.live {
		return 0, false
	}
	s, due := d.earliest()
	return due, s != nil
}

// earliest is the stream whose next command comes first in the order (due tick, submission).
func (d *Device) earliest() (first *stream, due uint64) {
	d.life.RLock()
	defer d.life.RUnlock()
	var seq uint64
	for _, s := range d.streams {
		s.mu.Lock()
		if s.n > 0 {
			head := &s.ring[s.head]
			if first == nil || head.due < due || head.due == due && head.seq < seq {
				first, due, seq = s, head.due, head.seq
			}
		}
		s.mu.Unlock()
	}
	return first, due
}

// execute runs one command to its end.
func (d *Device) execute(cmd *command) {
	if cmd.act == actRecord {
		cmd.event.reach(cmd.mark)
		return
	}
	d.life.RLock()
	var out gpu.Outcome
	for i := range cmd.batch.Dst {
		if d.closing.Load() {
			out.Err = gpu.ErrClosed
			break
		}
		if cmd.act == actFill {
			out.Err = d.fillPage(cmd, i)
		} else {
			out.BadBytes, out.Err = d.copyPage(cmd, i)
		}
		if out.Err != nil {
			break
		}
		out.Good++
	}
	d.life.RUnlock()
	cmd.done.Finish(out)
}

// copyPage moves page i of a batch. The caller holds life.
func (d *Device) copyPage(cmd *command, i int) (bad bool, err error) {
	b := &cmd.batch
	if err := cmd.fault.errAt(i); err != nil {
		return false, fmt.Errorf("gpu/host: copy %d: page %d of %d: %w", b.Op, i, len(b.Dst), err)
	}
	src, err := d.enter(b.Src[i], 0, 0)
	if err != nil {
		return false, fmt.Errorf("gpu/host: copy %d: source %d of %d: %w", b.Op, i, len(b.Src), err)
	}
	defer src.leave(b.Src[i].Index)
	dst, err := d.enter(b.Dst[i], 0, 0)
	if err != nil {
		return false, fmt.Errorf("gpu/host: copy %d: destination %d of %d: %w", b.Op, i, len(b.Dst), err)
	}
	defer dst.leave(b.Dst[i].Index)
	if dst.spec.PageBytes != src.spec.PageBytes {
		return false, fmt.Errorf("gpu/host: copy %d: %w: %v has %d bytes, %v has %d", b.Op, gpu.ErrBatch, b.Src[i], src.spec.PageBytes, b.Dst[i], dst.spec.PageBytes)
	}

	dst.written(b.Dst[i].Index)
	defer dst.written(b.Dst[i].Index)
	to, from, broken := dst.page(b.Dst[i].Index), src.page(b.Src[i].Index), cmd.fault.corrupts(i)
	if b.Sums == nil {
		copy(to, from)
		if broken {
			flip(to)
		}
		return false, nil
	}
	got := gpu.CopySum(to, from)
	if broken {
		flip(to)
	}
	if !b.Check {
		b.Sums[i] = got
		return false, nil
	}
	if broken {
		got = gpu.Sum(to)
	}
	if got != b.Sums[i] {
		return true, fmt.Errorf("gpu/host: copy %d: page %d of %d: %w", b.Op, i, len(b.Src), &gpu.SumError{Ref: b.Src[i], Want: b.Sums[i], Got: got})
	}
	return false, nil
}

// fillPage fills page i of a batch. The caller holds life.
func (d *Device) fillPage(cmd *command, i int) error {
	ref := cmd.batch.Dst[i]
	if err := cmd.fault.errAt(i); err != nil {
		return fmt.Errorf("gpu/host: fill: page %d of %d: %w", i, len(cmd.batch.Dst), err)
	}
	a, err := d.enter(ref, 0, 0)
	if err != nil {
		return fmt.Errorf("gpu/host: fill: page %d of %d: %w", i, len(cmd.batch.Dst), err)
	}
	defer a.leave(ref.Index)
	a.written(ref.Index)
	defer a.written(ref.Index)
	page := a.page(ref.Index)
	for j := range page {
		page[j] = cmd.value
	}
	if cmd.fault.corrupts(i) {
		flip(page)
	}
	return nil
}
