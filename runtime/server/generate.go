package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// generate serves POST /generate.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	start := s.opts.Clock.Now()
	out := newReply(w, s.opts.WriteStall)
	refuse := func(f *failure) {
		s.metrics.ended(f.outcome)
		s.logWrite("/generate", out.fail(f))
	}
	if !s.calls.enter() {
		refuse(stopping())
		return
	}
	defer s.calls.leave()

	raw, fail := s.readBody(w, r)
	if fail != nil {
		refuse(fail)
		return
	}
	body, err := parseGenerate(raw, limits{
		vocab: s.opts.VocabSize, maxNewTokens: s.opts.MaxNewTokens, defaultMaxNewTokens: s.opts.DefaultMaxNewTokens,
	})
	if err != nil {
		refuse(invalid(err.Error()))
		return
	}
	namespace := s.opts.Namespace(r)
	if namespace == "" {
		refuse(&failure{status: http.StatusUnauthorized, outcome: outcomeInvalid,
			message: "the caller is not known; send the credentials this server expects"})
		return
	}
	if body.rid == "" {
		body.rid = s.opts.NewRID()
	}
	c := newCall(body.rid, body.samples, start)
	if !s.calls.add(c) {
		refuse(refusal(fmt.Errorf("rid %q: %w", c.rid, ErrDuplicate)))
		return
	}
	defer s.release(c)
	if err := s.submit(r.Context(), c, &body, namespace); err != nil {
		f := refusal(err)
		if r.Context().Err() != nil {
			judged, outcome := s.judge(r.Context(), err)
			if judged == nil {
				s.gone(w, outcome)
				return
			}
			f = judged
		}
		refuse(f)
		return
	}
	if body.stream {
		s.answerStream(w, r, out, c)
	} else {
		s.answerObject(w, r, out, c)
	}
}

// readBody reads a body of at most MaxBodyBytes within ReadTimeout.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *failure) {
	return s.readUpTo(w, r, s.opts.MaxBodyBytes, "send a shorter prompt, or raise http.max_body")
}

// readUpTo reads a body of at most limit bytes; advice says what to do with a larger one.
func (s *Server) readUpTo(w http.ResponseWriter, r *http.Request, limit int64, advice string) ([]byte, *failure) {
	tooLarge := func() *failure {
		w.Header().Set("Connection", "close")
		return &failure{status: http.StatusRequestEntityTooLarge, outcome: outcomeInvalid,
			message: fmt.Sprintf("the body is larger than %d bytes; %s", limit, advice)}
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	// The announced length is a claim, so it sizes the first buffer only so far.
	buf := bytes.NewBuffer(make([]byte, 0, max(512, min(r.ContentLength+bytes.MinRead, 64<<10))))
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	// What follows on the connection is the client leaving, at any time. After a failed read the deadline stays: the
	// rest of a body that never comes must not keep the connection open.
	if err == nil {
		if derr := http.NewResponseController(w).SetReadDeadline(time.Time{}); derr != nil && !errors.Is(derr, http.ErrNotSupported) {
			err = derr
		}
	}
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return buf.Bytes(), nil
	case errors.As(err, &over):
		return nil, tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, &failure{status: http.StatusRequestTimeout, outcome: outcomeInvalid,
			message: fmt.Sprintf("the body did not arrive within %v; send it at once", s.opts.ReadTimeout)}
	}
	return nil, invalid("the body could not be read: " + err.Error())
}

// submit hands every sample to the engine, or none: the caller's release closes
// those that were taken before the one that was refused.
func (s *Server) submit(ctx context.Context, c *call, body *generateBody, namespace string) error {
	c.samples = make([]*sample, 0, len(c.ids))
	c.running.Store(int32(len(c.ids)))
	for i, id := range c.ids {
		stream, err := s.opts.Engine.Submit(ctx, Request{
			RID: id, Namespace: namespace, Priority: body.priority,
			Tokens: body.tokens, MaxNewTokens: body.maxNewTokens,
			StopTokens: body.stopTokens, IgnoreEOS: body.ignoreEOS,
			Room: body.rooms[i], BootstrapHost: body.hosts[i], BootstrapPort: body.ports[i],
		})
		if err != nil {
			return err
		}
		index := i
		if len(c.ids) == 1 {
			index = -1
		}
		c.samples = append(c.samples, &sample{stream: stream, out: output{
			id: id, index: index, weightVersion: s.opts.WeightVersion,
			keepStop: body.keepStop, promptTokens: len(body.tokens),
		}})
	}
	// An abort that came between two of the above missed the later ones.
	if s.calls.wasAborted(c) {
		for _, id := range c.ids {
			s.opts.Engine.Abort(id)
		}
	}
	return nil
}

// release ends whatever of c is not finished, and frees its id.
func (s *Server) release(c *call) {
	for _, sm := range c.samples {
		sm.stream.Close()
	}
	s.calls.remove(c)
}

// each runs read for every sample, side by side where there are several. An
// error ends the others too; returned is the first that is not just that. (A
// failed write cancels the request's context before its error is seen here.)
func (c *call) each(ctx context.Context, read func(context.Context, *sample) error) error {
	if len(c.samples) == 1 {
		return read(ctx, c.samples[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		first error
		mu    sync.Mutex
		all   sync.WaitGroup
	)
	for _, sm := range c.samples {
		all.Go(func() {
			if err := read(ctx, sm); err != nil {
				mu.Lock()
				if first == nil || errors.Is(first, context.Canceled) {
					first = err
				}
				mu.Unlock()
				cancel()
			}
		})
	}
	all.Wait()
	return first
}

// drain reads a sample to its finish, and calls changed whenever there is
// something to show. The call's id is free before the last of it is shown.
func (s *Server) drain(ctx context.Context, c *call, sm *sample, changed func() error) error {
	for {
		ev, err := sm.stream.Next(ctx)
		if err != nil {
			return err
		}
		sm.out.add(ev)
		if ev.Finish != nil {
			sm.stream.Close()
			if c.running.Add(-1) == 0 {
				s.calls.remove(c)
			}
		} else if len(ev.Tokens) == 0 {
			continue
		}
		if err := changed(); err != nil || ev.Finish != nil {
			return err
		}
	}
}

// answerObject answers with one object, or with a list of them for several samples.
func (s *Server) answerObject(w http.ResponseWriter, r *http.Request, out *reply, c *call) {
	err := c.each(r.Context(), func(ctx context.Context, sm *sample) error {
		return s.drain(ctx, c, sm, func() error {
			if sm.out.finish == nil {
				return nil
			}
			if f := failureOf(sm.out.finish); f != nil {
				return f
			}
			return nil
		})
	})
	if err != nil {
		f, outcome := s.judge(r.Context(), err)
		if f == nil {
			s.gone(w, outcome)
			return
		}
		s.release(c)
		s.metrics.ended(outcome)
		s.logWrite("/generate", out.fail(f))
		return
	}
	latency := s.opts.Clock.Now() - c.start
	var buf []byte
	for i, sm := range c.samples {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = sm.out.appendJSON(buf, latency)
	}
	if len(c.samples) > 1 {
		buf = append(append([]byte{'['}, buf...), ']')
	}
	s.metrics.ended(c.outcome())
	s.logWrite("/generate", out.object(http.StatusOK, buf))
}

// answerStream answers with a frame per change and [DONE].
func (s *Server) answerStream(w http.ResponseWriter, r *http.Request, out *reply, c *call) {
	frames := &sse{reply: out, now: s.opts.Clock.Now, start: c.start}
	err := c.each(r.Context(), func(ctx context.Context, sm *sample) error {
		return s.drain(ctx, c, sm, func() error { return frames.frame(&sm.out) })
	})
	if err == nil {
		s.metrics.ended(c.outcome())
		s.logWrite("/generate", frames.done())
		return
	}
	f, outcome := s.judge(r.Context(), err)
	switch {
	case f == nil:
		s.gone(w, outcome)
		return
	case !frames.started:
		s.release(c)
		s.metrics.ended(outcome)
		s.logWrite("/generate", out.fail(f))
		return
	}
	// The status is gone out with the first byte, so the samples that have no end
	// yet are given one that says why.
	s.release(c)
	s.metrics.ended(outcome)
	for _, sm := range c.samples {
		if sm.out.finish != nil {
			continue
		}
		sm.out.end(&Finish{Type: FinishAbort, Message: f.message, Status: f.status, ErrType: f.errType})
		if err := frames.frame(&sm.out); err != nil {
			s.logWrite("/generate", err)
			return
		}
	}
	s.logWrite("/generate", frames.done())
}

// gone counts a call whose client reads no more. The header only sets a status
// for the counters, where none was written yet.
func (s *Server) gone(w http.ResponseWriter, outcome string) {
	s.metrics.ended(outcome)
	if sw, ok := w.(*statusWriter); ok && !sw.wrote {
		sw.WriteHeader(statusClientGone)
	}
}

// outcome is how a call whose samples all have a finish ended: the worst of them.
func (c *call) outcome() string {
	worst := outcomeStop
	for _, sm := range c.samples {
		switch sm.out.finish.Type {
		case FinishStop:
		case FinishLength:
			if worst == outcomeStop {
				worst = outcomeLength
			}
		case FinishAbort:
			worst = outcomeAborted
		default:
			return outcomeFailed
		}
	}
	return worst
}
