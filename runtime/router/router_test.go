package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/clock"
	"sluice/internal/log"
	"sluice/internal/metrics"
	"sluice/runtime/server"
	"sluice/runtime/transfer"
)

// fakeDecode accepts requests whose ends the test pushes.
type fakeDecode struct {
	mu      sync.Mutex
	live    map[string]*attempt
	all     []*attempt
	refuse  error
	down    error // what Ready says
	aborted []string
	flushes int
	onTake  func(n int) // called with no lock held once the nth attempt, from 1, is taken
	onCall  func()      // called with no lock held before an attempt is looked at
}

type attempt struct {
	server.Request
	*server.Queue
	gone bool
}

func (d *fakeDecode) Submit(_ context.Context, q server.Request) (server.Stream, error) {
	d.mu.Lock()
	early := d.onCall
	d.mu.Unlock()
	if early != nil {
		early()
	}
	d.mu.Lock()
	if d.refuse != nil {
		defer d.mu.Unlock()
		return nil, d.refuse
	}
	if d.live[q.RID] != nil {
		defer d.mu.Unlock()
		return nil, fmt.Errorf("rid %q: %w", q.RID, server.ErrDuplicate)
	}
	a := &attempt{Request: q}
	a.Queue = server.NewStream(100, func() { d.end(a, nil) })
	d.live[q.RID] = a
	d.all = append(d.all, a)
	n, f := len(d.all), d.onTake
	d.mu.Unlock()
	if f != nil {
		f(n)
	}
	return a.Queue, nil
}

// end frees the id and tells the reader, as an instance does.
func (d *fakeDecode) end(a *attempt, f *server.Finish) {
	d.mu.Lock()
	if d.live[a.RID] == a {
		delete(d.live, a.RID)
	}
	a.gone = f == nil
	d.mu.Unlock()
	if f != nil {
		a.Push(server.Event{Finish: f})
	}
}

func (d *fakeDecode) Abort(rid string) bool {
	d.mu.Lock()
	d.aborted = append(d.aborted, rid)
	a := d.live[rid]
	d.mu.Unlock()
	if a != nil {
		d.end(a, &server.Finish{Type: server.FinishAbort, ErrType: "aborted"})
	}
	return a != nil
}
func (d *fakeDecode) AbortAll() int               { return 0 }
func (d *fakeDecode) Flush(context.Context) error { d.flushes++; return nil }
func (d *fakeDecode) Info() server.ServerInfo     { return server.ServerInfo{DisaggregationMode: "decode"} }
func (d *fakeDecode) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down
}
func (d *fakeDecode) Key(ns string) []byte { return []byte("key of " + ns) }

type fakePrefill struct {
	mu      sync.Mutex
	taken   []transfer.Request
	aborted []uint64
	refuse  error
}

func (p *fakePrefill) Abort(room uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aborted = append(p.aborted, room)
}

func (p *fakePrefill) aborts() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.aborted)
}

func (p *fakePrefill) Submit(q transfer.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	p.taken = append(p.taken, q)
	return nil
}

type fakes struct {
	*Router
	decode  *fakeDecode
	prefill *fakePrefill
	clock   *clock.Virtual
	reg     *metrics.Registry
}

const reformWait = 10 * time.Second

func newFakes(t *testing.T, retries int) *fakes {
	t.Helper()
	f := &fakes{decode: &fakeDecode{live: map[string]*attempt{}}, prefill: &fakePrefill{}, clock: clock.NewVirtual(), reg: metrics.New()}
	r, err := New(Options{Decode: f.decode, Prefill: f.prefill, Retries: retries, ReformWait: reformWait, Clock: f.clock, Logger: log.Discard(), Registry: f.reg})
	if err != nil {
		t.Fatal(err)
	}
	f.Router = r
	return f
}

func failed() *server.Finish {
	return &server.Finish{Type: server.FinishAbort, Status: 500, Message: "HiCache restore failed", ErrType: "restore_failed"}
}

func dropped() *server.Finish {
	return &server.Finish{Type: server.FinishAbort, Status: 503, Message: "the group re-formed", ErrType: "dropped_by_resync"}
}

func (f *fakes) retried(t *testing.T) int {
	t.Helper()
	v, ok := f.reg.Value("router_retries_total")
	if !ok {
		t.Fatal("no metric router_retries_total")
	}
	return int(v)
}

func TestBothSidesGetTheSameFreshRoom(t *testing.T) {
	f := newFakes(t, 5)
	f.decode.onTake = func(n int) {
		if n < 3 {
			f.decode.end(f.decode.all[n-1], failed())
		}
	}
	q := request("x", []uint32{1, 2, 3}, 4)
	q.Room = 7
	s, err := f.Submit(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	f.decode.onTake = func(n int) {
		f.decode.end(f.decode.all[n-1], &server.Finish{Type: server.FinishLength, Length: 4})
	}
	if _, ev := finish(t, s); ev.Finish.Type != server.FinishLength {
		t.Errorf("finish %+v", ev.Finish)
	}
	if len(f.decode.all) != 2 || len(f.prefill.taken) != 2 || f.retried(t) != 1 {
		t.Fatalf("%d attempts at decode, %d at prefill, %d retries", len(f.decode.all), len(f.prefill.taken), f.retried(t))
	}
	rooms := map[uint64]bool{}
	for i, a := range f.decode.all {
		p := f.prefill.taken[i]
		if a.Room != p.Room || a.Room == 0 || rooms[a.Room] || p.Namespace != "key of tenant" {
			t.Errorf("attempt %d: room %d at decode, %d at prefill, namespace %q", i, a.Room, p.Room, p.Namespace)
		}
		rooms[a.Room] = true
	}
}

func TestWhatIsNotRetried(t *testing.T) {
	for _, c := range []struct {
		name   string
		finish *server.Finish
		token  bool // the client has one before
		abort  bool // the client asked for an abort before
	}{
		{"its own fault", &server.Finish{Type: server.FinishAbort, Status: 400, ErrType: "never_fits"}, false, false},
		{"the group's end after a token", dropped(), true, false},
		{"the server's stop", &server.Finish{Type: server.FinishAbort, Status: 503, ErrType: "stopping"}, false, false},
		{"after a token", failed(), true, false},
		{"after an abort", failed(), false, true},
		{"a good end", &server.Finish{Type: server.FinishStop}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakes(t, 5)
			s, err := f.Submit(context.Background(), request("x", []uint32{1}, 4))
			if err != nil {
				t.Fatal(err)
			}
			a := f.decode.all[0]
			if c.token {
				a.Push(server.Event{Tokens: []uint32{9}})
				if ev, err := s.Next(context.Background()); err != nil || len(ev.Tokens) != 1 {
					t.Fatalf("event %+v, error %v", ev, err)
				}
			}
			if c.abort {
				s.(*call).mu.Lock()
				s.(*call).aborted = true
				s.(*call).mu.Unlock()
			}
			f.decode.end(a, c.finish)
			if _, ev := finish(t, s); ev.Finish != c.finish {
				t.Errorf("finish %+v, want %+v", ev.Finish, c.finish)
			}
			if f.retried(t) != 0 || len(f.decode.all) != 1 {
				t.Errorf("%d retries, %d attempts", f.retried(t), len(f.decode.all))
			}
		})
	}
}

func TestRetryThatIsRefused(t *testing.T) {
	f := newFakes(t, 5)
	s, err := f.Submit(context.Background(), request("x", []uint32{1}, 4))
	if err != nil {
		t.Fatal(err)
	}
	f.decode.mu.Lock()
	f.decode.refuse = server.ErrQueueFull
	f.decode.mu.Unlock()
	f.decode.end(f.decode.all[0], failed())
	_, ev := finish(t, s)
	if ev.Finish.Status != http.StatusServiceUnavailable || ev.Finish.ErrType != "retry_refused" {
		t.Errorf("finish %+v", ev.Finish)
	}
	f.decode.mu.Lock()
	f.decode.refuse = nil
	f.decode.mu.Unlock()
	if _, err := f.Submit(context.Background(), request("x", []uint32{1}, 4)); err != nil {
		t.Errorf("the id after its end: %v", err)
	}
}

func TestPrefillThatRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status int
	}{
		{"down", fmt.Errorf("peer 1: %w", transfer.ErrDown), http.StatusServiceUnavailable},
		{"too long", fmt.Errorf("room 1: %w", transfer.ErrRefused), http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakes(t, 5)
			f.prefill.refuse = c.err
			_, err := f.Submit(context.Background(), request("x", []uint32{1}, 4))
			var refused *server.RequestError
			if !errors.As(err, &refused) || refused.Status != c.status {
				t.Errorf("error %v, want status %d", err, c.status)
			}
			if !f.decode.all[0].gone {
				t.Error("decode still waits for a peer that does not know the room")
			}
			f.prefill.refuse = nil
			if _, err := f.Submit(context.Background(), request("x", []uint32{1}, 4)); err != nil {
				t.Errorf("the id after a refusal: %v", err)
			}
		})
	}
}

// What a client asks for while an attempt is replaced reaches the new one.
func TestAbortAndCloseBetweenAttempts(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(f *fakes, s server.Stream)
		done func(t *testing.T, f *fakes, s server.Stream)
	}{
		{"abort", func(f *fakes, _ server.Stream) { f.Abort("x") }, func(t *testing.T, f *fakes, s server.Stream) {
			if _, ev := finish(t, s); ev.Finish.ErrType != "aborted" {
				t.Errorf("finish %+v", ev.Finish)
			}
		}},
		{"close", func(_ *fakes, s server.Stream) { s.Close() }, func(t *testing.T, f *fakes, s server.Stream) {
			if _, _, err := drain(s); !errors.Is(err, server.ErrClosed) {
				t.Errorf("error %v", err)
			}
			if !f.decode.all[1].gone {
				t.Error("the second attempt goes on with nobody to read it")
			}
		}},
	} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, before decode knows the new one: %v", c.name, early), func(t *testing.T) {
				f := newFakes(t, 5)
				s, err := f.Submit(context.Background(), request("x", []uint32{1}, 4))
				if err != nil {
					t.Fatal(err)
				}
				f.decode.end(f.decode.all[0], failed())
				if early {
					f.decode.onCall = func() { c.end(f, s) }
				} else {
					f.decode.onTake = func(int) { c.end(f, s) }
				}
				c.done(t, f, s)
				if len(f.live) != 0 {
					t.Errorf("%d ids are still live", len(f.live))
				}
			})
		}
	}
}

func TestDelegates(t *testing.T) {
	f := newFakes(t, 0)
	if err := f.Flush(context.Background()); err != nil || f.decode.flushes != 1 {
		t.Errorf("flush: %v, %d flushes", err, f.decode.flushes)
	}
	if m := f.Info().DisaggregationMode; m != "null" {
		t.Errorf("mode %q: both sides are in this process", m)
	}
	f.decode.down = errCopy
	if err := f.Ready(); !errors.Is(err, errCopy) {
		t.Errorf("ready: %v", err)
	}
	if f.Abort("nobody") || f.AbortAll() != 0 {
		t.Error("aborted what is not there")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a router of nothing was made")
	}
	if _, err := New(Options{Decode: f.decode, Prefill: f.prefill, Retries: -1, Clock: f.clock, Logger: log.Discard(), Registry: metrics.New()}); err == nil {
		t.Error("a negative number of retries was taken")
	}
}
