package server

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// S35: liveness is not progress, and a probe runs nothing.
func TestProbes(t *testing.T) {
	s := newTestServer(t, nil)
	probe := func(path string) answer { return s.call("GET", path, "") }
	for _, path := range []string{"/readiness", "/health_generate"} {
		if a := probe(path); a.status != 200 || !strings.Contains(a.body, `"ready"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	s.engine.set(func() { s.engine.ready = errors.New("no tick completed for 5s: rank 1 is late") })
	for range 30 {
		if a := probe("/health"); a.status != 200 {
			t.Fatalf("/health: %d %s", a.status, a.body)
		}
		for _, path := range []string{"/readiness", "/health_generate"} {
			a := probe(path)
			want := `{"status":"not ready","reason":"no tick completed for 5s: rank 1 is late"}`
			if a.status != 503 || strings.TrimSpace(a.body) != want {
				t.Fatalf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
	s.engine.set(func() { s.engine.ready = nil })
	if a := probe("/readiness"); a.status != 200 {
		t.Errorf("/readiness again: %d %s", a.status, a.body)
	}
	if s.engine.submits != 0 {
		t.Errorf("%d requests were submitted by probes", s.engine.submits)
	}
}

func TestMetricsFromTheStart(t *testing.T) {
	s := newTestServer(t, nil)
	got := s.call("GET", "/metrics", "").body
	var want []string
	for _, outcome := range outcomes() {
		want = append(want, fmt.Sprintf("sluice_generate_requests_total{outcome=%q} 0", outcome))
	}
	for _, path := range []string{"/generate", "/abort_request", "/flush_cache", "/health", "/readiness", "/health_generate",
		"/metrics", "/server_info", "/get_server_info", "/model_info", "/get_model_info", "other"} {
		for _, code := range []string{"2xx", "3xx", "4xx", "5xx"} {
			want = append(want, fmt.Sprintf("sluice_http_requests_total{code=%q,path=%q} 0", code, path))
		}
	}
	want = append(want, "sluice_http_in_flight 1")
	for _, line := range want {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, call := range []struct {
		method, path, body string
		line               string
	}{
		{"GET", "/health", "", `{code="2xx",path="/health"} 1`},
		{"HEAD", "/health", "", `{code="2xx",path="/health"} 2`},
		{"POST", "/generate", "", `{code="4xx",path="/generate"} 1`},
		{"GET", "/generate", "", `{code="4xx",path="/generate"} 2`},
		{"GET", "/nowhere", "", `{code="4xx",path="other"} 1`},
	} {
		s.call(call.method, call.path, call.body)
		if got := s.call("GET", "/metrics", "").body; !strings.Contains(got, "sluice_http_requests_total"+call.line+"\n") {
			t.Errorf("after %s %s: missing %s", call.method, call.path, call.line)
		}
	}
}

func TestInfo(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Version, o.WeightVersion = "1.2.3", "w7" })
	s.engine.info = ServerInfo{ServedModelName: "stand-in", DisaggregationMode: "decode", TPSize: 2, DPSize: 1, PageSize: 16,
		MaxTotalTokens: 65536, Tick: 9, InternalStates: []map[string]any{{"rails": 0}}}
	server := `{"served_model_name":"stand-in","disaggregation_mode":"decode","tp_size":2,"dp_size":1,"page_size":16,` +
		`"max_total_num_tokens":65536,"tick":9,"queued_requests":0,"running_requests":0,"internal_states":[{"rails":0}],` +
		`"vocab_size":1000,"weight_version":"w7","version":"1.2.3"}`
	model := `{"served_model_name":"stand-in","is_generation":true,"weight_version":"w7","has_image_understanding":false,` +
		`"has_audio_understanding":false,"vocab_size":1000,"preferred_sampling_params":null}`
	for path, want := range map[string]string{
		"/server_info": server, "/get_server_info": server, "/model_info": model, "/get_model_info": model,
	} {
		if a := s.call("GET", path, ""); a.status != 200 || strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %d\ngot  %s\nwant %s", path, a.status, a.body, want)
		}
	}
}

func TestFlushCache(t *testing.T) {
	s := newTestServer(t, nil)
	for i, method := range []string{"GET", "POST"} {
		if a := s.call(method, "/flush_cache", ""); a.status != 200 || s.engine.flushes != i+1 {
			t.Errorf("%s: %d %s, %d flushes", method, a.status, a.body, s.engine.flushes)
		}
	}
	got := s.post("/generate", `{"text":"a"}`)
	q := s.next()
	if a := s.call("POST", "/flush_cache", ""); a.status != 409 || !strings.Contains(a.message(t), "idle") {
		t.Errorf("while running: %d %s", a.status, a.body)
	}
	q.finish("b", Finish{Type: FinishLength})
	await(t, got)
	if s.engine.flushes != 2 {
		t.Errorf("%d flushes", s.engine.flushes)
	}
}

func TestWrongPathAndMethod(t *testing.T) {
	s := newTestServer(t, nil)
	for _, tc := range []struct {
		method, path string
		status       int
		allow, says  string
	}{
		{"GET", "/generate", 405, "POST", "use POST"},
		{"DELETE", "/flush_cache", 405, "GET, POST", "use GET, POST"},
		{"POST", "/health", 405, "GET", "use GET"},
		{"GET", "/", 404, "", "there are /generate"},
		{"GET", "/generate/x", 404, "", `no such path "/generate/x"`},
	} {
		a := s.call(tc.method, tc.path, "")
		if a.status != tc.status || a.header.Get("Allow") != tc.allow || !strings.Contains(a.message(t), tc.says) {
			t.Errorf("%s %s: %d %v %s", tc.method, tc.path, a.status, a.header, a.body)
		}
	}
}

// Routers probe for gRPC on the same port with the HTTP/2 preface.
func TestHTTP2Preface(t *testing.T) {
	s := newTestServer(t, nil)
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 4 {
		t.Errorf("got %d", resp.StatusCode)
	}
	if a := s.call("GET", "/health", ""); a.status != 200 {
		t.Errorf("health after it: %d", a.status)
	}
}
