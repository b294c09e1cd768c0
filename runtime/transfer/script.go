package transfer

import (
	"time"

	"sluice/abi"
)

// Key names one rank's share of one request at a peer.
type Key struct {
	Room uint64
	Nth  uint64 // the peer's nth request, from 1
	Rank int
}

// Chunk says how one chunk reaches one rank.
type Chunk struct {
	At        time.Duration // when it lands, from the moment every rank has told its pages
	Flight    time.Duration // for how long before that nothing can stop it any more
	Drop      bool          // it never lands, and the peer does not learn that
	Err       error         // it ends in this error instead of landing
	Reason    abi.Reason    // what the peer calls that; none = ReasonTransferFailed
	Duplicate time.Duration // over 0: it lands again that much later
	Crash     bool          // the peer dies the moment it would land
}

// Finish says how one rank learns that its data is there, or that the request failed.
type Finish struct {
	Delay       time.Duration // from the last chunk to the metadata
	StatusDelay time.Duration // from a failure to the rank's learning of it
	Lose        bool          // neither ever reaches the rank
	Early       bool          // the metadata overtakes the data: Delay counts from the start

	Record  func(*Record) // changes the metadata before it is written
	Reason  abi.Reason    // said beside the metadata
	Message string
	Status  int
}

// Ack says how a drain ack reaches one rank.
type Ack struct {
	Delay time.Duration // from the moment nothing is under way any more
	Lose  bool
}

// Script is the pace of a peer and what goes wrong there. Its methods are asked once for each chunk,
// finish and ack, in no promised order, from inside Pump; they are pure functions of their arguments.
type Script interface {
	Chunk(k Key, chunk, chunks int) Chunk
	Finish(k Key) Finish
	Ack(k Key) Ack
}

// Pace is a script in which nothing goes wrong. The zero value lands everything at once.
type Pace struct {
	Total  time.Duration   // the last chunk lands this long after the start, the others evenly before
	Each   time.Duration   // and this long more for every chunk, its own included
	Jitter time.Duration   // chunks land up to this much later, each by its own share of it
	Seed   uint64          // of the jitter
	Lag    []time.Duration // by rank, on top
	Flight time.Duration   // see Chunk.Flight
	Ack    time.Duration   // see Ack.Delay
}

var _ Script = paced{}

// Script is the pace as a script.
func (p Pace) Script() Script { return paced{p} }

type paced struct{ p Pace }

// Chunk spreads the chunks.
func (s paced) Chunk(k Key, chunk, chunks int) Chunk {
	p := &s.p
	at := time.Duration(chunk+1)*p.Each + p.Total*time.Duration(chunk+1)/time.Duration(max(chunks, 1)) + p.lag(k.Rank)
	if p.Jitter > 0 {
		h := scramble(p.Seed ^ scramble(k.Room^scramble(uint64(k.Rank)<<32|uint64(uint32(chunk)))))
		at += time.Duration(h % uint64(p.Jitter+1))
	}
	return Chunk{At: at, Flight: p.Flight}
}

// Finish has the metadata follow the last chunk, or where there is none the start, at once.
func (s paced) Finish(Key) Finish { return Finish{} }

// Ack gives the pace's delay.
func (s paced) Ack(Key) Ack { return Ack{Delay: s.p.Ack} }

func (p *Pace) lag(rank int) time.Duration {
	if rank < 0 || rank >= len(p.Lag) {
		return 0
	}
	return p.Lag[rank]
}

// scramble mixes 64 bits (SplitMix64: Steele, Lea and Flood, 2014).
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Any stands in a Fault for every rank or every chunk.
const Any = -1

// Fault changes what a script says about the requests it matches. A nil function changes nothing.
type Fault struct {
	Room  uint64 // 0 = every room
	Nth   uint64 // the peer's nth request, from 1; 0 = every one
	Rank  int    // or Any
	Chunk int    // or Any; for OnChunk

	OnChunk  func(*Chunk)
	OnFinish func(*Finish)
	OnAck    func(*Ack)
}

func (f *Fault) matches(k Key) bool {
	return (f.Room == 0 || f.Room == k.Room) && (f.Nth == 0 || f.Nth == k.Nth) && (f.Rank == Any || f.Rank == k.Rank)
}

// WithFaults is base with faults on top, applied in order. A nil base is the zero Pace.
func WithFaults(base Script, faults ...Fault) Script {
	if base == nil {
		base = Pace{}.Script()
	}
	return faulty{base, faults}
}

type faulty struct {
	base   Script
	faults []Fault
}

func (s faulty) Chunk(k Key, chunk, chunks int) Chunk {
	c := s.base.Chunk(k, chunk, chunks)
	for i := range s.faults {
		if f := &s.faults[i]; f.OnChunk != nil && f.matches(k) && (f.Chunk == Any || f.Chunk == chunk) {
			f.OnChunk(&c)
		}
	}
	return c
}

func (s faulty) Finish(k Key) Finish {
	c := s.base.Finish(k)
	for i := range s.faults {
		if f := &s.faults[i]; f.OnFinish != nil && f.matches(k) {
			f.OnFinish(&c)
		}
	}
	return c
}

func (s faulty) Ack(k Key) Ack {
	c := s.base.Ack(k)
	for i := range s.faults {
		if f := &s.faults[i]; f.OnAck != nil && f.matches(k) {
			f.OnAck(&c)
		}
	}
	return c
}
