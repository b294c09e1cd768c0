package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/runtime/router"
	"sluice/runtime/transfer"
)

// long is a prompt of 100 bytes that begins with its number, so that two of them share no page.
func long(n int) string {
	return (strconv.Itoa(n) + "/" + strings.Repeat("the quick brown fox jumps over the lazy dog ", 3))[:100]
}

func TestServeStreams(t *testing.T) {
	s := startServe(t, nil, nil)
	resp, lines := s.stream(context.Background(), body("hello", 6, `,"stream":true`))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("status %d, type %q", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	var last answer
	frames, done := 0, false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			break
		}
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			t.Fatalf("frame %q: %v", data, err)
		}
		frames++
	}
	if !done || frames == 0 || len(last.IDs) != 6 || last.Meta.Finish == nil || last.Meta.Finish.Type != "length" {
		t.Errorf("%d frames, done %v, the last %+v", frames, done, last)
	}
	_, plain := s.post("/generate", body("hello", 6, ""))
	if plain.Text != last.Text || len(plain.Text) != 6 {
		t.Errorf("plain answer %q, streamed %q", plain.Text, last.Text)
	}
	for _, c := range plain.Text {
		if c < 32 || c > 126 {
			t.Errorf("%q is not printable", c)
		}
	}
}

// A prompt that came before is served from L1, and after pressure from L2, with the same text.
func TestServeFromTheTiers(t *testing.T) {
	s := startServe(t, nil, nil)
	_, first := s.post("/generate", body(long(1), 8, ""))
	_, again := s.post("/generate", body(long(1), 8, ""))
	if first.Meta.Cached != 0 || again.Meta.Cached != 96 || again.Meta.Details.Device != 96 {
		t.Errorf("cached %d and then %+v, want 0 and 96 from the device", first.Meta.Cached, again.Meta)
	}
	for i := range 6 {
		s.post("/generate", body(long(10+i), 8, ""))
	}
	_, later := s.post("/generate", body(long(1), 8, ""))
	if later.Meta.Details.Host != 96 || later.Meta.Details.Device != 0 {
		t.Errorf("after pressure cached %+v, want 96 from the host", later.Meta.Details)
	}
	if first.Text != again.Text || first.Text != later.Text || first.Text == "" {
		t.Errorf("texts %q, %q and %q differ", first.Text, again.Text, later.Text)
	}
	_, metrics := s.get("/metrics")
	for _, want := range []string{`sluice_load_back_tokens_total{rank="0"} 96`, `sluice_load_back_tokens_total{rank="1"} 96`,
		`sluice_hit_tokens_total{tier="l1"} 96`, `sluice_hit_tokens_total{tier="l2"} 96`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics do not show %s", want)
		}
	}
	if status, _ := s.get("/flush_cache"); status != http.StatusOK {
		t.Errorf("flush: status %d", status)
	}
	if _, flushed := s.post("/generate", body(long(1), 8, "")); flushed.Meta.Cached != 0 || flushed.Text != first.Text {
		t.Errorf("after a flush: cached %d, text %q", flushed.Meta.Cached, flushed.Text)
	}
}

func TestServeRefuses(t *testing.T) {
	s := startServe(t, nil, nil)
	for _, c := range []struct {
		name, body string
		status     int
		words      []string
	}{
		{"malformed", `{"text": `, 400, nil},
		{"no prompt", `{}`, 400, []string{"text or input_ids"}},
		{"misspelt parameter", `{"text":"x","sampling_params":{"max_tokens":3}}`, 400, []string{"max_tokens"}},
		{"never fits", body(strings.Repeat("x", 250), 100, ""), 400, []string{"22 pages", "16 pages"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, a := s.post("/generate", c.body)
			if status != c.status || a.Error.Message == "" {
				t.Errorf("status %d, message %q", status, a.Error.Message)
			}
			for _, w := range c.words {
				if !strings.Contains(a.Error.Message, w) {
					t.Errorf("message %q does not say %q", a.Error.Message, w)
				}
			}
		})
	}
}

// slowTransfer keeps every transfer under way for longer than a test.
func slowTransfer(o *router.LocalOptions) {
	o.Script = transfer.Pace{Total: time.Hour}.Script()
}

func TestServeFullQueueAndDuplicates(t *testing.T) {
	s := startServe(t, map[string]string{"http.max_queue": "1", "decode.metadata_slots": "1"}, slowTransfer)
	var all sync.WaitGroup
	start := func(rid string) {
		all.Go(func() {
			if status, a, err := s.tryPost("/generate", body("hello", 4, `,"rid":"`+rid+`"`)); err != nil || status != 200 || a.Meta.Finish.Type != "abort" {
				t.Errorf("%s: status %d, answer %+v, error %v; want 200 and an abort", rid, status, a, err)
			}
		})
	}
	start("transfers")
	s.eventually("one in transfer", func() bool { return s.value("queue_requests", "transfer") == 1 })
	if status, a := s.post("/generate", body("other", 4, `,"rid":"transfers"`)); status != 409 || !strings.Contains(a.Error.Message, "transfers") {
		t.Errorf("the same id: status %d, %q", status, a.Error.Message)
	}
	start("waits")
	s.eventually("one waiting", func() bool { return s.value("queue_requests", "prealloc") == 1 })
	if status, a := s.post("/generate", body("other", 4, "")); status != 503 || !strings.Contains(a.Error.Message, "queue is full") {
		t.Errorf("a full queue: status %d, %q", status, a.Error.Message)
	}
	if status, _ := s.get("/flush_cache"); status != 409 {
		t.Errorf("flush while busy: status %d", status)
	}
	for _, c := range []struct {
		body   string
		status int
	}{{`{"rid":""}`, 400}, {`{"rid":"wait"}`, 200}, {`{"rid":"waits"}`, 200}, {`{"abort_all":true}`, 200}} {
		if status, _ := s.post("/abort_request", c.body); status != c.status {
			t.Errorf("abort %s: status %d, want %d", c.body, status, c.status)
		}
	}
	all.Wait()
	s.idle(16)
	if v := s.value("requests_finished_total", "aborted"); v != 2 {
		t.Errorf("%v aborted, want 2", v)
	}
}

// S30: a client that leaves is an abort, and nothing of it stays.
func TestServeDisconnect(t *testing.T) {
	s := startServe(t, nil, slowTransfer)
	const n = 200
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/generate", strings.NewReader(body("hello", 4, "")))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := s.client.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Error("answered")
			}
		})
	}
	s.eventually("all of them to wait", func() bool {
		return s.value("queue_requests", "transfer")+s.value("queue_requests", "prealloc") == n
	})
	cancel()
	all.Wait()
	s.idle(16)
	if v := s.value("requests_finished_total", "aborted"); v != n {
		t.Errorf("%v aborted, want %d", v, n)
	}
}

// S35: readiness follows progress, by rank; liveness does not.
func TestServeReadinessFollowsTicks(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{})
	var stall, once atomic.Bool
	s := startServe(t, map[string]string{"decode.exchange_deadline": "100ms"}, func(o *router.LocalOptions) {
		o.BeforeTick = func(rank int, _ uint64) {
			if rank == 1 && stall.Load() && once.CompareAndSwap(false, true) {
				close(entered)
				<-release
			}
		}
	})
	if status, _ := s.get("/readiness"); status != http.StatusOK {
		t.Errorf("idle: readiness %d, want 200", status)
	}
	stall.Store(true)
	<-entered
	var why string
	s.eventually("readiness down", func() bool {
		status, text := s.get("/readiness")
		why = text
		return status == http.StatusServiceUnavailable
	})
	if !strings.Contains(why, "ranks [1]") {
		t.Errorf("reason %q does not name rank 1", why)
	}
	if status, _ := s.get("/health"); status != http.StatusOK {
		t.Errorf("liveness %d while a rank stands still, want 200", status)
	}
	if status, _ := s.post("/generate", body("hello", 4, "")); status != http.StatusServiceUnavailable {
		t.Errorf("generate while down: status %d, want 503", status)
	}
	close(release)
	s.eventually("readiness up", func() bool { status, _ := s.get("/readiness"); return status == http.StatusOK })
	if status, a := s.post("/generate", body("hello", 4, "")); status != http.StatusOK || len(a.IDs) != 4 {
		t.Errorf("generate after: status %d, %+v", status, a)
	}
}

// A probe runs no request and leaves queues and pages alone.
func TestServeProbesTouchNothing(t *testing.T) {
	s := startServe(t, nil, nil)
	for range 30 {
		for _, path := range []string{"/health", "/readiness", "/health_generate", "/server_info", "/model_info"} {
			if status, _ := s.get(path); status != http.StatusOK {
				t.Errorf("%s: status %d", path, status)
			}
		}
	}
	if v := s.value("requests_finished_total", "length") + s.value("input_tokens_total"); v != 0 {
		t.Errorf("probes ran requests: %v", v)
	}
	if v := s.value("pages", "free", "l1"); v != 16 {
		t.Errorf("%v pages free, want all 16", v)
	}
}

func TestServeMetricsStartAtZero(t *testing.T) {
	s := startServe(t, nil, nil)
	_, text := s.get("/metrics")
	for _, name := range []string{
		`load_back_tokens_total{rank="0"}`, `load_back_tokens_total{rank="1"}`, `backup_tokens_total{rank="0"}`, `checksum_failures_total{rank="1"}`,
		`hit_tokens_total{tier="l1"}`, `hit_tokens_total{tier="l2"}`, `hit_tokens_total{tier="l3"}`, `input_tokens_total`, `output_tokens_total`,
		`requests_finished_total{outcome="stop"}`, `requests_finished_total{outcome="length"}`, `requests_finished_total{outcome="failed"}`,
		`requests_finished_total{outcome="aborted"}`, `requests_finished_total{outcome="refused"}`, `transfer_failed_total{reason="transfer_failed"}`,
		`restores_total`, `restores_failed_total`, `retractions_total`, `rails_tripped_total{rail="vote_above_poll"}`,
		`rails_tripped_total{rail="failed_before_terminal"}`, `rails_tripped_total{rail="success_while_pending"}`,
		`rails_tripped_total{rail="success_after_failure"}`, `rails_tripped_total{rail="over_capacity"}`, `rails_tripped_total{rail="never_fits"}`,
		`rails_tripped_total{rail="hold_limit"}`, `rails_tripped_total{rail="starved"}`, `policy_faults_total{hook="gate"}`,
		`policy_slow_calls_total{hook="gate"}`, `policy_call_longest_seconds{hook="score"}`,
		`policy_faults_total{hook="reserve"}`, `policy_faults_total{hook="admit"}`, `policy_quarantined{hook="gate"}`,
		`queue_requests{queue="running"}`, `pages{state="private",tier="l1"}`, `router_retries_total`,
		`generate_requests_total{outcome="length"}`,
	} {
		if !strings.Contains(text, "\nsluice_"+name+" 0\n") {
			t.Errorf("sluice_%s is not shown at 0", name)
		}
	}
	for _, name := range []string{"ticks_total", "collectives_total", "collective_bytes_total", "tick_seconds_count"} {
		if !strings.Contains(text, "\nsluice_"+name+" ") {
			t.Errorf("sluice_%s is not shown", name)
		}
	}
}

func TestServeManyClients(t *testing.T) {
	s := startServe(t, map[string]string{"decode.max_total_tokens": "2048"}, nil)
	const n = 200
	texts := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			status, a, err := s.tryPost("/generate", body(long(i%20), 5, ""))
			if err != nil || status != 200 || len(a.IDs) != 5 {
				t.Errorf("request %d: status %d, %+v, error %v", i, status, a, err)
			}
			texts[i] = a.Text
		})
	}
	all.Wait()
	for i := range n {
		if texts[i] != texts[i%20] {
			t.Errorf("request %d has %q, request %d with the same prompt %q", i, texts[i], i%20, texts[i%20])
		}
	}
	s.idle(128)
	s.eventually("one exchange a tick", func() bool {
		a := s.value("ticks_total")
		return a == s.value("collectives_total") && a == s.value("ticks_total") && a > 0
	})
}

// A stop lets what runs finish, takes no more, and ends without an error.
func TestServeStops(t *testing.T) {
	for _, c := range []struct {
		name, grace string
		script      transfer.Script
		status      int
	}{
		{"what runs finishes", "30s", transfer.Pace{Total: 100 * time.Millisecond}.Script(), 200},
		{"what does not is failed", "0s", transfer.Pace{Total: time.Hour}.Script(), 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServe(t, map[string]string{"http.shutdown_grace": c.grace}, func(o *router.LocalOptions) { o.Script = c.script })
			got := make(chan string, 1)
			go func() {
				status, a, err := s.tryPost("/generate", body("hello", 4, ""))
				got <- fmt.Sprint(status, len(a.IDs), err)
			}()
			s.eventually("one in transfer", func() bool { return s.value("queue_requests", "transfer") == 1 })
			s.end()
			want := fmt.Sprint(c.status, map[int]int{200: 4}[c.status], nil)
			if g := <-got; g != want {
				t.Errorf("the client got %q, want %q", g, want)
			}
			if _, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), time.Second); err == nil {
				t.Error("the port is still open")
			}
		})
	}
}

func TestServePortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	code, out, errs := runCommand(t, nil, "serve", "--http.port", port)
	want := "sluice: cannot listen on 127.0.0.1:" + port + ": address already in use; stop the process that holds the port, or choose another with --http.port\n"
	if code != exitBroken || out != "" || errs != want {
		t.Errorf("status %d, stdout %q, stderr %q", code, out, errs)
	}
}

// nativeArgs is a command line of policies that need no compiling.
func nativeArgs() []string {
	return []string{"--http.port", "0", "--policy.gate.engine", "native", "--policy.reserve.engine", "native", "--policy.admit.engine", "native"}
}

func TestServeRefusesItsInput(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"misspelt key", []string{"--config", writeFile(t, "[decode]\npage_sise = 64\n")}, "did you mean decode.page_size?"},
		{"no module", []string{"--http.port", "0", "--policy.gate.path", "/does/not/exist.wasm"}, "policy.gate.path: open /does/not/exist.wasm"},
		{"not a module", []string{"--http.port", "0", "--policy.gate.path", writeFile(t, "not wasm")}, "gate"},
		{"shards", append(nativeArgs(), "--prefill.tp", "3"), "prefill.tp is 3"},
		{"no folder to record in", append(nativeArgs(), "--record", writeFile(t, "")+"/x"), "start: --record "},
		{"a record of another run", append(nativeArgs(), "--record", writeFile(t, "[decode]\n")), "holds 9 bytes; name a new one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			environ := []string{"HOME=" + t.TempDir()}
			code, out, errs := runCommand(t, environ, append([]string{"serve"}, c.args...)...)
			if code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("status %d, stdout %q, stderr %q; want status 2 and %q", code, out, errs, c.want)
			}
		})
	}
}

// The shipped policies as WebAssembly, as a start without any setting has them.
func TestServeWithShippedModules(t *testing.T) {
	s := startServe(t, map[string]string{"policy.gate.engine": "wasm", "policy.reserve.engine": "wasm", "policy.admit.engine": "wasm"}, nil)
	want := "sluice: serving on " + s.url + " (1 prefill, 1 decode of 2 ranks, policies gate=restore-gated (wasm), reserve=until-retired (wasm), admit=fifo-headroom (wasm), score=lru (native))\n"
	if got := s.stdout.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if _, a := s.post("/generate", body(long(1), 8, "")); len(a.IDs) != 8 {
		t.Errorf("answer %+v", a)
	}
	for _, hook := range []string{"gate", "reserve", "admit"} {
		if v := s.value("policy_faults_total", hook); v != 0 {
			t.Errorf("%v faults of %s", v, hook)
		}
	}
}

// A module whose every hook traps: the native policies answer, it is quarantined, and clients see nothing of it.
func TestServeWithTrappingModule(t *testing.T) {
	path := trapModule(t)
	flags := map[string]string{}
	for _, hook := range []string{"gate", "reserve", "admit"} {
		flags["policy."+hook+".path"] = path
		flags["policy."+hook+".builtin"] = ""
		flags["policy."+hook+".engine"] = "wasm"
	}
	texts := make([]string, 8)
	t.Run("native", func(t *testing.T) {
		s := startServe(t, nil, nil)
		for i := range texts {
			_, a := s.post("/generate", body(long(i), 5, ""))
			texts[i] = a.Text
		}
	})
	for _, onFault := range []string{"native", "hold"} {
		t.Run("on_fault "+onFault, func(t *testing.T) {
			for _, hook := range []string{"gate", "reserve", "admit"} {
				flags["policy."+hook+".on_fault"] = onFault
			}
			serveTraps(t, flags, texts)
		})
	}
}

func serveTraps(t *testing.T, flags map[string]string, texts []string) {
	s := startServe(t, flags, nil)
	for i, want := range texts {
		if _, a := s.post("/generate", body(long(i), 5, "")); a.Text != want || len(a.IDs) != 5 {
			t.Errorf("prompt %d: %q with a module that traps, %q with the native policies", i, a.Text, want)
		}
	}
	if held := s.value("policy_admit_held_total"); held > 0 != (flags["policy.admit.on_fault"] == "hold") {
		t.Errorf("admit was held in %v ticks with on_fault %s", held, flags["policy.admit.on_fault"])
	}
	for _, hook := range []string{"gate", "reserve", "admit"} {
		if f, q := s.value("policy_faults_total", hook), s.value("policy_quarantined", hook); f < 3 || q != 1 {
			t.Errorf("%s: %v faults, quarantined %v; want 3 or more, and 1", hook, f, q)
		}
	}
	if e := s.value("group_epoch"); e != 1 {
		t.Errorf("epoch %v, want 1", e)
	}
	if status, _ := s.get("/readiness"); status != http.StatusOK {
		t.Errorf("readiness %d", status)
	}
	s.idle(16)
}
