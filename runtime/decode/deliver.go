package decode

import (
	"sluice/abi"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// request is one live request as its client sees it. The instance's mutex guards it.
type request struct {
	id, room uint64
	rid      string
	queue    *server.Queue
	admitted bool
	cached   server.CachedTokens
	prompt   int
	outputs  int
	retracts int
	tokens   []uint32       // made in this tick
	finish   *server.Finish // set in this tick
	dirty    bool
}

// deliver tells clients what the tick's effects mean for them. It runs on rank 0's goroutine; it takes the
// instance's mutex once and waits for no reader.
func (g *group) deliver(m *member) {
	in := g.in
	list := m.r.Effects().List
	in.mu.Lock()
	for i := range list {
		f := &list[i]
		switch f.Kind {
		case schedule.EffectFence:
			select {
			case g.fenced <- Peer{ID: f.Peer, Incarnation: f.Value}:
			default: // more fences under way than there are peers: the ones queued bring them back
			}
			continue
		case schedule.EffectAdmitted, schedule.EffectToken, schedule.EffectFinish, schedule.EffectSave:
		default:
			continue
		}
		r := in.byID[f.Request]
		if r == nil {
			if f.Kind == schedule.EffectFinish {
				in.countTransfer(f)
				in.countPolicyEnd(f, m.reasonText(f))
			}
			continue
		}
		switch f.Kind {
		case schedule.EffectAdmitted:
			if !r.admitted {
				r.admitted = true
				in.waiting--
			}
			r.cached = server.CachedTokens{L1: int(f.L1), L2: int(f.Promise) - int(f.L1)}
			r.prompt = int(f.Prompt)
		case schedule.EffectSave:
			r.retracts++
		case schedule.EffectToken:
			r.tokens = append(r.tokens, f.Token)
			r.outputs++
			g.mark(r)
		case schedule.EffectFinish:
			why := m.reasonText(f)
			r.finish = finishOf(f, r.outputs, why)
			in.countTransfer(f)
			in.countPolicyEnd(f, why)
			in.forget(r)
			g.mark(r)
		}
	}
	g.serveFlushes(m)
	in.mu.Unlock()
	for _, r := range g.dirty {
		r.dirty = false
		ok := r.queue.Push(server.Event{Tokens: r.tokens, Cached: r.cached, PromptTokens: r.prompt, Retractions: r.retracts, Finish: r.finish})
		r.tokens = r.tokens[:0]
		if !ok && r.finish == nil {
			// Nobody reads any more. Closing the stream has asked for the abort too; a second one is harmless.
			g.leader.Abort(r.id)
		}
	}
	clear(g.dirty)
	g.dirty = g.dirty[:0]
}

func (g *group) mark(r *request) {
	if !r.dirty {
		r.dirty = true
		g.dirty = append(g.dirty, r)
	}
}

func (in *Instance) countTransfer(f *schedule.Effect) {
	if f.Finish != schedule.FinishFailed && f.Finish != schedule.FinishAborted {
		return
	}
	for _, r := range transferReasons() {
		if r == f.Reason {
			in.transfers[r].Add(1)
		}
	}
}

// reasonText is why a request ended, as the rank's policies in use mean it.
func (m *member) reasonText(f *schedule.Effect) string {
	return rank.ReasonText(m.inUse().Set(), f.Finish, f.Reason)
}

// policyEnd is one series of the requests that policies have ended for reasons of their own.
type policyEnd struct{ outcome, reason string }

// maxPolicyEnds bounds the series: policies come and go while the server runs, each with texts of its own.
const maxPolicyEnds = 512

// countPolicyEnd counts an end whose reason is a policy's own. The caller holds the instance's mutex.
func (in *Instance) countPolicyEnd(f *schedule.Effect, why string) {
	if f.Reason < abi.FirstPolicyReason {
		return
	}
	e := policyEnd{f.Finish.String(), why}
	if _, known := in.policyEnds[e]; !known && len(in.policyEnds) >= maxPolicyEnds {
		e.reason = "other"
	}
	in.policyEnds[e]++
}

// finishOf is how a client is told of an end; why is its reason in words.
func finishOf(f *schedule.Effect, outputs int, why string) *server.Finish {
	switch f.Finish {
	case schedule.FinishStop:
		return &server.Finish{Type: server.FinishStop, Matched: int(f.Token)}
	case schedule.FinishLength:
		return &server.Finish{Type: server.FinishLength, Length: outputs}
	}
	fin := &server.Finish{Type: server.FinishAbort, Message: why, Status: status(f.Finish, f.Reason), ErrType: errType(f.Reason)}
	if f.Reason == abi.ReasonNone {
		fin.Message = "the request was " + f.Finish.String()
	}
	return fin
}

// flush is one call of Flush that waits.
type flush struct {
	sent bool
	done chan error // holds the outcome
}

func (f *flush) end(err error) {
	select {
	case f.done <- err:
	default:
	}
}

// serveFlushes moves the waiting flushes on: a flush is put on the stream once the group is idle, and has
// happened when the tree is empty after an apply. The caller holds the instance's mutex.
func (g *group) serveFlushes(m *member) {
	in := g.in
	if len(in.flushes) == 0 {
		return
	}
	s := m.r.Schedule()
	empty := s.CacheStats().Nodes == 0
	kept := in.flushes[:0]
	for _, f := range in.flushes {
		switch {
		case empty && s.Idle():
			f.end(nil)
		case f.sent && empty:
			f.end(nil)
		case !f.sent && len(in.byID) > 0:
			f.end(server.ErrNotIdle)
		default:
			kept = append(kept, f)
		}
	}
	clear(in.flushes[len(kept):])
	in.flushes = kept
	if len(kept) == 0 || !s.Idle() || g.leader.Pending() {
		return
	}
	// Idle with a tree: either nothing was sent yet, or a copy began before the flush was applied and it did nothing.
	g.leader.Add(schedule.AppendFlush(nil))
	for _, f := range kept {
		f.sent = true
	}
}
