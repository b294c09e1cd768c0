package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// S20: ids and rooms that clients choose collide.
func TestCollidingIDs(t *testing.T) {
	s := newTestServer(t, nil)
	first := s.post("/generate", `{"text":"a","rid":"x","bootstrap_room":7}`)
	q := s.next()
	for name, tc := range map[string]struct{ body, says string }{
		"same id":                       {`{"text":"b","rid":"x"}`, `rid "x"`},
		"same id, streamed":             {`{"text":"b","rid":"x","stream":true}`, `rid "x"`},
		"same id, parallel samples":     {`{"text":"b","rid":"x","sampling_params":{"n":4}}`, `rid "x"`},
		"same room":                     {`{"text":"b","rid":"y","bootstrap_room":7}`, "room 7"},
		"same room in the last sample":  {`{"text":"b","rid":"y","bootstrap_room":4,"sampling_params":{"n":4}}`, "room 7"},
		"same room again, id given new": {`{"text":"b","bootstrap_room":7}`, "room 7"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := s.call("POST", "/generate", tc.body); a.status != 409 || !strings.Contains(a.message(t), tc.says) {
				t.Errorf("got %d %s", a.status, a.body)
			}
		})
	}
	q.finish("done", Finish{Type: FinishLength, Length: 4})
	if a := await(t, first); a.status != 200 || decode[result](t, a.body).Text != "done" {
		t.Errorf("the first got %d %s", a.status, a.body)
	}
	if n := s.engine.liveCount(); n != 0 {
		t.Errorf("%d requests live", n)
	}
}

// A sample's own id is not free either.
func TestCollidingSampleID(t *testing.T) {
	s := newTestServer(t, nil)
	first := s.post("/generate", `{"text":"a","rid":"x","sampling_params":{"n":2}}`)
	qs := []*fakeRequest{s.next(), s.next()}
	if a := s.call("POST", "/generate", `{"text":"a","rid":"x#1"}`); a.status != 409 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	for _, q := range qs {
		q.finish("b", Finish{Type: FinishLength, Length: 1})
	}
	if a := await(t, first); a.status != 200 {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

// S20: a client that has its answer may use the id again at once: the last frame
// and the whole object both come after the id is free.
func TestRetryAfterTheEnd(t *testing.T) {
	s := newTestServer(t, nil)
	for i := range 50 {
		for _, form := range []string{`{"text":"a","rid":"x"`, `{"text":"a","rid":"x","sampling_params":{"n":2}`} {
			samples := 1 + strings.Count(form, `"n":2`)
			got := s.post("/generate", form+"}")
			for range samples {
				s.next().finish("b", Finish{Type: FinishLength, Length: 1})
			}
			if a := await(t, got); a.status != 200 {
				t.Fatalf("object %d: %d %s", i, a.status, a.body)
			}
			c := s.open("/generate", form+`,"stream":true}`)
			for range samples {
				s.next().finish("b", Finish{Type: FinishLength, Length: 1})
			}
			if resp := c.response(); resp.StatusCode != 200 {
				t.Fatalf("stream %d: %d", i, resp.StatusCode)
			}
			for range samples {
				c.frame() // the next round starts before [DONE] is read
			}
		}
	}
}

// S30: abort by whole id.
func TestAbortRequest(t *testing.T) {
	s := newTestServer(t, nil)
	answers := map[string]<-chan answer{}
	for i := 1; i <= 10; i++ {
		rid := fmt.Sprintf("req-%d", i)
		answers[rid] = s.post("/generate", fmt.Sprintf(`{"text":"a","rid":"%s"}`, rid))
		s.next()
	}
	for _, body := range []string{`{"rid":""}`, `{"rid":"","abort_all":false}`, `{}`, ``, `{"rid":null}`, `{"rid":7}`} {
		a := s.call("POST", "/abort_request", body)
		if a.status != 400 || a.message(t) == "" || s.engine.liveCount() != 10 {
			t.Errorf("%q got %d, %d live", body, a.status, s.engine.liveCount())
		}
	}
	for _, tc := range []struct {
		rid, want string
		live      int
	}{
		{"req", `{"aborted":0}`, 10},
		{"req-", `{"aborted":0}`, 10},
		{"req-1", `{"aborted":1}`, 9},
		{"req-1", `{"aborted":0}`, 9},
		{"req-100", `{"aborted":0}`, 9},
	} {
		a := s.call("POST", "/abort_request", fmt.Sprintf(`{"rid":%q}`, tc.rid))
		if a.status != 200 || strings.TrimSpace(a.body) != tc.want || s.engine.liveCount() != tc.live {
			t.Errorf("%q got %d %s, %d live; want %s, %d", tc.rid, a.status, a.body, s.engine.liveCount(), tc.want, tc.live)
		}
	}
	if a := await(t, answers["req-1"]); a.status != 200 || decode[result](t, a.body).Meta.Finish.Type != FinishAbort {
		t.Errorf("the aborted one got %d %s", a.status, a.body)
	}
	if a := s.call("POST", "/abort_request", `{"abort_all":true}`); strings.TrimSpace(a.body) != `{"aborted":9}` {
		t.Errorf("abort_all got %d %s", a.status, a.body)
	}
	for i := 2; i <= 10; i++ {
		rid := fmt.Sprintf("req-%d", i)
		if a := await(t, answers[rid]); decode[result](t, a.body).Meta.Finish.Type != FinishAbort {
			t.Errorf("%s got %d %s", rid, a.status, a.body)
		}
		if n := s.engine.abortsOf(rid); n != 1 {
			t.Errorf("%s was aborted %d times", rid, n)
		}
	}
	if s.outcome(outcomeAborted) != 10 {
		t.Errorf("%v counted as aborted", s.outcome(outcomeAborted))
	}
}

// A client's id stands for all samples of its request; a sample's for itself.
func TestAbortSamples(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.post("/generate", `{"text":"a","rid":"x","sampling_params":{"n":3}}`)
	for range 3 {
		s.next()
	}
	if a := s.call("POST", "/abort_request", `{"rid":"x#1"}`); strings.TrimSpace(a.body) != `{"aborted":1}` {
		t.Errorf("one sample: %s", a.body)
	}
	if a := s.call("POST", "/abort_request", `{"rid":"x"}`); strings.TrimSpace(a.body) != `{"aborted":2}` {
		t.Errorf("the rest: %s", a.body)
	}
	for _, r := range decode[[]result](t, await(t, got).body) {
		if r.Meta.Finish.Type != FinishAbort {
			t.Errorf("sample %d: %+v", *r.Index, r)
		}
	}
}

// An abort that comes while the samples are being handed in reaches all of them.
func TestAbortDuringSubmit(t *testing.T) {
	for _, body := range []string{`{"rid":"x"}`, `{"abort_all":true}`} {
		t.Run(body, func(t *testing.T) {
			s := newTestServer(t, nil)
			inside, leave := make(chan struct{}), make(chan struct{})
			s.engine.onSubmit = func(n int) {
				if n == 2 {
					close(inside)
					<-leave
				}
			}
			got := s.post("/generate", `{"text":"a","rid":"x","sampling_params":{"n":4}}`)
			await(t, inside)
			if a := s.call("POST", "/abort_request", body); strings.TrimSpace(a.body) != `{"aborted":2}` {
				t.Errorf("got %s", a.body)
			}
			close(leave)
			if a := await(t, got); len(decode[[]result](t, a.body)) != 4 || s.engine.liveCount() != 0 {
				t.Errorf("got %d %s, %d live", a.status, a.body, s.engine.liveCount())
			}
		})
	}
}

// S30: a client that leaves aborts its request, whatever it was waiting for.
func TestDisconnect(t *testing.T) {
	for name, tc := range map[string]struct {
		body    string
		samples int
		before  string
	}{
		"object, waiting":          {`{"text":"a"}`, 1, ""},
		"object, running":          {`{"text":"a"}`, 1, "x"},
		"stream, before its start": {`{"text":"a","stream":true}`, 1, ""},
		"stream, running":          {`{"text":"a","stream":true}`, 1, "x"},
		"samples":                  {`{"text":"a","sampling_params":{"n":4}}`, 4, ""},
		"samples, streamed":        {`{"text":"a","stream":true,"sampling_params":{"n":4}}`, 4, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, nil)
			c := s.open("/generate", tc.body)
			var qs []*fakeRequest
			for range tc.samples {
				qs = append(qs, s.next())
			}
			if tc.before != "" {
				for _, q := range qs {
					q.emit(tc.before)
				}
				if strings.Contains(tc.body, "stream") {
					c.response()
					c.frame()
				}
			}
			c.conn.Close()
			for _, q := range qs {
				await(t, q.gone)
				if n := s.engine.abortsOf(q.RID); n != 1 {
					t.Errorf("%s was aborted %d times", q.RID, n)
				}
				if q.emit("late") {
					t.Error("a token after the end was taken")
				}
			}
			s.calls.stop()
			await(t, s.calls.idle)
			if s.outcome(outcomeDisconnected) != 1 {
				t.Error("not counted as disconnected")
			}
		})
	}
}

// S30: 1,000 disconnects leave no request, no id and no goroutine behind.
func TestThousandDisconnects(t *testing.T) {
	s := newTestServer(t, nil)
	before := goleak.IgnoreCurrent()
	const total, lanes = 1000, 20
	var arrived [lanes]chan *fakeRequest
	for lane := range arrived {
		arrived[lane] = make(chan *fakeRequest, 1)
	}
	s.engine.onAccept = func(q *fakeRequest) {
		var lane int
		if _, err := fmt.Sscanf(q.RID, "%d-", &lane); err != nil {
			t.Error(err)
			return
		}
		arrived[lane] <- q
	}
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			for i := range total / lanes {
				conn, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Error(err)
					return
				}
				body := fmt.Sprintf(`{"text":"a","rid":"%d-%d","stream":%v}`, lane, i, i%2 == 0)
				fmt.Fprintf(conn, "POST /generate HTTP/1.1\r\nHost: s\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				select {
				case q := <-arrived[lane]:
					if i%4 == 0 {
						q.emit("token")
					}
				case <-time.After(patience):
					t.Error("a request did not arrive")
				}
				conn.Close()
			}
		})
	}
	wg.Wait()
	s.calls.stop()
	await(t, s.calls.idle)
	s.engine.set(func() {
		if len(s.engine.live) != 0 || len(s.engine.aborted) != total {
			t.Errorf("%d live, %d aborted", len(s.engine.live), len(s.engine.aborted))
		}
		for rid, n := range s.engine.aborted {
			if n != 1 {
				t.Errorf("%s was aborted %d times", rid, n)
			}
		}
	})
	if n := len(s.calls.byRID); n != 0 {
		t.Errorf("%d ids held", n)
	}
	if got := s.outcome(outcomeDisconnected); got != total {
		t.Errorf("%v counted as disconnected", got)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// S30: a reader that stops reading never holds up its producer, and is cut once
// one write has stalled; its request is aborted once. The stall is the kernel's
// deadline, so this test waits for it, and for nothing else.
func TestStuckReader(t *testing.T) {
	for name, body := range map[string]string{
		"one":     `{"text":"a","stream":true}`,
		"samples": `{"text":"a","stream":true,"sampling_params":{"n":2}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, func(o *Options) { o.WriteStall = 50 * time.Millisecond })
			c := s.open("/generate", body)
			if err := c.conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			qs := []*fakeRequest{s.next()}
			if name == "samples" {
				qs = append(qs, s.next())
			}
			// The limit of unread tokens is above what is pushed here, and the frame
			// that holds it all is larger than every buffer on the way.
			chunk := strings.Repeat("x", 1000)
			for range 1000 {
				if !qs[0].emit(chunk) {
					break
				}
			}
			for _, q := range qs {
				await(t, q.gone)
				if n := s.engine.abortsOf(q.RID); n != 1 {
					t.Errorf("%s was aborted %d times", q.RID, n)
				}
			}
			s.calls.stop()
			await(t, s.calls.idle)
			if s.outcome(outcomeStalled) != 1 {
				t.Error("not counted as stalled")
			}
		})
	}
}

// A reader that is slow, but reads, misses nothing.
func TestSlowReaderGetsEverything(t *testing.T) {
	s := newTestServer(t, nil)
	c := s.open("/generate", `{"text":"a","stream":true}`)
	q := s.next()
	const tokens = 3000
	for range tokens - 1 {
		if !q.emit("x") {
			t.Fatal("a token was refused")
		}
	}
	q.finish("y", Finish{Type: FinishLength, Length: tokens})
	if resp := c.response(); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	var last string
	for data := c.frame(); data != "[DONE]"; data = c.frame() {
		last = data
	}
	if r := decode[result](t, last); r.Text != strings.Repeat("x", tokens-1)+"y" || len(r.OutputIDs) != tokens {
		t.Errorf("got %d ids and %d bytes of text", len(r.OutputIDs), len(r.Text))
	}
}

// A connection lives on after its write deadline has passed: each request, and
// each write, sets its own.
func TestConnectionOutlivesItsDeadline(t *testing.T) {
	s := newTestServer(t, nil)
	var opened atomic.Int32
	s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		opened.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	if a := s.call("GET", "/health", ""); a.status != 200 {
		t.Fatalf("got %d", a.status)
	}
	conn := await(t, s.conns)
	expire := func() {
		if err := conn.SetWriteDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, stream := range []bool{false, true} {
		expire() // between two requests
		if a := s.call("GET", "/metrics", ""); a.status != 200 {
			t.Errorf("got %d", a.status)
		}
		got := s.post("/generate", fmt.Sprintf(`{"text":"a","stream":%v}`, stream))
		q := s.next()
		expire() // while a request waits
		q.finish("b", Finish{Type: FinishLength, Length: 1})
		if a := await(t, got); a.err != nil || a.status != 200 {
			t.Errorf("stream=%v: %+v", stream, a)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections were opened, want 1", n)
	}
}
