package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// health says that the process lives and answers. It stays 200 while nothing
// moves: that is what readiness is for.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.object(w, "/health", http.StatusOK, []byte("{\"status\":\"alive\"}\n"))
}

// readiness serves /readiness and /health_generate. Neither runs a request: the
// engine knows whether ticks complete, so a probe leaves queue and pages alone.
func (s *Server) readiness(w http.ResponseWriter, r *http.Request) {
	err := s.ready()
	if err == nil {
		s.object(w, r.URL.Path, http.StatusOK, []byte("{\"status\":\"ready\"}\n"))
		return
	}
	b := appendJSONString([]byte(`{"status":"not ready","reason":`), err.Error())
	s.object(w, r.URL.Path, http.StatusServiceUnavailable, append(b, "}\n"...))
}

func (s *Server) ready() error {
	if s.calls.isStopping() {
		return ErrStopping
	}
	return s.opts.Engine.Ready()
}

// abortRequest serves POST /abort_request: {"rid": whole id} or {"abort_all": true}.
// The answer counts what was live; naming an id that is not is no error.
func (s *Server) abortRequest(w http.ResponseWriter, r *http.Request) {
	raw, fail := s.readBody(w, r)
	if fail != nil {
		s.fail(w, "/abort_request", fail)
		return
	}
	rid, all, err := parseAbort(raw)
	if err != nil {
		s.fail(w, "/abort_request", invalid(err.Error()))
		return
	}
	aborted := 0
	if all {
		s.calls.abortAll()
		aborted = s.opts.Engine.AbortAll()
	} else {
		for _, id := range s.calls.abort(rid) {
			if s.opts.Engine.Abort(id) {
				aborted++
			}
		}
	}
	b := strconv.AppendInt([]byte(`{"aborted":`), int64(aborted), 10)
	s.object(w, "/abort_request", http.StatusOK, append(b, "}\n"...))
}

// serverInfoBody is /server_info: what the engine says, and what this server knows.
type serverInfoBody struct {
	ServerInfo
	VocabSize     int    `json:"vocab_size"`
	WeightVersion string `json:"weight_version"`
	Version       string `json:"version"`
}

func (s *Server) serverInfo(w http.ResponseWriter, r *http.Request) {
	s.marshal(w, r, serverInfoBody{
		ServerInfo: s.opts.Engine.Info(), VocabSize: s.opts.VocabSize,
		WeightVersion: s.opts.WeightVersion, Version: s.opts.Version,
	})
}

// modelInfoBody is /model_info.
type modelInfoBody struct {
	ModelPath         string   `json:"model_path,omitempty"`
	TokenizerPath     string   `json:"tokenizer_path,omitempty"`
	ServedModelName   string   `json:"served_model_name"`
	IsGeneration      bool     `json:"is_generation"`
	WeightVersion     string   `json:"weight_version"`
	HasImage          bool     `json:"has_image_understanding"`
	HasAudio          bool     `json:"has_audio_understanding"`
	ModelType         string   `json:"model_type,omitempty"`
	Architectures     []string `json:"architectures,omitempty"`
	VocabSize         int      `json:"vocab_size"`
	PreferredSampling any      `json:"preferred_sampling_params"`
}

func (s *Server) modelInfo(w http.ResponseWriter, r *http.Request) {
	info := s.opts.Engine.Info()
	s.marshal(w, r, modelInfoBody{
		ModelPath: info.ModelPath, TokenizerPath: info.TokenizerPath, ServedModelName: info.ServedModelName,
		IsGeneration: true, WeightVersion: s.opts.WeightVersion,
		ModelType: info.ModelType, Architectures: info.Architectures, VocabSize: s.opts.VocabSize,
	})
}

func (s *Server) marshal(w http.ResponseWriter, r *http.Request, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.fail(w, r.URL.Path, &failure{status: http.StatusInternalServerError, message: "encode the answer: " + err.Error()})
		return
	}
	s.object(w, r.URL.Path, http.StatusOK, append(b, '\n'))
}

// flushCache serves /flush_cache: 200 once every tier is empty, 409 when requests
// are queued or running.
func (s *Server) flushCache(w http.ResponseWriter, r *http.Request) {
	switch err := s.opts.Engine.Flush(r.Context()); {
	case err == nil:
		s.object(w, "/flush_cache", http.StatusOK, []byte("{\"flushed\":true}\n"))
	case errors.Is(err, ErrNotIdle):
		s.fail(w, "/flush_cache", &failure{status: http.StatusConflict, message: err.Error()})
	default:
		s.fail(w, "/flush_cache", refusal(err))
	}
}

func (s *Server) object(w http.ResponseWriter, path string, status int, b []byte) {
	s.logWrite(path, newReply(w, s.opts.WriteStall).object(status, b))
}

func (s *Server) fail(w http.ResponseWriter, path string, f *failure) {
	s.logWrite(path, newReply(w, s.opts.WriteStall).fail(f))
}

// logWrite notes that an answer did not reach its client; there is nobody else to tell.
func (s *Server) logWrite(path string, err error) {
	if err != nil {
		s.opts.Logger.Debug("answer not delivered", "path", path, "error", err)
	}
}
