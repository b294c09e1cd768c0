package host

import (
	"sync/atomic"

	"sluice/gpu"
)

// logSize is how many writes an arena remembers; a reader that falls further behind is told so.
const logSize = 1 << 14

// writeLog is the latest pages of an arena that something wrote to, so that a reader can tell which of the pages
// it has read are still as they were. A write is noted before its first byte and again after its last: a reader
// that saw half of it finds the page in the log once more.
type writeLog struct {
	next atomic.Uint64
	ring [logSize]atomic.Uint64 // sequence<<32 | page; the sequence's low half tells a slot not written yet
}

func (l *writeLog) note(page uint32) {
	n := l.next.Add(1) - 1
	l.ring[n%logSize].Store(n<<32 | uint64(page))
}

// Written appends the pages of an arena that were written since mark, and returns the mark to ask from next. ok is
// false when the log no longer reaches back to mark: any page may have been written then.
func (d *Device) Written(id gpu.ArenaID, mark uint64, dst []uint32) (pages []uint32, now uint64, ok bool) {
	d.life.RLock()
	defer d.life.RUnlock()
	a, err := d.arena(id)
	if err != nil || a.log == nil {
		return dst, mark, false
	}
	now = a.log.next.Load()
	if now-mark > logSize/2 {
		return dst, now, false
	}
	for n := mark; n < now; n++ {
		v := a.log.ring[n%logSize].Load()
		if uint32(v>>32) != uint32(n) {
			// Taken and not filled in yet: it is told with the next call. The write it announces has not begun.
			return dst, n, true
		}
		dst = append(dst, uint32(v))
	}
	return dst, now, true
}
