package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"sluice/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends a test whose condition never comes true; no test waits for it.
const patience = 20 * time.Second

const testVocab = 1000

// fakeEngine is an Engine whose events the test pushes by hand.
type fakeEngine struct {
	requests chan *fakeRequest // every accepted request, in order

	mu       sync.Mutex
	live     map[string]*fakeRequest
	refuse   error              // what Submit returns, if not nil
	refuseAt map[int]error      // the same, for the nth Submit from 0
	onSubmit func(n int)        // called with no lock held, before the nth Submit
	onAccept func(*fakeRequest) // takes the place of requests
	submits  int                // calls of Submit
	aborted  map[string]int     // times a request was aborted, by id
	ready    error
	flushes  int
	info     ServerInfo
}

type fakeRequest struct {
	Request
	*Queue
	engine *fakeEngine
	gone   chan struct{} // closed when aborted
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{
		requests: make(chan *fakeRequest, 4096),
		live:     make(map[string]*fakeRequest),
		refuseAt: make(map[int]error),
		aborted:  make(map[string]int),
	}
}

func (e *fakeEngine) Submit(ctx context.Context, r Request) (Stream, error) {
	e.mu.Lock()
	n, hook := e.submits, e.onSubmit
	e.submits++
	e.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.refuse != nil {
		return nil, e.refuse
	}
	if err := e.refuseAt[n]; err != nil {
		return nil, err
	}
	for id, other := range e.live {
		if id == r.RID {
			return nil, fmt.Errorf("rid %q: %w", id, ErrDuplicate)
		}
		if r.Room != 0 && r.Room == other.Room {
			return nil, fmt.Errorf("room %d: %w", r.Room, ErrDuplicate)
		}
	}
	q := &fakeRequest{Request: r, engine: e, gone: make(chan struct{})}
	q.Queue = NewStream(1<<20, func() { e.end(q, nil) })
	e.live[r.RID] = q
	if e.onAccept != nil {
		e.onAccept(q)
	} else {
		e.requests <- q
	}
	return q.Queue, nil
}

// end aborts q if it is live, as the engine's next tick would.
func (e *fakeEngine) end(q *fakeRequest, f *Finish) bool {
	e.mu.Lock()
	live := e.live[q.RID] == q
	if live {
		delete(e.live, q.RID)
		e.aborted[q.RID]++
	}
	e.mu.Unlock()
	if !live {
		return false
	}
	if f != nil {
		q.Push(Event{Finish: f})
	}
	close(q.gone)
	return true
}

func (e *fakeEngine) Abort(rid string) bool {
	e.mu.Lock()
	q := e.live[rid]
	e.mu.Unlock()
	return q != nil && e.end(q, &Finish{Type: FinishAbort, Message: "aborted by the client"})
}

func (e *fakeEngine) AbortAll() int {
	e.mu.Lock()
	var ids []string
	for id := range e.live {
		ids = append(ids, id)
	}
	e.mu.Unlock()
	n := 0
	for _, id := range ids {
		if e.Abort(id) {
			n++
		}
	}
	return n
}

func (e *fakeEngine) Flush(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.live) > 0 {
		return ErrNotIdle
	}
	e.flushes++
	return nil
}

func (e *fakeEngine) Info() ServerInfo { return e.info }

func (e *fakeEngine) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ready
}

func (e *fakeEngine) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *fakeEngine) liveCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.live)
}

func (e *fakeEngine) abortsOf(rid string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.aborted[rid]
}

// emit pushes text as tokens.
func (q *fakeRequest) emit(text string) bool { return q.Push(Event{Tokens: encodeText(text)}) }

// finish pushes a last event with text, freeing the id first, as engines must.
func (q *fakeRequest) finish(text string, f Finish) bool {
	q.engine.set(func() { delete(q.engine.live, q.RID) })
	return q.Push(Event{Tokens: encodeText(text), Finish: &f})
}

// testServer is a server on a port of its own.
type testServer struct {
	*Server
	t      *testing.T
	engine *fakeEngine
	clock  *clock.Virtual
	reg    *prometheus.Registry
	addr   string
	url    string
	client *http.Client
	served chan error
	conns  chan net.Conn // the server's ends of its first connections
}

// tap shows the connections that a listener accepts.
type tap struct {
	net.Listener
	conns chan net.Conn
}

func (l tap) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		select {
		case l.conns <- conn:
		default:
		}
	}
	return conn, err
}

func newOptions(engine Engine, reg *prometheus.Registry, clk clock.Clock) Options {
	return Options{
		Engine: engine, Clock: clk, Logger: slog.New(slog.DiscardHandler),
		Registerer: reg, Gatherer: reg, VocabSize: testVocab, WriteStall: patience,
	}
}

func newTestServer(t *testing.T, change func(*Options)) *testServer {
	t.Helper()
	s := &testServer{
		t: t, engine: newFakeEngine(), clock: clock.NewVirtual(), reg: prometheus.NewRegistry(),
		client: &http.Client{Transport: &http.Transport{}}, served: make(chan error, 1), conns: make(chan net.Conn, 16),
	}
	opts := newOptions(s.engine, s.reg, s.clock)
	if change != nil {
		change(&opts)
	}
	var err error
	if s.Server, err = New(opts); err != nil {
		t.Fatal(err)
	}
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	s.url = "http://" + s.addr
	go func() { s.served <- s.Serve(tap{ln, s.conns}) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		over, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Shutdown(over); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := await(t, s.served); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// await receives from c, and fails the test if nothing comes.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// answer is one HTTP answer, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of the request or of reading the body
}

// do sends a request and delivers its answer.
func (s *testServer) do(ctx context.Context, method, path, body string) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
		if err != nil {
			out <- answer{err: err}
			return
		}
		resp, err := s.client.Do(req)
		if err != nil {
			out <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		out <- answer{resp.StatusCode, resp.Header, string(b), err}
	}()
	return out
}

func (s *testServer) post(path, body string) <-chan answer {
	return s.do(context.Background(), http.MethodPost, path, body)
}

// call sends a request and waits for its answer.
func (s *testServer) call(method, path, body string) answer {
	s.t.Helper()
	a := await(s.t, s.do(context.Background(), method, path, body))
	if a.err != nil {
		s.t.Fatalf("%s %s: %v", method, path, a.err)
	}
	return a
}

// next is the next request that the engine accepted.
func (s *testServer) next() *fakeRequest {
	s.t.Helper()
	return await(s.t, s.engine.requests)
}

func (s *testServer) outcome(name string) float64 {
	return testutil.ToFloat64(s.metrics.generate.WithLabelValues(name))
}

// message is the error message of an answer in the form that errors have.
func (a answer) message(t *testing.T) string {
	t.Helper()
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Error.Message == "" {
		t.Fatalf("want an error object, got %d %q (%v)", a.status, a.body, err)
	}
	return body.Error.Message
}

// stream is a raw connection that has sent one request.
type stream struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// open sends a POST on a connection of its own.
func (s *testServer) open(path, body string) *stream {
	s.t.Helper()
	return s.openPart(path, body, len(body))
}

// response reads the header.
func (c *stream) response() *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.in = bufio.NewReader(resp.Body)
	return resp
}

// frame reads one SSE frame's data.
func (c *stream) frame() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	empty, err := c.in.ReadString('\n')
	if err != nil || empty != "\n" {
		c.t.Fatalf("after %q: want an empty line, got %q, %v", line, empty, err)
	}
	data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
	if !ok {
		c.t.Fatalf("not a frame: %q", line)
	}
	return data
}

// result is one answer object, as a client reads it.
type result struct {
	Text      string   `json:"text"`
	OutputIDs []uint32 `json:"output_ids"`
	Index     *int     `json:"index"`
	Meta      struct {
		ID     string `json:"id"`
		Finish *struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Status  *int   `json:"status_code"`
		} `json:"finish_reason"`
		E2E *float64 `json:"e2e_latency"`
	} `json:"meta_info"`
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// openPart announces length bytes of body, and sends fewer.
func (s *testServer) openPart(path, part string, length int) *stream {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: sluice\r\nContent-Length: %d\r\n\r\n%s", path, length, part); err != nil {
		s.t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return &stream{t: s.t, conn: conn, in: bufio.NewReader(conn)}
}

// readAll reads the rest of a response's body.
func readAll(t *testing.T, c *stream, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(c.in)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
