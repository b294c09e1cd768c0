package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice"
	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/internal/metrics"
	"sluice/runtime/router"
)

// servePatience ends a test whose condition never comes true; no test waits for it.
const servePatience = 60 * time.Second

// served is one `sluice serve` in this process, on a port of its own.
type served struct {
	t      *testing.T
	url    string
	reg    *metrics.Registry
	client *http.Client
	stop   context.CancelFunc
	done   chan error
	stdout *lockedBuffer
	stderr *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// nativeFlags make a small instance whose policies need no compiling.
func nativeFlags() map[string]string {
	return map[string]string{
		"http.port": "0", "decode.max_total_tokens": "256", "decode.reserved_decode_tokens": "16", "decode.idle_tick": "5ms",
		"policy.gate.engine": "native", "policy.reserve.engine": "native", "policy.admit.engine": "native", "log.level": "warn",
	}
}

// startServe starts a server with nativeFlags and more, and waits until it says that it is ready.
func startServe(t *testing.T, flags map[string]string, local func(*router.LocalOptions)) *served {
	t.Helper()
	return startRecorded(t, "", flags, local)
}

// startRecorded is startServe with --record; "" is without.
func startRecorded(t *testing.T, record string, flags map[string]string, local func(*router.LocalOptions)) *served {
	t.Helper()
	all := nativeFlags()
	all["plugins.cache_dir"] = filepath.Join(t.TempDir(), "cache")
	for k, v := range flags {
		all[k] = v
	}
	cfg, _, err := config.Load(config.Sources{FileName: embeddedName, File: sluice.DefaultConfig, Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{t: t, stop: cancel, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 300}},
		done: make(chan error, 1), stdout: &lockedBuffer{}, stderr: &lockedBuffer{}}
	started := make(chan string, 1)
	env := &environment{stdin: strings.NewReader(""), stdout: s.stdout, stderr: s.stderr, clock: clock.NewReal()}
	hooks := serveHooks{
		record: record,
		local: func(o *router.LocalOptions) {
			o.Pace = 50 * time.Microsecond
			if local != nil {
				local(o)
			}
		},
		started: func(addr string, reg *metrics.Registry) {
			s.reg = reg
			started <- addr
		},
	}
	go func() { s.done <- serve(ctx, env, cfg, hooks) }()
	select {
	case addr := <-started:
		s.url = "http://" + addr
	case err := <-s.done:
		t.Fatalf("serve: %v\n%s", err, s.stderr)
	case <-time.After(servePatience):
		t.Fatal("not started")
	}
	t.Cleanup(func() {
		s.end()
		s.client.CloseIdleConnections()
		goleak.VerifyNone(t, leaks)
	})
	return s
}

// end stops the server, as SIGTERM does, and checks that it ended well. It may be called twice.
func (s *served) end() {
	s.t.Helper()
	s.stop()
	select {
	case err, open := <-s.done:
		if open && err != nil {
			s.t.Errorf("serve ended with: %v", err)
		}
		if open {
			close(s.done)
		}
	case <-time.After(servePatience):
		s.t.Fatalf("serve does not end\n%s", s.stderr)
	}
}

// answer is the part of a /generate answer that tests read.
type answer struct {
	Text string `json:"text"`
	IDs  []int  `json:"output_ids"`
	Meta struct {
		Finish *struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"finish_reason"`
		Cached  int `json:"cached_tokens"`
		Details struct {
			Device int `json:"device"`
			Host   int `json:"host"`
		} `json:"cached_tokens_details"`
		Completion int `json:"completion_tokens"`
	} `json:"meta_info"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

func body(text string, limit int, more string) string {
	quoted, _ := json.Marshal(text) // a string always has a JSON form
	return fmt.Sprintf(`{"text":%s,"sampling_params":{"max_new_tokens":%d}%s}`, quoted, limit, more)
}

// post sends a body and returns status and answer.
func (s *served) post(path, body string) (int, answer) {
	s.t.Helper()
	status, a, err := s.tryPost(path, body)
	if err != nil {
		s.t.Fatalf("POST %s: %v", path, err)
	}
	return status, a
}

func (s *served) tryPost(path, body string) (status int, a answer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), servePatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, a, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, a, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	return resp.StatusCode, a, err
}

// stream reads a streamed answer frame by frame; frames holds every one of them.
func (s *served) stream(ctx context.Context, body string) (*http.Response, *bufio.Scanner) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/generate", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, bufio.NewScanner(resp.Body)
}

// get returns status and body.
func (s *served) get(path string) (int, string) {
	s.t.Helper()
	resp, err := s.client.Get(s.url + path)
	if err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	return resp.StatusCode, string(raw)
}

func (s *served) value(name string, labels ...string) float64 {
	s.t.Helper()
	v, ok := s.reg.Value(name, labels...)
	if !ok {
		s.t.Fatalf("no metric %s%v", name, labels)
	}
	return v
}

func (s *served) eventually(what string, cond func() bool) {
	s.t.Helper()
	every, limit := time.NewTicker(time.Millisecond), time.After(servePatience)
	defer every.Stop()
	for !cond() {
		select {
		case <-every.C:
		case <-limit:
			s.t.Fatalf("still waiting for: %s\n%s", what, s.stderr)
		}
	}
}

// idle waits until no request is anywhere and every L1 page is free or evictable.
func (s *served) idle(pages float64) {
	s.t.Helper()
	s.eventually("an idle engine", func() bool {
		sum := 0.0
		for _, q := range []string{"prealloc", "transfer", "waiting", "running", "retracted", "resuming", "quarantine"} {
			sum += s.value("queue_requests", q)
		}
		return sum == 0 && s.value("pages", "free", "l1")+s.value("pages", "evictable", "l1") == pages
	})
}

// trapModule is a policy module whose hooks all trap, assembled byte by byte: memory of 16 pages, the arenas of all
// kinds but IN 256 bytes apart from 1 KiB on, IN at 64 KiB.
func trapModule(t *testing.T) string {
	t.Helper()
	str := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	section := func(id byte, items ...[]byte) []byte {
		content := append([]byte{byte(len(items))}, bytes.Join(items, nil)...)
		size := []byte{byte(len(content))}
		if len(content) > 127 {
			size = []byte{byte(len(content)) | 0x80, byte(len(content) >> 7)}
		}
		return append(append([]byte{id}, size...), content...)
	}
	fn := func(code ...byte) []byte {
		return append([]byte{byte(len(code) + 2), 0}, append(code, 0x0B)...)
	}
	export := func(name string, kind, index byte) []byte { return append(str(name), kind, index) }
	const i32 = 0x7F
	module := bytes.Join([][]byte{
		{0, 'a', 's', 'm', 1, 0, 0, 0},
		section(1, []byte{0x60, 0, 0}, []byte{0x60, 2, i32, i32, 1, i32}, []byte{0x60, 1, i32, 1, i32}),
		section(3, []byte{0}, []byte{1}, []byte{2}, []byte{2}, []byte{2}, []byte{2}),
		section(5, []byte{0, 16}),
		section(7, export("memory", 2, 0), export("sluice_abi_1", 0, 0), export("sluice_arena", 0, 1), export("sluice_configure", 0, 2),
			export("sluice_gate_v1", 0, 3), export("sluice_reserve_v1", 0, 4), export("sluice_admit_v1", 0, 5)),
		section(10,
			fn(), // the marker
			// kind == 1 ? 65536 : 256*kind + 1024
			fn(0x20, 0, 0x41, 1, 0x46, 0x04, i32, 0x41, 0x80, 0x80, 0x04, 0x05, 0x20, 0, 0x41, 0x80, 0x02, 0x6C, 0x41, 0x80, 0x08, 0x6A, 0x0B),
			fn(0x41, 0), fn(0x00), fn(0x00), fn(0x00)),
	}, nil)
	path := filepath.Join(t.TempDir(), "trap.wasm")
	if err := os.WriteFile(path, module, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
