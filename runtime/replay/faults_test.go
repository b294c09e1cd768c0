package replay

import (
	"errors"
	"math/rand/v2"
	"time"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/runtime/transfer"
)

// troubles are the odds, in thousandths, of what goes wrong between the peer and the ranks. It is a
// transfer.Script whose every answer is a function of the seed and the key.
type troubles struct {
	seed uint64
	pace time.Duration // most time a chunk takes
	ack  time.Duration // most time a drain ack takes

	slow, drop, fail, twice, flight, crash      int // of a chunk
	late, lose, early, coverage, stamp, refusal int // of a finish
	ackLate, ackLost                            int // of an ack

	spoiled map[uint64]bool // rooms whose metadata was written with something wrong in it
}

const tick = time.Millisecond

func drawTroubles(r *rand.Rand, seed uint64) troubles {
	t := troubles{seed: seed, spoiled: map[uint64]bool{}, pace: time.Duration(r.IntN(12)) * tick, ack: time.Duration(r.IntN(4)) * tick}
	some := func(p *int, odds ...int) {
		if r.IntN(3) == 0 {
			*p = pick(r, odds...)
		}
	}
	some(&t.slow, 30, 200)
	some(&t.drop, 10, 100)
	some(&t.fail, 10, 100)
	some(&t.twice, 100, 500)
	some(&t.flight, 200, 800)
	some(&t.late, 50, 300)
	some(&t.lose, 10, 60)
	some(&t.early, 100, 600)
	some(&t.coverage, 10, 100)
	some(&t.stamp, 10, 100)
	some(&t.refusal, 10, 100)
	some(&t.ackLate, 50, 300)
	if r.IntN(6) == 0 {
		t.crash, t.ackLost = pick(r, 0, 3, 10), pick(r, 0, 10, 100)
	}
	return t
}

// dice gives a key its own generator.
func (t *troubles) dice(k transfer.Key, part, n int) *rand.Rand {
	return rand.New(rand.NewPCG(t.seed^k.Room*0x9e3779b97f4a7c15, uint64(part)<<48|uint64(k.Rank)<<32|uint64(uint32(n))))
}

func roll(r *rand.Rand, thousandths int) bool { return r.IntN(1000) < thousandths }

// Chunk implements transfer.Script.
func (t *troubles) Chunk(k transfer.Key, chunk, _ int) transfer.Chunk {
	r := t.dice(k, 1, chunk)
	c := transfer.Chunk{At: time.Duration(r.Int64N(int64(t.pace) + 1))}
	if roll(r, t.slow) {
		c.At += time.Duration(r.IntN(40)) * tick
	}
	if roll(r, t.flight) {
		c.Flight = time.Duration(r.Int64N(int64(c.At) + 1))
	}
	switch {
	case roll(r, t.drop):
		c.Drop = true
	case roll(r, t.fail):
		c.Err, c.Reason = errLink, pick(r, abi.ReasonNone, abi.ReasonTransferFailed)
	case roll(r, t.twice):
		c.Duplicate = time.Duration(1+r.IntN(30)) * tick
	case roll(r, t.crash):
		c.Crash = true
	}
	return c
}

// Finish implements transfer.Script.
func (t *troubles) Finish(k transfer.Key) transfer.Finish {
	r := t.dice(k, 2, 0)
	f := transfer.Finish{Early: roll(r, t.early), Lose: roll(r, t.lose)}
	if roll(r, t.late) {
		f.Delay, f.StatusDelay = time.Duration(r.IntN(30))*tick, time.Duration(r.IntN(30))*tick
	}
	by := uint32(1 + r.IntN(9))
	spoil := func(how func(*transfer.Record)) {
		f.Record = func(m *transfer.Record) {
			was := *m
			how(m)
			if *m != was {
				t.spoiled[k.Room] = true
			}
		}
	}
	switch {
	case roll(r, t.coverage):
		spoil(func(m *transfer.Record) { m.To -= min(by, m.To) })
	case roll(r, t.stamp):
		spoil(func(m *transfer.Record) { m.Stamp ^= uint64(by) << 1 })
	case roll(r, t.refusal):
		spoil(func(m *transfer.Record) { m.From, m.To = 0, 1 })
		f.Message, f.Status = "prompt refused", 400
	}
	return f
}

// Ack implements transfer.Script.
func (t *troubles) Ack(k transfer.Key) transfer.Ack {
	r := t.dice(k, 3, 0)
	a := transfer.Ack{Delay: time.Duration(r.Int64N(int64(t.ack) + 1)), Lose: roll(r, t.ackLost)}
	if roll(r, t.ackLate) {
		a.Delay += time.Duration(r.IntN(40)) * tick
	}
	return a
}

var (
	errLink = errors.New("injected: the link failed")
	errCopy = errors.New("injected: the copy cannot run")
)

// deviceFaults draws what goes wrong on the devices; each wears out. Bytes break only on the way to and from the
// host tier: nothing guards those that prefill or the model writes.
func deviceFaults(r *rand.Rand, ranks int) []host.Fault {
	var out []host.Fault
	for range pick(r, 0, 0, 2, 4, 8) {
		f := host.Fault{Kind: pick(r, host.Load, host.Load, host.Load, host.Backup, host.Backup, host.Move, host.Write, host.AnyOp),
			Rank: r.IntN(ranks), Page: pick(r, 0, 0, 0, 1, 2, 5), After: r.IntN(12), Times: 1 + r.IntN(4)}
		switch {
		case (f.Kind == host.Load || f.Kind == host.Backup) && r.IntN(3) == 0:
			f.Corrupt = true
		case f.Kind != host.Write && r.IntN(3) == 0:
			f.DelayTicks = 1 + r.IntN(30)
		default:
			f.Err = errCopy
		}
		if f.Kind == host.Write {
			f.Page, f.After = 0, r.IntN(300)
		}
		out = append(out, f)
	}
	return out
}
