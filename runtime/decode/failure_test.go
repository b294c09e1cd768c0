package decode

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/collective"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// lostRequest reads a stream that the group's end has ended.
func lostRequest(t *testing.T, s server.Stream) *server.Finish {
	t.Helper()
	_, last := outcome(t, s)
	f := last.Finish
	if f.Type != server.FinishAbort || f.Status != http.StatusServiceUnavailable || f.ErrType != "dropped_by_resync" {
		t.Errorf("finish %+v, want 503 dropped_by_resync", f)
	}
	return f
}

// S35: a rank that stands still takes readiness down by name; the group is ready again after it has moved on.
func TestStalledRank(t *testing.T) {
	for stalled := range 2 {
		t.Run([]string{"rank 0", "rank 1"}[stalled], func(t *testing.T) {
			r := newRig(t, nil)
			r.ready()
			r.wire.set(func(w *wire) { w.hold = true })
			live := r.submit("live", 5, 5)
			release, entered := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			r.beforeTick(func(rank int, _ uint64) {
				if rank == stalled && once.CompareAndSwap(false, true) {
					close(entered)
					<-release
				}
			})
			<-entered
			eventually(t, "readiness down", func() bool { return r.Ready() != nil })
			var late *collective.TimeoutError
			if err := r.Ready(); !errors.As(err, &late) || len(late.Missing) != 1 || late.Missing[0] != stalled {
				t.Errorf("not ready because: %v; want rank %d missing", err, stalled)
			}
			lostRequest(t, live)
			var refused *server.RequestError
			if _, err := r.Submit(context.Background(), prompt("new", 5, 5)); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
				t.Errorf("submit while down: %v", err)
			}
			if err := r.Flush(context.Background()); err == nil {
				t.Error("a group that is down was flushed")
			}
			r.wire.set(func(w *wire) { w.hold = false })
			close(release)
			r.ready()
			if tokens, _ := outcome(t, r.submit("live", 5, 5)); len(tokens) != 5 {
				t.Errorf("%d tokens after the group has formed again, want 5", len(tokens))
			}
			if e := r.value("group_epoch"); e != 2 {
				t.Errorf("epoch %v, want 2", e)
			}
		})
	}
}

func TestPanicEndsTheGroupNotTheProcess(t *testing.T) {
	r := newRig(t, nil)
	r.ready()
	r.wire.set(func(w *wire) { w.hold = true })
	live := r.submit("live", 5, 5)
	var once atomic.Bool
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 1 && once.CompareAndSwap(false, true) {
			panic("no such page")
		}
	})
	if f := lostRequest(t, live); !strings.Contains(f.Message, "rank 1 panicked") || !strings.Contains(f.Message, "no such page") {
		t.Errorf("message %q", f.Message)
	}
	eventually(t, "epoch 2", func() bool { return r.value("group_epoch") == 2 })
	r.ready()
	if !strings.Contains(r.log.String(), "failure_test.go") {
		t.Error("the log has no stack of the panic")
	}
}

// Ranks whose configuration differs are told apart in their first exchange, by field and value.
func TestDivergence(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, func(o *Options) {
		o.tamper = func(ro *rank.Options) {
			if ro.Rank == 1 && ro.Epoch == 1 {
				ro.Schedule.MaxRunning++
			}
		}
		before := o.BeforeTick
		o.BeforeTick = func(rank int, tick uint64) {
			<-release
			before(rank, tick)
		}
	})
	live := r.submit("live", 5, 5)
	close(release)
	if f := lostRequest(t, live); !strings.Contains(f.Message, "config hash") {
		t.Errorf("message %q does not name the field", f.Message)
	}
	eventually(t, "epoch 2", func() bool { return r.value("group_epoch") == 2 })
	r.ready()
	out := r.log.String()
	for _, want := range []string{"the ranks have diverged", "config hash", "rank 0 has 0x", "rank 1 has 0x"} {
		if !strings.Contains(out, want) {
			t.Errorf("the log does not say %q:\n%s", want, out)
		}
	}
	if tokens, _ := outcome(t, r.submit("live", 5, 5)); len(tokens) != 5 {
		t.Errorf("%d tokens after the resync, want 5", len(tokens))
	}
}

// Counters never fall, whatever ended the group that counted.
func TestCountersOutliveAGroup(t *testing.T) {
	r := newRig(t, nil)
	outcome(t, r.submit("x", 10, 5))
	r.idle()
	var once atomic.Bool
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 0 && once.CompareAndSwap(false, true) {
			panic("once")
		}
	})
	eventually(t, "epoch 2", func() bool { return r.value("group_epoch") == 2 })
	ticks := r.value("ticks_total")
	outcome(t, r.submit("x", 10, 5))
	r.idle()
	if got := r.value("output_tokens_total"); got != 10 {
		t.Errorf("%v output tokens over both groups, want 10", got)
	}
	if r.value("ticks_total") <= ticks {
		t.Error("ticks did not go on")
	}
}

func TestGroupThatEndsTooOftenStaysDown(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Reforms = 2 })
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 1 {
			panic("always")
		}
	})
	var down *DownError
	eventually(t, "a final end", func() bool { return errors.As(r.Ready(), &down) && down.Final })
	if down.Epoch != 3 || !strings.Contains(down.Error(), "3 ends within") || !strings.Contains(down.Error(), "restart the server") {
		t.Errorf("error %v in epoch %d, want the third group's", down, down.Epoch)
	}
	var refused *server.RequestError
	if _, err := r.Submit(context.Background(), prompt("x", 5, 5)); !errors.As(err, &refused) {
		t.Errorf("submit: %v", err)
	}
}

func TestGroupThatCannotFormAgainStaysDown(t *testing.T) {
	r := newRig(t, func(o *Options) {
		form := o.Form
		o.Form = func(ctx context.Context, epoch uint64) (*Formation, error) {
			if epoch > 1 {
				return nil, errStep
			}
			return form(ctx, epoch)
		}
	})
	r.beforeTick(func(int, uint64) { panic("once") })
	var down *DownError
	eventually(t, "a final end", func() bool { return errors.As(r.Ready(), &down) && down.Final })
	if !errors.Is(down, errStep) {
		t.Errorf("error %v", down)
	}
}

// A fenced peer fails what it had in transfer and comes back under a new incarnation.
func TestFencedPeerComesBack(t *testing.T) {
	r := newRig(t, nil)
	r.ready()
	r.wire.set(func(w *wire) { w.hold = true })
	live := r.submit("live", 5, 5)
	eventually(t, "the request in prealloc", func() bool { return r.value("queue_requests", "prealloc") == 1 })
	r.wire.set(func(w *wire) { w.lost = 1 })
	_, last := outcome(t, live)
	if f := last.Finish; f.ErrType != "peer_lost" || !Retryable(f) {
		t.Errorf("finish %+v", f)
	}
	eventually(t, "the peer to be asked back", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.rejoined == 1
	})
	r.wire.set(func(w *wire) { w.hold = false })
	if tokens, _ := outcome(t, r.submit("x", 5, 5)); len(tokens) != 5 {
		t.Errorf("%d tokens from the peer that is back, want 5", len(tokens))
	}
	if v := r.value("transfer_failed_total", "peer_lost"); v != 1 {
		t.Errorf("counted %v lost peers, want 1", v)
	}
}

// An engine that makes no tokens any more must not hold its requests for ever.
func TestModelThatStaysBroken(t *testing.T) {
	r := newRig(t, nil)
	r.ready()
	r.model.mu.Lock()
	r.model.broken = true
	r.model.mu.Unlock()
	if f := lostRequest(t, r.submit("x", 5, 50)); !strings.Contains(f.Message, errStep.Error()) {
		t.Errorf("message %q", f.Message)
	}
	r.model.mu.Lock()
	r.model.broken = false
	r.model.mu.Unlock()
	eventually(t, "tokens again", func() bool {
		s, err := r.Submit(context.Background(), prompt("y", 5, 5))
		if err != nil {
			return false
		}
		tokens, _ := outcome(t, s)
		return len(tokens) == 5
	})
}

func TestCloseFailsWhatIsLive(t *testing.T) {
	r := newRig(t, nil)
	r.wire.set(func(w *wire) { w.hold = true })
	s := r.submit("x", 5, 5)
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, last := outcome(t, s)
	if f := last.Finish; f.Status != http.StatusServiceUnavailable || f.ErrType != "stopping" {
		t.Errorf("finish %+v", f)
	}
	if _, err := r.Submit(context.Background(), prompt("y", 5, 5)); !errors.Is(err, server.ErrStopping) {
		t.Errorf("submit after the end: %v", err)
	}
	if err := r.Ready(); !errors.Is(err, server.ErrStopping) {
		t.Errorf("ready after the end: %v", err)
	}
}

func TestCloseNamesTheRankThatDoesNotStop(t *testing.T) {
	r := newRig(t, nil)
	release, entered := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 1 && once.CompareAndSwap(false, true) {
			close(entered)
			<-release
		}
	})
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stuck := make(chan error, 1)
	eventually(t, "only rank 1 to be left", func() bool {
		err := r.Close(ctx)
		if err != nil && strings.Contains(err.Error(), "ranks [1]") {
			stuck <- err
			return true
		}
		return false
	})
	if err := <-stuck; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(release)
}

// A rank whose clock says that no tick was completed for long is not ready, even where no exchange has failed yet.
func TestReadyAsksEveryRank(t *testing.T) {
	m := &member{rank: 1, snap: snapshot{tick: 9, at: 0}}
	in := &Instance{group: &group{members: []*member{m}}, o: Options{Clock: fixedClock(staleAfter)}}
	var stale *StaleError
	if err := in.Ready(); !errors.As(err, &stale) || stale.Rank != 1 || stale.Tick != 9 {
		t.Errorf("ready: %v, want rank 1 stale since tick 9", err)
	}
	in.o.Clock = fixedClock(staleAfter - 1)
	if err := in.Ready(); err != nil {
		t.Errorf("ready: %v", err)
	}
}

// What a tick does for clients and probes allocates nothing once its buffers have grown.
func TestDeliverAndPublishAllocateNothing(t *testing.T) {
	r := newRig(t, nil)
	r.wire.set(func(w *wire) { w.hold = true })
	s := r.submit("x", 5, 1<<15)
	if err := r.Close(context.Background()); err != nil { // the ranks have ended, so their parts are the test's
		t.Fatal(err)
	}
	outcome(t, s)
	q := &request{id: 1, rid: "y", admitted: true, queue: server.NewStream(1<<20, nil)}
	r.byID[1] = q
	g := newIdleGroup(t, r)
	m := g.members[0]
	list := &m.r.Effects().List
	*list = append((*list)[:0], schedule.Effect{Kind: schedule.EffectToken, Request: 1, Token: 65})
	bg := context.Background()
	step := func() {
		g.deliver(m)
		m.publish(time.Second)
		if ev, err := q.queue.Next(bg); err != nil || len(ev.Tokens) != 1 || ev.Tokens[0] != 65 {
			t.Fatalf("event %+v, error %v", ev, err)
		}
	}
	step()
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}
