package config

import (
	"fmt"
	"time"
)

// maxPages is how many pages of a tier can be numbered.
const maxPages = 1 << 30

// crossChecks judges keys against each other. A check is skipped while one of its keys is wrong by itself.
func (l *loader) crossChecks(cfg *Config) (warnings []Problem) {
	d, p, m := cfg.Decode, cfg.Prefill, cfg.Model
	fail := func(cond bool, key, text string, args ...any) {
		if p, ok := l.cross(cond, key, text, args...); ok {
			l.problems = append(l.problems, p)
		}
	}
	warn := func(cond bool, key, text string, args ...any) {
		if p, ok := l.cross(cond, key, text, args...); ok {
			warnings = append(warnings, p)
		}
	}
	l.unlessBad(func() {
		fail(d.MaxTotalTokens < 2*d.PageSize, "decode.max_total_tokens",
			"is %d, but L1 needs at least two pages of decode.page_size (%d); write %d or more", d.MaxTotalTokens, d.PageSize, 2*d.PageSize)
		warn(d.MaxTotalTokens%d.PageSize != 0 && d.MaxTotalTokens >= 2*d.PageSize, "decode.max_total_tokens",
			"is %d, which is no multiple of decode.page_size (%d); %d are used",
			d.MaxTotalTokens, d.PageSize, d.MaxTotalTokens-d.MaxTotalTokens%max(d.PageSize, 1))
	}, "decode.max_total_tokens", "decode.page_size")
	l.unlessBad(func() {
		fail(d.ReservedDecodeTokens >= d.MaxTotalTokens, "decode.reserved_decode_tokens",
			"is %d, which leaves nothing of decode.max_total_tokens (%d) to admit into; write less", d.ReservedDecodeTokens, d.MaxTotalTokens)
	}, "decode.reserved_decode_tokens", "decode.max_total_tokens")
	l.unlessBad(func() {
		fail(d.MaxTokensPerRequest > d.MaxTotalTokens, "decode.max_tokens_per_request",
			"is %d, more than decode.max_total_tokens (%d) can hold; write less, or 0 for what fills L1", d.MaxTokensPerRequest, d.MaxTotalTokens)
	}, "decode.max_tokens_per_request", "decode.max_total_tokens")
	l.unlessBad(func() {
		fail(d.IdleTick > d.ExchangeDeadline/4, "decode.idle_tick",
			"is %s, but idle ranks must meet within a quarter of decode.exchange_deadline (%s); write %s or less",
			formatDuration(d.IdleTick), formatDuration(d.ExchangeDeadline), formatDuration((d.ExchangeDeadline / 4).Truncate(time.Microsecond)))
	}, "decode.idle_tick", "decode.exchange_deadline")
	l.unlessBad(func() {
		pages := float64(d.MaxTotalTokens/max(d.PageSize, 1)) * d.L2Ratio
		fail(pages > maxPages, "decode.l2_ratio", "is %v, which makes %.0f pages of L2 from decode.max_total_tokens (%d) and decode.page_size (%d); at most %d can be numbered",
			d.L2Ratio, pages, d.MaxTotalTokens, d.PageSize, maxPages)
	}, "decode.l2_ratio", "decode.max_total_tokens", "decode.page_size")
	l.unlessBad(func() {
		fail(p.TP%max(d.Ranks, 1) != 0 && d.Ranks%max(p.TP, 1) != 0, "prefill.tp",
			"is %d, but one of prefill.tp and decode.ranks (%d) must divide the other: a prefill rank's shard is cut or joined whole", p.TP, d.Ranks)
	}, "prefill.tp", "decode.ranks")
	l.unlessBad(func() {
		warn(d.L2Ratio == 0, "decode.l2_ratio", "is 0, so there is no L2: nothing evicted from L1 can be restored")
		warn(d.L2Ratio > 0 && d.L2Ratio < 1, "decode.l2_ratio",
			"is %v, so L2 is smaller than L1: pages are evicted from L2 while L1 still holds them", d.L2Ratio)
	}, "decode.l2_ratio")
	l.unlessBad(func() {
		page := int64(d.PageSize) * int64(m.Layers) * int64(m.BytesPerTokenLayer)
		fail(p.StagingRing < page, "prefill.staging_ring",
			"is %s, but one page is %s (decode.page_size x model.layers x model.bytes_per_token_layer); write %q or more",
			formatSize(p.StagingRing), formatSize(page), formatSize(page))
	}, "prefill.staging_ring", "decode.page_size", "model.layers", "model.bytes_per_token_layer")
	l.quarantineChecks(&cfg.Policy, warn)
	l.hookChecks(&cfg.Policy.Gate, "policy.gate", fail, warn)
	l.hookChecks(&cfg.Policy.Reserve, "policy.reserve", fail, warn)
	l.hookChecks(&cfg.Policy.Admit, "policy.admit", fail, warn)
	l.hookChecks(&cfg.Policy.Score, "policy.score", fail, warn)
	l.unlessBad(func() {
		s := &cfg.Policy.Score
		warn(s.ShadowTicks != 0 && s.PlainLRU(), "policy.score.shadow_ticks", "is %d, but a start with the builtin lru asks no score policy, so there is nothing to compare; remove it", s.ShadowTicks)
	}, "policy.score.shadow_ticks", "policy.score.builtin", "policy.score.path")
	return warnings
}

// quarantineChecks warns of a quarantine that faults of a policy's answers can never reach. What hold_ticks and
// starve_ticks had to end still can: it is counted over a longer time. Score has no such limit.
func (l *loader) quarantineChecks(p *Policy, warn func(cond bool, key, text string, args ...any)) {
	const faults, window = "policy.quarantine_faults", "policy.quarantine_window_ticks"
	const but = "one fault a tick counts, so that bad answers never quarantine "
	l.unlessBad(func() {
		warn(p.QuarantineFaults > p.QuarantineWindowTicks, window,
			"is %d, less than the %d faults that quarantine a policy; "+but+"one, only what decode.hold_ticks or decode.starve_ticks has to end",
			p.QuarantineWindowTicks, p.QuarantineFaults)
	}, faults, window)
	for _, h := range []struct {
		section string
		hook    *Hook
		rail    string // what else counts
	}{
		{"policy.gate", &p.Gate, "only what decode.hold_ticks has to end"}, {"policy.reserve", &p.Reserve, "only what decode.starve_ticks has to end"},
		{"policy.admit", &p.Admit, "only what decode.starve_ticks has to end"}, {"policy.score", &p.Score, "and nothing else does"},
	} {
		own, q := h.hook.Quarantine, p.QuarantineOf(h.hook)
		key := h.section + ".quarantine.window_ticks"
		if own.WindowTicks == 0 {
			key = h.section + ".quarantine.faults"
		}
		l.unlessBad(func() {
			warn(own != Quarantine{} && q.Faults > q.WindowTicks, key, "makes %d faults within %d ticks; "+but+"the policy, %s", q.Faults, q.WindowTicks, h.rail)
		}, faults, window, h.section+".quarantine.faults", h.section+".quarantine.window_ticks")
	}
}

func (l *loader) unlessBad(check func(), names ...string) {
	for _, name := range names {
		if l.bad[name] {
			return
		}
	}
	check()
}

// cross makes the problem of one failed check, placed where the key got its value.
func (l *loader) cross(cond bool, key, text string, args ...any) (Problem, bool) {
	if !cond {
		return Problem{}, false
	}
	s := l.effective(l.byName[key])
	return Problem{Source: s.source, Key: key, Text: key + " " + fmt.Sprintf(text, args...), order: s.order}, true
}
