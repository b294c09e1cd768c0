package schedule

import (
	"errors"
	"fmt"
	"math"

	"sluice/abi"
)

// Version names the arithmetic of apply. Ranks whose versions differ refuse to form a group.
const Version = 2

// Config is every value that apply reads. It must be equal on all ranks; Hash is compared in each ballot's header.
type Config struct {
	Ranks                int     // ranks of the group, 1..MaxRanks
	PageSize             int     // tokens a page, >= 1
	L1Pages              int     // device pages, the MIN over ranks, >= 2
	L2Pages              int     // host pages, the MIN over ranks, >= 0
	MaxRunning           int     // requests that may run at once, >= 1
	MetadataSlots        int     // requests that may be in transfer or quarantine at once, >= 1
	MaxNewTokens         int     // limit a request without one, or above it, is given; >= 1
	MaxQueue             int     // requests of all queues at once, >= 1
	ReservedDecodeTokens int     // K: head-room kept per active request, tokens, >= 0
	Overcommit           float64 // share of what a request may still generate that is reserved, (0, 1]
	HoldTicks            int     // ticks a policy may hold a request that is ready everywhere, >= 1
	StarveTicks          int     // ticks the head may wait while nothing runs or transfers, >= 1
	AdmitWindow          int     // prealloc entries shown to admit in one tick, >= 1
	Operations           int     // outstanding operations a kind, >= 1
	LoadFailures         int     // loads of one node that fail in a row before its host copy is dropped, >= 1
	IngressSlice         int     // most bytes of the ingress stream in one ballot, >= 64
	EOS                  uint32  // end-of-sequence token; NoToken for none
	AdmitNative          string  // shipped admit that answers where the policy's does not count
	Score                bool    // a score policy is asked; without one eviction is plain LRU and costs nothing

	Quarantine  [NumHooks]Quarantine // by Lane: when a hook's policy is taken out of use
	HoldOnFault [NumHooks]bool       // by Lane: nobody decides in the place of a hook's faulty policy until it is back
}

// Quarantine takes a policy out of use on all ranks once it has had so many faults within so many ticks.
type Quarantine struct {
	Faults int // >= 1
	Window int // ticks, >= 1
}

// NumHooks is how many hooks have an entry in Config.
const NumHooks = numHooks

// Lane is a hook's place in the arrays of Config.
func Lane(h abi.Hook) int { return hookLane(h) }

// QuarantineAll is the same rule for every hook.
func QuarantineAll(faults, window int) (q [NumHooks]Quarantine) {
	for h := range q {
		q[h] = Quarantine{Faults: faults, Window: window}
	}
	return q
}

// MaxRanks bounds the gathered header.
const MaxRanks = 64

// NoToken marks a token lane without a token: the step failed, or the request sat it out.
const NoToken = math.MaxUint32

// Validate reports every value out of range.
func (c Config) Validate() error {
	var errs []error
	check := func(name string, v, lo, hi int) {
		if v < lo || v > hi {
			errs = append(errs, fmt.Errorf("schedule: %s is %d, must be %d to %d", name, v, lo, hi))
		}
	}
	const big = 1 << 30
	check("ranks", c.Ranks, 1, MaxRanks)
	check("page size", c.PageSize, 1, 1<<16)
	check("device pages", c.L1Pages, 2, big)
	check("host pages", c.L2Pages, 0, big)
	check("max running", c.MaxRunning, 1, big)
	check("metadata slots", c.MetadataSlots, 1, 1<<20)
	check("max new tokens", c.MaxNewTokens, 1, big)
	check("max queue", c.MaxQueue, 1, 1<<20)
	check("reserved decode tokens", c.ReservedDecodeTokens, 0, big)
	check("hold ticks", c.HoldTicks, 1, big)
	check("starve ticks", c.StarveTicks, 1, big)
	check("admit window", c.AdmitWindow, 1, 1<<16)
	check("operations", c.Operations, 1, 1<<16)
	check("load failures", c.LoadFailures, 1, 255)
	for h, q := range c.Quarantine {
		check(hookOf(h).String()+" quarantine faults", q.Faults, 1, big)
		check(hookOf(h).String()+" quarantine window", q.Window, 1, big)
	}
	check("ingress slice", c.IngressSlice, 64, 1<<26)
	if !(c.Overcommit > 0 && c.Overcommit <= 1) {
		errs = append(errs, fmt.Errorf("schedule: overcommit is %v, must be above 0 and at most 1", c.Overcommit))
	}
	if int64(c.L1Pages)*int64(c.PageSize) > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("schedule: %d device pages of %d tokens are more than %d tokens", c.L1Pages, c.PageSize, math.MaxInt32))
	}
	if _, err := nativeAdmit(c.AdmitNative); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Hash folds every field and Version into one word; ranks compare it in the ballot's header.
func (c Config) Hash() uint64 {
	h := mix(uint64(Version), 0x5343484544)
	for _, v := range []int{c.Ranks, c.PageSize, c.L1Pages, c.L2Pages, c.MaxRunning, c.MetadataSlots, c.MaxNewTokens, c.MaxQueue,
		c.ReservedDecodeTokens, c.HoldTicks, c.StarveTicks, c.AdmitWindow, c.Operations, c.LoadFailures,
		c.IngressSlice, int(c.EOS)} {
		h = mix(h, uint64(v))
	}
	for k, q := range c.Quarantine {
		h = mix(mix(mix(h, uint64(q.Faults)), uint64(q.Window)), uint64(flag(c.HoldOnFault[k])))
	}
	h = mix(h, math.Float64bits(c.Overcommit))
	for i := range len(c.AdmitNative) {
		h = mix(h, uint64(c.AdmitNative[i]))
	}
	if c.Score {
		h = mix(h, 0x73636f7265)
	}
	return h
}

// mix is one step of a rolling digest: the finaliser of splitmix64 over the running value and one word.
func mix(h, v uint64) uint64 {
	h ^= v + 0x9e3779b97f4a7c15 + h<<6 + h>>2
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
