package decode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// halt has all ranks stop before one and the same tick, so that no exchange waits, and returns how to let them go on.
func (r *rig) halt() (release func()) {
	r.t.Helper()
	gate := make(chan struct{})
	var at atomic.Uint64 // the tick; 0: the first rank that begins one chooses the next, which no rank can have begun
	var waiting atomic.Int32
	r.beforeTick(func(_ int, tick uint64) {
		at.CompareAndSwap(0, tick+1)
		if tick >= at.Load() {
			waiting.Add(1)
			<-gate
		}
	})
	eventually(r.t, "the ranks to stop", func() bool { return int(waiting.Load()) == testSchedule().Ranks })
	return sync.OnceFunc(func() { close(gate) })
}

// table is what the instance holds of live requests.
func (r *rig) table() (live, rids, rooms, waiting, stream int) {
	r.Instance.mu.Lock()
	defer r.Instance.mu.Unlock()
	in := r.Instance
	return len(in.byID), len(in.byRID), len(in.rooms), in.waiting, in.group.leader.Bytes()
}

func (r *rig) empty(what string) {
	r.t.Helper()
	if live, rids, rooms, waiting, stream := r.table(); live+rids+rooms+waiting+stream != 0 {
		r.t.Errorf("%s: %d requests, %d ids, %d rooms, %d waiting and %d bytes of stream are left", what, live, rids, rooms, waiting, stream)
	}
}

// withdrawn is how many requests ended without the group.
func (r *rig) withdrawn() uint64 {
	r.Instance.mu.Lock()
	defer r.Instance.mu.Unlock()
	return r.Instance.base.finished[schedule.FinishAborted]
}

// Clients that leave before the ranks have heard of their requests cost the group nothing.
func TestWithdrawnRequestsNeverReachTheGroup(t *testing.T) {
	const n = 500
	r := newRig(t, func(o *Options) { o.MaxQueue, o.StreamBytes = n+1, 16<<10 })
	r.ready()
	release := r.halt()
	defer release()
	most := 0
	for i := range n {
		s := r.submit(fmt.Sprintf("gone %d", i), 200, 4)
		_, _, _, _, stream := r.table()
		most = max(most, stream)
		s.Close()
	}
	if most > 2*1024 {
		t.Errorf("the stream held %d bytes, more than one request", most)
	}
	r.empty("after the storm")
	if got := r.withdrawn(); got != n {
		t.Errorf("%d requests were withdrawn, want all %d", got, n)
	}
	stays := r.submit("stays", 100, 4)
	release()
	if tokens, ev := outcome(t, stays); len(tokens) != 4 || ev.Finish.Type != server.FinishLength {
		t.Errorf("the one that stayed: %d tokens, %+v", len(tokens), ev.Finish)
	}
	r.idle()
	for _, c := range []struct {
		name, label string
		want        float64
	}{{"requests_finished_total", "aborted", n}, {"requests_finished_total", "length", 1}} {
		if got := r.value(c.name, c.label); got != c.want {
			t.Errorf("%s{%s} = %v, want %v", c.name, c.label, got, c.want)
		}
	}
	if got := r.value("input_tokens_total"); got != 100 {
		t.Errorf("the group admitted %v prompt tokens, want those of the one that stayed", got)
	}
}

// A reader of a withdrawn request gets one end, and id and room are free by then.
func TestWithdrawnRequestEndsOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *rig) bool
	}{
		{"abort", func(r *rig) bool { return r.Abort("x") }},
		{"abort all", func(r *rig) bool { return r.AbortAll() == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.ready()
			release := r.halt()
			defer release()
			q := prompt("x", 8, 4)
			q.Room = 7
			s, err := r.Submit(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			if !c.end(r) || r.Abort("x") || r.AbortAll() != 0 {
				t.Error("a live request is aborted once")
			}
			if tokens, ev := outcome(t, s); len(tokens) != 0 || ev.Finish.ErrType != "aborted" || ev.Finish.Status != 0 {
				t.Errorf("%d tokens, finish %+v", len(tokens), ev.Finish)
			}
			r.empty("after the end")
			if s, err = r.Submit(context.Background(), q); err != nil {
				t.Fatalf("id and room again: %v", err)
			}
			release()
			if tokens, ev := outcome(t, s); len(tokens) != 4 || ev.Finish.Type != server.FinishLength {
				t.Errorf("the second: %d tokens, %+v", len(tokens), ev.Finish)
			}
		})
	}
}

func TestFullStreamIsRefused(t *testing.T) {
	const limit = 8 << 10
	r := newRig(t, func(o *Options) { o.MaxQueue, o.StreamBytes = 1000, limit })
	r.ready()
	release := r.halt()
	defer release()
	var taken []server.Stream
	for i := 0; ; i++ {
		s, err := r.Submit(context.Background(), prompt(fmt.Sprint("r", i), 100, 1))
		if errors.Is(err, server.ErrQueueFull) {
			break
		}
		if err != nil || i > limit/400 {
			t.Fatalf("request %d: %v", i, err)
		}
		taken = append(taken, s)
	}
	live, rids, rooms, waiting, stream := r.table()
	if n := len(taken); live != n || rids != n || rooms != n || waiting != n || stream > limit || n < 15 {
		t.Errorf("%d taken; the table has %d, %d ids, %d rooms, %d waiting, %d bytes", n, live, rids, rooms, waiting, stream)
	}
	taken[len(taken)-1].Close()
	s, err := r.Submit(context.Background(), prompt("after", 100, 1))
	if err != nil {
		t.Fatalf("a stream with room again: %v", err)
	}
	release()
	for _, s := range append(taken[:len(taken)-1], s) {
		if _, ev := outcome(t, s); ev.Finish.Type != server.FinishLength {
			t.Errorf("finish %+v", ev.Finish)
		}
	}
}

// Clients come and go while the group ticks: it never ends, every request that was taken has one end, and nothing
// of them is left.
func TestDisconnectStorm(t *testing.T) {
	const clients, each = 8, 150
	r := newRig(t, func(o *Options) { o.MaxQueue, o.StreamBytes, o.Deadline = 64, 32<<10, patience })
	r.ready()
	var taken, full, served atomic.Int64
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				s, err := r.Submit(context.Background(), prompt(fmt.Sprintf("%d-%d", c, i), 200, 2))
				switch {
				case errors.Is(err, server.ErrQueueFull):
					full.Add(1)
					continue
				case err != nil:
					t.Errorf("client %d, request %d: %v", c, i, err)
					return
				}
				taken.Add(1)
				if i%50 == 7 {
					if _, ev := outcome(t, s); ev.Finish.Type == server.FinishLength {
						served.Add(1)
					}
				}
				s.Close()
			}
		})
	}
	all.Wait()
	r.idle()
	r.empty("after the storm")
	if got := r.value("requests_finished_total", "aborted") + r.value("requests_finished_total", "length"); got != float64(taken.Load()) {
		t.Errorf("%v requests ended, %d were taken (%d refused)", got, taken.Load(), full.Load())
	}
	if r.withdrawn() == 0 || served.Load() == 0 {
		t.Errorf("%d withdrawn, %d served: the storm did not mix", r.withdrawn(), served.Load())
	}
	if e := r.value("group_epoch"); e != 1 || strings.Contains(r.log.String(), "ended") {
		t.Errorf("epoch %v; log:\n%s", e, r.log)
	}
}

// A message that was encoded without its numbers is the one that schedule would have made with them.
func TestNumberedMessage(t *testing.T) {
	r := prompt("x", 5, 9)
	r.StopTokens, r.Tenant, r.Priority, r.IgnoreEOS = []uint32{3}, 4, 5, true
	got := encode(&r, []byte("key"))
	size := cap(got)
	number(got, 1<<40, 1<<50, 77)
	want := schedule.AppendAdd(nil, &schedule.Request{ID: 1 << 40, Room: 1 << 50, Peer: 77, Tenant: 4, Priority: 5, Limit: 9, IgnoreEOS: true,
		Key: []byte("key"), Stops: r.StopTokens, Tokens: r.Tokens})
	if !bytes.Equal(got, want) {
		t.Errorf("got % x\nwant % x", got, want)
	}
	if n := messageRest + 3 + 4 + 4*5; size != n {
		t.Errorf("the message grew to %d bytes while it was written, from %d", size, n)
	}
}

// An exchange that fails names the epoch of its group.
func TestExchangeHasTheGroupsEpoch(t *testing.T) {
	r := newRig(t, nil)
	if got := newIdleGroup(t, r).exchange.Epoch(); got != 99 {
		t.Errorf("the exchange of epoch 99 says epoch %d", got)
	}
}
