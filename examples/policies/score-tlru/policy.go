// Command score-tlru is a score policy in Go: tail-optimized LRU, which keeps the next turn of a conversation below a number
// of uncached tokens. What may be lost without passing it goes first; the rest goes by LRU.
package main

import (
	"math"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/score"
	"sluice/examples/policies/settings"
)

func init() {
	p := new(policy)
	export.Configure(p.configure)
	score.Register(p.score)
}

const (
	defaultThreshold = 8192 // tokens
	defaultTurn      = 1024 // tokens

	// neededBit is above every clock in a key, so that what may be lost goes wholly before what may not.
	neededBit = 62
	// uses is how many of the latest uses the policy knows the length of; a power of two.
	uses = 1 << 10
)

// policy knows how many tokens the path of each of the latest uses has. The nodes of a path have one clock; where they do
// not all fit into one batch, those shown later are judged with those shown before.
type policy struct {
	threshold, turn uint64
	lengths         [uses]length
}

type length struct {
	clock  uint64
	tokens uint64
}

// configure takes {"threshold_tokens": TOKENS, "expected_turn_tokens": TOKENS}, each up to 2^32-1.
func (p *policy) configure(_ abi.HostInfo, config []byte) int32 {
	p.threshold, p.turn = defaultThreshold, defaultTurn
	return settings.Read(config, func(key string, value uint64) bool {
		switch key {
		case "threshold_tokens":
			p.threshold = value
		case "expected_turn_tokens":
			p.turn = value
		default:
			return false
		}
		return value <= math.MaxUint32
	})
}

func (p *policy) score(b guest.ScoreBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		l := &p.lengths[r.LastUse()%uses]
		if r.LastUse() > l.clock {
			*l = length{clock: r.LastUse()}
		}
		if r.LastUse() == l.clock {
			l.tokens = max(l.tokens, end(r))
		}
	}
	for i := range b.Len() {
		r := b.At(i)
		key := int64(min(r.LastUse(), 1<<neededBit-1))
		if p.needed(r) {
			key |= 1 << neededBit
		}
		b.Set(i, key)
	}
	return int32(abi.StatusOK)
}

// needed says whether losing the node would put the next turn over the threshold. The turn computes its own new tokens and
// what was lost of the history. A node goes as a whole, and only after all below it, so with it goes the history from the
// node's start on.
func (p *policy) needed(r guest.ScoreRecord) bool {
	history := end(r)
	if l := &p.lengths[r.LastUse()%uses]; l.clock == r.LastUse() {
		history = l.tokens
	}
	return history-uint64(r.DepthTokens())+p.turn > p.threshold
}

// end is the tokens of the path down to the node and with it.
func end(r guest.ScoreRecord) uint64 { return uint64(r.DepthTokens()) + uint64(r.Tokens()) }

func main() {}
