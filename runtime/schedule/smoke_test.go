package schedule

import (
	"testing"

	"sluice/kvcache/index"
)

// warm runs one request of the prompt to its end so that its prefix is cached, then pushes it to the host tier.
func (g *group) warm(base, prompt, limit int) {
	g.t.Helper()
	id := g.add(base, prompt, limit)
	g.until("the warm-up to end", func() bool { _, ok := g.finished(0, id); return ok && g.idle() })
}

// demote evicts everything the device holds unlocked, on all ranks.
func (g *group) demote() {
	for _, s := range g.ranks {
		s.x.Evict(index.L1, s.cfg.L1Pages)
		s.prepareNext()
	}
}

func TestRequestsRunToTheirEnd(t *testing.T) {
	for ranks := 1; ranks <= 3; ranks++ {
		g := newGroup(t, testConfig(ranks, 4, 16, 16))
		a, b := g.add(0, 6, 5), g.add(500, 9, 3)
		g.until("both to end", func() bool { return g.where(a) == QueueNone && g.where(b) == QueueNone && g.idle() && g.tick > 5 })
		g.wantFinish(a, FinishLength, 0)
		g.wantFinish(b, FinishLength, 0)
		// KV of a: 6+4 = 10 tokens, 2 pages; of b: 9+2 = 11 tokens, 2 pages. Both published and backed up.
		g.wantBooks(index.L1, "free 12 evictable 4 locked 0 private 0 saving 0 loading 0 quarantined 0")
		if n := g.books(index.L2).Free; n != 12 {
			t.Errorf("host pages free: %d, want 12", n)
		}
		if n := g.ranks[0].Counts().OutputTokens; n != 8 {
			t.Errorf("output tokens: %d, want 8", n)
		}
	}
}

func TestSecondRoundIsServedFromTheHostTier(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 16))
	g.warm(0, 16, 2)
	g.demote()
	id := g.add(0, 16, 2)
	g.until("the end", func() bool { _, ok := g.finished(0, id); return ok && g.idle() })
	g.wantFinish(id, FinishLength, 0)
	c := g.ranks[0].Counts()
	if c.HitL2 != 16 || c.LoadPages != 4 || c.Restores == 0 {
		t.Errorf("hit %d tokens, loaded %d pages in %d restores; want 16, 4, more than 0", c.HitL2, c.LoadPages, c.Restores)
	}
}
