package decode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/internal/metrics"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

func TestRequestRunsToItsLength(t *testing.T) {
	r := newRig(t, nil)
	tokens, last := outcome(t, r.submit("x", 10, 5))
	if len(tokens) != 5 || tokens[0] != 'a' {
		t.Errorf("tokens %v, want 5 of which the first is the transfer's", tokens)
	}
	if f := last.Finish; f.Type != server.FinishLength || f.Length != 5 {
		t.Errorf("finish %+v", f)
	}
	if last.Cached.Total() != 0 || last.PromptTokens != 10 {
		t.Errorf("cached %+v of %d prompt tokens", last.Cached, last.PromptTokens)
	}
	r.idle()
	_, last = outcome(t, r.submit("x", 10, 5))
	if last.Cached != (server.CachedTokens{L1: 8}) {
		t.Errorf("the same prompt again: cached %+v, want two pages of 4 from L1", last.Cached)
	}
}

func TestStopTokenIsInTheLastEvent(t *testing.T) {
	r := newRig(t, nil)
	q := prompt("x", 6, 50)
	q.StopTokens = []uint32{'a'}
	s, err := r.Submit(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	tokens, last := outcome(t, s)
	if len(tokens) != 1 || last.Finish.Type != server.FinishStop || last.Finish.Matched != 'a' || len(last.Tokens) != 1 {
		t.Errorf("tokens %v, last event %+v with finish %+v", tokens, last, last.Finish)
	}
}

func TestSubmitRefuses(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxQueue, o.MaxRequestTokens = 2, 255 })
	r.wire.set(func(w *wire) { w.hold = true })
	first := prompt("live", 5, 5)
	first.Room = 7
	live, err := r.Submit(context.Background(), first)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	sameRoom := prompt("other", 5, 5)
	sameRoom.Room = 7
	check := func(name string, ctx context.Context, q server.Request, want error, status int, words ...string) {
		t.Run(name, func(t *testing.T) {
			s, err := r.Submit(ctx, q)
			if err == nil {
				s.Close()
				t.Fatal("taken")
			}
			var refused *server.RequestError
			if want != nil && !errors.Is(err, want) || status != 0 && (!errors.As(err, &refused) || refused.Status != status) {
				t.Errorf("error %v", err)
			}
			for _, w := range words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
	bg := context.Background()
	check("same id", bg, prompt("live", 5, 5), server.ErrDuplicate, 0, `"live"`)
	check("same room", bg, sameRoom, server.ErrDuplicate, 0, "room 7")
	check("never fits", bg, prompt("big", 250, 64), nil, http.StatusBadRequest, "255")
	check("no prompt", bg, prompt("none", 0, 5), nil, http.StatusBadRequest, "prompt of 0")
	check("context over", gone, prompt("late", 5, 5), context.Canceled, 0)
	r.submit("second", 5, 5)
	check("full", bg, prompt("third", 5, 5), server.ErrQueueFull, 0, "2 requests wait")
	r.wire.set(func(w *wire) { w.hold = false })
	outcome(t, live)
	if s, err := r.Submit(bg, sameRoom); err != nil {
		t.Errorf("the room after its request has ended: %v", err)
	} else {
		outcome(t, s)
	}
}

func TestNeverFitsNamesBothPageCounts(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.Submit(context.Background(), prompt("big", 250, 64))
	var refused *server.RequestError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"79 pages", "64 pages"} {
		if !strings.Contains(refused.Message, want) {
			t.Errorf("message %q does not name %s", refused.Message, want)
		}
	}
	// One page less than all of the device is served.
	tokens, last := outcome(t, r.submit("fits", 250, 7))
	if len(tokens) != 7 || last.Finish.Type != server.FinishLength {
		t.Errorf("%d tokens, finish %+v", len(tokens), last.Finish)
	}
}

func TestAbort(t *testing.T) {
	r := newRig(t, nil)
	r.wire.set(func(w *wire) { w.hold = true })
	for _, c := range []struct {
		name string
		end  func()
		want int // live ones left
	}{
		{"unknown id", func() {
			if r.Abort("nobody") || r.Abort("a") || r.Abort("") {
				t.Error("an id that is no live request's was aborted")
			}
		}, 3},
		{"whole id", func() { r.Abort("a1") }, 2},
		{"all", func() {
			if n := r.AbortAll(); n != 2 {
				t.Errorf("aborted %d, want 2", n)
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "unknown id" {
				for _, rid := range []string{"a1", "a10", "b"} {
					r.submit(rid, 5, 5)
				}
			}
			c.end()
			eventually(t, fmt.Sprintf("%d live requests", c.want), func() bool {
				r.Instance.mu.Lock()
				defer r.Instance.mu.Unlock()
				return len(r.byID) == c.want
			})
		})
	}
	r.idle()
	if got := r.value("requests_finished_total", "aborted"); got != 3 {
		t.Errorf("%v aborted requests counted, want 3", got)
	}
}

func TestAbortedRequestAnswersItsTokens(t *testing.T) {
	r := newRig(t, nil)
	r.wire.set(func(w *wire) { w.hold = true })
	s := r.submit("x", 5, 5)
	r.Abort("x")
	_, last := outcome(t, s)
	if f := last.Finish; f.Type != server.FinishAbort || f.Status != 0 || f.ErrType != "aborted" {
		t.Errorf("finish %+v", f)
	}
}

func TestClosedStreamAbortsAndFreesItsIDAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.wire.set(func(w *wire) { w.hold = true })
	r.submit("x", 5, 5).Close()
	again := r.submit("x", 5, 5)
	r.wire.set(func(w *wire) { w.hold = false })
	if tokens, _ := outcome(t, again); len(tokens) != 5 {
		t.Errorf("%d tokens, want 5", len(tokens))
	}
	r.idle()
	if a, l := r.value("requests_finished_total", "aborted"), r.value("requests_finished_total", "length"); a != 1 || l != 1 {
		t.Errorf("%v aborted and %v done, want 1 and 1", a, l)
	}
}

func TestFailedTransferIsAnsweredAndCounted(t *testing.T) {
	r := newRig(t, nil)
	if v := r.value("transfer_failed_total", "stamp_differs"); v != 0 {
		t.Errorf("counted %v before anything failed", v)
	}
	r.wire.set(func(w *wire) { w.fail = abi.ReasonStampDiffers })
	_, last := outcome(t, r.submit("x", 5, 5))
	if f := last.Finish; f.Status != http.StatusInternalServerError || f.ErrType != "stamp_differs" || !Retryable(f) {
		t.Errorf("finish %+v", f)
	}
	r.idle()
	if v := r.value("transfer_failed_total", "stamp_differs"); v != 1 {
		t.Errorf("counted %v, want 1", v)
	}
	if b := r.value("pages", "free", "l1"); b != 64 {
		t.Errorf("%v pages are free, want all 64", b)
	}
}

func TestFlush(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Flush(ctx); err != nil {
		t.Fatalf("an empty cache: %v", err)
	}
	outcome(t, r.submit("x", 20, 5))
	if err := r.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "free pages", func() bool {
		return r.value("pages", "free", "l1") == 64 && r.value("pages", "free", "l2") == 128
	})
	if _, last := outcome(t, r.submit("x", 20, 5)); last.Cached.Total() != 0 {
		t.Errorf("cached %+v after a flush", last.Cached)
	}
	r.wire.set(func(w *wire) { w.hold = true })
	live := r.submit("y", 20, 5)
	if err := r.Flush(ctx); !errors.Is(err, server.ErrNotIdle) {
		t.Errorf("with a live request: %v", err)
	}
	r.wire.set(func(w *wire) { w.hold = false })
	if _, last := outcome(t, live); last.Cached.L1 != 20 {
		t.Errorf("cached %+v after a refused flush, want the prompt's 20 tokens", last.Cached)
	}
}

func TestOneExchangeATick(t *testing.T) {
	r := newRig(t, nil)
	for i := range 20 {
		outcome(t, r.submit("x", 10+i, 8))
	}
	families := func() (ticks, exchanges float64) {
		return r.value("ticks_total"), r.value("collectives_total")
	}
	// Both come from one snapshot of one scrape, or from two with a tick between; an equal pair shows the ratio.
	eventually(t, "equal counters", func() bool {
		a, _ := families()
		b, c := families()
		return a == b && c == b && b > 100
	})
}

func TestEveryMetricIsThereAtTheStart(t *testing.T) {
	r := newRig(t, func(o *Options) { o.BeforeTick = nil })
	for _, m := range []struct {
		name   string
		labels []string
	}{
		{"load_back_tokens_total", []string{"0"}}, {"load_back_tokens_total", []string{"1"}}, {"backup_tokens_total", []string{"1"}},
		{"checksum_failures_total", []string{"0"}}, {"hit_tokens_total", []string{"l1"}}, {"hit_tokens_total", []string{"l2"}},
		{"hit_tokens_total", []string{"l3"}}, {"input_tokens_total", nil}, {"output_tokens_total", nil},
		{"requests_finished_total", []string{"stop"}}, {"requests_finished_total", []string{"refused"}},
		{"transfer_failed_total", []string{"peer_lost"}}, {"restores_total", nil}, {"restores_failed_total", nil},
		{"retractions_total", nil}, {"rails_tripped_total", []string{"hold_limit"}}, {"rails_tripped_total", []string{"vote_above_poll"}},
		{"policy_faults_total", []string{"gate"}}, {"policy_admit_held_total", nil}, {"policy_quarantined", []string{"admit"}}, {"queue_requests", []string{"quarantine"}},
		{"pages", []string{"quarantined", "l2"}},
	} {
		if v := r.value(m.name, m.labels...); v != 0 {
			t.Errorf("%s%v is %v, want 0", m.name, m.labels, v)
		}
	}
	// Those that rise with ticks are there too.
	for _, name := range []string{"ticks_total", "collectives_total", "collective_bytes_total"} {
		r.value(name)
	}
	r.ready()
}

func TestStatusOfAnEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   schedule.FinishKind
		reason abi.Reason
		status int
		retry  bool
	}{
		{"never fits", schedule.FinishRefused, abi.ReasonNeverFits, 400, false},
		{"queue full", schedule.FinishRefused, abi.ReasonQueueFull, 503, false},
		{"no peer", schedule.FinishRefused, abi.ReasonPeerLost, 503, true},
		{"rejected by policy", schedule.FinishRefused, abi.ReasonRejected, 503, false},
		{"restore failed", schedule.FinishFailed, abi.ReasonRestoreFailed, 500, true},
		{"transfer failed", schedule.FinishFailed, abi.ReasonTransferFailed, 500, true},
		{"peer lost", schedule.FinishFailed, abi.ReasonPeerLost, 500, true},
		{"capacity", schedule.FinishFailed, abi.ReasonCapacity, 500, false},
		{"save failed", schedule.FinishFailed, abi.ReasonRetractionSaveFailed, 500, true},
		{"resync", schedule.FinishFailed, abi.ReasonResync, 503, true},
		{"aborted", schedule.FinishAborted, abi.ReasonAborted, 0, false},
		{"deadline", schedule.FinishAborted, abi.ReasonDeadline, 504, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := finishOf(&schedule.Effect{Finish: c.kind, Reason: c.reason}, 0, abi.ReasonText(c.reason))
			if f.Status != c.status || Retryable(f) != c.retry || f.Message != abi.ReasonText(c.reason) {
				t.Errorf("got %+v, retryable %v; want status %d, retryable %v", f, Retryable(f), c.status, c.retry)
			}
		})
	}
	if m := finishOf(&schedule.Effect{Finish: schedule.FinishFailed, Reason: abi.ReasonRestoreFailed}, 0, abi.ReasonText(abi.ReasonRestoreFailed)).Message; m != "HiCache restore failed" {
		t.Errorf("a failed restore reads %q", m)
	}
	if Retryable(nil) || Retryable(&server.Finish{Type: server.FinishStop}) {
		t.Error("a good end counts as retryable")
	}
}

// The reasons have names of their own, so that a metric's label stands for one of them.
func TestReasonsHaveDistinctNames(t *testing.T) {
	seen := map[string]abi.Reason{}
	for r := abi.ReasonRestoreFailed; r <= abi.ReasonShutdown; r++ {
		if prev, dup := seen[errType(r)]; dup || errType(r) == "unknown" {
			t.Errorf("reason %d (%v) is named %q, as is %d", r, r, errType(r), prev)
		}
		seen[errType(r)] = r
	}
}

func TestInfo(t *testing.T) {
	r := newRig(t, nil)
	outcome(t, r.submit("x", 10, 5))
	info := r.Info()
	if info.TPSize != 2 || info.PageSize != 4 || info.MaxTotalTokens != 256 || info.Tick == 0 || info.ServedModelName != "test" {
		t.Errorf("info %+v", info)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
	}{
		{"no form", func(o *Options) { o.Form = nil }},
		{"no clock", func(o *Options) { o.Clock = nil }},
		{"no deadline", func(o *Options) { o.Deadline = 0 }},
		{"no queue", func(o *Options) { o.MaxQueue = 0 }},
		{"bad schedule", func(o *Options) { o.Schedule.PageSize = 0 }},
		{"form fails", func(o *Options) {
			o.Form = func(context.Context, uint64) (*Formation, error) { return nil, errStep }
		}},
		{"too few seats", func(o *Options) {
			o.Form = func(context.Context, uint64) (*Formation, error) {
				return &Formation{Close: func() error { return nil }}, nil
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := newRig(t, nil)
			o := good.o
			o.Registry = metrics.New()
			c.change(&o)
			if in, err := New(o); err == nil {
				t.Error("taken")
				_ = in.Close(context.Background())
			}
		})
	}
}
