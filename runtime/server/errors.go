package server

import (
	"context"
	"errors"
	"net/http"
	"os"
)

// failure is an answer that is not 200, or the end of a stream that cannot be any more.
type failure struct {
	status  int
	message string
	errType string // "" = none
	outcome string // for the metrics
}

func (f *failure) Error() string { return f.message }

// writeError is a failed write to the client: it left, or it stopped reading.
type writeError struct{ err error }

func (e *writeError) Error() string { return "write to the client: " + e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// invalid is the failure for a body that was refused.
func invalid(message string) *failure {
	return &failure{status: http.StatusBadRequest, message: message, outcome: outcomeInvalid}
}

// stopping is the failure of what a stopping server does not take or finish.
func stopping() *failure {
	return &failure{status: http.StatusServiceUnavailable, message: ErrStopping.Error(), errType: "stopping", outcome: outcomeStopping}
}

// status keeps a status to those of errors.
func status(n int) int {
	if n < 400 || n > 599 {
		return http.StatusInternalServerError
	}
	return n
}

// refusal maps an error of Engine.Submit.
func refusal(err error) *failure {
	f := &failure{message: err.Error(), outcome: outcomeFailed}
	var refused *RequestError
	switch {
	case errors.Is(err, ErrQueueFull):
		f.status, f.outcome = http.StatusServiceUnavailable, outcomeQueueFull
	case errors.Is(err, ErrDuplicate):
		f.status, f.outcome = http.StatusConflict, outcomeDuplicate
	case errors.Is(err, ErrStopping):
		f.status, f.outcome = http.StatusServiceUnavailable, outcomeStopping
	case errors.As(err, &refused):
		f.status = status(refused.Status)
		if f.status < 500 {
			f.outcome = outcomeInvalid
		}
	default:
		f.status = http.StatusInternalServerError
	}
	return f
}

// failureOf is the failure that a finish stands for while nothing is written:
// nil for a normal end, and for an abort that the client asked for.
func failureOf(f *Finish) *failure {
	if f.Type != FinishAbort || f.Status == 0 {
		return nil
	}
	return &failure{status: status(f.Status), message: f.Message, errType: f.ErrType, outcome: outcomeAborted}
}

// judge maps the error that ended the reading of a call's streams. A nil failure
// means that there is nobody to tell.
func (s *Server) judge(ctx context.Context, err error) (f *failure, outcome string) {
	var told *failure
	var write *writeError
	switch {
	case errors.As(err, &told):
		return told, told.outcome
	case errors.As(err, &write):
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, outcomeStalled
		}
		return nil, outcomeDisconnected
	case s.base.Err() != nil && ctx.Err() != nil:
		return stopping(), outcomeStopping
	case ctx.Err() != nil:
		return nil, outcomeDisconnected
	case errors.Is(err, ErrSlowReader):
		return &failure{status: http.StatusServiceUnavailable, message: err.Error(), errType: "slow_reader", outcome: outcomeStalled}, outcomeStalled
	}
	return &failure{
		status:  http.StatusInternalServerError,
		message: "the request ended without a result: " + err.Error() + "; send it again",
		errType: "internal",
		outcome: outcomeFailed,
	}, outcomeFailed
}

// appendError appends {"error":{"message":...,"type":...}}; type only where there is one.
func appendError(dst []byte, message, errType string) []byte {
	dst = appendJSONString(append(dst, `{"error":{"message":`...), message)
	if errType != "" {
		dst = appendJSONString(append(dst, `,"type":`...), errType)
	}
	return append(dst, "}}\n"...)
}
