package decode

import (
	"maps"
	"slices"

	"sluice/abi"
	"sluice/plugins"
)

// Bounds of pastCounts.
const (
	maxPastPolicies = 64               // that are part of no set
	maxPastCounters = 8 * abi.Counters // names of one policy
)

// pastCounts is what policies have counted in sets that are gone, so that a policy that comes back goes on from there. Its
// owner guards it; the zero value holds nothing.
type pastCounts struct {
	of   map[policyKey]policyCount
	left []policyKey // those that are part of no set, the one that left first in front
}

// policyNames are the policies of some sets, and the names of their counters.
type policyNames map[policyKey]map[string]bool

func (u policyNames) add(infos []plugins.Info) {
	for i := range infos {
		k := keyOf(&infos[i])
		if u[k] == nil {
			u[k] = map[string]bool{}
		}
		for n := range abi.Counters {
			u[k][counterLabel(&infos[i], n)] = true
		}
	}
}

// add takes over what the instances of a set have counted. What never counted anything takes no room.
func (p *pastCounts) add(infos []plugins.Info, sum *[numHooks]plugins.Stats) {
	now := map[policyKey]policyCount{}
	tallyPolicies(now, infos, sum)
	for k, c := range now {
		if c.empty() {
			continue
		}
		if p.of == nil {
			p.of = map[policyKey]policyCount{}
		}
		p.of[k] = p.of[k].plus(c)
	}
}

// with adds to counts of sets that are there, and keeps those of some policies.
func (p *pastCounts) with(counts map[policyKey]policyCount, infos []plugins.Info) map[policyKey]policyCount {
	out := map[policyKey]policyCount{}
	for i := range infos {
		k := keyOf(&infos[i])
		out[k] = counts[k].plus(p.of[k])
	}
	return out
}

// trim forgets what is beyond the bounds: the policies that left their last set longest ago, and of a policy with too many
// names of counters, as from many versions of it, those that no set has.
func (p *pastCounts) trim(used policyNames) {
	p.left = slices.DeleteFunc(p.left, func(k policyKey) bool { return used[k] != nil })
	for _, k := range slices.SortedFunc(maps.Keys(p.of), policyKey.compare) {
		if used[k] == nil && !slices.Contains(p.left, k) {
			p.left = append(p.left, k)
		}
		if names := p.of[k].counters; len(names) > maxPastCounters {
			maps.DeleteFunc(names, func(name string, _ uint64) bool { return !used[k][name] })
		}
	}
	for ; len(p.left) > maxPastPolicies; p.left = slices.Delete(p.left, 0, 1) {
		delete(p.of, p.left[0])
	}
}
