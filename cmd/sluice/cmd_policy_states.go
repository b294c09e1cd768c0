package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/runtime/schedule"
)

// The gate's whole small state: every raw poll, restore status and vote of the tick before.
const (
	statePolls    = int(abi.PollSuccess) + 1
	stateRestores = int(abi.RestoreFailed) + 1
	gateStates    = statePolls * stateRestores * statePolls
)

// stateAges are the ages at which each state is shown, in ticks: an entry that is new, young, old, and older than any.
func stateAges() []uint32 { return []uint32{0, 1, 20, 1000, 1 << 20} }

// stateRow is what a gate makes of one raw poll and restore status, over all votes before and ages.
type stateRow struct {
	raw     abi.Poll
	restore abi.RestoreStatus
	votes   [statePolls]int
	giveUps int
	values  [schedule.Success + 1]int
	rails   [schedule.NumRails]int
}

// stateReport is what a gate makes of every state.
type stateReport struct {
	rows     []stateRow
	rails    [schedule.NumRails]int // states at some age
	asked    int
	declined int
	faults   []string
	reasons  [256]bool // given
}

// driveStates shows a gate every state at every age, each state as a batch's record, and passes the votes through the
// host's table.
func driveStates(ctx context.Context, f *policyFile, m *plugins.Module) (rep stateReport, err error) {
	p, err := kit.Open(ctx, kit.Compiled(m), f.options())
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	rep.rows = make([]stateRow, statePolls*stateRestores)
	for i, age := range stateAges() {
		states := stateBatch(age)
		a, err := p.Ask(abi.Gate, uint64(age)+uint64(i)+1, 1, len(states), len(states), func(b abi.Batch) {
			b.PutGateGlobals(&abi.GateGlobals{TimeNS: uint64(age) * 1_000_000})
			for k := range states {
				b.PutGate(k, &states[k])
			}
		})
		switch {
		case err != nil:
			return rep, err
		case a.Fault != nil:
			rep.faults = append(rep.faults, fmt.Sprintf("gate states at age %d: %v", age, a.Fault))
		case a.Declined():
			rep.declined += len(states)
		default:
			rep.take(states, a.Out)
		}
	}
	return rep, nil
}

func stateBatch(age uint32) []abi.GateRecord {
	out := make([]abi.GateRecord, 0, gateStates)
	for i := range gateStates {
		r := abi.GateRecord{ReqKey: uint64(i) + 1, RawPoll: abi.Poll(i % statePolls), Restore: abi.RestoreStatus(i / statePolls % stateRestores),
			PrevVote: abi.Poll(i / (statePolls * stateRestores)), AgeTicks: age, RestoreTokens: 128, TransferredPages: 1}
		if r.Restore == abi.RestoreReady {
			r.Flags |= abi.GateFlagSetAside
		}
		if r.RawPoll == abi.PollSuccess {
			r.Flags |= abi.GateFlagStampSeen
			r.TransferredPages = 8
		}
		out = append(out, r)
	}
	return out
}

func (rep *stateReport) take(states []abi.GateRecord, out []byte) {
	for i, s := range states {
		o := abi.GetGateOut(out[i*abi.GateOutStride:])
		v, rail := schedule.Clamp(s.RawPoll, o.Vote, s.Restore)
		row := &rep.rows[int(s.RawPoll)*stateRestores+int(s.Restore)]
		row.raw, row.restore = s.RawPoll, s.Restore
		row.votes[o.Vote]++
		rep.reasons[o.Reason] = true
		row.values[v]++
		row.rails[rail]++
		if o.Flags&abi.GateOutGiveUp != 0 {
			row.giveUps++
		}
		rep.rails[rail]++
		rep.asked++
	}
}

// table is the table of the rows that trip a rail, or of all rows.
func (rep *stateReport) table(all bool) string {
	var b strings.Builder
	for i := range rep.rows {
		r := &rep.rows[i]
		tripped := railCounts(r.rails[:])
		if !all && tripped == "" || rep.asked == 0 {
			continue
		}
		var votes, values []string
		for v, n := range r.votes {
			if n > 0 {
				votes = append(votes, abi.Poll(v).String())
			}
		}
		for v, n := range r.values {
			if n > 0 {
				values = append(values, schedule.Value(v).String())
			}
		}
		if r.giveUps > 0 {
			votes = append(votes, "give up")
		}
		line := fmt.Sprintf("  raw %-17s restore %-8s votes %s, which counts as %s", r.raw, r.restore, strings.Join(votes, " or "), strings.Join(values, " or "))
		if tripped != "" {
			line += ": " + tripped
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// railCounts lists the rails that were tripped with how often, by schedule's numbers.
func railCounts[T int | uint64](rails []T) string {
	var parts []string
	for i, n := range rails {
		if r := schedule.Rail(i); r != schedule.RailNone && n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", r, n))
		}
	}
	return strings.Join(parts, ", ")
}
