package server

import (
	"context"
	"errors"
)

// Errors of an [Engine]. An engine may wrap them with what it knows (the id, the
// room, the numbers); the text of the wrapped error is what the client reads.
var (
	// ErrQueueFull means that the engine takes no more requests for now. HTTP 503.
	ErrQueueFull = errors.New("the queue is full; send the request again later")
	// ErrDuplicate means that the id or the room belongs to a live request. HTTP 409.
	ErrDuplicate = errors.New("the id or the room belongs to a live request; use another, or wait for that request to end")
	// ErrStopping means that the server takes no more work. HTTP 503.
	ErrStopping = errors.New("the server is stopping; send the request to another instance")
	// ErrNotIdle means that a flush was asked for while requests are queued or running. HTTP 409.
	ErrNotIdle = errors.New("requests are queued or running; flush when the server is idle")
)

// RequestError refuses one request for a reason of its own, such as one that can
// never fit in the pools.
type RequestError struct {
	Status  int    // HTTP status, 400..599; any other value is answered as 500
	Message string // what is wrong, with the numbers, and what to do
}

// Error returns the message.
func (e *RequestError) Error() string { return e.Message }

// Engine is the serving side of one decode group as rank 0 sees it. All its
// methods may be called from any goroutine.
type Engine interface {
	// Submit hands a request in; its events arrive on the returned Stream. ctx
	// bounds the call of Submit alone: an accepted request lives until it is
	// finished or its Stream is closed. The errors are ErrQueueFull, ErrDuplicate,
	// ErrStopping and *RequestError, wrapped or not; any other is answered as 500.
	Submit(ctx context.Context, r Request) (Stream, error)
	// Abort ends the live request whose whole id is rid, and reports whether
	// there was one. No id is a prefix of another here.
	Abort(rid string) bool
	// AbortAll ends every live request and returns how many there were.
	AbortAll() int
	// Flush drops the cached pages of every tier. It returns ErrNotIdle when
	// anything is queued or running, and has then dropped nothing.
	Flush(ctx context.Context) error
	// Info describes the engine for /server_info and /model_info.
	Info() ServerInfo
	// Ready returns nil only while ticks complete on all ranks; otherwise the
	// reason, for the reader of /readiness. It runs no request and waits for nothing.
	Ready() error
}

// Request is one prompt for the engine.
type Request struct {
	// RID is the request's id, unique among live requests, 1..MaxRIDBytes bytes.
	RID string
	// Namespace keeps the cached pages of one caller apart from those of others.
	// It comes from the authenticated caller, never from a field of the body.
	Namespace string
	// Tenant and Priority are hints for the policies. The server sets no tenant.
	Tenant, Priority uint16
	// Tokens is the prompt: 1 or more ids, each below the vocabulary's size.
	// Parallel samples share one slice; nobody writes to it.
	Tokens []uint32
	// MaxNewTokens is how many tokens may be made, 1 or more.
	MaxNewTokens int
	// StopTokens end the output when one is made; at most 256 ids.
	StopTokens []uint32
	// IgnoreEOS keeps the model's own end-of-sequence token from ending the output.
	IgnoreEOS bool
	// Room is the transfer's room, 1..2^63-1; 0 means that none was given.
	Room uint64
	// BootstrapHost and BootstrapPort name the prefill peer; "" and 0: not given.
	BootstrapHost string
	BootstrapPort int
}

// CachedTokens counts the prompt tokens that each tier served.
type CachedTokens struct{ L1, L2, L3 int }

// Total is the sum over the tiers.
func (c CachedTokens) Total() int { return c.L1 + c.L2 + c.L3 }

// Event is what happened to a request since the event before.
type Event struct {
	// Tokens are the new tokens. They belong to the stream and are valid until the
	// next call of Next.
	Tokens []uint32
	// Cached, PromptTokens and Retractions are totals so far, in tokens, tokens and
	// times. PromptTokens 0 means the length of the request's own prompt.
	Cached       CachedTokens
	PromptTokens int
	Retractions  int
	// Finish is set on the last event, together with the last token: a token that
	// matched a stop is the last of the same event. By the time it can be read, the
	// request's id and room are free again.
	Finish *Finish
}

// Types of [Finish].
const (
	FinishStop   = "stop"   // a stop token was made; Matched holds it
	FinishLength = "length" // MaxNewTokens were made; Length holds how many
	FinishAbort  = "abort"  // ended early; Message, Status and ErrType say why
)

// Finish says how a request ended.
type Finish struct {
	Type            string // FinishStop, FinishLength or FinishAbort
	Matched, Length int    // the token id that stopped it; the number of tokens made
	// Message says why it was aborted. Status is the HTTP status that goes with it:
	// 400..599 fails the answer with that status while no byte of it is written;
	// 0 (an abort that the client asked for) answers 200 with the tokens so far.
	// ErrType is a short machine-readable name, or "".
	Message string
	Status  int
	ErrType string
}

// Stream carries the events of one request to one reader.
type Stream interface {
	// Next waits for the next event, and returns it, or ctx's error. After the
	// event with Finish it returns io.EOF. One goroutine at a time may call it.
	Next(ctx context.Context) (Event, error)
	// Close gives the stream up and aborts the request if it is not finished. It
	// is idempotent, never waits for a tick, and needs no live context: cleanup
	// after a client has gone is the engine's own work.
	Close()
}

// ServerInfo is what an engine tells about itself. Zero values that a reader
// would take for facts are left out of the JSON.
type ServerInfo struct {
	// ServedModelName is the name clients use. ModelPath is an existing local
	// directory or "": routers fetch what is named here from public hubs otherwise.
	ServedModelName string   `json:"served_model_name"`
	ModelPath       string   `json:"model_path,omitempty"`
	TokenizerPath   string   `json:"tokenizer_path,omitempty"`
	ModelType       string   `json:"model_type,omitempty"`
	Architectures   []string `json:"architectures,omitempty"`
	// DisaggregationMode is "decode", "prefill" or "null" (both in one process).
	DisaggregationMode string `json:"disaggregation_mode"`
	// TPSize and DPSize count ranks. PageSize and MaxTotalTokens are in tokens;
	// MaxTotalTokens is the L1 pool, the smallest over the ranks.
	TPSize         int `json:"tp_size"`
	DPSize         int `json:"dp_size"`
	PageSize       int `json:"page_size"`
	MaxTotalTokens int `json:"max_total_num_tokens"`
	// Tick is the last tick completed on all ranks. Queued and Running count requests.
	Tick    uint64 `json:"tick"`
	Queued  int    `json:"queued_requests"`
	Running int    `json:"running_requests"`
	// InternalStates holds one object per data-parallel rank, of the engine's choosing.
	InternalStates []map[string]any `json:"internal_states,omitempty"`
}
