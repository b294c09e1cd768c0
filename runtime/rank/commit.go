package rank

import (
	"slices"

	"sluice/abi"
	"sluice/gpu"
	"sluice/kvcache/index"
	"sluice/runtime/model"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// Commit applies the reduced ballot and carries the effects out. A *schedule.Mismatch means the ranks have
// diverged; nothing of the ballot was used then.
func (r *Rank) Commit() error {
	b := r.ballot()
	r.effects.Reset()
	r.over = r.over[:0]
	for i := range r.sched.NumOperations() {
		r.over = append(r.over, r.sched.Operation(i).ID)
	}
	err := r.sched.Apply(&b, r.prop, &r.effects)
	r.tokens = r.tokens[:0]
	if err != nil {
		return err
	}
	for i := range r.sched.NumOperations() {
		if at := slices.Index(r.over, r.sched.Operation(i).ID); at >= 0 {
			r.over = slices.Delete(r.over, at, at+1)
		}
	}
	// What this apply has ended is outstanding no more, and its result of no more use.
	for _, id := range r.over {
		delete(r.results, id)
	}
	for i := range r.effects.List {
		r.effect(i)
	}
	if r.o.Leader != nil {
		r.o.Leader.sent()
	}
	return nil
}

func (r *Rank) effect(i int) {
	f := &r.effects.List[i]
	src, dst := r.effects.Src(i), r.effects.Dst(i)
	switch f.Kind {
	case schedule.EffectSend:
		// The transport keeps the list until the request is over, so it gets one of its own.
		refs := r.refs(make([]gpu.Ref, 0, len(dst)), index.L1, dst, true)
		w := r.row(f.Row)
		w.incarnation = r.incarnation(f.Peer)
		r.o.Transport.Send(transfer.Info{Request: f.Request, Room: f.Room, Peer: f.Peer, Incarnation: w.incarnation,
			PromiseTokens: int(f.Promise), PromptTokens: int(f.Prompt), Prompt: r.prompt(f.Request, int(f.Prompt)), Dst: refs, Slot: f.Slot})
	case schedule.EffectCancel:
		r.o.Transport.Cancel(f.Request, f.Room)
	case schedule.EffectForget:
		r.o.Transport.Forget(f.Request)
	case schedule.EffectFence:
		r.o.Transport.Fence(f.Peer, f.Value)
	case schedule.EffectLoad, schedule.EffectResume:
		r.refA = r.refs(r.refA[:0], index.L2, src, false)
		r.refB = r.refs(r.refB[:0], index.L1, dst, true)
		r.o.Store.StartLoad(f.Operation, r.refA, r.refB)
	case schedule.EffectBackup:
		r.refA = r.refs(r.refA[:0], index.L1, src, false)
		r.refB = r.refs(r.refB[:0], index.L2, dst, true)
		r.o.Store.StartBackup(f.Operation, r.refA, r.refB)
	case schedule.EffectSave:
		r.refA = r.refs(r.refA[:0], index.L1, src, false)
		r.refB = r.refs(r.refB[:0], index.L2, dst, true)
		r.o.Store.StartSave(f.Operation, r.refA, r.refB)
	case schedule.EffectRow:
		// In place: what the row holds after the written pages stays.
		r.refA = r.refs(r.refA[:0], index.L1, dst, f.Value == 1)
		w := r.row(f.Row)
		w.refs = append(w.refs[:f.At], append(r.refA, w.refs[min(int(f.At)+len(dst), len(w.refs)):]...)...)
	case schedule.EffectFreeRow:
		w := r.row(f.Row)
		w.refs, w.known, w.request = w.refs[:0], 0, 0
	case schedule.EffectDiscard:
		r.hook(f.Hook).Discard(f.Value, f.Diverged)
	case schedule.EffectPolicyEpoch:
		r.flip(f)
	case schedule.EffectQuarantine:
		r.hook(f.Hook).Disable()
		r.log.Warn("policy quarantined", "hook", f.Hook.String(), "tick", r.sched.Tick()-1)
	}
	if r.o.Sink == nil {
		return
	}
	switch f.Kind {
	case schedule.EffectAdmitted:
		r.o.Sink.Admitted(f.Request, int(f.Promise), int(f.L1), int(f.Prompt))
	case schedule.EffectToken:
		r.o.Sink.Token(f.Request, f.Token)
	case schedule.EffectFinish:
		r.o.Sink.Finish(f.Request, f.Finish, f.Reason, int(f.Rank), f.Token)
	}
}

// prompt identifies a request's prompt of n tokens in its namespace.
func (r *Rank) prompt(request uint64, n int) model.Prefix {
	r.key = r.sched.AppendKey(r.key[:0], request)
	r.toks = r.sched.AppendTokens(r.toks[:0], request)
	return model.Start(string(r.key)).Extend(r.toks[:min(n, len(r.toks))])
}

func (r *Rank) hook(h abi.Hook) Hook {
	switch h {
	case abi.Gate:
		return r.o.Hooks.Gate
	case abi.Reserve:
		return r.o.Hooks.Reserve
	case abi.Score:
		return r.o.Hooks.Score
	}
	return r.o.Hooks.Admit
}

func (r *Rank) incarnation(peer uint32) uint64 {
	for i := range r.sched.NumPeers() {
		if p := r.sched.Peer(i); p.ID == peer {
			return p.Incarnation
		}
	}
	return 0
}

// StepModel computes this rank's share of the model step, one value a request in batch order. On an error the
// step makes no tokens; the requests go on with the next.
func (r *Rank) StepModel() ([]uint64, error) {
	n := r.sched.NumStep()
	r.items, r.partial = r.items[:0], r.partial[:0]
	for i := range n {
		v := r.sched.Step(i)
		w := r.row(v.Row)
		r.extend(w, &v)
		r.items = append(r.items, model.Item{Request: v.Request, Row: w.refs, Len: v.Len, Token: v.Token, Prefix: w.prefix})
		r.partial = append(r.partial, 0)
	}
	if n == 0 {
		return r.partial, nil
	}
	if err := r.o.Model.Step(r.items, r.partial); err != nil {
		r.counts.StepErrors++
		return nil, err
	}
	return r.partial, nil
}

// extend brings the row's prefix up to the step's token.
func (r *Rank) extend(w *row, v *schedule.StepView) {
	if w.known == v.Len {
		return
	}
	if w.known == v.Len-1 && w.known > 0 {
		w.prefix, w.known = w.prefix.Next(v.Token), v.Len
		return
	}
	r.key = r.sched.AppendKey(r.key[:0], v.Request)
	r.toks = r.sched.AppendTokens(r.toks[:0], v.Request)
	w.prefix = model.Start(string(r.key))
	for _, t := range r.toks {
		w.prefix = w.prefix.Next(t)
	}
	w.known = v.Len
}

// SetTokens hands the rank the tokens of the last step, in batch order; none when the step failed.
func (r *Rank) SetTokens(tokens []uint32) { r.tokens = append(r.tokens[:0], tokens...) }

// StepDigest identifies the batch of the coming step; the model's own reduction compares it between ranks.
func (r *Rank) StepDigest() uint64 {
	h := r.sched.Tick()
	for i := range r.sched.NumStep() {
		v := r.sched.Step(i)
		h = (h ^ v.Request) * 0xff51afd7ed558ccd
		h = (h ^ uint64(v.Len)<<32 ^ uint64(v.Token)) * 0xc4ceb9fe1a85ec53
		h ^= h >> 29
	}
	return h
}
