package schedule

import (
	"errors"
	"fmt"
	"testing"

	"sluice/kvcache/index"
)

// TestS08 sweeps lengths: a request publishes the pages that its written tokens fill, and the last output was never
// written.
func TestS08PublishedLength(t *testing.T) {
	for prompt := 1; prompt <= 9; prompt++ {
		for output := 1; output <= 9; output++ {
			for _, stop := range []bool{false, true} {
				t.Run(fmt.Sprintf("prompt %d output %d stop %v", prompt, output, stop), func(t *testing.T) {
					g := newGroup(t, testConfig(2, 4, 8, 8))
					r := Request{Tokens: counting(0, prompt), Limit: uint32(output)}
					last := g.tokenOf(1, map[bool]int{true: 0, false: prompt + output - 1}[output == 1])
					want := FinishLength
					if stop {
						r.Limit, r.Stops, want = uint32(output+3), []uint32{last}, FinishStop
					}
					a := g.addRequest(r)
					g.until("the end", func() bool { return g.ended(a) })
					e := g.wantFinish(a, want, 0)
					if stop && e.Token != last {
						t.Errorf("stopped by token %d, want %d", e.Token, last)
					}
					g.untilIdle()
					pages := (prompt + output - 1) / 4
					if k := g.books(index.L1); k.Evictable != pages || k.Free != 8-pages {
						t.Errorf("books %+v, want %d pages published", k, pages)
					}
					turn := counting(0, prompt)
					turn = append(turn, g.tokenOf(1, 0))
					for n := prompt + 1; n < prompt+output; n++ {
						turn = append(turn, g.tokenOf(1, n))
					}
					b := g.addRequest(Request{Tokens: append(turn, 1, 2, 3, 4), Limit: 1})
					g.until("the next turn", func() bool { return g.ended(b) })
					if promise, l1 := g.admitted(b); promise != 4*pages || l1 != promise {
						t.Errorf("the next turn hits %d tokens, %d on the device; want %d", promise, l1, 4*pages)
					}
				})
			}
		}
	}
}

// TestS33 runs prompts shorter than a page and full hits.
func TestS33ShortKeysAndFullHits(t *testing.T) {
	for n := 1; n <= 9; n++ {
		g := newGroup(t, testConfig(2, 4, 16, 16))
		for turn := range 2 {
			id := g.add(0, n, 1)
			g.until("the end", func() bool { return g.ended(id) })
			g.wantFinish(id, FinishLength, 0)
			g.untilIdle()
			want := turn * 4 * (n / 4)
			if promise, _ := g.admitted(id); promise != want {
				t.Errorf("prompt %d, turn %d: %d tokens match, want %d", n, turn, promise, want)
			}
		}
		if k := g.books(index.L1); k.Evictable != n/4 || k.Free != 16-n/4 {
			t.Errorf("prompt %d: books %+v, want %d pages kept and the tail freed", n, k, n/4)
		}
	}

	g := newGroup(t, testConfig(2, 4, 16, 16))
	g.warm(0, 8, 1)
	id := g.add(0, 8, 3)
	g.until("the end of the full hit", func() bool { return g.ended(id) })
	g.wantFinish(id, FinishLength, 0)
	if promise, l1 := g.admitted(id); promise != 8 || l1 != 8 {
		t.Errorf("a full hit is promised %d tokens, %d on the device; want 8", promise, l1)
	}
	for i := range g.events[0] {
		if e := &g.events[0][i]; e.Kind == EffectSend && e.Request == id && e.dst[0] != e.dst[1] {
			t.Errorf("a full hit asks the peer for %d pages", e.dst[1]-e.dst[0])
		}
	}
	g.untilIdle()

	g.add(0, 0, 1)
	for range 2 {
		bs := g.ballots()
		reduce(bs)
		for rank, s := range g.ranks {
			if err := s.Apply(bs[rank], Proposals{}, &Effects{}); err != nil && !errors.Is(err, ErrIngress) {
				t.Fatal(err)
			} else if err == nil && len(g.stream) == 0 {
				t.Error("a request without a prompt was taken in")
			}
		}
	}
}
