package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/runtime/replay"
)

// printReplay prints the report of one run, or of several side by side.
func printReplay(w io.Writer, columns []column, results []*replay.Result) error {
	if len(results) == 1 {
		return printRun(w, results[0])
	}
	return printColumns(w, columns, results)
}

func printRun(w io.Writer, r *replay.Result) error {
	_, err := fmt.Fprintf(w, `requests      %d, served %d, failed %d
input tokens  %d
hit tokens    L1 %d, L2 %d, L3 %d
uncached      p50 %d, p95 %d, p99 %d, max %d tokens a request
evicted       L1 %d, L2 %d tokens
output tokens %d
restores      %d
retractions   %d
ticks         %d
collectives   %d
rails tripped %d
virtual time  %.1f s
wall time     %.2f s
digest        %s
`, r.Requests, r.Served, r.Failed, r.InputTokens, r.HitTokens.L1, r.HitTokens.L2, r.HitTokens.L3,
		r.Uncached.P50, r.Uncached.P95, r.Uncached.P99, r.Uncached.Max, r.Evicted.L1, r.Evicted.L2, r.OutTokens, r.Restores, r.Retractions, r.Ticks, r.Collectives, tripped(r.Rails), r.Virtual, r.WallSeconds, r.Digest)
	if err != nil {
		return err
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		if _, err := fmt.Fprintf(w, "failed        %d: %s\n", r.Reasons[reason], reason); err != nil {
			return err
		}
	}
	return nil
}

// shortDigest is how much of a digest a column shows: enough to see which runs decided alike.
const shortDigest = 12

// printColumns prints a line a quantity and a column a run.
func printColumns(w io.Writer, columns []column, results []*replay.Result) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	line := func(name string, cell func(r *replay.Result) any) {
		cells := []string{fmt.Sprintf("%-18s", name)} // labels go left, figures right
		for _, r := range results {
			cells = append(cells, fmt.Sprint(cell(r)))
		}
		fmt.Fprintf(t, "%s\t\n", strings.Join(cells, "\t"))
	}
	names := []string{fmt.Sprintf("%-18s", "")}
	for i := range columns {
		names = append(names, columns[i].name)
	}
	fmt.Fprintf(t, "%s\t\n", strings.Join(names, "\t"))
	line("requests", func(r *replay.Result) any { return r.Requests })
	line("served", func(r *replay.Result) any { return r.Served })
	line("failed", func(r *replay.Result) any { return r.Failed })
	line("input tokens", func(r *replay.Result) any { return r.InputTokens })
	line("hit %", func(r *replay.Result) any {
		hits := r.HitTokens.L1 + r.HitTokens.L2 + r.HitTokens.L3
		return fmt.Sprintf("%.2f", 100*float64(hits)/max(float64(r.InputTokens), 1))
	})
	line("hit L1, tokens", func(r *replay.Result) any { return r.HitTokens.L1 })
	line("hit L2, tokens", func(r *replay.Result) any { return r.HitTokens.L2 })
	line("uncached p50", func(r *replay.Result) any { return r.Uncached.P50 })
	line("uncached p95", func(r *replay.Result) any { return r.Uncached.P95 })
	line("uncached p99", func(r *replay.Result) any { return r.Uncached.P99 })
	line("uncached max", func(r *replay.Result) any { return r.Uncached.Max })
	line("evicted L1, tokens", func(r *replay.Result) any { return r.Evicted.L1 })
	line("evicted L2, tokens", func(r *replay.Result) any { return r.Evicted.L2 })
	line("output tokens", func(r *replay.Result) any { return r.OutTokens })
	line("restores", func(r *replay.Result) any { return r.Restores })
	line("retractions", func(r *replay.Result) any { return r.Retractions })
	line("ticks", func(r *replay.Result) any { return r.Ticks })
	line("collectives", func(r *replay.Result) any { return r.Collectives })
	line("rails tripped", func(r *replay.Result) any { return tripped(r.Rails) })
	line("policy faults", func(r *replay.Result) any {
		n := uint64(0)
		for _, p := range r.Policies {
			n += p.Faults
		}
		return n
	})
	line("virtual time, s", func(r *replay.Result) any { return fmt.Sprintf("%.1f", r.Virtual) })
	line("wall time, s", func(r *replay.Result) any { return fmt.Sprintf("%.2f", r.WallSeconds) })
	line("digest", func(r *replay.Result) any { return r.Digest[:min(shortDigest, len(r.Digest))] })
	reasons := map[string]bool{}
	for _, r := range results {
		for reason := range r.Reasons {
			reasons[reason] = true
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		line("failed: "+reason, func(r *replay.Result) any { return r.Reasons[reason] })
	}
	return t.Flush()
}

func tripped(rails map[string]uint64) (n uint64) {
	for _, v := range rails {
		n += v
	}
	return n
}
