package decode

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/internal/clock"
	"sluice/internal/metrics"
	"sluice/kvcache"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
	"sluice/runtime/transfer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends a test whose condition never comes true; no test waits for it.
const patience = 30 * time.Second

const testDeadline = 150 * time.Millisecond

// wire is a scripted transfer end: everything arrives at once unless told otherwise.
type wire struct {
	mu     sync.Mutex
	hold   bool   // handshakes stay at Bootstrapping
	lost   uint64 // incarnations up to this one are not connected
	fenced int
	fail   abi.Reason // what polls fail with; none: they succeed
	slow   bool       // nothing arrives
}

func (w *wire) set(f func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *wire) Handshake(uint64, uint32) (abi.Poll, abi.Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold {
		return abi.PollBootstrapping, abi.ReasonNone
	}
	return abi.PollWaitingForInput, abi.ReasonNone
}
func (w *wire) Send(transfer.Info) {}
func (w *wire) Poll(request uint64) transfer.Poll {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != abi.ReasonNone {
		return transfer.Poll{Raw: abi.PollFailed, Reason: w.fail}
	}
	if w.slow {
		return transfer.Poll{Raw: abi.PollTransferring}
	}
	return transfer.Poll{Raw: abi.PollSuccess, StampSeen: true, First: 'a', HasFirst: true}
}
func (w *wire) Cancel(uint64, uint64) {}
func (w *wire) Drained(uint64) bool   { return true }
func (w *wire) Forget(uint64)         {}
func (w *wire) Fence(uint32, uint64)  { w.set(func(w *wire) { w.fenced++ }) }
func (w *wire) Connected(_ uint32, incarnation uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return incarnation > w.lost
}

var errStep = errors.New("the engine is gone")

// engine is a model whose sums say nothing about pages.
type engine struct {
	mu     sync.Mutex
	broken bool
}

func (e *engine) Step(items []model.Item, partial []uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken {
		return errStep
	}
	for i := range partial {
		partial[i] = uint64(items[i].Len)
	}
	return nil
}

// rig is an instance with scripted ends.
type rig struct {
	*Instance
	t     testing.TB
	reg   *metrics.Registry
	wire  *wire
	model *engine
	log   *logBuffer

	mu       sync.Mutex
	before   func(rank int, tick uint64)
	rejoined int
}

// logBuffer is a log that tests may read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func testSchedule() schedule.Config {
	return schedule.Config{Ranks: 2, PageSize: 4, L1Pages: 64, L2Pages: 128, MaxRunning: 8, MetadataSlots: 8, MaxNewTokens: 64,
		MaxQueue: 1024, Overcommit: 1, HoldTicks: 1000, StarveTicks: 1000, AdmitWindow: 64, Operations: 16, LoadFailures: 3,
		Quarantine: schedule.QuarantineAll(3, 1000), IngressSlice: 1 << 16, EOS: schedule.NoToken, AdmitNative: "fifo-headroom"}
}

func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, reg: metrics.New(), wire: &wire{}, model: &engine{}, log: &logBuffer{}}
	clk := clock.NewReal()
	o := Options{
		Schedule: testSchedule(), Form: r.form, Clock: clk, Logger: slog.New(slog.NewTextHandler(r.log, nil)), Registry: r.reg,
		Deadline: testDeadline, IdleTick: 5 * time.Millisecond, MaxQueue: 16, ModelName: "test", VocabSize: 1000,
		BeforeTick: func(rank int, tick uint64) {
			r.mu.Lock()
			f := r.before
			r.mu.Unlock()
			if f != nil {
				f(rank, tick)
			}
		},
	}
	if change != nil {
		change(&o)
	}
	in, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Instance = in
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := in.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

func (r *rig) beforeTick(f func(rank int, tick uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = f
}

func (r *rig) form(_ context.Context, epoch uint64) (*Formation, error) {
	f := &Formation{Peers: []Peer{{ID: 1, Incarnation: 1}}}
	var devices []*host.Device
	f.Close = func() error {
		var errs []error
		for _, d := range devices {
			errs = append(errs, d.Close())
		}
		return errors.Join(errs...)
	}
	f.Rejoin = func(_ context.Context, fenced Peer) (Peer, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rejoined++
		return Peer{ID: 1, Incarnation: fenced.Incarnation + 1}, nil
	}
	for i := range testSchedule().Ranks {
		d, err := host.NewLive(host.Options{Rank: i})
		if err != nil {
			return nil, err
		}
		devices = append(devices, d)
		s := Seat{Device: d, Transport: r.wire, Model: r.model}
		if s.L1, err = d.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: 16, Pages: testSchedule().L1Pages}); err != nil {
			return nil, err
		}
		if s.L2, err = d.NewArena(gpu.ArenaSpec{Name: "l2", Kind: gpu.Pinned, PageBytes: 16, Pages: testSchedule().L2Pages}); err != nil {
			return nil, err
		}
		if s.Store, err = kvcache.New(kvcache.Options{Device: d, L1: s.L1, L2: s.L2, PageTokens: 4}); err != nil {
			return nil, err
		}
		set, err := plugins.NewNativeSet(standard.Config{})
		if err != nil {
			return nil, err
		}
		s.Policies = rank.NewPolicies(set, nil)
		f.Seats = append(f.Seats, s)
	}
	return f, nil
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, cond func() bool) {
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

func (r *rig) submit(rid string, tokens, limit int) server.Stream {
	r.t.Helper()
	s, err := r.Submit(context.Background(), prompt(rid, tokens, limit))
	if err != nil {
		r.t.Fatalf("submit %s: %v", rid, err)
	}
	return s
}

func prompt(rid string, tokens, limit int) server.Request {
	q := server.Request{RID: rid, Namespace: "n", MaxNewTokens: limit}
	for i := range tokens {
		q.Tokens = append(q.Tokens, uint32(i+1))
	}
	return q
}

// outcome reads a stream to its end.
func outcome(t *testing.T, s server.Stream) (tokens []uint32, last server.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		ev, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		tokens = append(tokens, ev.Tokens...)
		if ev.Finish != nil {
			if _, err := s.Next(ctx); !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %v, want EOF", err)
			}
			return tokens, ev
		}
	}
}

func (r *rig) value(name string, labels ...string) float64 {
	r.t.Helper()
	v, ok := r.reg.Value(name, labels...)
	if !ok {
		r.t.Fatalf("no metric %s%v", name, labels)
	}
	return v
}

func (r *rig) ready() {
	r.t.Helper()
	eventually(r.t, "readiness", func() bool { return r.Ready() == nil })
}

// idle waits until no request is anywhere.
func (r *rig) idle() {
	r.t.Helper()
	eventually(r.t, "an idle group", func() bool {
		sum := 0.0
		for _, q := range queues() {
			sum += r.value("queue_requests", q.String())
		}
		r.Instance.mu.Lock()
		defer r.Instance.mu.Unlock()
		return sum == 0 && len(r.byID) == 0
	})
}

// fixedClock stands still.
type fixedClock time.Duration

func (c fixedClock) Now() time.Duration                   { return time.Duration(c) }
func (c fixedClock) NewTimer(d time.Duration) clock.Timer { return clock.NewVirtual().NewTimer(d) }

// newIdleGroup is a group whose ranks do not run.
func newIdleGroup(t *testing.T, r *rig) *group {
	t.Helper()
	g, err := r.Instance.form(99)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return g
}
