package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const stopAt = `{"type":"stop","matched":33}`

func metaInfo(id, finish string, prompt, completion int, rest string) string {
	return fmt.Sprintf(`"meta_info":{"id":"%s","finish_reason":%s,"prompt_tokens":%d,"weight_version":"default","total_retractions":0,`+
		`"completion_tokens":%d,"cached_tokens":3,"cached_tokens_details":{"device":1,"host":2,"storage":0}%s}`, id, finish, prompt, completion, rest)
}

func TestGenerateObject(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.post("/generate", `{"text":"hey","rid":"r1","sampling_params":{"max_new_tokens":5,"stop_token_ids":[33]},
		"bootstrap_host":"p0","bootstrap_port":8998,"bootstrap_room":77,"priority":4}`)
	q := s.next()
	want := Request{
		RID: "r1", Namespace: "default", Priority: 4, Tokens: []uint32{'h', 'e', 'y'}, MaxNewTokens: 5,
		StopTokens: []uint32{33}, Room: 77, BootstrapHost: "p0", BootstrapPort: 8998,
	}
	if !reflect.DeepEqual(q.Request, want) {
		t.Errorf("the engine got %+v, want %+v", q.Request, want)
	}
	s.clock.Advance(2500 * time.Millisecond)
	q.emit("Hi")
	q.engine.set(func() { delete(q.engine.live, q.RID) })
	q.Push(Event{Tokens: []uint32{33}, Cached: CachedTokens{L1: 1, L2: 2}, Finish: &Finish{Type: FinishStop, Matched: 33}})
	a := await(t, got)
	body := `{"text":"Hi","output_ids":[72,105,33],` + metaInfo("r1", stopAt, 3, 3, `,"e2e_latency":2.500000`) + `}`
	if a.status != 200 || a.body != body || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v\n%s\nwant\n%s", a.status, a.header, a.body, body)
	}
	if s.outcome(outcomeStop) != 1 {
		t.Error("not counted as ended by a stop")
	}
}

func TestGenerateStream(t *testing.T) {
	s := newTestServer(t, nil)
	c := s.open("/generate", `{"input_ids":[5,6],"rid":"r1","stream":true}`)
	q := s.next()
	if q.MaxNewTokens != 128 {
		t.Errorf("max_new_tokens is %d by default, want 128", q.MaxNewTokens)
	}
	cached := CachedTokens{L1: 1, L2: 2}
	q.Push(Event{Cached: cached}) // nothing to show yet
	q.Push(Event{Tokens: []uint32{'H'}, Cached: cached})
	resp := c.response()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	for i, want := range []string{
		`{"text":"H","output_ids":[72],` + metaInfo("r1", "null", 2, 1, "") + `}`,
		`{"text":"Hi","output_ids":[72,105],` + metaInfo("r1", "null", 2, 2, "") + `}`,
		`{"text":"Hi","output_ids":[72,105,33],` + metaInfo("r1", stopAt, 2, 3, `,"e2e_latency":1.000000`) + `}`,
		`[DONE]`,
	} {
		if got := c.frame(); got != want {
			t.Errorf("frame %d\ngot  %s\nwant %s", i, got, want)
		}
		switch i {
		case 0:
			q.Push(Event{Tokens: []uint32{'i'}, Cached: cached})
		case 1:
			s.clock.Advance(time.Second)
			q.Push(Event{Tokens: []uint32{33}, Cached: cached, Finish: &Finish{Type: FinishStop, Matched: 33}})
		}
	}
	if b, err := c.in.ReadByte(); err == nil {
		t.Errorf("%q after [DONE]", b)
	}
}

func TestGenerateGivesAnID(t *testing.T) {
	s := newTestServer(t, nil)
	ids := map[string]bool{}
	for range 3 {
		got := s.post("/generate", `{"text":"a"}`)
		q := s.next()
		q.finish("b", Finish{Type: FinishLength, Length: 1})
		if id := decode[result](t, await(t, got).body).Meta.ID; id != q.RID || len(id) != 32 {
			t.Errorf("id %q, engine's %q", id, q.RID)
		}
		ids[q.RID] = true
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
}

func TestGenerateNamespace(t *testing.T) {
	s := newTestServer(t, func(o *Options) {
		o.Namespace = func(r *http.Request) string { return r.Header.Get("Authorization") }
	})
	if a := s.call("POST", "/generate", `{"text":"a"}`); a.status != 401 || s.engine.liveCount() != 0 {
		t.Errorf("an unknown caller got %d %q", a.status, a.body)
	}
	req, err := http.NewRequest("POST", s.url+"/generate", strings.NewReader(`{"text":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "alice")
	done := make(chan error, 1)
	go func() {
		resp, err := s.client.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	q := s.next()
	if q.Namespace != "alice" {
		t.Errorf("namespace %q", q.Namespace)
	}
	q.finish("x", Finish{Type: FinishLength, Length: 1})
	if err := await(t, done); err != nil {
		t.Fatal(err)
	}
}

func TestGenerateRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse  error
		body    string
		status  int
		message string
		outcome string
	}{
		"malformed":      {nil, `{"text":`, 400, "not valid JSON", outcomeInvalid},
		"empty prompt":   {nil, `{"text":""}`, 400, "the prompt is empty", outcomeInvalid},
		"queue full":     {fmt.Errorf("1024 requests wait: %w", ErrQueueFull), `{"text":"a"}`, 503, "1024 requests wait: the queue is full", outcomeQueueFull},
		"duplicate room": {fmt.Errorf("room 7: %w", ErrDuplicate), `{"text":"a","bootstrap_room":7}`, 409, "room 7", outcomeDuplicate},
		"engine stops":   {ErrStopping, `{"text":"a"}`, 503, "stopping", outcomeStopping},
		"never fits": {&RequestError{400, "needs 40 pages and L1 has 10; ask for fewer tokens"}, `{"text":"a"}`, 400,
			"needs 40 pages and L1 has 10", outcomeInvalid},
		"wrapped":           {fmt.Errorf("door: %w", &RequestError{422, "no"}), `{"text":"a"}`, 422, "door: no", outcomeInvalid},
		"impossible status": {&RequestError{200, "odd"}, `{"text":"a"}`, 500, "odd", outcomeFailed},
		"unexpected":        {errors.New("disk on fire"), `{"text":"a"}`, 500, "disk on fire", outcomeFailed},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) {
				s := newTestServer(t, nil)
				s.engine.refuse = tc.refuse
				body := tc.body
				if stream && strings.HasSuffix(body, "}") {
					body = strings.TrimSuffix(body, "}") + `,"stream":true}`
				}
				a := s.call("POST", "/generate", body)
				if a.status != tc.status || !strings.Contains(a.message(t), tc.message) {
					t.Errorf("got %d %s", a.status, a.body)
				}
				if a.header.Get("Content-Length") != "" {
					t.Error("the error has a Content-Length, by which routers cut it")
				}
				if s.outcome(tc.outcome) != 1 {
					t.Errorf("outcome %s not counted", tc.outcome)
				}
			})
		}
	}
}

func TestGenerateBodyLimit(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.MaxBodyBytes = 64 })
	long := `{"text":"` + strings.Repeat("x", 64) + `"}`
	a := s.call("POST", "/generate", long)
	if a.status != 413 || !strings.Contains(a.message(t), "64 bytes") {
		t.Errorf("announced: %d %s", a.status, a.body)
	}
	req, err := http.NewRequest("POST", s.url+"/generate", struct{ *strings.Reader }{strings.NewReader(long)})
	if err != nil {
		t.Fatal(err)
	}
	if req.ContentLength = -1; req.GetBody != nil {
		t.Fatal("the length is announced")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("chunked: %d", resp.StatusCode)
	}
	got := s.post("/generate", `{"text":"`+strings.Repeat("x", 64-11)+`"}`)
	s.next().finish("a", Finish{Type: FinishLength})
	if a := await(t, got); a.status != 200 {
		t.Errorf("64 bytes of 64: %d %s", a.status, a.body)
	}
}

// A body that never comes ends at its deadline. The deadline is the kernel's, so
// this test waits for it, and for nothing else.
func TestGenerateBodyDeadline(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.ReadTimeout = 400 * time.Millisecond })
	conn := s.open("/generate", `{"text":"a"}`) // one that is whole is served for as long as it takes
	q := s.next()
	slow := s.openPart("/generate", `{"text":`, 100)
	if resp := slow.response(); resp.StatusCode != 408 {
		t.Errorf("got %d", resp.StatusCode)
	}
	q.finish("b", Finish{Type: FinishLength})
	if resp := conn.response(); resp.StatusCode != 200 {
		t.Errorf("the whole request got %d", resp.StatusCode)
	}
}

func TestGenerateFailuresOfARequest(t *testing.T) {
	lost := Finish{Type: FinishAbort, Message: "HiCache restore failed", Status: 503, ErrType: "restore"}
	mine := Finish{Type: FinishAbort, Message: "aborted by the client"}
	for name, tc := range map[string]struct {
		stream bool
		before string // tokens ahead of the finish
		finish Finish
		status int
		body   []string // parts of the body
		not    string   // no part of it
	}{
		"object":               {false, "", lost, 503, []string{`{"error":{"message":"HiCache restore failed","type":"restore"}}`}, "meta_info"},
		"object after tokens":  {false, "ab", lost, 503, []string{`{"error":`}, "meta_info"},
		"object, odd status":   {false, "", Finish{Type: FinishAbort, Message: "m", Status: 302}, 500, []string{`{"error":`}, "meta_info"},
		"object, own abort":    {false, "ab", mine, 200, []string{`"text":"ab"`, `"type":"abort"`, `"status_code":null`}, "error"},
		"stream, first byte":   {true, "", lost, 503, []string{`{"error":{"message":"HiCache restore failed","type":"restore"}}`}, "data:"},
		"stream after tokens":  {true, "ab", lost, 200, []string{`"finish_reason":null`, `"type":"abort","message":"HiCache restore failed","status_code":503,"err_type":"restore"`, "data: [DONE]\n\n"}, `{"error"`},
		"stream, own abort":    {true, "", mine, 200, []string{`"type":"abort"`, "data: [DONE]\n\n"}, `{"error"`},
		"stream, normal empty": {true, "", Finish{Type: FinishLength}, 200, []string{`"length":0`, "data: [DONE]\n\n"}, "abort"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, nil)
			c := s.open("/generate", fmt.Sprintf(`{"text":"x","rid":"r","stream":%v}`, tc.stream))
			q := s.next()
			var resp *http.Response
			if tc.before != "" {
				q.emit(tc.before)
				if tc.stream {
					resp = c.response()
				}
			}
			var first string
			if resp != nil {
				first = c.frame()
			}
			q.finish("", tc.finish)
			if resp == nil {
				resp = c.response()
			}
			rest := readAll(t, c, resp)
			body := first + rest
			if resp.StatusCode != tc.status {
				t.Errorf("got %d", resp.StatusCode)
			}
			for _, part := range tc.body {
				if !strings.Contains(body, part) {
					t.Errorf("%q does not hold %q", body, part)
				}
			}
			if strings.Contains(body, tc.not) {
				t.Errorf("%q holds %q", body, tc.not)
			}
			want := outcomeAborted
			if tc.finish.Type == FinishLength {
				want = outcomeLength
			}
			if s.outcome(want) != 1 {
				t.Errorf("outcome %s not counted", want)
			}
		})
	}
}

// A stream that breaks without a finish is told as a failure, not as an end.
func TestGenerateEngineLosesAStream(t *testing.T) {
	for name, tc := range map[string]struct {
		before string
		body   string
		status int
		want   string
	}{
		"object":       {"", `{"text":"a"}`, 500, "ended without a result"},
		"stream":       {"", `{"text":"a","stream":true}`, 500, "ended without a result"},
		"stream, late": {"x", `{"text":"a","stream":true}`, 200, `"status_code":500`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t, nil)
			c := s.open("/generate", tc.body)
			q := s.next()
			var resp *http.Response
			if tc.before != "" {
				q.emit(tc.before)
				resp = c.response()
				c.frame()
			}
			q.Close()
			if resp == nil {
				resp = c.response()
			}
			body := readAll(t, c, resp)
			if resp.StatusCode != tc.status || !strings.Contains(body, tc.want) {
				t.Errorf("got %d %q", resp.StatusCode, body)
			}
			if s.outcome(outcomeFailed) != 1 {
				t.Error("not counted as failed")
			}
		})
	}
}

func TestGenerateSamples(t *testing.T) {
	const n = 4
	s := newTestServer(t, nil)
	body := `{"text":"a","rid":"x","bootstrap_room":7,"sampling_params":{"n":4}`
	got := s.post("/generate", body+"}")
	var qs []*fakeRequest
	for range n {
		qs = append(qs, s.next())
	}
	for i, q := range qs {
		if q.RID != fmt.Sprintf("x#%d", i) || q.Room != uint64(7+i) {
			t.Errorf("sample %d has id %q and room %d", i, q.RID, q.Room)
		}
	}
	for i := range qs { // the last one ends first
		i = n - 1 - i
		qs[i].finish(strings.Repeat("b", i+1), Finish{Type: FinishLength, Length: i + 1})
	}
	results := decode[[]result](t, await(t, got).body)
	if len(results) != n {
		t.Fatalf("got %d results", len(results))
	}
	for i, r := range results {
		if r.Index == nil || *r.Index != i || r.Text != strings.Repeat("b", i+1) || r.Meta.ID != qs[i].RID {
			t.Errorf("result %d is %+v", i, r)
		}
	}

	c := s.open("/generate", body+`,"stream":true}`)
	qs = nil
	for range n {
		qs = append(qs, s.next())
	}
	last := make([]string, n)
	for round := range 3 {
		for _, q := range qs {
			if round < 2 {
				q.emit("t")
			} else {
				q.finish("t", Finish{Type: FinishLength, Length: 3})
			}
		}
	}
	c.response()
	for data := c.frame(); data != "[DONE]"; data = c.frame() {
		r := decode[result](t, data)
		if i := *r.Index; !strings.HasPrefix(r.Text, last[i]) || r.Meta.ID != qs[i].RID {
			t.Errorf("sample %d: %+v after %q", i, r, last[i])
		} else {
			last[i] = r.Text
		}
	}
	if !slices.Equal(last, []string{"ttt", "ttt", "ttt", "ttt"}) {
		t.Errorf("texts %q", last)
	}
}

// One sample that fails before the first byte fails the request, and the others
// are aborted once each.
func TestGenerateSampleFails(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream=", stream), func(t *testing.T) {
			s := newTestServer(t, nil)
			got := s.post("/generate", fmt.Sprintf(`{"text":"a","rid":"x","stream":%v,"sampling_params":{"n":3}}`, stream))
			qs := []*fakeRequest{s.next(), s.next(), s.next()}
			qs[1].finish("", Finish{Type: FinishAbort, Status: 503, Message: "lost"})
			if a := await(t, got); a.status != 503 || a.message(t) != "lost" {
				t.Errorf("got %d %s", a.status, a.body)
			}
			for i, want := range []int{1, 0, 1} {
				if got := s.engine.abortsOf(qs[i].RID); got != want {
					t.Errorf("sample %d was aborted %d times, want %d", i, got, want)
				}
			}
		})
	}
}

// A sample that the engine refuses takes those before it along.
func TestGenerateSampleRefused(t *testing.T) {
	s := newTestServer(t, nil)
	s.engine.refuseAt[2] = ErrQueueFull
	a := s.call("POST", "/generate", `{"text":"a","rid":"x","sampling_params":{"n":3}}`)
	if a.status != 503 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	for range 2 {
		await(t, s.next().gone)
	}
	if n := s.engine.liveCount(); n != 0 {
		t.Errorf("%d samples live", n)
	}
}

// The submit of a request whose client has left is no failure of the engine's.
func TestGenerateClientLeavesDuringSubmit(t *testing.T) {
	s := newTestServer(t, nil)
	inside, leave := make(chan struct{}), make(chan struct{})
	s.engine.onSubmit = func(int) { close(inside); <-leave }
	ctx, cancel := context.WithCancel(context.Background())
	got := s.do(ctx, "POST", "/generate", `{"text":"a"}`)
	await(t, inside)
	cancel()
	await(t, got)
	// The handler meets the refusal or, if the closed connection is not yet seen
	// here, an accepted request that it then aborts.
	close(leave)
	s.calls.stop()
	await(t, s.calls.idle)
	if s.outcome(outcomeDisconnected) != 1 || s.engine.liveCount() != 0 {
		t.Errorf("disconnected %v, live %d", s.outcome(outcomeDisconnected), s.engine.liveCount())
	}
}

// A failed write cancels the request's context before its own error is seen; what
// the samples then report tells the stall from a client that left.
func TestEachPrefersTheCause(t *testing.T) {
	stalled := &writeError{errors.New("stalled")}
	c := &call{samples: []*sample{{}, {}}}
	err := c.each(context.Background(), func(ctx context.Context, sm *sample) error {
		if sm == c.samples[1] {
			return context.Canceled
		}
		<-ctx.Done() // the other's error is known
		return stalled
	})
	if !errors.Is(err, stalled) {
		t.Errorf("got %v", err)
	}
}
