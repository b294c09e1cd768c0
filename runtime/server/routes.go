package server

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// route is one path and what serves it, by method. GET also serves HEAD.
type route struct {
	path    string
	methods []string
	serve   http.HandlerFunc
}

func (s *Server) routes() []route {
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	both := []string{http.MethodGet, http.MethodPost}
	metrics := promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{})
	out := []route{
		{"/generate", post, s.generate},
		{"/abort_request", post, s.abortRequest},
		{"/flush_cache", both, s.flushCache},
		{"/health", get, s.health},
		{"/readiness", get, s.readiness},
		{"/health_generate", get, s.readiness},
		{"/metrics", get, metrics.ServeHTTP},
		{"/server_info", get, s.serverInfo},
		{"/get_server_info", get, s.serverInfo},
		{"/model_info", get, s.modelInfo},
		{"/get_model_info", get, s.modelInfo},
	}
	if s.opts.Policies != nil {
		out = append(out, s.policyRoutes()...)
	}
	return out
}

func paths(routes []route) []string {
	out := make([]string, len(routes))
	for i, r := range routes {
		out[i] = r.path
	}
	return out
}

// newMux serves the routes; a wrong method and an unknown path are answered in
// JSON like every other error.
func (s *Server) newMux(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes {
		for _, method := range r.methods {
			mux.HandleFunc(method+" "+r.path, r.serve)
		}
		allow := strings.Join(r.methods, ", ")
		mux.HandleFunc(r.path, func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Allow", allow)
			s.fail(w, r.path, &failure{status: http.StatusMethodNotAllowed,
				message: fmt.Sprintf("%s does not take %s; use %s", r.path, q.Method, allow)})
		})
	}
	known := strings.Join(paths(routes), ", ")
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		s.fail(w, otherPath, &failure{status: http.StatusNotFound,
			message: fmt.Sprintf("no such path %q; there are %s", q.URL.Path, known)})
	})
	return mux
}

// statusWriter counts an answer when its status is known.
type statusWriter struct {
	http.ResponseWriter
	r       *http.Request
	metrics *serverMetrics
	wrote   bool
}

func (w *statusWriter) WriteHeader(code int) {
	if !w.wrote && code >= 200 { // 1xx come before the status
		w.wrote = true
		w.metrics.answered(w.r, code)
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP serves one request; [Server.Serve] does so for each of a listener.
// The deadlines set here are the kernel's, so they are in the machine's time. A
// connection keeps the write deadline of its last request, so each sets its own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	if s.calls.isStopping() {
		w.Header().Set("Connection", "close") // so that idle connections are few at the end
	}
	ctl := http.NewResponseController(w)
	now := time.Now()
	err := ctl.SetWriteDeadline(now.Add(s.opts.WriteStall))
	if err == nil && r.ContentLength != 0 {
		err = ctl.SetReadDeadline(now.Add(s.opts.ReadTimeout))
	}
	if err != nil {
		s.logWrite(r.URL.Path, err)
	}
	s.mux.ServeHTTP(&statusWriter{ResponseWriter: w, r: r, metrics: s.metrics}, r)
}
