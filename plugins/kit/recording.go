package kit

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
)

// DefaultRecordBuffer is how many bytes of frames of one rank may wait to be written where RecordingOptions do not say.
const DefaultRecordBuffer = 4 << 20

// RecordingOptions make a Recording.
type RecordingOptions struct {
	Ranks  int          // 1 or more
	Buffer int          // bytes of frames that may wait, a rank; 0: DefaultRecordBuffer
	Log    *slog.Logger // told of the first error of writing; nil: dropped
}

// Recording writes the frames of several ranks to one file, beside their ticks. A rank puts its frames into a buffer of
// its own; one goroutine takes what is there and writes it. A rank waits for that goroutine never, and a frame that finds
// no room, or comes after an error of writing, is dropped and counted. A rank's frames are in the file in their order;
// those of different ranks lie in between each other.
type Recording struct {
	w     io.WriteCloser
	log   *slog.Logger
	lanes []*lane
	wake  chan struct{}
	done  chan struct{} // closed when the goroutine has ended

	closing atomic.Bool
	once    sync.Once
	written atomic.Uint64
	dropped atomic.Uint64
	err     error // of writing; the goroutine's until done is closed
}

// lane is one rank's buffer. The rank fills it; the goroutine of the recording swaps it for an empty one. mu is held for
// a copy of a frame and for the swap, never while something is written.
type lane struct {
	of  *Recording
	rec *Recorder

	mu     sync.Mutex
	fill   []byte
	frames uint64 // in fill
	most   int    // bytes of fill
	closed bool

	spare []byte // the goroutine's: the buffer it has written
}

// NewRecording writes the head of a record and starts the goroutine, which Close ends. w belongs to it from here on,
// unless an error is returned, which wraps ErrRecord.
func NewRecording(w io.WriteCloser, o RecordingOptions) (*Recording, error) {
	if o.Ranks < 1 || o.Buffer < 0 {
		return nil, fmt.Errorf("%w: %d ranks with buffers of %d bytes, there must be one or more of at least 0", ErrRecord, o.Ranks, o.Buffer)
	}
	if o.Buffer == 0 {
		o.Buffer = DefaultRecordBuffer
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if _, err := NewRecordWriter(w); err != nil {
		return nil, err
	}
	r := &Recording{w: w, log: o.Log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	for rank := range o.Ranks {
		l := &lane{of: r, most: o.Buffer}
		l.rec = NewRecorder(&RecordWriter{w: l}, rank)
		r.lanes = append(r.lanes, l)
	}
	go r.run()
	return r, nil
}

// Rank is the recorder of a rank, 0 to Ranks-1; nil for another. The rank's goroutine owns it.
func (r *Recording) Rank(rank int) *Recorder {
	if rank < 0 || rank >= len(r.lanes) {
		return nil
	}
	return r.lanes[rank].rec
}

// Written is how many frames were written. Any goroutine may ask.
func (r *Recording) Written() uint64 { return r.written.Load() }

// Dropped is how many frames were not written, and will not be. Any goroutine may ask.
func (r *Recording) Dropped() uint64 { return r.dropped.Load() }

// Close writes what waits, ends the goroutine and closes the file. Frames that come later are dropped. It returns the
// first error of writing, or that of closing, and again where it is called again.
func (r *Recording) Close() error {
	r.once.Do(func() {
		for _, l := range r.lanes {
			l.mu.Lock()
			l.closed = true
			l.mu.Unlock()
		}
		r.closing.Store(true)
		r.call()
		<-r.done
		if err := r.w.Close(); err != nil && r.err == nil {
			r.err = fmt.Errorf("%w: close: %w", ErrRecord, err)
		}
	})
	return r.err
}

func (r *Recording) call() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (r *Recording) run() {
	defer close(r.done)
	for {
		<-r.wake
		last := r.closing.Load() // every lane is closed, so what is written below is all
		for _, l := range r.lanes {
			r.write(l)
		}
		if last {
			return
		}
	}
}

// write takes what a lane holds and writes it. After an error the file is left as it is: it may end inside a frame, and
// what came behind could not be read.
func (r *Recording) write(l *lane) {
	l.mu.Lock()
	full, frames := l.fill, l.frames
	l.fill, l.frames = l.spare[:0], 0
	l.mu.Unlock()
	l.spare = full
	if frames == 0 {
		return
	}
	if r.err == nil {
		_, err := r.w.Write(full)
		if err == nil {
			r.written.Add(frames)
			return
		}
		r.err = fmt.Errorf("%w: %w", ErrRecord, err)
		r.log.Error("batches are recorded no more; serving goes on", "frames", r.written.Load(), "error", err)
	}
	r.dropped.Add(frames)
}

// Write takes one frame. It never fails: a recorder whose frame was dropped goes on with the next.
func (l *lane) Write(frame []byte) (int, error) {
	l.mu.Lock()
	fits := !l.closed && len(l.fill)+len(frame) <= l.most
	if fits {
		l.fill = append(l.fill, frame...)
		l.frames++
	}
	l.mu.Unlock()
	if fits {
		l.of.call()
	} else {
		l.of.dropped.Add(1)
	}
	return len(frame), nil
}
