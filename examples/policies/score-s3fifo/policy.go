// Command score-s3fifo is a score policy in Go after S3-FIFO (Yang et al., SOSP 2023): a small queue that what is used once
// leaves soon, a main queue that gives what was used another turn, and a ghost of what left the small queue. The README says
// where keys cannot do what queues do.
package main

import (
	"math"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/score"
	"sluice/examples/policies/nodes"
	"sluice/examples/policies/settings"
)

func init() {
	p := new(policy)
	export.Configure(p.configure)
	score.Register(p.score)
}

const (
	defaultSmall = 10  // percent of the device tier
	defaultGhost = 100 // percent of the main queue
	mostUses     = 3   // that are counted, as with the two bits of the paper
	promoteAt    = 2   // uses in the small queue that lead into the main one
)

// policy measures time in tokens that have entered the cache: a queue of n tokens is n of them long.
type policy struct {
	smallPercent, ghostPercent uint64
	time                       uint64
	nodes                      *nodes.Table[node]
	ghost                      ghost
}

type node struct {
	entered uint64 // when it entered its queue
	hits    uint32 // when it was last shown
	uses    uint32 // since it entered its queue, counted to mostUses and less one for each turn in the main queue
	main    bool   // which queue
	print   uint64 // for the ghost, 0 for nobody
}

// configure takes {"ghost_percent": PERCENT, "small_percent": PERCENT}, 0 to 1000 and 1 to 99.
func (p *policy) configure(info abi.HostInfo, config []byte) int32 {
	p.smallPercent, p.ghostPercent, p.time = defaultSmall, defaultGhost, 0
	p.nodes = nodes.New[node](info)
	p.ghost = newGhost(p.nodes.Len())
	return settings.Read(config, func(key string, value uint64) bool {
		switch {
		case key == "small_percent" && value >= 1 && value <= 99:
			p.smallPercent = value
		case key == "ghost_percent" && value <= 1000:
			p.ghostPercent = value
		default:
			return false
		}
		return true
	})
}

func (p *policy) score(b guest.ScoreBatch) int32 {
	total := min(b.Globals().TotalTokens(), math.MaxUint32)
	q := queues{small: total * p.smallPercent / 100}
	q.main = total - q.small
	q.ghost = q.main * p.ghostPercent / 100
	for i := range b.Len() {
		r := b.At(i)
		n, known := p.nodes.At(r)
		if known {
			n.use(r.Hits()-n.hits, p.time, q)
		} else {
			p.enter(n, r, q)
		}
		n.hits = r.Hits()
		b.Set(i, int64(min(n.leaves(q), math.MaxInt64)))
	}
	return int32(abi.StatusOK)
}

// enter puts a node that is not known into a queue. n still is the node that had its name, which has left the cache.
func (p *policy) enter(n *node, r guest.ScoreRecord, q queues) {
	if n.print != 0 && !n.main {
		p.ghost.add(n.print, p.time)
	}
	*n = node{entered: p.time, print: print(r)}
	if r.Class() == abi.ScoreKeyed {
		// The upper half of a split has been in the cache and is used.
		n.uses = min(r.Hits(), mostUses)
		return
	}
	p.time += uint64(r.Tokens())
	n.main = q.ghost > 0 && p.ghost.take(n.print, p.time, q.ghost)
}

// queues are the lengths of the three, in tokens.
type queues struct{ small, main, ghost uint64 }

// use moves the node to where its queue has brought it by now, and counts what has used it since.
func (n *node) use(hits uint32, now uint64, q queues) {
	if !n.main && n.uses >= promoteAt && now >= n.entered+q.small {
		n.main, n.uses, n.entered = true, 0, n.entered+q.small
	}
	length := q.small
	if n.main {
		length = q.main
		for n.uses > 0 && now >= n.entered+length {
			n.uses, n.entered = n.uses-1, n.entered+length
		}
	}
	if now >= n.entered+length {
		// It ought to have gone, and the cache had room, or a request held it: it is at the end of its queue.
		n.entered = now - length
	}
	n.uses = min(n.uses+min(hits, mostUses), mostUses)
}

// leaves is when the node leaves the cache if nothing uses it again.
func (n *node) leaves(q queues) uint64 {
	switch {
	case n.main:
		return n.entered + q.main*uint64(1+n.uses)
	case n.uses >= promoteAt:
		return n.entered + q.small + q.main
	}
	return n.entered + q.small
}

func main() {}
