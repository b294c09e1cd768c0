package repro

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sluice/abi"
)

// Report is what the experiment found. Its JSON names are documented in the README.
type Report struct {
	Columns []Column `json:"columns"`
	Offsets []Offset `json:"offsets"`

	skipped bool // the offsets were left out on purpose
}

// Column is one behaviour over all rounds.
type Column struct {
	Name                  string            `json:"name"`
	DecodeAlive           bool              `json:"decode_alive"`
	CollectivesPerTick    float64           `json:"collectives_per_tick"`
	PagesFreedUnderWriter uint64            `json:"pages_freed_under_writer"`
	Rails                 map[string]uint64 `json:"rails"` // all rails, over both ranks
	Rounds                []Round           `json:"rounds"`
	Lost                  string            `json:"lost,omitempty"` // how decode ended
}

// Round is one pass over all prompts.
type Round struct {
	Offered        int       `json:"offered"`
	Served         int       `json:"served"`
	Retried        int       `json:"retried"`
	Failed         []Failure `json:"failed"`
	LoadBackTokens []uint64  `json:"load_back_tokens"` // by rank
}

// Failure is one attempt that ended badly.
type Failure struct {
	Request uint64 `json:"request"`
	Ranks   []int  `json:"ranks"` // on which it failed
	Tick    uint64 `json:"tick"`
	Reason  string `json:"reason"`

	apart bool // the ranks on which it failed did not all fail it in that tick
}

// Offset is one run of the second part.
type Offset struct {
	Offset                int    `json:"offset"` // ticks from the failing rank's raw Success to the failure
	PeerInFlight          bool   `json:"peer_in_flight"`
	Name                  string `json:"name"`
	Offered               int    `json:"offered"`
	Served                int    `json:"served"`
	RanksAgree            bool   `json:"ranks_agree"`
	PagesFreedUnderWriter uint64 `json:"pages_freed_under_writer"`
}

// Names of the columns.
const (
	RankLocal     = "rank-local"
	Ungated       = "ungated"
	PendingOnly   = "pending-only"
	RestoreGated  = "restore-gated"
	injectedRound = 1 // index of the round in which the load back fails
)

// Check says what of the report does not hold, nil when all of it does.
func (r *Report) Check() error {
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	for i := range r.Columns {
		c := &r.Columns[i]
		if c.Name == RankLocal {
			checkRankLocal(c, say)
		} else {
			checkAgreed(c, say)
		}
	}
	r.checkOffsets(say)
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("the experiment does not show what it should:\n  %s", strings.Join(bad, "\n  "))
}

func checkRankLocal(c *Column, say func(string, ...any)) {
	if c.DecodeAlive {
		say("%s: decode survived", c.Name)
	}
	for i, n := range c.Rounds {
		want := "all"
		if i >= injectedRound {
			want = "none"
		}
		if (want == "all") != (n.Served == n.Offered) || want == "none" && n.Served != 0 {
			say("%s: round %d served %d of %d, want %s", c.Name, i+1, n.Served, n.Offered, want)
		}
	}
}

func checkAgreed(c *Column, say func(string, ...any)) {
	if !c.DecodeAlive {
		say("%s: decode was lost: %s", c.Name, c.Lost)
	}
	if c.CollectivesPerTick != 1 {
		say("%s: %g collectives a tick, want 1", c.Name, c.CollectivesPerTick)
	}
	if c.PagesFreedUnderWriter != 0 {
		say("%s: %d pages were freed under a writer", c.Name, c.PagesFreedUnderWriter)
	}
	for i, n := range c.Rounds {
		if n.Served != n.Offered {
			say("%s: round %d served %d of %d", c.Name, i+1, n.Served, n.Offered)
		}
		if i == injectedRound {
			checkInjected(c.Name, &n, say)
			continue
		}
		if n.Retried != 0 || len(n.Failed) != 0 {
			say("%s: round %d had %d retries and %d failures", c.Name, i+1, n.Retried, len(n.Failed))
		}
		for rank, got := range n.LoadBackTokens {
			want := uint64(0)
			if i > 0 {
				want = prompts * promptTokens
			}
			if got != want {
				say("%s: round %d loaded %d tokens back on rank %d, want %d", c.Name, i+1, got, rank, want)
			}
		}
	}
	tripped := uint64(0)
	for _, n := range c.Rails {
		tripped += n
	}
	if (c.Name == RestoreGated) != (tripped == 0) {
		say("%s: the rails tripped %d times", c.Name, tripped)
	}
}

func checkInjected(name string, n *Round, say func(string, ...any)) {
	if n.Retried != 1 || len(n.Failed) != 1 {
		say("%s: the injected round had %d retries and %d failures, want 1 and 1", name, n.Retried, len(n.Failed))
		return
	}
	f := n.Failed[0]
	if !slices.Equal(f.Ranks, []int{0, 1}) || f.apart || f.Reason != abi.ReasonText(abi.ReasonRestoreFailed) {
		say("%s: request %d failed on ranks %v (in one tick: %v) with %q, want both ranks in one tick and %q", name, f.Request, f.Ranks, !f.apart, f.Reason, abi.ReasonText(abi.ReasonRestoreFailed))
	}
}

func (r *Report) checkOffsets(say func(string, ...any)) {
	parted, freed := 0, 0
	for _, o := range r.Offsets {
		if o.Name == RankLocal {
			if !o.RanksAgree {
				parted++
			}
			if o.PagesFreedUnderWriter > 0 {
				freed++
			}
			continue
		}
		if o.Served != o.Offered || !o.RanksAgree || o.PagesFreedUnderWriter != 0 {
			say("%s at offset %d (peer in flight: %v): served %d of %d, ranks agree: %v, %d pages freed under a writer",
				o.Name, o.Offset, o.PeerInFlight, o.Served, o.Offered, o.RanksAgree, o.PagesFreedUnderWriter)
		}
	}
	if want := 2 * (2*maxOffset + 1) * len(behaviours()); !r.skipped && len(r.Offsets) != want {
		say("%d runs of the second part, want %d", len(r.Offsets), want)
	}
	if !r.skipped && (parted == 0 || freed == 0) {
		say("%s shows %d offsets at which ranks part and %d at which pages are freed under a writer, want some of each", RankLocal, parted, freed)
	}
}

// Print writes the report as people read it.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	row := func(label string, cell func(*Column) string) {
		fmt.Fprintf(&b, "%-34s", label)
		for i := range r.Columns {
			fmt.Fprintf(&b, " %-15s", cell(&r.Columns[i]))
		}
		b.WriteString("\n")
	}
	row("", func(c *Column) string { return c.Name })
	for i := range r.Columns[0].Rounds {
		label := fmt.Sprintf("round %d served", i+1)
		if i == injectedRound {
			label += " (load back fails)"
		}
		row(label, func(c *Column) string {
			n := &c.Rounds[i]
			s := fmt.Sprintf("%d/%d", n.Served, n.Offered)
			if n.Retried > 0 {
				s += fmt.Sprintf(", %d retry", n.Retried)
			}
			return s
		})
		row(fmt.Sprintf("round %d load-back tokens per rank", i+1), func(c *Column) string {
			return fmt.Sprint(c.Rounds[i].LoadBackTokens)
		})
	}
	row("decode alive at the end", func(c *Column) string { return yes(c.DecodeAlive) })
	row("collectives per tick", func(c *Column) string { return fmt.Sprintf("%.4g", c.CollectivesPerTick) })
	row("pages freed under a writer", func(c *Column) string { return fmt.Sprint(c.PagesFreedUnderWriter) })
	row("rails tripped", func(c *Column) string {
		n := uint64(0)
		for _, v := range c.Rails {
			n += v
		}
		return fmt.Sprint(n)
	})
	for i := range r.Columns {
		c := &r.Columns[i]
		for _, f := range failures(c) {
			fmt.Fprintf(&b, "%s: request %d failed on ranks %v at tick %d: %s\n", c.Name, f.Request, f.Ranks, f.Tick, f.Reason)
		}
		if c.Lost != "" {
			fmt.Fprintf(&b, "%s: decode lost: %s\n", c.Name, c.Lost)
		}
	}
	r.printOffsets(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// failures are the failures of the injected round that say something: not the many of a server that is gone.
func failures(c *Column) (out []Failure) {
	for i := range c.Rounds {
		if len(c.Rounds[i].Failed) <= 4 {
			out = append(out, c.Rounds[i].Failed...)
		}
	}
	return out
}

func (r *Report) printOffsets(b *strings.Builder) {
	if len(r.Offsets) == 0 {
		return
	}
	type sum struct{ runs, served, parted, freed int }
	fmt.Fprintf(b, "\nthe failure at every tick from 20 before to 20 after the failing rank's raw Success\n")
	fmt.Fprintf(b, "%-15s %-15s %6s %15s %12s %20s\n", "", "peer rank", "runs", "all 3 served", "ranks part", "freed under writer")
	for _, flight := range []bool{false, true} {
		for i := range r.Columns {
			name := r.Columns[i].Name
			var s sum
			for _, o := range r.Offsets {
				if o.Name != name || o.PeerInFlight != flight {
					continue
				}
				s.runs++
				if o.Served == o.Offered {
					s.served++
				}
				if !o.RanksAgree {
					s.parted++
				}
				if o.PagesFreedUnderWriter > 0 {
					s.freed++
				}
			}
			peer := "done"
			if flight {
				peer = "in flight"
			}
			fmt.Fprintf(b, "%-15s %-15s %6d %15d %12d %20d\n", name, peer, s.runs, s.served, s.parted, s.freed)
		}
	}
}

func yes(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}
