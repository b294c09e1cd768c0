package guest

import "sluice/abi"

// A policy's functions. Each returns a status: abi.StatusOK, 1 to 255 of its own, or a negative abi.Status. They are
// plain functions, so a test calls them natively.
type (
	// ConfigureFunc takes the host's information and the configuration bytes (canonical JSON) once an instance.
	// config is valid during the call only.
	ConfigureFunc func(info abi.HostInfo, config []byte) int32
	// GateFunc votes on every record of the batch.
	GateFunc func(b GateBatch) int32
	// ReserveFunc answers how many tokens to hold back.
	ReserveFunc func(b ReserveBatch) int32
	// AdmitFunc answers and orders every candidate of the batch.
	AdmitFunc func(b AdmitBatch) int32
	// ScoreFunc gives every node of the batch its key.
	ScoreFunc func(b ScoreBatch) int32
)

// RunGate runs f over the gate batch at the start of buf.
func RunGate(f GateFunc, buf []byte) int32 {
	b, ok := OpenGate(buf)
	if !ok {
		return Bad
	}
	return f(b)
}

// RunReserve runs f over the reserve batch at the start of buf.
func RunReserve(f ReserveFunc, buf []byte) int32 {
	b, ok := OpenReserve(buf)
	if !ok {
		return Bad
	}
	return f(b)
}

// RunAdmit runs f over the admit batch at the start of buf.
func RunAdmit(f AdmitFunc, buf []byte) int32 {
	b, ok := OpenAdmit(buf)
	if !ok {
		return Bad
	}
	return f(b)
}

// RunScore runs f over the score batch at the start of buf.
func RunScore(f ScoreFunc, buf []byte) int32 {
	b, ok := OpenScore(buf)
	if !ok {
		return Bad
	}
	return f(b)
}
