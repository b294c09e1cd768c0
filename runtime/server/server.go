package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/clock"
)

// NamespaceFunc names the authenticated caller of a request: the namespace of its
// cached pages. "" means that the caller is not known, and is answered with 401.
type NamespaceFunc func(*http.Request) string

// Options configure a [Server]. The zero value of an optional field means its default.
type Options struct {
	Engine     Engine                // required
	Clock      clock.Clock           // required; e2e_latency is measured on it
	Logger     *slog.Logger          // required
	Registerer prometheus.Registerer // required; the server's own metrics
	Gatherer   prometheus.Gatherer   // required; what /metrics shows

	// Policies changes the engine's policies; without it there is no /policies. PolicyDirs are the folders from which
	// a client may name a module's file, see /policies/stage; none: clients name no files.
	Policies   PolicyEngine
	PolicyDirs []string

	// VocabSize bounds token ids, at least 256 since text is bytes. Required.
	VocabSize int

	// Namespace names callers. Default: all are "default".
	Namespace NamespaceFunc
	// NewRID makes the id of a request whose client gave none; each must differ
	// from all live ones. Default: 128 random bits in hexadecimal.
	NewRID func() string

	WeightVersion string // of the model, shown in meta_info; default "default"
	Version       string // of the program, shown in /server_info

	MaxBodyBytes        int64         // largest body, default 8 MiB
	MaxNewTokens        int           // most max_new_tokens a request may ask for, default 4096
	DefaultMaxNewTokens int           // when a request does not say, default the smaller of 128 and MaxNewTokens
	ReadTimeout         time.Duration // for the header, and again for the body, default 30 s
	WriteStall          time.Duration // for a client to take one write, default 60 s
}

// Ages and sizes of connections. The idle time is above the 50 s for which
// routers keep a connection in their pool, so that they never meet a closing one.
const (
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Engine == nil:
		return o, errors.New("http server: no engine given")
	case o.Clock == nil:
		return o, errors.New("http server: no clock given")
	case o.Logger == nil:
		return o, errors.New("http server: no logger given")
	case o.Registerer == nil || o.Gatherer == nil:
		return o, errors.New("http server: no metrics registry given; pass it as Registerer and as Gatherer")
	case o.VocabSize < 256:
		return o, fmt.Errorf("http server: the vocabulary has %d ids; text needs at least 256, one a byte", o.VocabSize)
	case o.MaxBodyBytes < 0 || o.MaxNewTokens < 0 || o.DefaultMaxNewTokens < 0 || o.ReadTimeout < 0 || o.WriteStall < 0:
		return o, errors.New("http server: a limit is negative; use 0 for its default")
	}
	if o.Namespace == nil {
		o.Namespace = func(*http.Request) string { return "default" }
	}
	if o.NewRID == nil {
		o.NewRID = randomRID
	}
	if o.WeightVersion == "" {
		o.WeightVersion = "default"
	}
	orDefault(&o.MaxBodyBytes, 8<<20)
	orDefault(&o.MaxNewTokens, 4096)
	orDefault(&o.DefaultMaxNewTokens, min(128, o.MaxNewTokens))
	orDefault(&o.ReadTimeout, 30*time.Second)
	orDefault(&o.WriteStall, 60*time.Second)
	if o.DefaultMaxNewTokens > o.MaxNewTokens {
		return o, fmt.Errorf("http server: the default of max_new_tokens, %d, is above its limit, %d; lower it",
			o.DefaultMaxNewTokens, o.MaxNewTokens)
	}
	return o, nil
}

func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func randomRID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (package crypto/rand)
	return hex.EncodeToString(b[:])
}

// Server serves HTTP for one engine. It is made by [New], serves listeners with
// Serve, and ends with Shutdown. All methods may be called from any goroutine.
type Server struct {
	opts    Options
	metrics *serverMetrics
	calls   *calls
	staging chan struct{} // holds a token for each body of /policies/stage
	mux     *http.ServeMux
	http    *http.Server

	base     context.Context // parent of every request's; ends when the grace does
	cancel   context.CancelFunc
	shutdown sync.Once
	ended    chan struct{} // closed when Shutdown is through
	endErr   error         // Shutdown's result, written before ended is closed
}

// New checks the options and registers the server's metrics, all at 0.
func New(opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, calls: newCalls(), staging: make(chan struct{}, maxStaging), ended: make(chan struct{})}
	routes := s.routes()
	if s.metrics, err = newMetrics(opts.Registerer, paths(routes)); err != nil {
		return nil, err
	}
	s.mux = s.newMux(routes)
	s.base, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: opts.ReadTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.base },
	}
	return s, nil
}

// Listen opens addr ("host:port") for TCP. Its error is one line that names the
// address and what to do.
func Listen(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s: %w; stop the process that holds the port, or choose another with --http.port", addr, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen on %s: %w; choose a port above 1023 with --http.port", addr, syscall.EACCES)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen on %s: %w; choose an address of this machine with --http.host", addr, syscall.EADDRNOTAVAIL)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w; check --http.host and --http.port", addr, err)
}

// Serve serves ln until Shutdown, and returns nil once Shutdown is through. Any
// other end of the listener is an error, and leaves running requests to Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	addr := ln.Addr()
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", addr, err)
	}
	<-s.ended
	return nil
}

// Shutdown stops taking work: new requests of /generate are answered with 503 and
// readiness is down, while probes and metrics go on. It lets what runs finish
// until ctx ends, then fails the rest (503, or an abort frame in a stream that has
// begun), closes the listeners, and waits for the last bytes to be taken, no
// longer than one write may stall. Connections still open then are cut, and the
// error says so. Later calls wait for the first and return its result.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shutdown.Do(func() {
		s.calls.stop()
		select {
		case <-s.calls.idle:
		case <-ctx.Done():
		}
		s.cancel()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.WriteStall)
		defer cancel()
		if err := s.http.Shutdown(last); err != nil {
			s.endErr = fmt.Errorf("http server: connections were cut at the end: %w", errors.Join(err, s.http.Close()))
		}
		close(s.ended)
	})
	<-s.ended
	return s.endErr
}
