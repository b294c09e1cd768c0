package decode

import (
	"math"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/plugins"
	"sluice/runtime/server"
)

var _ server.PolicyEngine = (*Instance)(nil)

// Policies implements server.PolicyEngine.
func (in *Instance) Policies() server.PolicyList {
	p := in.policies
	if p == nil {
		return in.fixedPolicies()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := server.PolicyList{Epoch: p.epoch, Sets: []server.PolicySet{p.show(p.active, server.PolicyActive)}}
	if p.previous != nil {
		l.Sets = append(l.Sets, p.show(p.previous, server.PolicyPrevious))
	}
	for _, s := range p.staged {
		l.Sets = append(l.Sets, p.show(s, server.PolicyStaged))
	}
	l.Sets = append(l.Sets, p.gone...)
	return l
}

// fixedPolicies are those that the seats have brought.
func (in *Instance) fixedPolicies() server.PolicyList {
	in.mu.Lock()
	g := in.group
	in.mu.Unlock()
	s := server.PolicySet{ID: "1", State: server.PolicyActive}
	if g != nil {
		var sum [numHooks]plugins.Stats
		for _, m := range g.members {
			n := m.read()
			for h := range sum {
				addStats(&sum[h], &n.policy[h])
			}
		}
		s.Hooks = showHooks(g.members[0].inUse().Set().Infos(), &sum, g.members[0].read().quarantined)
	}
	return server.PolicyList{Sets: []server.PolicySet{s}}
}

// PolicyInfos describes the policies in use, in the order in which the hooks run.
func (in *Instance) PolicyInfos() []plugins.Info {
	if p := in.policies; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Clone(p.active.infos)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.group == nil {
		return nil
	}
	return in.group.members[0].inUse().Set().Infos()
}

// PolicySpecs are the policies in use, as they were staged or given at the start; nil where the seats bring them. What the
// specs point to is not to be changed.
func (in *Instance) PolicySpecs() []plugins.Spec {
	p := in.policies
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.active.specs)
}

// show describes a set. The caller holds mu.
func (p *policies) show(s *policySet, state string) server.PolicySet {
	out := server.PolicySet{ID: s.name(), State: state, Epoch: s.epoch, Reason: s.reason}
	if state != server.PolicyActive && state != server.PolicyPrevious {
		out.Shadow = s.shadow.show()
	}
	for _, c := range s.changes {
		out.Changes = append(out.Changes, c.Hook.String())
	}
	sum := p.sum(s)
	var quarantined [numHooks]bool
	if g := p.running; g != nil && s == p.active {
		quarantined = g.members[0].read().quarantined
	}
	out.Hooks = showHooks(s.infos, &sum, quarantined)
	for i := range out.Hooks {
		out.Hooks[i].State = s.takenOver(out.Hooks[i].Hook)
	}
	return out
}

// sum is what the instances of a set have counted on all ranks, those that are gone included. The caller holds mu.
func (p *policies) sum(s *policySet) [numHooks]plugins.Stats {
	sum := s.carried
	add := func(n *[numHooks]plugins.Stats) {
		for h := range sum {
			addStats(&sum[h], &n[h])
		}
	}
	if g := p.running; g != nil && s == p.active {
		for r, m := range g.members {
			// A rank that has just come back to the set has shown nothing of it since it left it.
			if n := m.read(); slices.Contains(s.ranks, n.inUse) {
				add(&n.policy)
			} else if r < len(s.last) {
				add(&s.last[r])
			}
		}
		return sum
	}
	for r := range s.last {
		add(&s.last[r])
	}
	return sum
}

// takenOver is what became of the state behind a hook when the set came into use, on the rank that got least.
func (s *policySet) takenOver(hook string) *server.PolicyState {
	var least *plugins.Carried
	for _, rank := range s.state {
		for i := range rank {
			if c := &rank[i]; c.Hook.String() == hook && (least == nil || c.What < least.What) {
				least = c
			}
		}
	}
	if least == nil {
		return nil
	}
	return &server.PolicyState{Carried: least.What.String(), Bytes: least.Bytes, Reason: kept(least.Reason)}
}

func showHooks(infos []plugins.Info, sum *[numHooks]plugins.Stats, quarantined [numHooks]bool) []server.PolicyHook {
	var out []server.PolicyHook
	for i, h := range hooks() {
		for _, info := range infos {
			if info.Hook != h {
				continue
			}
			n := &sum[i]
			k := server.PolicyHook{Hook: h.String(), Name: info.Name, SHA256: info.SHA256, Engine: info.Engine.String(), Calls: n.Calls,
				Native: n.Native, Held: n.Held, Declined: n.Declined, OwnStatus: n.Custom, Faults: map[string]uint64{}, Quarantined: quarantined[i],
				SlowCalls: n.SlowCalls, Replaced: n.Replaced, LogLines: n.Lines, LogDropped: n.LinesLimited + n.LinesLost}
			if m := info.Manifest(); m != nil {
				k.Manifest = &server.PolicyManifest{Name: m.Name, Version: m.Version, Author: m.Author, Licence: m.Licence, SourceSHA256: m.SourceSHA256}
			}
			for c, count := range n.Counters {
				if count > 0 {
					if k.Counters == nil {
						k.Counters = map[string]uint64{}
					}
					k.Counters[counterLabel(&info, c)] = count
				}
			}
			for class, count := range n.Faults {
				if count > 0 {
					k.Faults[plugins.FaultClass(class).String()] = count
				}
			}
			out = append(out, k)
		}
	}
	return out
}

// addStats adds what other instances of the same policy have counted.
func addStats(sum, n *plugins.Stats) {
	sum.Calls += n.Calls
	sum.Native += n.Native
	sum.Held += n.Held
	sum.Declined += n.Declined
	sum.Custom += n.Custom
	for i := range n.Faults {
		sum.Faults[i] += n.Faults[i]
	}
	sum.Replaced += n.Replaced
	sum.SlowCalls += n.SlowCalls
	sum.Lines += n.Lines
	sum.LinesLimited += n.LinesLimited
	sum.LinesLost += n.LinesLost
	for i, c := range n.Counters {
		sum.Counters[i] += min(c, math.MaxUint64-sum.Counters[i])
	}
}

// collectPolicies shows the policies in use. They are read at each scrape, so a policy that is replaced leaves no series
// behind.
func (c *collector) collectPolicies(emit func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string)) {
	var epoch, swaps, refusals uint64
	instances := 0
	var records, differed [numHooks]uint64
	var slow *slowCalls
	if p := c.in.policies; p != nil {
		p.mu.Lock()
		epoch, swaps, refusals = p.epoch, p.swaps, p.refusals
		p.mu.Unlock()
		slow = p.slow
		instances = p.o.Host.Live()
		for i, h := range hooks() {
			differed[i] = p.shadowed[h].differed.Load()
			records[i] = p.shadowed[h].records.Load()
		}
	}
	for i, h := range hooks() {
		emit(c.shadowRecords, prometheus.CounterValue, float64(records[i]), h.String())
		emit(c.shadowDiffered, prometheus.CounterValue, float64(differed[i]), h.String())
		calls, longest := slow.slow(h)
		emit(c.policySlow, prometheus.CounterValue, float64(calls), h.String())
		emit(c.policyLongest, prometheus.GaugeValue, longest, h.String())
	}
	emit(c.policyEpoch, prometheus.GaugeValue, float64(epoch))
	emit(c.policySwaps, prometheus.CounterValue, float64(swaps))
	emit(c.policyRefused, prometheus.CounterValue, float64(refusals))
	emit(c.policyInstances, prometheus.GaugeValue, float64(instances))
	for _, i := range c.in.PolicyInfos() {
		emit(c.policyInfo, prometheus.GaugeValue, 1, i.Hook.String(), strings.ToValidUTF8(i.Name, "?"), strings.ToValidUTF8(i.Policy(), "?"), i.SHA256, i.Engine.String())
	}
	for k, n := range c.in.policyCounts() {
		policy, class := k.policy, k.class.String()
		for _, f := range plugins.FaultClasses() {
			if v := n.faults[f]; v > 0 {
				emit(c.policyFaults, prometheus.CounterValue, float64(v), policy, class, f.String())
			}
		}
		emit(c.policyOwnStatus, prometheus.CounterValue, float64(n.ownStatus), policy, class)
		emit(c.policyReplaced, prometheus.CounterValue, float64(n.replaced), policy, class)
		emit(c.policyLogLines, prometheus.CounterValue, float64(n.lines), policy, class)
		emit(c.policyLogDropped, prometheus.CounterValue, float64(n.lost), policy, class, "lost")
		emit(c.policyLogDropped, prometheus.CounterValue, float64(n.limited), policy, class, "rate")
		for name, v := range n.counters {
			emit(c.policyCounter, prometheus.CounterValue, float64(v), policy, class, name)
		}
	}
}
