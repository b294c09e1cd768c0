package rank_test

import (
	"context"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// held is a replicated hook whose instance is gone while it is down, and is never thrown away.
type held struct {
	rank.Hook
	down *bool
}

func (h held) Ask(tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (abi.Batch, bool) {
	if *h.down {
		return abi.Batch{}, false
	}
	return h.Hook.Ask(tick, epoch, n, nOut, encode)
}

func (h held) Generation() uint64 {
	if *h.down {
		return 0
	}
	return 1 << 40
}

func (h held) Discard(uint64, bool) {}

// A tick in which the score policy is asked about a full window of nodes allocates nothing. The policy is down while the
// cache fills, so that every measured tick has a window to ask about.
func TestScoreAllocatesNothing(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() { _ = host.Close(context.Background()) })
	for _, native := range []bool{true, false} {
		cfg, down, up := benchConfig(2), true, false
		cfg.Score = true
		b := newBed(t, cfg, func(int) rank.Hooks {
			h := policies(t, host, native)
			h.Admit, h.Score = held{h.Admit, &up}, held{h.Score, &down}
			return h
		})
		const ticks, warm = 16, 4
		for id := range uint64((ticks + warm + 2) * schedule.ScoreWindow) {
			b.add(id+1, 17, 1)
		}
		for range 200 {
			b.step(t)
		}
		s := b.ranks[0].Schedule()
		if !s.Idle() || s.Counts().Scored != 0 || !s.Health(abi.Score).Down || s.Faults(abi.Score) != 0 {
			t.Fatalf("native %v: idle %v, %d keys given while down, %d faults", native, s.Idle(), s.Counts().Scored, s.Faults(abi.Score))
		}
		down = false
		for range warm {
			b.step(t)
		}
		before := s.Counts().Scored
		if n := testing.AllocsPerRun(ticks-1, func() { b.step(t) }); n != 0 {
			t.Errorf("native %v: %v allocations a tick of two ranks", native, n)
		}
		if n := s.Counts().Scored - before; n != ticks*schedule.ScoreWindow {
			t.Errorf("native %v: %d keys in %d ticks, want %d", native, n, ticks, ticks*schedule.ScoreWindow)
		}
	}
}

// A rank whose schedule asks the score policy is not made without one, nor given an epoch without one.
func TestScoreIsNeededWhereItIsAsked(t *testing.T) {
	cfg := benchConfig(1)
	cfg.Score = true
	h := nativeHooks(t)
	b := newBed(t, cfg, func(int) rank.Hooks { return h })
	h.Score = nil
	if err := b.ranks[0].Stage(1, h); err == nil || !strings.Contains(err.Error(), "score is needed") {
		t.Errorf("staged without score: %v", err)
	}
}
