package plugins

import (
	"context"
	"log/slog"

	"sluice/abi"
	"sluice/internal/text"
)

// Defaults of LogLimit.
const (
	DefaultLogBurst = 16
	DefaultLogEvery = 10
)

// LogLimit bounds the lines of a policy's log that are passed on: Burst at once, and one more for every so many ticks
// that pass. Ticks and no time count, so a run that is replayed passes on the same lines.
type LogLimit struct {
	Burst uint32 // lines; 0: DefaultLogBurst
	Every uint32 // ticks; 0: DefaultLogEvery
}

func (l LogLimit) orDefault() LogLimit {
	if l.Burst == 0 {
		l.Burst = DefaultLogBurst
	}
	if l.Every == 0 {
		l.Every = DefaultLogEvery
	}
	return l
}

// source is who says a line.
type source struct {
	policy string
	hook   string // what was called: a hook, or "configure"
	class  abi.Class
	tick   uint64
}

// journal passes on what the instances of one slot say, one after the other. It belongs to the tick loop.
type journal struct {
	log    *slog.Logger
	limit  LogLimit
	tick   uint64 // of the line before
	spent  uint64 // of the limit, in ticks: a line costs Every, a tick gives one back
	missed uint64 // lines that the limit kept back since the last that passed
	lost   uint64 // lines that the guest overwrote before they were read, since then
}

func newJournal(l LogLimit) journal {
	return journal{log: slog.New(slog.DiscardHandler), limit: l.orDefault()}
}

// line passes a line on, or counts it. Nothing is allocated for one that is only counted. A level that the logger does
// not show takes nothing of the limit.
func (j *journal) line(n *Stats, s *source, level slog.Level, line []byte) {
	ctx := context.Background()
	if !j.log.Enabled(ctx, level) {
		n.Lines++
		return
	}
	if !j.passes(s.tick) {
		n.LinesLimited++
		j.missed++
		return
	}
	n.Lines++
	attrs := append(make([]slog.Attr, 0, 7), slog.String("text", text.Escape(string(line))), slog.String("policy", s.policy), slog.String("hook", s.hook),
		slog.String("class", s.class.String()), slog.Uint64("tick", s.tick))
	if j.missed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", j.missed))
	}
	if j.lost > 0 {
		attrs = append(attrs, slog.Uint64("lost", j.lost))
	}
	j.missed, j.lost = 0, 0
	j.log.LogAttrs(ctx, level, "policy log", attrs...)
}

// overwritten counts lines that the guest wrote over before they were read.
func (j *journal) overwritten(n *Stats, lines uint64) {
	n.LinesLost += lines
	j.lost += lines
}

// passes takes one line off the limit, if it has one left.
func (j *journal) passes(tick uint64) bool {
	if tick > j.tick {
		j.spent -= min(j.spent, tick-j.tick)
	}
	j.tick = tick
	every := uint64(j.limit.Every)
	if j.spent+every > uint64(j.limit.Burst)*every {
		return false
	}
	j.spent += every
	return true
}
