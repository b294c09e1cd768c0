package decode

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"

	"sluice/abi"
	"sluice/kvcache/index"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// Key is the canonical key space of a namespace: what the prefill peer must give as the namespace of the
// transfer, since the KV bytes follow from it.
func (in *Instance) Key(namespace string) []byte {
	framed := index.FrameNamespace(nil, index.Field{Name: "tenant", Value: namespace, Present: true})
	return schedule.Space(string(framed), in.o.Fingerprint, in.o.Layout)
}

// Submit implements server.Engine. A request without a room is given one that no live request holds.
func (in *Instance) Submit(ctx context.Context, r server.Request) (server.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := in.fits(&r); err != nil {
		return nil, err
	}
	in.mu.Lock()
	err := in.refuses(&r)
	in.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// The tick needs the mutex too, so a prompt is written down outside it and only numbered under it.
	message := encode(&r, in.Key(r.Namespace))
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.refuses(&r); err != nil {
		return nil, err
	}
	room := r.Room
	for room == 0 || room != r.Room && in.rooms[room] != nil {
		in.lastRoom++
		room = in.lastRoom
	}
	q := &request{id: in.lastID + 1, room: room, rid: r.RID}
	number(message, q.id, room, in.group.peer)
	if !in.group.leader.Add(message) {
		return nil, fmt.Errorf("%d bytes of prompts wait for the ranks: %w", in.group.leader.Bytes(), server.ErrQueueFull)
	}
	in.lastID = q.id
	q.queue = server.NewStream(min(r.MaxNewTokens, maxUnread), func() { in.abandon(q) })
	in.byID[q.id], in.byRID[q.rid], in.rooms[q.room] = q, q, q
	in.waiting++
	return q.queue, nil
}

// refuses says why a request is not taken now, whatever its size. The caller holds mu.
func (in *Instance) refuses(r *server.Request) error {
	switch {
	case in.stopping:
		return server.ErrStopping
	case in.down != nil:
		return &server.RequestError{Status: http.StatusServiceUnavailable, Message: in.down.Error() + "; send the request again later"}
	case in.byRID[r.RID] != nil:
		return fmt.Errorf("rid %q: %w", r.RID, server.ErrDuplicate)
	case r.Room != 0 && in.rooms[r.Room] != nil:
		return fmt.Errorf("room %d: %w", r.Room, server.ErrDuplicate)
	case in.waiting >= in.o.MaxQueue:
		return fmt.Errorf("%d requests wait: %w", in.waiting, server.ErrQueueFull)
	}
	return nil
}

// Where a request's message of the ingress stream has what is known only once it is taken; see schedule.AppendAdd.
const (
	messageID   = 5
	messageRoom = messageID + 8
	messagePeer = messageRoom + 8
	messageRest = 64 // more than what a message has beside its lists
)

// encode writes a request down as a message of the ingress stream that lacks its numbers.
func encode(r *server.Request, key []byte) []byte {
	return schedule.AppendAdd(make([]byte, 0, messageRest+len(key)+4*len(r.StopTokens)+4*len(r.Tokens)), &schedule.Request{Tenant: r.Tenant,
		Priority: r.Priority, Limit: uint32(r.MaxNewTokens), IgnoreEOS: r.IgnoreEOS, Key: key, Stops: r.StopTokens, Tokens: r.Tokens})
}

// number puts the numbers into a message of encode.
func number(message []byte, id, room uint64, peer uint32) {
	binary.LittleEndian.PutUint64(message[messageID:], id)
	binary.LittleEndian.PutUint64(message[messageRoom:], room)
	binary.LittleEndian.PutUint32(message[messagePeer:], peer)
}

// fits refuses what no pool of this instance can ever hold.
func (in *Instance) fits(r *server.Request) error {
	refuse := func(format string, args ...any) error {
		return &server.RequestError{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
	}
	if len(r.Tokens) == 0 || r.MaxNewTokens < 1 {
		return refuse("the request has a prompt of %d tokens and asks for %d; both must be 1 or more", len(r.Tokens), r.MaxNewTokens)
	}
	c := &in.o.Schedule
	limit := min(r.MaxNewTokens, c.MaxNewTokens)
	total := len(r.Tokens) + limit
	if most := in.o.MaxRequestTokens; most > 0 && total > most {
		return refuse("the request may need %d tokens (%d of prompt, %d new), at most %d are allowed; send a shorter prompt or a lower max_new_tokens",
			total, len(r.Tokens), limit, most)
	}
	// The last token made never has KV of its own.
	if need := (total - 1 + c.PageSize - 1) / c.PageSize; need > c.L1Pages {
		return refuse("the request may need %d pages of %d tokens (%d of prompt, %d new), the device has %d pages; send a shorter prompt or a lower max_new_tokens",
			need, c.PageSize, len(r.Tokens), limit, c.L1Pages)
	}
	return nil
}

// abandon aborts a request whose stream was closed. Its id is free at once: nobody is left to be told apart.
func (in *Instance) abandon(r *request) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.byID[r.id] != r {
		return
	}
	in.freeRID(r)
	in.abort(r)
}

// abort ends a live request as its client wishes: here, where the group has heard nothing of it, and otherwise by the
// ballot's urgent slot. The caller holds mu.
func (in *Instance) abort(r *request) {
	switch {
	case in.group == nil:
	case in.group.leader.Withdraw(r.id):
		in.base.finished[schedule.FinishAborted]++
		in.forget(r)
		r.queue.Push(server.Event{Finish: finishOf(&schedule.Effect{Finish: schedule.FinishAborted, Reason: abi.ReasonAborted}, 0, abi.ReasonText(abi.ReasonAborted))})
	default:
		in.group.leader.Abort(r.id)
	}
}

// Abort implements server.Engine.
func (in *Instance) Abort(rid string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := in.byRID[rid]
	if r == nil {
		return false
	}
	in.abort(r)
	return true
}

// AbortAll implements server.Engine.
func (in *Instance) AbortAll() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := len(in.byID)
	for _, r := range in.byID {
		in.abort(r)
	}
	return n
}

// Flush implements server.Engine: it waits for copies that are under way, and for the apply.
func (in *Instance) Flush(ctx context.Context) error {
	f := &flush{done: make(chan error, 1)}
	in.mu.Lock()
	switch {
	case in.stopping:
		in.mu.Unlock()
		return server.ErrStopping
	case in.down != nil:
		down := in.down
		in.mu.Unlock()
		return down
	case len(in.byID) > 0:
		in.mu.Unlock()
		return server.ErrNotIdle
	}
	in.flushes = append(in.flushes, f)
	signal(in.group.nudge)
	in.mu.Unlock()
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done():
		in.mu.Lock()
		defer in.mu.Unlock()
		for i, other := range in.flushes {
			if other == f {
				in.flushes = append(in.flushes[:i], in.flushes[i+1:]...)
				break
			}
		}
		return ctx.Err()
	}
}

// Info implements server.Engine, from the last tick that rank 0 completed.
func (in *Instance) Info() server.ServerInfo {
	in.mu.Lock()
	g := in.group
	queued, running := in.waiting, 0
	in.mu.Unlock()
	info := server.ServerInfo{
		ServedModelName: in.o.ModelName, ModelType: in.o.ModelName, DisaggregationMode: "decode",
		TPSize: in.o.Schedule.Ranks, DPSize: 1, PageSize: in.o.Schedule.PageSize,
		MaxTotalTokens: in.o.Schedule.L1Pages * in.o.Schedule.PageSize,
	}
	if g != nil {
		s := g.members[0].read()
		info.Tick, running = s.tick, s.queues[schedule.QueueRunning]
		info.InternalStates = []map[string]any{{"epoch": g.epoch, "queues": queueMap(&s)}}
	}
	info.Queued, info.Running = queued, running
	return info
}

func queueMap(s *snapshot) map[string]int {
	m := make(map[string]int, len(s.queues))
	for _, q := range queues() {
		m[q.String()] = s.queues[q]
	}
	return m
}
