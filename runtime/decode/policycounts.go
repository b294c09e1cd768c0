package decode

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"sluice/abi"
	"sluice/plugins"
)

// policyKey is what the counters of policies are summed by: one policy may answer several hooks of a class.
type policyKey struct {
	policy string
	class  abi.Class
}

func keyOf(i *plugins.Info) policyKey {
	return policyKey{strings.ToValidUTF8(i.Policy(), "?"), plugins.ClassOf(i.Hook)}
}

func (k policyKey) compare(o policyKey) int {
	return cmp.Or(cmp.Compare(k.policy, o.policy), cmp.Compare(k.class, o.class))
}

// policyCount is what the instances of a policy have logged and counted.
type policyCount struct {
	replaced, lines, limited, lost uint64
	ownStatus                      uint64 // answers
	faults                         [plugins.NumFaultClasses]uint64
	counters                       map[string]uint64 // by name, none that is 0
}

func (c policyCount) empty() bool {
	return c.replaced|c.lines|c.limited|c.lost|c.ownStatus == 0 && c.faults == [plugins.NumFaultClasses]uint64{} && len(c.counters) == 0
}

// counterLabel is the name of a counter for reports.
func counterLabel(i *plugins.Info, n int) string { return strings.ToValidUTF8(i.CounterName(n), "?") }

// tallyPolicies adds the counters of a set's hooks to those of its policies.
func tallyPolicies(to map[policyKey]policyCount, infos []plugins.Info, sum *[numHooks]plugins.Stats) {
	for h, hook := range hooks() {
		for i := range infos {
			if infos[i].Hook != hook {
				continue
			}
			k := keyOf(&infos[i])
			c := policyCount{replaced: sum[h].Replaced, lines: sum[h].Lines, limited: sum[h].LinesLimited, lost: sum[h].LinesLost, ownStatus: sum[h].Custom, faults: sum[h].Faults}
			for n, v := range sum[h].Counters {
				if v > 0 {
					if c.counters == nil {
						c.counters = map[string]uint64{}
					}
					name := counterLabel(&infos[i], n)
					c.counters[name] = addCapped(c.counters[name], v)
				}
			}
			to[k] = to[k].plus(c)
		}
	}
}

// plus is the sum; neither operand changes.
func (c policyCount) plus(o policyCount) policyCount {
	sum := policyCount{replaced: c.replaced + o.replaced, lines: c.lines + o.lines, limited: c.limited + o.limited, lost: c.lost + o.lost, ownStatus: c.ownStatus + o.ownStatus, faults: c.faults}
	for class, n := range o.faults {
		sum.faults[class] += n
	}
	for _, from := range []map[string]uint64{c.counters, o.counters} {
		for name, v := range from {
			if sum.counters == nil {
				sum.counters = map[string]uint64{}
			}
			sum.counters[name] = addCapped(sum.counters[name], v)
		}
	}
	return sum
}

func addCapped(a, b uint64) uint64 { return a + min(b, math.MaxUint64-a) }

// policyCounts is what the policies in use have logged and counted, in every set that they are or were part of: neither a
// switch nor an end of the group takes anything off its counters.
func (in *Instance) policyCounts() map[policyKey]policyCount {
	p := in.policies
	if p == nil {
		return in.fixedCounts()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[policyKey]policyCount{}
	for _, s := range p.sets() {
		sum := p.sum(s)
		tallyPolicies(all, s.infos, &sum)
	}
	return p.past.with(all, p.active.infos)
}

// fixedCounts are those of the policies that the seats have brought.
func (in *Instance) fixedCounts() map[policyKey]policyCount {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.group == nil {
		return nil
	}
	all, infos := map[policyKey]policyCount{}, []plugins.Info(nil)
	for _, m := range in.group.members {
		n := m.read()
		infos = m.inUse().Set().Infos()
		tallyPolicies(all, infos, &n.policy)
	}
	return in.past.with(all, infos)
}

// rememberFixed keeps what the policies that the seats of a group have brought counted. The caller holds mu, and the
// group's ranks have ended.
func (in *Instance) rememberFixed(g *group) {
	used := policyNames{}
	for _, m := range g.members {
		n := m.read()
		infos := m.inUse().Set().Infos()
		in.past.add(infos, &n.policy)
		used.add(infos)
	}
	in.past.trim(used)
}

// sets are those that are in use, were, or are to be, and those that are to be closed. The caller holds mu.
func (p *policies) sets() []*policySet {
	all := slices.Concat([]*policySet{p.active}, p.staged, p.dead)
	if p.previous != nil && p.previous != p.active {
		all = append(all, p.previous)
	}
	return all
}

// remember keeps what sets that are about to be closed have counted. The caller holds mu.
func (p *policies) remember(dead []*policySet) {
	if len(dead) == 0 || p.closed {
		return
	}
	for _, s := range dead {
		sum := p.sum(s)
		p.past.add(s.infos, &sum)
	}
	used := policyNames{}
	for _, s := range p.sets() {
		used.add(s.infos)
	}
	p.past.trim(used)
}
