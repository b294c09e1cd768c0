// Command go is a gate that talks: restore-gated, with a log, counters and state.
package main

import (
	"encoding/binary"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export/counters"
	"sluice/abi/guest/export/gate"
	"sluice/abi/guest/export/log"
	"sluice/abi/guest/export/state"
)

const long = "a long line is cut at the end of its entry, wherever that is; what lies before it stays as it is. Records up to now: "

// The counters.
const (
	records = iota
	readyVotes
)

type policy struct {
	seen uint64 // records, the state
}

func init() {
	p := new(policy)
	gate.Register(p.gate)
	state.Register(16, p.save, p.load)
}

func (p *policy) gate(b guest.GateBatch) int32 {
	var ready uint64
	for i := range b.Len() {
		r := b.At(i)
		vote := r.RawPoll()
		switch {
		case vote == abi.PollSuccess && r.Restore() == abi.RestoreFailed:
			b.Fail(i, abi.ReasonRestoreFailed)
			continue
		case vote == abi.PollSuccess && r.Restore() == abi.RestorePending:
			vote = abi.PollTransferring
		case vote == abi.PollSuccess:
			ready++
		}
		b.SetVote(i, vote)
	}
	n := uint64(b.Len())
	p.seen += n
	counters.Add(records, n)
	counters.Add(readyVotes, ready)
	if n > 0 {
		p.say(n, ready)
	}
	return int32(abi.StatusOK)
}

func (p *policy) say(n, ready uint64) {
	log.Line(abi.LogLevel(n % 4)).Text("gate of ").Uint(n).Text(" records, ready against all: ").Int(int64(ready) - int64(n)).End()
	if n >= 8 {
		log.Line(abi.LogDebug).Text(long).Uint(p.seen).Text("\u00e9\u00e9").End()
	}
}

func (p *policy) save(dst []byte) (int, bool) {
	if len(dst) < 8 {
		return 0, false
	}
	binary.LittleEndian.PutUint64(dst, p.seen)
	return 8, true
}

func (p *policy) load(src []byte, schema uint32) int32 {
	if !(schema == 1 && len(src) == 8) && !(schema == 2 && len(src) == 16) {
		log.Warn("this state is of no use here")
		return int32(abi.StatusDeclined)
	}
	p.seen = binary.LittleEndian.Uint64(src)
	log.Info("state taken over, \u20ac and \U0001f30a whole")
	return int32(abi.StatusOK)
}

func main() {}
