package schedule

import "sluice/abi"

// Value is a rank's vote on one transfer entry, on the lattice that MIN reduces. RestoreFailed lies above
// Transferring so that a request whose restore failed on one rank waits until no rank's shard is still being
// written; then every rank retires it in the same tick with quiescent pages.
type Value uint8

// The lattice, lowest first. The ABI keeps the field's five values; RestoreFailed is the host's own.
const (
	Failed Value = iota
	Bootstrapping
	WaitingForInput
	Transferring
	RestoreFailed
	Success
)

var valueNames = [...]string{"Failed", "Bootstrapping", "WaitingForInput", "Transferring", "RestoreFailed", "Success"}

// String returns the field's name of the value.
func (v Value) String() string {
	if int(v) < len(valueNames) {
		return valueNames[v]
	}
	return "Unknown"
}

// Rail names a limit the host enforces whatever a policy says. Each has a counter.
type Rail uint8

// The rails of DESIGN section 2. RailNone means the policy's word stood as given.
const (
	RailNone Rail = iota
	VoteAbovePoll
	FailedBeforeTerminal
	SuccessWhilePending
	SuccessAfterFailure
	OverCapacity
	NeverFits
	HoldLimit
	Starved
	NumRails
)

var railNames = [NumRails]string{"none", "vote_above_poll", "failed_before_terminal", "success_while_pending",
	"success_after_failure", "over_capacity", "never_fits", "hold_limit", "starved"}

// String returns the rail's name as config, metrics and JSON spell it.
func (r Rail) String() string {
	if r < NumRails {
		return railNames[r]
	}
	return "unknown"
}

// Clamp is the total table raw poll x vote x restore status -> ballot value, with the rail that a vote trips.
// raw and vote must be at most abi.PollSuccess; anything larger counts as PollFailed for raw (the side that
// must win) and as the raw poll for vote.
func Clamp(raw, vote abi.Poll, restore abi.RestoreStatus) (Value, Rail) {
	if raw > abi.PollSuccess {
		raw = abi.PollFailed
	}
	if vote > abi.PollSuccess {
		vote = raw
	}
	switch {
	case raw == abi.PollFailed:
		if vote > raw {
			return Failed, VoteAbovePoll
		}
		return Failed, RailNone
	case raw < abi.PollSuccess:
		// A peer may still be writing: nobody fails the request and nobody calls it further than it is.
		switch {
		case vote == abi.PollFailed:
			return Value(raw), FailedBeforeTerminal
		case vote > raw:
			return Value(raw), VoteAbovePoll
		}
		return Value(vote), RailNone
	case restore == abi.RestoreReady:
		switch vote {
		case abi.PollSuccess:
			return Success, RailNone
		case abi.PollFailed:
			return RestoreFailed, RailNone
		}
		return Transferring, RailNone
	case restore == abi.RestoreFailed:
		switch vote {
		case abi.PollSuccess:
			return RestoreFailed, SuccessAfterFailure
		case abi.PollFailed:
			return RestoreFailed, RailNone
		}
		return Transferring, RailNone
	}
	// Pending: the restore's own copies still write the pages.
	switch vote {
	case abi.PollSuccess:
		return Transferring, SuccessWhilePending
	case abi.PollFailed:
		return Transferring, FailedBeforeTerminal
	}
	return Transferring, RailNone
}

// An entry lane is value<<28 | reason<<16 | rank: MIN takes the least value, then the least reason (known
// reasons sort below abi.ReasonUnknown), then the lowest rank. The low bits are all ones unless the value is
// Failed or RestoreFailed, so that they never decide between two ranks that report no failure.
const (
	laneValueShift  = 28
	laneReasonShift = 16
	laneLow         = 1<<laneValueShift - 1
	laneRankMask    = 1<<laneReasonShift - 1
	laneReasonMask  = 1<<(laneValueShift-laneReasonShift) - 1
)

func makeLane(v Value, reason abi.Reason, rank int) uint32 {
	if v != Failed && v != RestoreFailed {
		return uint32(v)<<laneValueShift | laneLow
	}
	return uint32(v)<<laneValueShift | uint32(reason)<<laneReasonShift | uint32(rank)&laneRankMask
}

// Outcome is a reduced entry lane: the value all ranks agree on and, where it is a failure, one reason and one
// rank that gave it.
type Outcome struct {
	Value  Value
	Reason abi.Reason
	Rank   int
}

func parseLane(lane uint32) Outcome {
	v := Value(lane >> laneValueShift)
	if v > Success {
		// Nobody voted: the lane still holds the identity of MIN. The entry waits.
		v = Transferring
	}
	o := Outcome{Value: v, Rank: -1}
	if v == Failed || v == RestoreFailed {
		o.Reason = abi.Reason(lane >> laneReasonShift & laneReasonMask)
		o.Rank = int(lane & laneRankMask)
	}
	return o
}

// Vote is one rank's word on one transfer or prealloc entry, ready for its ballot lane. Only Gate and
// GateHandshake make one, so a poll that has not passed the rails cannot reach a ballot.
type Vote struct {
	lane uint32
	made bool
}

// Value returns the lattice value of the vote.
func (v Vote) Value() Value { return parseLane(v.lane).Value }

// Observation is what one rank knows of one transfer entry when it votes.
type Observation struct {
	Raw     abi.Poll          // raw poll of this rank's receiver, staging included
	Restore abi.RestoreStatus // this rank's restore; RestoreReady where there is nothing to restore
	Reason  abi.Reason        // why Raw is Failed; ReasonUnknown where the transport did not say
}

// Gate passes a policy's answer through the rails and returns the vote for the ballot. reason is the policy's
// own and is used only where its vote of Failed stands on a healthy request; rank is the voter, 0..ranks-1.
func Gate(o Observation, vote abi.Poll, reason abi.Reason, rank int) (Vote, Rail) {
	v, rail := Clamp(o.Raw, vote, o.Restore)
	switch {
	case v == Failed:
		reason = known(o.Reason)
	case v == RestoreFailed && o.Restore == abi.RestoreFailed:
		reason = abi.ReasonRestoreFailed
	case v == RestoreFailed && reason == 0:
		reason = abi.ReasonGiveUp
	}
	return Vote{lane: makeLane(v, reason, rank), made: true}, rail
}

// GateHandshake is the vote on a prealloc entry: no policy is asked, because no page is held yet. Anything
// above WaitingForInput counts as WaitingForInput.
func GateHandshake(raw abi.Poll, reason abi.Reason, rank int) Vote {
	v := Value(raw)
	if raw > abi.PollWaitingForInput {
		v = WaitingForInput
	}
	return Vote{lane: makeLane(v, known(reason), rank), made: true}
}

func known(r abi.Reason) abi.Reason {
	if r == 0 {
		return abi.ReasonUnknown
	}
	return r
}
