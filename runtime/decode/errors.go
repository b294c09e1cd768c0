package decode

import (
	"errors"
	"fmt"
	"net/http"

	"sluice/abi"
	"sluice/collective"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// PanicError is a panic in a rank's goroutine: a defect of this program, or of an engine behind an interface.
type PanicError struct {
	Rank  int
	Tick  uint64
	Value string // what it panicked with
	Stack string
}

// Error is one line; the stack is logged.
func (e *PanicError) Error() string {
	return fmt.Sprintf("decode: rank %d panicked in tick %d: %s; report this as a defect", e.Rank, e.Tick, e.Value)
}

// DownError says that the group does not run, and why.
type DownError struct {
	Epoch uint64
	Final bool  // it will not form again
	Err   error // what ended it
}

// Error names the epoch and the reason.
func (e *DownError) Error() string {
	next := "it forms again once every rank is back"
	if e.Final {
		next = "it stays down; restart the server"
	}
	return fmt.Sprintf("decode: the group of epoch %d has ended: %v; %s", e.Epoch, e.Err, next)
}

// Unwrap gives the reason.
func (e *DownError) Unwrap() error { return e.Err }

// StaleError says that a rank has completed no tick for too long.
type StaleError struct {
	Rank int
	Tick uint64 // the last one it completed
}

// Error names the rank.
func (e *StaleError) Error() string {
	return fmt.Sprintf("decode: rank %d has completed no tick since tick %d, for %v or more", e.Rank, e.Tick, staleAfter)
}

// diverged says whether ranks disagreed, as against one that did not come.
func diverged(err error) bool {
	var m *schedule.Mismatch
	var s *collective.ShapeError
	return errors.As(err, &m) || errors.As(err, &s)
}

// status is the HTTP status of a request that the group has ended with a reason; see decode-semantics 1.8 for
// the 400 of a request that never fits and the 500 of a failed restore or transfer.
func status(kind schedule.FinishKind, reason abi.Reason) int {
	switch {
	case kind == schedule.FinishAborted && reason == abi.ReasonAborted:
		return 0
	case kind == schedule.FinishAborted:
		return http.StatusGatewayTimeout
	}
	switch reason {
	case abi.ReasonNeverFits:
		return http.StatusBadRequest
	case abi.ReasonDuplicate:
		return http.StatusConflict
	case abi.ReasonQueueFull, abi.ReasonResync, abi.ReasonShutdown:
		return http.StatusServiceUnavailable
	}
	if kind == schedule.FinishRefused {
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// errType is the machine-readable name of a reason, the ErrType of a server.Finish.
func errType(r abi.Reason) string {
	switch r {
	case abi.ReasonRestoreFailed:
		return "restore_failed"
	case abi.ReasonTransferFailed:
		return "transfer_failed"
	case abi.ReasonCoverageDiffers:
		return "coverage_differs"
	case abi.ReasonStampDiffers:
		return "stamp_differs"
	case abi.ReasonStaleReference:
		return "stale_reference"
	case abi.ReasonPeerLost:
		return "peer_lost"
	case abi.ReasonAborted:
		return "aborted"
	case abi.ReasonDeadline:
		return "deadline_exceeded"
	case abi.ReasonNeverFits:
		return "never_fits"
	case abi.ReasonCapacity:
		return "out_of_capacity"
	case abi.ReasonRetractionSaveFailed:
		return "retraction_save_failed"
	case abi.ReasonResumeFailed:
		return "resume_failed"
	case abi.ReasonBadBytes:
		return "bad_bytes"
	case abi.ReasonHandshakeFailed:
		return "handshake_failed"
	case abi.ReasonResync:
		return "dropped_by_resync"
	case abi.ReasonQueueFull:
		return "queue_full"
	case abi.ReasonDuplicate:
		return "duplicate"
	case abi.ReasonModelFailed:
		return "model_failed"
	case abi.ReasonGiveUp:
		return "given_up"
	case abi.ReasonRejected:
		return "rejected"
	case abi.ReasonStorageFailed:
		return "storage_failed"
	case abi.ReasonShutdown:
		return "stopping"
	}
	if r >= abi.FirstPolicyReason {
		return "policy_reason"
	}
	return "unknown"
}

// transferReasons are the reasons that count as a failed transfer.
func transferReasons() []abi.Reason {
	return []abi.Reason{abi.ReasonTransferFailed, abi.ReasonCoverageDiffers, abi.ReasonStampDiffers, abi.ReasonStaleReference,
		abi.ReasonPeerLost, abi.ReasonDeadline, abi.ReasonHandshakeFailed, abi.ReasonDuplicate, abi.ReasonUnknown}
}

// Retryable says whether a request that ended so may succeed when it is sent again, once the instance is ready: the
// end was the server's fault, of this attempt alone, and not the request's.
func Retryable(f *server.Finish) bool {
	if f == nil || f.Type != server.FinishAbort {
		return false
	}
	switch f.ErrType {
	case "restore_failed", "transfer_failed", "coverage_differs", "stamp_differs", "stale_reference", "peer_lost",
		"retraction_save_failed", "resume_failed", "bad_bytes", "handshake_failed", "storage_failed", "dropped_by_resync":
		return true
	}
	return false
}
