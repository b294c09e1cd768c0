package router

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/runtime/decode"
	"sluice/runtime/server"
	"sluice/runtime/transfer"
)

var errDown = &decode.DownError{Epoch: 1, Err: errors.New("a rank did not come")}

// next is what a reader gets, in the background.
type next struct {
	ev  server.Event
	err error
}

func read(ctx context.Context, s server.Stream) <-chan next {
	got := make(chan next, 1)
	go func() {
		ev, err := s.Next(ctx)
		got <- next{ev, err}
	}()
	return got
}

func (d *fakeDecode) set(f func(*fakeDecode)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

func (d *fakeDecode) attempts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// victim is a request whose group has just ended, and its reader.
func victim(t *testing.T, f *fakes, ctx context.Context) (server.Stream, <-chan next) {
	t.Helper()
	s, err := f.Submit(context.Background(), request("x", []uint32{1}, 4))
	if err != nil {
		t.Fatal(err)
	}
	f.decode.set(func(d *fakeDecode) { d.down = errDown })
	f.decode.end(f.decode.all[0], dropped())
	got := read(ctx, s)
	f.clock.AwaitPending(1)
	return s, got
}

func TestRetryWaitsForTheGroup(t *testing.T) {
	f := newFakes(t, 1)
	_, got := victim(t, f, context.Background())
	for range 5 {
		f.clock.AdvanceToNext()
		f.clock.AwaitPending(1)
	}
	if n := f.decode.attempts(); n != 1 {
		t.Fatalf("%d attempts while decode was down", n)
	}
	// Decode is ready, refuses since its group has ended again, and comes back: all that is one retry.
	ends := 0
	f.decode.set(func(d *fakeDecode) {
		d.down = nil
		d.onCall = func() {
			if ends++; ends == 1 {
				d.set(func(d *fakeDecode) { d.down, d.refuse = errDown, &server.RequestError{Status: 503, Message: "down"} })
			}
		}
		d.onTake = func(int) { d.end(d.all[1], &server.Finish{Type: server.FinishLength, Length: 4}) }
	})
	f.clock.AdvanceToNext()
	f.clock.AwaitPending(1)
	f.decode.set(func(d *fakeDecode) { d.down, d.refuse = nil, nil })
	f.clock.AdvanceToNext()
	if n := <-got; n.err != nil || n.ev.Finish.Type != server.FinishLength {
		t.Errorf("event %+v, error %v", n.ev.Finish, n.err)
	}
	if f.decode.attempts() != 2 || f.retried(t) != 1 || ends != 2 {
		t.Errorf("%d attempts, %d retries, %d calls of decode", f.decode.attempts(), f.retried(t), ends)
	}
	if f.clock.Pending() != 0 {
		t.Error("a timer is left")
	}
}

func TestWaitForTheGroupEnds(t *testing.T) {
	errGone := errors.New("the client has gone")
	for _, c := range []struct {
		name string
		end  func(f *fakes, s server.Stream, cancel context.CancelCauseFunc)
		want func(n next) bool
	}{
		{"after the longest wait", func(f *fakes, _ server.Stream, _ context.CancelCauseFunc) {
			for f.clock.Now() < reformWait {
				f.clock.AwaitPending(1)
				f.clock.AdvanceToNext()
			}
		}, func(n next) bool {
			return n.err == nil && n.ev.Finish.Status == http.StatusServiceUnavailable && n.ev.Finish.ErrType == "retry_refused"
		}},
		{"with a group that stays down", func(f *fakes, _ server.Stream, _ context.CancelCauseFunc) {
			f.decode.set(func(d *fakeDecode) { d.down = &decode.DownError{Final: true, Err: errCopy} })
			f.clock.AdvanceToNext()
		}, func(n next) bool { return n.err == nil && n.ev.Finish.ErrType == "retry_refused" }},
		{"with a server that stops", func(f *fakes, _ server.Stream, _ context.CancelCauseFunc) {
			f.decode.set(func(d *fakeDecode) { d.down = server.ErrStopping })
			f.clock.AdvanceToNext()
		}, func(n next) bool { return n.err == nil && n.ev.Finish.ErrType == "retry_refused" }},
		{"with the reader's context", func(_ *fakes, s server.Stream, cancel context.CancelCauseFunc) { cancel(errGone) },
			func(n next) bool { return errors.Is(n.err, context.Canceled) }},
		{"with an abort", func(f *fakes, _ server.Stream, _ context.CancelCauseFunc) { f.Abort("x") },
			func(n next) bool { return n.err == nil && n.ev.Finish.ErrType == "aborted" && n.ev.Finish.Status == 0 }},
		{"with a close", func(_ *fakes, s server.Stream, _ context.CancelCauseFunc) { s.Close() },
			func(n next) bool { return errors.Is(n.err, server.ErrClosed) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakes(t, 5)
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			s, got := victim(t, f, ctx)
			c.end(f, s, cancel)
			if n := <-got; !c.want(n) {
				t.Errorf("event %+v, error %v", n.ev.Finish, n.err)
			}
			s.Close()
			if f.decode.attempts() != 1 || f.retried(t) != 1 || f.clock.Pending() != 0 || len(f.live) != 0 {
				t.Errorf("%d attempts, %d retries, %d timers, %d ids", f.decode.attempts(), f.retried(t), f.clock.Pending(), len(f.live))
			}
		})
	}
}

// Prefill is told of every room that ended before it was done, once its request is out of decode's hands.
func TestPrefillHearsOfRoomsThatEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, f *fakes, s server.Stream)
		want []uint64
	}{
		{"a close", func(_ *testing.T, _ *fakes, s server.Stream) { s.Close() }, []uint64{1}},
		{"an abort", func(t *testing.T, f *fakes, s server.Stream) { f.Abort("x"); finish(t, s); s.Close() }, []uint64{1}},
		{"a failure and a good end", func(t *testing.T, f *fakes, s server.Stream) {
			f.decode.onTake = func(int) { f.decode.end(f.decode.all[1], &server.Finish{Type: server.FinishStop}) }
			f.decode.end(f.decode.all[0], failed())
			finish(t, s)
			s.Close()
		}, []uint64{1}},
		{"a failure and a close while the next is sent", func(_ *testing.T, f *fakes, s server.Stream) {
			f.decode.onTake = func(int) { s.Close() }
			f.decode.end(f.decode.all[0], failed())
			_, _, _ = drain(s)
		}, []uint64{1, 1, 2}},
		{"a good end", func(t *testing.T, f *fakes, s server.Stream) {
			f.decode.end(f.decode.all[0], &server.Finish{Type: server.FinishStop})
			finish(t, s)
			s.Close()
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakes(t, 5)
			s, err := f.Submit(context.Background(), request("x", []uint32{1}, 4))
			if err != nil {
				t.Fatal(err)
			}
			c.end(t, f, s)
			if got := f.prefill.aborts(); !slices.Equal(got, c.want) {
				t.Errorf("rooms %v were reported, want %v", got, c.want)
			}
		})
	}
}

// The whole: a group ends under a request that has no token yet, forms again, and the client sees nothing of it.
func TestLocalRidesOutAReforming(t *testing.T) {
	var kill, killed atomic.Bool
	r := newRig(t, func(o *LocalOptions) {
		o.BeforeTick = func(rank int, _ uint64) {
			if rank == 1 && kill.CompareAndSwap(true, false) {
				killed.Store(true)
				panic("a scripted end of the group")
			}
		}
		// Nothing arrives at the first group.
		o.Script = transfer.WithFaults(nil, transfer.Fault{Rank: transfer.Any, Chunk: transfer.Any, OnChunk: func(c *transfer.Chunk) {
			if !killed.Load() {
				c.At = time.Hour
			}
		}})
		o.Config.Router.Retries = 1
	})
	const n = 8
	var streams []server.Stream
	for i := range n {
		streams = append(streams, r.send(request(string(rune('a'+i)), words(i, 20), 4)))
	}
	kill.Store(true)
	for i, s := range streams {
		tokens, ev := finish(t, s)
		if ev.Finish.Type != server.FinishLength || !slices.Equal(tokens, r.want(words(i, 20), 4)) {
			t.Errorf("request %d: tokens %v, finish %+v", i, tokens, ev.Finish)
		}
	}
	r.settled()
	if e, v := r.value("group_epoch"), r.value("router_retries_total"); e != 2 || v != n {
		t.Errorf("epoch %v after %v retries, want 2 after %d", e, v, n)
	}
}

// A client that leaves at once leaves no prompt at the prefill side.
func TestLocalForgetsPromptsOfThoseThatLeft(t *testing.T) {
	r := newRig(t, nil)
	const n = 100
	for i := range n {
		r.send(request("x", words(i, 200), 4)).Close()
	}
	r.settled()
	eventually(t, "every room to be over", func() bool {
		c := r.prefill.Load().Counts()
		return c.Rooms == n && c.Done+c.Failed == n
	})
	eventually(t, "every request to have ended once", func() bool {
		return r.value("requests_finished_total", "aborted")+r.value("requests_finished_total", "length") == n
	})
}
