package server

import (
	"context"
	"errors"
)

// Errors of a [PolicyEngine], wrapped with what is wrong and what to do.
var (
	// ErrPolicyRefused means that the policy cannot be used: it does not load, its hash is not the pinned one, it
	// refuses its configuration, or it names no such hook. What runs is as it was. HTTP 400.
	ErrPolicyRefused = errors.New("policy refused")
	// ErrPolicyUnknown means that no set of policies has that id. HTTP 404.
	ErrPolicyUnknown = errors.New("no such policies")
	// ErrPolicyConflict means that the state of the policies does not allow it, or that the ranks did not switch in
	// time. What runs is as it was. HTTP 409.
	ErrPolicyConflict = errors.New("policies not changed")
)

// States of a [PolicySet].
const (
	PolicyActive   = "active"   // in use on all ranks
	PolicyStaged   = "staged"   // ready to be activated
	PolicyPrevious = "previous" // the active ones' predecessors, which a rollback puts back in use
	PolicyRefused  = "refused"  // not used; Reason says why
	PolicyDropped  = "dropped"  // staged once and let go unused, with nothing wrong with it; Reason says why
)

// StageRequest asks for one hook's policy to be made ready beside the ones in use. Exactly one of Builtin and Module
// is set.
type StageRequest struct {
	Hook    string // "gate", "reserve", "admit" or "score"
	Builtin string // a shipped policy
	Module  []byte // the bytes of a module
	Name    string // where Module is from, a path say; "": its hash
	// Signature is the content of Module's signature file, for a hook whose modules must be signed; nil: there is none.
	Signature []byte
	SHA256    string // hex; the bytes must have this hash. "": whatever they have
	Engine    string // "native" runs a shipped policy as plain Go; "" or "wasm"
	Config    []byte // one JSON object, the policy's own; nil: none
	// ShadowTicks is for how many ticks the policy answers beside the one in use before it may be activated, 0 to
	// MaxShadowTicks. nil: what is configured for the hook.
	ShadowTicks *int
}

// MaxShadowTicks is the longest shadow run.
const MaxShadowTicks = 1_000_000_000

// PolicySet is one choice of policies for all hooks, as every rank runs it.
type PolicySet struct {
	ID      string       `json:"id"`
	State   string       `json:"state"`
	Epoch   uint64       `json:"policy_epoch,omitempty"` // under which it came into use; 0: it has not, or it is the first
	Changes []string     `json:"changes,omitempty"`      // hooks whose policy it was staged for
	Reason  string       `json:"reason,omitempty"`       // why it was refused or dropped
	Hooks   []PolicyHook `json:"hooks,omitempty"`        // in the order in which they run
	Shadow  *ShadowRun   `json:"shadow,omitempty"`       // of a set that is or was staged
}

// PolicyHook is the policy of one hook. The counters are sums over the ranks, of its time in use.
type PolicyHook struct {
	Hook        string            `json:"hook"`
	Name        string            `json:"name"`             // where it is from: a builtin, a path, or the hash of bytes
	SHA256      string            `json:"sha256,omitempty"` // of the module; "" for plain Go
	Engine      string            `json:"engine"`
	Calls       uint64            `json:"calls"`              // ticks in which an answer was asked for
	Native      uint64            `json:"native_answers"`     // of those, answered by the native policy in its place
	Held        uint64            `json:"held_answers"`       // of those, by nobody: on_fault = "hold"
	Declined    uint64            `json:"declined"`           // of those, because the policy declined
	OwnStatus   uint64            `json:"own_status_answers"` // the policy's own, with a status of 1 to 255; Native and Held are not among them
	Faults      map[string]uint64 `json:"faults"`             // by class; classes without a fault are left out
	Quarantined bool              `json:"quarantined"`        // out of use on all ranks for its faults
	SlowCalls   uint64            `json:"slow_calls"`         // longer than policy.slow_call; their answers stand

	Replaced   uint64            `json:"instances_replaced"` // discarded for a fault
	LogLines   uint64            `json:"log_lines"`          // of its log, passed on
	LogDropped uint64            `json:"log_dropped"`        // of its log, lost or kept back by the limit
	Counters   map[string]uint64 `json:"counters,omitempty"` // its own, by name; those that are 0 are left out

	Manifest *PolicyManifest `json:"manifest,omitempty"` // what the module says about itself; nil where it says nothing

	State *PolicyState `json:"state,omitempty"` // nil until it came into use after another policy
}

// PolicyManifest is who a module says that it is; what it does not say is "". Name is what metrics, log and faults call the
// policy; without it they have PolicyHook.Name.
type PolicyManifest struct {
	Name         string `json:"name,omitempty"`
	Version      string `json:"version,omitempty"`
	Author       string `json:"author,omitempty"`
	Licence      string `json:"licence,omitempty"`
	SourceSHA256 string `json:"source_sha256,omitempty"`
}

// PolicyState is what became of the predecessor's state when a policy came into use: of the ranks, the one that got least.
type PolicyState struct {
	Carried string `json:"carried"`          // "instance": the same policy goes on; "state": saved and loaded; "none"
	Bytes   int    `json:"bytes,omitempty"`  // of a saved state
	Reason  string `json:"reason,omitempty"` // why there is none; "" where there was nothing to carry
}

// PolicyList is what /policies shows: the active set first, then the previous one, the staged ones, and those
// refused or dropped last.
type PolicyList struct {
	Epoch uint64      `json:"policy_epoch"` // in force
	Sets  []PolicySet `json:"policies"`
}

// PolicyEngine changes the policies of a decode group while it runs. All methods may be called from any goroutine; one
// change is made at a time.
type PolicyEngine interface {
	// Policies lists them. It waits for no tick.
	Policies() PolicyList
	// Stage makes a policy ready beside the ones in use, which do not notice: it is checked, compiled, and
	// instantiated once a rank.
	Stage(ctx context.Context, q StageRequest) (PolicySet, error)
	// Activate has all ranks switch to a staged set in one tick, and returns when they have. A set whose shadow run is
	// under way is an ErrPolicyConflict.
	Activate(ctx context.Context, id string) (PolicySet, error)
	// ActivateNow is Activate for a set whose shadow run may be cut short.
	ActivateNow(ctx context.Context, id string) (PolicySet, error)
	// Rollback has all ranks switch back to the previous set, in one tick.
	Rollback(ctx context.Context) (PolicySet, error)
}
