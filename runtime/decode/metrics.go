package decode

import (
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/metrics"
	"sluice/kvcache/index"
	"sluice/runtime/schedule"
)

// collector shows the instance's counters. Every series is there from the start, at 0, but those named by a policy's texts.
type collector struct {
	in    *Instance
	descs []*prometheus.Desc

	ticks, collectives, bytes, hit, input, output, finished, failed   *prometheus.Desc
	restores, restoresFailed, retractions, rails, faults, quarantined *prometheus.Desc
	admitHeld                                                         *prometheus.Desc
	loadBack, backup, checksums, queue, pages                         *prometheus.Desc
	effectErrors, stepErrors, disagreed, refusedBackups, dropped      *prometheus.Desc
	epoch, policyEnded                                                *prometheus.Desc
	policyEpoch, policySwaps, policyRefused, policyInfo               *prometheus.Desc
	policyInstances                                                   *prometheus.Desc
	policyFaults, policyOwnStatus                                     *prometheus.Desc
	policyReplaced, policyLogLines, policyLogDropped, policyCounter   *prometheus.Desc
	shadowRecords, shadowDiffered                                     *prometheus.Desc
	policySlow, policyLongest                                         *prometheus.Desc
}

var _ prometheus.Collector = (*collector)(nil)

func newCollector(in *Instance) *collector {
	c := &collector{in: in}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(metrics.Prefix+name, help, labels, nil)
		c.descs = append(c.descs, d)
		return d
	}
	c.ticks = desc("ticks_total", "Ticks completed on rank 0.")
	c.collectives = desc("collectives_total", "Exchanges of the group; one a tick.")
	c.bytes = desc("collective_bytes_total", "Bytes of the ballots that rank 0 brought to exchanges.")
	c.hit = desc("hit_tokens_total", "Prompt tokens promised from a tier at admission.", "tier")
	c.input = desc("input_tokens_total", "Prompt tokens of admitted requests.")
	c.output = desc("output_tokens_total", "Tokens made.")
	c.finished = desc("requests_finished_total", "Requests by how they ended.", "outcome")
	c.failed = desc("transfer_failed_total", "Requests that a transfer ended, by reason.", "reason")
	c.policyEnded = desc("policy_ended_requests_total", "Requests that a policy ended for a reason of its own, by how they ended and by the reason's text in the policy's manifest.", "outcome", "reason")
	c.restores = desc("restores_total", "Load backs from L2 to L1 that were issued.")
	c.restoresFailed = desc("restores_failed_total", "Requests whose restore failed.")
	c.retractions = desc("retractions_total", "Requests taken off the device for want of pages.")
	c.rails = desc("rails_tripped_total", "Policy answers that a rail did not let stand, over all ranks.", "rail")
	c.faults = desc("policy_faults_total", "Ticks in which a hook's answer was no good on some rank.", "hook")
	c.quarantined = desc("policy_quarantined", "1 while the hook's policy is out of use on all ranks.", "hook")
	c.admitHeld = desc("policy_admit_held_total", "Ticks in which a fault of the admit policy deferred every candidate, by its on_fault.")
	c.loadBack = desc("load_back_tokens_total", "Tokens brought back from L2 to L1, by rank.", "rank")
	c.backup = desc("backup_tokens_total", "Tokens written through from L1 to L2, by rank.", "rank")
	c.checksums = desc("checksum_failures_total", "Copies that brought other bytes than had left L1, by rank.", "rank")
	c.queue = desc("queue_requests", "Requests in a queue.", "queue")
	c.pages = desc("pages", "Pages of a tier by booked state.", "tier", "state")
	c.effectErrors = desc("effect_errors_total", "Local effects that could not start, over all ranks.")
	c.stepErrors = desc("step_errors_total", "Model steps that failed on a rank, over all ranks.")
	c.disagreed = desc("model_disagreed_total", "Ticks in which a rank's own tokens differed from rank 0's.")
	c.refusedBackups = desc("backup_pages_refused_total", "Pages that found no room in L2.")
	c.dropped = desc("dropped_copies_total", "Cached nodes whose L2 copy was dropped.")
	c.policyEpoch = desc("policy_epoch", "Policy epoch in force; it grows with every switch to other policies.")
	c.policySwaps = desc("policy_swaps_total", "Switches of all ranks to other policies.")
	c.policyRefused = desc("policy_refused_total", "Policies that were not staged, or not activated, for what they are or for a rank that lagged.")
	c.policyInstances = desc("policy_instances", "Instances of WebAssembly policies that are open: in use, spare, staged and previous ones, over all ranks.")
	c.policyInfo = desc("policy_info", "1 for the policy in use of each hook: where it is from, and what the other series and the log call it.", "hook", "name", "policy", "sha256", "engine")
	c.policyFaults = desc("policy_rank_faults_total", "Faults of a policy in use, added up over the ranks; a kind is shown once there was one.", "policy", "class", "kind")
	c.policyOwnStatus = desc("policy_own_status_answers_total", "Answers of a policy in use that came with a status of its own, 1 to 255, over all ranks.", "policy", "class")
	c.policyReplaced = desc("policy_instances_replaced_total", "Instances of a policy in use that were discarded for a fault, over all ranks.", "policy", "class")
	c.policyLogLines = desc("policy_log_lines_total", "Lines that a policy in use logged, dropped ones aside, over all ranks.", "policy", "class")
	c.policyLogDropped = desc("policy_log_dropped_total", "Lines that a policy in use logged and nobody saw: lost in its ring, or kept back by the rate limit.", "policy", "class", "why")
	c.policyCounter = desc("policy_counter_total", "What a policy in use counts itself, over all ranks; a counter is shown once it is not 0.", "policy", "class", "counter")
	c.policySlow = desc("policy_slow_calls_total", "Policy calls that took longer than policy.slow_call, over all ranks; their answers stand.", "hook")
	c.policyLongest = desc("policy_call_longest_seconds", "Longest policy call since the start, over all ranks; 0 while calls are not timed.", "hook")
	c.shadowRecords = desc("policy_shadow_records_total", "Answers that shadow runs of staged policies have compared with those in use, over all ranks.", "hook")
	c.shadowDiffered = desc("policy_shadow_differed_total", "Of those, the ones that differ.", "hook")
	c.epoch = desc("group_epoch", "Epoch of the group that runs, 0 while none does.")
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It reads what the ranks have published and waits for no tick.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	in := c.in
	in.mu.Lock()
	t := in.base.clone()
	g := in.group
	var now snapshot
	var epoch uint64
	ended := maps.Clone(in.policyEnds)
	if g != nil {
		g.count(&t)
		now, epoch = g.members[0].read(), g.epoch
	}
	in.mu.Unlock()

	emit := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		m, err := prometheus.NewConstMetric(d, kind, v, labels...)
		if err != nil {
			m = prometheus.NewInvalidMetric(d, err)
		}
		ch <- m
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		emit(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		emit(d, prometheus.GaugeValue, float64(v), labels...)
	}
	counter(c.ticks, t.ticks)
	counter(c.collectives, t.exchanges)
	counter(c.bytes, t.bytes)
	counter(c.hit, t.hit[0], "l1")
	counter(c.hit, t.hit[1], "l2")
	counter(c.hit, 0, "l3")
	counter(c.input, t.input)
	counter(c.output, t.output)
	for k, n := range t.finished {
		counter(c.finished, n, schedule.FinishKind(k).String())
	}
	for _, r := range transferReasons() {
		counter(c.failed, in.transfers[r].Load(), errType(r))
	}
	for e, n := range ended {
		counter(c.policyEnded, n, e.outcome, e.reason)
	}
	counter(c.restores, t.restores)
	counter(c.restoresFailed, t.restoresFailed)
	counter(c.retractions, t.retractions)
	for r := schedule.RailNone + 1; r < schedule.NumRails; r++ {
		counter(c.rails, t.rails[r], r.String())
	}
	for i, h := range hooks() {
		counter(c.faults, t.faults[i], h.String())
		out := 0
		if now.quarantined[i] {
			out = 1
		}
		gauge(c.quarantined, out, h.String())
	}
	counter(c.admitHeld, t.admitHeld)
	for r := range t.loadBack {
		label := strconv.Itoa(r)
		counter(c.loadBack, t.loadBack[r], label)
		counter(c.backup, t.backup[r], label)
		counter(c.checksums, t.checksums[r], label)
	}
	for _, q := range queues() {
		gauge(c.queue, now.queues[q], q.String())
	}
	for tier, name := range [...]string{index.L1: "l1", index.L2: "l2"} {
		b := &now.books[tier]
		for _, p := range [...]struct {
			state index.State
			n     int
		}{{index.Free, b.Free}, {index.Evictable, b.Evictable}, {index.Locked, b.Locked}, {index.Private, b.Private},
			{index.Saving, b.Saving}, {index.Loading, b.Loading}, {index.Quarantined, b.Quarantined}} {
			gauge(c.pages, p.n, name, p.state.String())
		}
	}
	counter(c.effectErrors, t.effectErrors)
	counter(c.stepErrors, t.stepErrors)
	counter(c.disagreed, t.modelDisagreed)
	counter(c.refusedBackups, t.backupsRefused)
	counter(c.dropped, t.droppedCopies)
	gauge(c.epoch, int(epoch))
	c.collectPolicies(emit)
}
