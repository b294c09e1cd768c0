package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/clock"
)

func TestNewChecksItsOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"complete":         {func(*Options) {}, ""},
		"no engine":        {func(o *Options) { o.Engine = nil }, "no engine"},
		"no clock":         {func(o *Options) { o.Clock = nil }, "no clock"},
		"no logger":        {func(o *Options) { o.Logger = nil }, "no logger"},
		"no registerer":    {func(o *Options) { o.Registerer = nil }, "no metrics registry"},
		"no gatherer":      {func(o *Options) { o.Gatherer = nil }, "no metrics registry"},
		"small vocabulary": {func(o *Options) { o.VocabSize = 255 }, "255 ids"},
		"negative limit":   {func(o *Options) { o.WriteStall = -1 }, "negative"},
		"default above":    {func(o *Options) { o.MaxNewTokens, o.DefaultMaxNewTokens = 4, 5 }, "above its limit, 4"},
		"small limit":      {func(o *Options) { o.MaxNewTokens = 4 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			opts := newOptions(newFakeEngine(), prometheus.NewRegistry(), clock.NewVirtual())
			tc.change(&opts)
			s, err := New(opts)
			if tc.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				if s.opts.DefaultMaxNewTokens > s.opts.MaxNewTokens {
					t.Error("the default is above its limit")
				}
				if err := s.Shutdown(context.Background()); err != nil { // nothing was served
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	opts := newOptions(newFakeEngine(), prometheus.NewRegistry(), clock.NewVirtual())
	if _, err := New(opts); err != nil {
		t.Fatal(err)
	}
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "registry of its own") {
		t.Errorf("a second server on one registry: %v", err)
	}
}

func TestListen(t *testing.T) {
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	addr := ln.Addr().String()
	_, err = Listen(addr)
	want := fmt.Sprintf("cannot listen on %s: address already in use; stop the process that holds the port, or choose another with --http.port", addr)
	if err == nil || err.Error() != want || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v\nwant %s", err, want)
	}
	for name, tc := range map[string]struct{ addr, says string }{
		"not this machine's": {"203.0.113.1:0", "--http.host"},
		"no port":            {"127.0.0.1", "check --http.host and --http.port"},
		"no such port":       {"127.0.0.1:70000", "check --http.host and --http.port"},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := Listen(tc.addr)
			if err == nil {
				ln.Close()
				t.Fatal("it listens")
			}
			if !strings.Contains(err.Error(), tc.addr) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestServeReportsAClosedListener(t *testing.T) {
	s, err := New(newOptions(newFakeEngine(), prometheus.NewRegistry(), clock.NewVirtual()))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := s.Serve(ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// shutdown starts a Shutdown and waits until the server takes no more work.
func (s *testServer) shutdown(ctx context.Context) <-chan error {
	out := make(chan error, 1)
	go func() { out <- s.Shutdown(ctx) }()
	for !s.calls.isStopping() {
		s.call("GET", "/health", "")
	}
	return out
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	s := newTestServer(t, nil)
	object := s.post("/generate", `{"text":"a","rid":"o"}`)
	qo := s.next()
	c := s.open("/generate", `{"text":"a","rid":"s","stream":true}`)
	qs := s.next()
	qs.emit("x")
	resp := c.response()
	c.frame()

	grace, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := s.shutdown(grace)
	if a := s.call("POST", "/generate", `{"text":"b"}`); a.status != 503 || !strings.Contains(a.message(t), "stopping") {
		t.Errorf("new work got %d %s", a.status, a.body)
	}
	if a := s.call("GET", "/readiness", ""); a.status != 503 || !strings.Contains(a.body, "stopping") {
		t.Errorf("readiness got %d %s", a.status, a.body)
	}
	if a := s.call("GET", "/health", ""); a.status != 200 {
		t.Errorf("health got %d", a.status)
	}
	qo.finish("done", Finish{Type: FinishLength, Length: 4})
	if a := await(t, object); a.status != 200 || decode[result](t, a.body).Text != "done" {
		t.Errorf("the object got %d %s", a.status, a.body)
	}
	select {
	case err := <-done:
		t.Fatalf("shutdown did not wait for the stream: %v", err)
	default:
	}
	qs.finish("y", Finish{Type: FinishLength, Length: 2})
	if body := readAll(t, c, resp); !strings.Contains(body, `"text":"xy"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("the stream got %q", body)
	}
	if err := await(t, done); err != nil {
		t.Error(err)
	}
	if len(s.engine.aborted) != 0 {
		t.Errorf("aborted: %v", s.engine.aborted)
	}
	if conn, err := net.Dial("tcp", s.addr); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
}

func TestShutdownFailsWhatIsLeft(t *testing.T) {
	s := newTestServer(t, nil)
	object := s.post("/generate", `{"text":"a","rid":"o"}`)
	s.next().emit("x")
	early := s.post("/generate", `{"text":"a","rid":"e","stream":true,"sampling_params":{"n":2}}`)
	s.next()
	s.next()
	c := s.open("/generate", `{"text":"a","rid":"s","stream":true,"sampling_params":{"n":2}}`)
	qs := []*fakeRequest{s.next(), s.next()}
	qs[0].emit("x")
	resp := c.response()
	c.frame()

	grace, cancel := context.WithCancel(context.Background())
	done := s.shutdown(grace)
	cancel()
	if a := await(t, object); a.status != 503 || !strings.Contains(a.message(t), "stopping") {
		t.Errorf("the object got %d %s", a.status, a.body)
	}
	if a := await(t, early); a.status != 503 || !strings.Contains(a.message(t), "stopping") {
		t.Errorf("the stream without a first byte got %d %s", a.status, a.body)
	}
	frames := strings.Split(strings.TrimSuffix(readAll(t, c, resp), "\n\n"), "\n\n")
	if len(frames) != 3 || frames[2] != "data: [DONE]" {
		t.Fatalf("the stream got %q", frames)
	}
	for i, text := range []string{"x", ""} {
		r := decode[result](t, strings.TrimPrefix(frames[i], "data: "))
		if r.Text != text || *r.Index != i || r.Meta.Finish.Type != FinishAbort || *r.Meta.Finish.Status != 503 || r.Meta.E2E == nil {
			t.Errorf("sample %d: %s", i, frames[i])
		}
	}
	if err := await(t, done); err != nil {
		t.Error(err)
	}
	for _, rid := range []string{"o", "e#0", "e#1", "s#0", "s#1"} {
		if n := s.engine.abortsOf(rid); n != 1 {
			t.Errorf("%s was aborted %d times", rid, n)
		}
	}
	if got := s.outcome(outcomeStopping); got != 3 {
		t.Errorf("%v counted as stopping", got)
	}
}

// A client that takes no bytes does not keep the server from ending.
func TestShutdownCutsAStuckConnection(t *testing.T) {
	s := newTestServer(t, nil)
	block := make(chan struct{})
	s.engine.onSubmit = func(int) { <-block } // an engine that does not answer
	got := s.post("/generate", `{"text":"a"}`)
	for s.submitsSeen() == 0 {
		s.call("GET", "/health", "")
	}
	s.opts.WriteStall = 1 // the wait for last bytes ends at once
	grace, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(grace); err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("got %v", err)
	}
	close(block)
	if a := await(t, got); a.err == nil {
		t.Errorf("the client got %d %s", a.status, a.body)
	}
	await(t, s.calls.idle)
	s.endErr = nil // judged above; the clean-up shuts down again
}

func (s *testServer) submitsSeen() int {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.engine.submits
}
