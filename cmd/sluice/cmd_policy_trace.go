package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"sluice/abi"
	"sluice/runtime/rank"
)

// traceTicks is how many of a request's last ticks are kept on each rank.
const traceTicks = 20

// seen is what one hook was shown of a request in one tick on one rank, and what it said.
type seen struct {
	tick   uint64
	gate   abi.GateRecord
	vote   abi.GateOut
	admit  abi.AdmitRecord
	says   abi.AdmitOut
	budget uint64
	hook   abi.Hook
}

// tracer keeps the last ticks of every request of a run. It belongs to the goroutine that runs all ranks.
type tracer struct {
	ranks []map[uint64][]seen
	held  []uint64 // by rank: what reserve said last

	reasons [256]bool // given by any hook
}

func newTracer(ranks int) *tracer {
	t := &tracer{held: make([]uint64, ranks)}
	for range ranks {
		t.ranks = append(t.ranks, map[uint64][]seen{})
	}
	return t
}

// wrap puts the tracer around a rank's hooks.
func (t *tracer) wrap(r int, h rank.Hooks) rank.Hooks {
	return rank.Hooks{Score: h.Score, Gate: &tracedHook{h.Gate, t, abi.Gate, r}, Reserve: &tracedHook{h.Reserve, t, abi.Reserve, r}, Admit: &tracedHook{h.Admit, t, abi.Admit, r}}
}

type tracedHook struct {
	rank.Hook
	t    *tracer
	hook abi.Hook
	rank int
}

// Ask implements rank.Hook.
func (h *tracedHook) Ask(tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (abi.Batch, bool) {
	var in abi.Batch
	b, valid := h.Hook.Ask(tick, epoch, n, nOut, func(b abi.Batch) {
		encode(b)
		in.Globals, in.In = append(in.Globals[:0], b.Globals...), append(in.In[:0], b.In...)
	})
	if valid {
		h.t.note(h.rank, h.hook, tick, in, b, n, nOut)
	}
	return b, valid
}

func (t *tracer) note(r int, hook abi.Hook, tick uint64, in, out abi.Batch, n, nOut int) {
	switch hook {
	case abi.Gate:
		for i := range n {
			s := seen{tick: tick, hook: hook, gate: in.GateIn(i), vote: out.GateOut(i)}
			t.reasons[s.vote.Reason] = true
			t.add(r, s.gate.ReqKey, s)
		}
	case abi.Reserve:
		t.held[r] = out.ReserveOut().HeldTokens
		t.reasons[out.ReserveOut().Reason] = true
	case abi.Admit:
		budget := in.AdmitGlobals().BudgetTokens
		for i := range nOut {
			s := seen{tick: tick, hook: hook, admit: in.AdmitIn(i), says: out.AdmitOut(i), budget: budget}
			t.reasons[s.says.Reason] = true
			t.add(r, s.admit.ReqKey, s)
		}
	}
}

func (t *tracer) add(r int, key uint64, s seen) {
	all := t.ranks[r][key]
	if len(all) == traceTicks {
		copy(all, all[1:])
		all = all[:traceTicks-1]
	}
	t.ranks[r][key] = append(all, s)
}

// text is a request's last ticks, with what every rank's hook was shown and said. Ticks that repeat the one before, but for
// how long the request has been waiting, are one line.
func (t *tracer) text(key uint64) string {
	var last uint64
	for r := range t.ranks {
		if all := t.ranks[r][key]; len(all) > 0 {
			last = max(last, all[len(all)-1].tick)
		}
	}
	var b strings.Builder
	var before, same []tickSeen // the tick before, and those that repeat it
	for tick := last - min(last, traceTicks-1); tick <= last; tick++ {
		now := t.at(tick, key)
		if len(now.all) == 0 {
			continue
		}
		if n := len(same); n > 0 && now.repeats(&same[n-1]) || n == 0 && len(before) > 0 && now.repeats(&before[0]) {
			same = append(same, now)
			continue
		}
		t.tell(&b, same)
		t.tell(&b, []tickSeen{now})
		before, same = []tickSeen{now}, nil
	}
	t.tell(&b, same)
	if b.Len() == 0 {
		return "    no hook was ever shown it\n"
	}
	return b.String()
}

// tickSeen is what all ranks' hooks were shown of a request in one tick, and said.
type tickSeen struct {
	tick  uint64
	ranks []int // of all
	all   []seen
}

// at gathers a tick.
func (t *tracer) at(tick, key uint64) tickSeen {
	out := tickSeen{tick: tick}
	for r := range t.ranks {
		for _, s := range t.ranks[r][key] {
			if s.tick == tick {
				out.ranks, out.all = append(out.ranks, r), append(out.all, s)
			}
		}
	}
	return out
}

// repeats says whether k is the tick after before and reads the same, with the request one tick older.
func (k *tickSeen) repeats(before *tickSeen) bool {
	if k.tick != before.tick+1 || !slices.Equal(k.ranks, before.ranks) {
		return false
	}
	for i, s := range before.all {
		if s.hook == abi.Gate {
			s.gate.AgeTicks++
		} else {
			s.admit.WaitTicks++
		}
		if s.hook != k.all[i].hook || s.text(0) != k.all[i].text(0) {
			return false
		}
	}
	return true
}

// tell writes one tick in full, or several that repeat the one before them in short.
func (t *tracer) tell(b *strings.Builder, run []tickSeen) {
	if len(run) == 0 {
		return
	}
	first, last := &run[0], &run[len(run)-1]
	if len(run) == 1 {
		fmt.Fprintf(b, "    tick %d", first.tick)
		for i := range first.all {
			fmt.Fprintf(b, " | rank %d: %s", first.ranks[i], first.all[i].text(t.held[first.ranks[i]]))
		}
		b.WriteString("\n")
		return
	}
	var waits []string
	for i := range first.all {
		if w := first.all[i].waits(&last.all[i]); !slices.Contains(waits, w) {
			waits = append(waits, w)
		}
	}
	fmt.Fprintf(b, "    tick %d to %d: the same, %s\n", first.tick, last.tick, strings.Join(waits, "; "))
}

// waits is how long a request has been waiting from s to last.
func (s *seen) waits(last *seen) string {
	if s.hook == abi.Gate {
		return fmt.Sprintf("age %d to %d", s.gate.AgeTicks, last.gate.AgeTicks)
	}
	return fmt.Sprintf("waits %d to %d ticks", s.admit.WaitTicks, last.admit.WaitTicks)
}

// text is what was shown and said; held is what reserve said last.
func (s *seen) text(held uint64) string {
	if s.hook != abi.Gate {
		return fmt.Sprintf("%s, waits %d ticks, needs %d and %d of %d tokens, reserve held %d last: verdict %s, order %d", s.admit.Kind, s.admit.WaitTicks,
			s.admit.NeedTokens, s.admit.GrowthTokens, s.budget, held, s.says.Verdict, s.says.Order)
	}
	line := fmt.Sprintf("poll %s, restore %s, age %d, vote %s", s.gate.RawPoll, s.gate.Restore, s.gate.AgeTicks, s.vote.Vote)
	if s.vote.Flags&abi.GateOutGiveUp != 0 {
		line += " and give up"
	}
	return line
}

// faultLog keeps the first words of the faults that a rank's policies log.
type faultLog struct {
	lines *[]string
	slog.Handler
}

const keptFaults = 8

func newFaultLog(lines *[]string) *slog.Logger {
	return slog.New(faultLog{lines, slog.DiscardHandler})
}

// Enabled implements slog.Handler.
func (faultLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l faultLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "fault" && len(*l.lines) < keptFaults {
			*l.lines = append(*l.lines, a.Value.String())
		}
		return true
	})
	return nil
}
