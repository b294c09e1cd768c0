package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/internal/log"
	"sluice/internal/metrics"
	"sluice/plugins"
	"sluice/runtime/model"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
	"sluice/runtime/transfer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends a test whose condition never comes true; no test waits for it.
const patience = 60 * time.Second

var errCopy = errors.New("the copy engine said no")

// testConfig is the default configuration with native policies and a device of 16 pages of 16 tokens.
func testConfig() *config.Config {
	c := config.Default()
	for _, h := range []*config.Hook{&c.Policy.Gate, &c.Policy.Reserve, &c.Policy.Admit} {
		h.Engine = config.EngineNative
	}
	c.Decode.MaxTotalTokens, c.Decode.ReservedDecodeTokens = 256, 16
	c.Decode.ExchangeDeadline, c.Decode.IdleTick = 5*time.Second, 5*time.Millisecond
	return c
}

type rig struct {
	*Local
	t   *testing.T
	reg *metrics.Registry
}

func newRig(t *testing.T, change func(*LocalOptions)) *rig {
	t.Helper()
	r := &rig{t: t, reg: metrics.New()}
	h := plugins.NewHost(plugins.Options{})
	o := LocalOptions{Config: testConfig(), Clock: clock.NewReal(), Logger: log.Discard(), Registry: r.reg, Plugins: h, Pace: 50 * time.Microsecond}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := NewLocal(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Local = l
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(l.Close(ctx), h.Close(ctx)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := l.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// words is a prompt of n tokens that shares no first token with one of another seed.
func words(seed, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32((seed*7919 + i*31) % 251)
	}
	out[0] = uint32(seed)
	return out
}

func request(rid string, tokens []uint32, limit int) server.Request {
	return server.Request{RID: rid, Namespace: "tenant", Tokens: tokens, MaxNewTokens: limit}
}

// want is what the model makes of a prompt when every byte is right.
func (r *rig) want(prompt []uint32, n int) []uint32 {
	r.t.Helper()
	o, err := model.NewOracle(r.shape, string(r.decode.Key("tenant")))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, t := range prompt {
		o.Extend(t)
	}
	var out []uint32
	for range n {
		out = append(out, o.Next(r.o.Config.Model.VocabSize))
		o.Extend(out[len(out)-1])
	}
	return out
}

func (r *rig) send(q server.Request) server.Stream {
	r.t.Helper()
	s, err := r.Submit(context.Background(), q)
	if err != nil {
		r.t.Fatalf("submit %s: %v", q.RID, err)
	}
	return s
}

func finish(t *testing.T, s server.Stream) ([]uint32, server.Event) {
	t.Helper()
	tokens, ev, err := drain(s)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, ev
}

func drain(s server.Stream) (tokens []uint32, ev server.Event, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if ev, err = s.Next(ctx); err != nil {
			return tokens, ev, err
		}
		tokens = append(tokens, ev.Tokens...)
		if ev.Finish != nil {
			return tokens, ev, nil
		}
	}
}

// generate runs one request and checks its tokens against the oracle.
func (r *rig) generate(rid string, prompt []uint32, n int) server.Event {
	r.t.Helper()
	tokens, ev := finish(r.t, r.send(request(rid, prompt, n)))
	if ev.Finish.Type != server.FinishLength {
		r.t.Fatalf("%s: finish %+v", rid, ev.Finish)
	}
	if want := r.want(prompt, n); !slices.Equal(tokens, want) {
		r.t.Errorf("%s: tokens %v, right bytes give %v", rid, tokens, want)
	}
	return ev
}

func (r *rig) value(name string, labels ...string) float64 {
	r.t.Helper()
	v, ok := r.reg.Value(name, labels...)
	if !ok {
		r.t.Fatalf("no metric %s%v", name, labels)
	}
	return v
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	every, limit := time.NewTicker(time.Millisecond), time.After(patience)
	defer every.Stop()
	for !cond() {
		select {
		case <-every.C:
		case <-limit:
			t.Fatalf("still waiting for: %s", what)
		}
	}
}

// settled waits until every page is free or evictable and nothing is queued.
func (r *rig) settled() {
	r.t.Helper()
	l1 := float64(r.sched.L1Pages)
	eventually(r.t, "free and evictable to be all of L1", func() bool {
		return r.value("pages", "free", "l1")+r.value("pages", "evictable", "l1") == l1 && r.value("queue_requests", "quarantine") == 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.live) != 0 || len(r.rooms) != 0 {
		r.t.Errorf("the router still has %d ids and %d rooms", len(r.live), len(r.rooms))
	}
}

// The paths of a prompt's pages: transferred whole, from L1, from L2. The tokens are the same each time.
func TestTiers(t *testing.T) {
	for _, tp := range []int{1, 2} {
		t.Run(fmt.Sprintf("prefill tp %d", tp), func(t *testing.T) {
			r := newRig(t, func(o *LocalOptions) { o.Config.Prefill.TP = tp })
			prompt := words(1, 100)
			if ev := r.generate("a", prompt, 8); ev.Cached.Total() != 0 || ev.PromptTokens != 100 {
				t.Errorf("first: cached %+v of %d", ev.Cached, ev.PromptTokens)
			}
			if ev := r.generate("a", prompt, 8); ev.Cached != (server.CachedTokens{L1: 96}) {
				t.Errorf("second: cached %+v, want 6 pages of 16 from L1", ev.Cached)
			}
			for i := range 6 {
				r.generate("pressure", words(10+i, 150), 8)
			}
			if v := r.value("load_back_tokens_total", "0"); v != 0 {
				t.Errorf("%v tokens were loaded back before the prompt came again", v)
			}
			if ev := r.generate("a", prompt, 8); ev.Cached != (server.CachedTokens{L2: 96}) {
				t.Errorf("after pressure: cached %+v, want 6 pages of 16 from L2", ev.Cached)
			}
			for _, rank := range []string{"0", "1"} {
				if v := r.value("load_back_tokens_total", rank); v != 96 {
					t.Errorf("rank %s loaded %v tokens back, want 96", rank, v)
				}
			}
			r.settled()
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	r := newRig(t, func(o *LocalOptions) { o.Config.Decode.MaxTotalTokens = 2048 })
	const n = 200
	var all sync.WaitGroup
	for i := range n {
		prompt := words(i%40, 20+i%50)
		s := r.send(request(fmt.Sprintf("r%d", i), prompt, 4+i%13))
		all.Go(func() {
			tokens, ev, err := drain(s)
			if err != nil || ev.Finish.Type != server.FinishLength {
				t.Errorf("request %d: %+v, error %v", i, ev.Finish, err)
				return
			}
			if want := r.want(prompt, 4+i%13); !slices.Equal(tokens, want) {
				t.Errorf("request %d: tokens %v, right bytes give %v", i, tokens, want)
			}
		})
	}
	all.Wait()
	r.settled()
	if v := r.value("requests_finished_total", "length"); v != n {
		t.Errorf("%v requests ended by their length, want %d", v, n)
	}
	if v := r.value("router_retries_total"); v != 0 {
		t.Errorf("%v retries, want none", v)
	}
}

// The failure that the project began with: a restore fails on one rank. Both ranks fail the request together, the
// router sends it again, and its client sees nothing of it.
func TestFailedRestoreIsRetried(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault host.Fault
		check func(t *testing.T, r *rig)
	}{
		{"a copy that cannot run", host.Fault{Kind: host.Load, Rank: 1, Page: 2, Err: errCopy}, func(t *testing.T, r *rig) {
			if v := r.value("checksum_failures_total", "1"); v != 0 {
				t.Errorf("%v checksum failures", v)
			}
		}},
		{"bad bytes", host.Fault{Kind: host.Load, Rank: 1, Page: 2, Corrupt: true}, func(t *testing.T, r *rig) {
			if v := r.value("checksum_failures_total", "1"); v != 1 {
				t.Errorf("%v checksum failures on rank 1, want 1", v)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *LocalOptions) {
				o.OnDevice = func(rank int, d *host.Device) {
					if err := d.Inject(c.fault); err != nil {
						t.Error(err)
					}
				}
			})
			prompt := words(1, 100)
			r.generate("a", prompt, 8)
			for i := range 6 {
				r.generate("pressure", words(10+i, 150), 8)
			}
			r.generate("a", prompt, 8)
			if v := r.value("router_retries_total"); v != 1 {
				t.Errorf("%v retries, want 1", v)
			}
			if v := r.value("restores_failed_total"); v != 1 {
				t.Errorf("%v failed restores, want 1", v)
			}
			if v := r.value("requests_finished_total", "failed"); v != 1 {
				t.Errorf("%v failed attempts, want 1", v)
			}
			for _, rail := range []string{"success_while_pending", "success_after_failure", "failed_before_terminal", "vote_above_poll"} {
				if v := r.value("rails_tripped_total", rail); v != 0 {
					t.Errorf("rail %s tripped %v times", rail, v)
				}
			}
			if e := r.value("group_epoch"); e != 1 {
				t.Errorf("epoch %v, want 1: the ranks stayed together", e)
			}
			c.check(t, r)
			r.settled()
		})
	}
}

func TestFailedTransferIsRetried(t *testing.T) {
	fail := func(c *transfer.Chunk) { c.Err = errCopy }
	for _, c := range []struct {
		name    string
		faults  []transfer.Fault
		retries int
		ok      bool
	}{
		{"the first attempt", []transfer.Fault{{Nth: 1, Rank: 1, Chunk: transfer.Any, OnChunk: fail}}, 1, true},
		{"two attempts", []transfer.Fault{{Nth: 1, Rank: 0, Chunk: transfer.Any, OnChunk: fail}, {Nth: 2, Rank: 1, Chunk: transfer.Any, OnChunk: fail}}, 2, true},
		{"every attempt", []transfer.Fault{{Rank: transfer.Any, Chunk: transfer.Any, OnChunk: fail}}, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *LocalOptions) {
				o.Script = transfer.WithFaults(nil, c.faults...)
				o.Config.Router.Retries = 3
			})
			if c.ok {
				r.generate("a", words(1, 100), 8)
			} else {
				tokens, ev := finish(t, r.send(request("a", words(1, 100), 8)))
				if f := ev.Finish; f.Status != http.StatusInternalServerError || f.ErrType != "transfer_failed" || len(tokens) > 0 {
					t.Errorf("%d tokens, finish %+v", len(tokens), f)
				}
				if v := r.value("transfer_failed_total", "transfer_failed"); v != 4 {
					t.Errorf("%v failed attempts, want the first and 3 more", v)
				}
			}
			if v := r.value("router_retries_total"); int(v) != c.retries {
				t.Errorf("%v retries, want %d", v, c.retries)
			}
			r.settled()
		})
	}
}

// S20: the second live holder of an id or a room is refused, the first is not disturbed, and a retry works.
func TestChosenIDsCollide(t *testing.T) {
	r := newRig(t, func(o *LocalOptions) { o.Script = transfer.Pace{Total: 50 * time.Millisecond}.Script() })
	first := request("x", words(1, 40), 4)
	first.Room = 7
	s := r.send(first)
	same := request("y", words(2, 40), 4)
	same.Room = 7
	for _, q := range []server.Request{request("x", words(2, 40), 4), same} {
		if _, err := r.Submit(context.Background(), q); !errors.Is(err, server.ErrDuplicate) {
			t.Errorf("id %s, room %d: error %v, want a duplicate", q.RID, q.Room, err)
		}
	}
	tokens, _ := finish(t, s)
	if want := r.want(first.Tokens, 4); !slices.Equal(tokens, want) {
		t.Errorf("the first has tokens %v, want %v", tokens, want)
	}
	if tokens, _ := finish(t, r.send(same)); len(tokens) != 4 {
		t.Errorf("the room again: %d tokens", len(tokens))
	}
	r.generate("x", words(3, 40), 4)
	r.settled()
}

// A request that is aborted, or left, while its peer may write: answered at once, its pages come back with the ack.
func TestAbortDuringTransfer(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *rig, s server.Stream)
	}{
		{"abort", func(r *rig, s server.Stream) {
			if !r.Abort("x") {
				r.t.Error("no such request")
			}
			if _, ev := finish(r.t, s); ev.Finish.ErrType != "aborted" || ev.Finish.Status != 0 {
				r.t.Errorf("finish %+v", ev.Finish)
			}
		}},
		{"abort all", func(r *rig, s server.Stream) {
			if n := r.AbortAll(); n != 1 {
				r.t.Errorf("aborted %d", n)
			}
			finish(r.t, s)
		}},
		{"close", func(_ *rig, s server.Stream) { s.Close(); s.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *LocalOptions) { o.Script = transfer.Pace{Total: time.Hour}.Script() })
			s := r.send(request("x", words(1, 100), 4))
			eventually(t, "the transfer queue", func() bool { return r.value("queue_requests", "transfer") == 1 })
			c.end(r, s)
			r.settled()
			if v := r.value("requests_finished_total", "aborted"); v != 1 {
				t.Errorf("%v aborted, want 1", v)
			}
			if r.Abort("x") {
				t.Error("the id is still live")
			}
		})
	}
}

// A drain ack that never comes: the peer's right to write is revoked, and it comes back under a new incarnation.
func TestLostDrainAck(t *testing.T) {
	r := newRig(t, func(o *LocalOptions) {
		o.Config.Decode.DrainTicks = 50
		o.Script = transfer.WithFaults(transfer.Pace{}.Script(), transfer.Fault{Nth: 1, Rank: transfer.Any, Chunk: transfer.Any,
			OnChunk: func(c *transfer.Chunk) { c.At = time.Hour }, OnAck: func(a *transfer.Ack) { a.Lose = true }})
	})
	s := r.send(request("x", words(1, 100), 4))
	eventually(t, "the transfer queue", func() bool { return r.value("queue_requests", "transfer") == 1 })
	s.Close()
	r.settled()
	eventually(t, "the peer to be back", func() bool {
		s, err := r.Submit(context.Background(), request("y", words(2, 100), 4))
		if err != nil {
			return false
		}
		tokens, _, err := drain(s)
		return err == nil && slices.Equal(tokens, r.want(words(2, 100), 4))
	})
}

func TestRoomsAreNeverReused(t *testing.T) {
	r := newRig(t, nil)
	seen := map[uint64]bool{}
	for range 20 {
		c := r.send(request("x", words(1, 20), 2)).(*call)
		r.mu.Lock()
		room := r.lastRoom
		r.mu.Unlock()
		if seen[room] || room == 0 {
			t.Fatalf("room %d was given out before", room)
		}
		seen[room] = true
		finish(t, c)
	}
}

func TestTenantsShareNoPages(t *testing.T) {
	r := newRig(t, nil)
	prompt := words(1, 100)
	r.generate("a", prompt, 4)
	other := request("b", prompt, 4)
	other.Namespace = "somebody else"
	tokens, ev := finish(t, r.send(other))
	if ev.Cached.Total() != 0 || slices.Equal(tokens, r.want(prompt, 4)) {
		t.Errorf("another tenant has %+v cached and tokens %v", ev.Cached, tokens)
	}
}

func TestNewLocalRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*LocalOptions)
		want   string
	}{
		{"no clock", func(o *LocalOptions) { o.Clock = nil }, "all needed"},
		{"prefill shards", func(o *LocalOptions) { o.Config.Prefill.TP = 3 }, "shards"},
		{"no module", func(o *LocalOptions) {
			o.Config.Policy.Gate = config.Hook{Path: "/does/not/exist.wasm", Engine: config.EngineWasm}
		}, "policy.gate.path"},
		{"unknown policy", func(o *LocalOptions) { o.Config.Policy.Gate.Builtin = "nope" }, `"nope"`},
		{"pages", func(o *LocalOptions) { o.Config.Model.Layers = 0 }, "layers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := plugins.NewHost(plugins.Options{})
			o := LocalOptions{Config: testConfig(), Clock: clock.NewReal(), Logger: log.Discard(), Registry: metrics.New(), Plugins: h}
			c.change(&o)
			l, err := NewLocal(context.Background(), o)
			if err == nil {
				_ = l.Close(context.Background())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
			if err := h.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The group goes by each hook's own quarantine and hold, and by what [policy] says where the hook's section does not.
func TestHooksHaveRulesOfTheirOwn(t *testing.T) {
	c := config.Default()
	c.Policy.QuarantineFaults, c.Policy.QuarantineWindowTicks = 4, 50
	c.Policy.Gate.OnFault, c.Policy.Gate.Quarantine = config.OnFaultHold, config.Quarantine{Faults: 2, WindowTicks: 9}
	c.Policy.Admit.Quarantine.Faults = 7
	c.Policy.Score.OnFault = config.OnFaultHold
	s := scheduleOf(c)
	for _, c := range []struct {
		hook abi.Hook
		want schedule.Quarantine
		hold bool
	}{{abi.Gate, schedule.Quarantine{Faults: 2, Window: 9}, true}, {abi.Reserve, schedule.Quarantine{Faults: 4, Window: 50}, false},
		{abi.Admit, schedule.Quarantine{Faults: 7, Window: 50}, false}, {abi.Score, schedule.Quarantine{Faults: 4, Window: 50}, true}} {
		if q, hold := s.Quarantine[schedule.Lane(c.hook)], s.HoldOnFault[schedule.Lane(c.hook)]; q != c.want || hold != c.hold {
			t.Errorf("%s: %+v, hold %v; want %+v, %v", c.hook, q, hold, c.want, c.hold)
		}
	}
}
