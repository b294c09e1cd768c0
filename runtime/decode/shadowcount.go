package decode

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
)

// fuelKept is how many of the latest calls the figures of fuel are over.
const fuelKept = 1024

// hookCount is what a shadow run has found for one hook, over all ranks.
type hookCount struct {
	records, differed uint64
	native            uint64        // batches whose answer in use the native policy gave
	stats             plugins.Stats // of the shadow: Declined and Faults
	faultTicks        []uint64      // the latest in which it failed on some rank, ascending
	firstFault        string
	first             *server.ShadowDifference
	live, shadow      fuelLog
}

// fuelLog is what the latest calls spent.
type fuelLog struct {
	calls []uint64
	next  int
	most  uint64 // of all calls
}

func (f *fuelLog) add(n uint64) {
	if n == 0 {
		return // not metered, or not called
	}
	f.most = max(f.most, n)
	if len(f.calls) < fuelKept {
		f.calls = append(f.calls, n)
		return
	}
	f.calls[f.next] = n
	f.next = (f.next + 1) % fuelKept
}

func (f *fuelLog) median() uint64 {
	if len(f.calls) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f.calls))
	return sorted[(len(sorted)-1)/2]
}

// add compares what the shadow answered to a batch with the answer that stood. It returns how many records were compared
// and how many of them differ.
func (h *hookCount) add(rank int, c *copied, a *plugins.Answer) (records, differed uint64) {
	if c.native {
		h.native++
	}
	h.live.add(c.fuel)
	h.shadow.add(a.Fuel)
	switch {
	case a.Fault != nil:
		h.stats.Faults[a.Fault.Class]++
		if h.firstFault == "" {
			h.firstFault = a.Fault.Error()
		}
	case a.Status == abi.StatusDeclined:
		h.stats.Declined++
	}
	records = uint64(c.nOut)
	if !bytes.Equal(c.answer(), a.Batch.Out) {
		differed = h.differences(rank, c, a.Batch)
	}
	h.records, h.differed = h.records+records, h.differed+differed
	return records, differed
}

// lagTicks is how many fault ticks are kept beyond those that a quarantine looks at: the ranks' batches are not answered
// in the order of their ticks.
const lagTicks = 64

// faulted notes that the policy failed in a tick, and says whether that would quarantine it.
func (h *hookCount) faulted(tick uint64, limit schedule.Quarantine) bool {
	i, known := slices.BinarySearch(h.faultTicks, tick)
	if !known {
		h.faultTicks = slices.Insert(h.faultTicks, i, tick)
	}
	for last := limit.Faults - 1; last < len(h.faultTicks); last++ {
		if h.faultTicks[last]-h.faultTicks[last-limit.Faults+1] < uint64(limit.Window) {
			return true
		}
	}
	if n := len(h.faultTicks) - limit.Faults - lagTicks; n > 0 {
		h.faultTicks = slices.Delete(h.faultTicks, 0, n)
	}
	return false
}

// differences counts the records that differ, and keeps the earliest difference.
func (h *hookCount) differences(rank int, c *copied, shadow abi.Batch) (n uint64) {
	live, in := abi.Batch{Out: c.answer()}, abi.Batch{In: c.records()}
	for i := range c.nOut {
		d, differs := difference(c.hook, i, live, shadow)
		if !differs {
			continue
		}
		n++
		if f := h.first; f != nil && (f.Tick < c.tick || f.Tick == c.tick && f.Rank <= rank) {
			continue
		}
		h.first = &server.ShadowDifference{Tick: c.tick, Rank: rank, Key: recordKey(c.hook, i, in), Field: d.field, Live: d.text(d.live), Shadow: d.text(d.shadow)}
	}
	return n
}

// unlike is a field in which two answers differ.
type unlike struct {
	field        string
	live, shadow uint64
	text         func(uint64) string
}

// difference is the first field in which the answers for record i differ, of those that the host acts on.
func difference(hook abi.Hook, i int, live, shadow abi.Batch) (unlike, bool) {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	reason := func(n uint64) string { return abi.ReasonText(abi.Reason(n)) }
	switch hook {
	case abi.Gate:
		a, b := live.GateOut(i), shadow.GateOut(i)
		switch {
		case a.Vote != b.Vote:
			return unlike{"vote", uint64(a.Vote), uint64(b.Vote), func(n uint64) string { return abi.Poll(n).String() }}, true
		case a.Reason != b.Reason:
			return unlike{"reason", uint64(a.Reason), uint64(b.Reason), reason}, true
		case a.Flags != b.Flags:
			return unlike{"flags", uint64(a.Flags), uint64(b.Flags), func(n uint64) string { return fmt.Sprintf("%#x", n) }}, true
		}
	case abi.Reserve:
		if a, b := live.ReserveOut(), shadow.ReserveOut(); a.HeldTokens != b.HeldTokens {
			return unlike{"held_tokens", a.HeldTokens, b.HeldTokens, number}, true
		}
	case abi.Admit:
		a, b := live.AdmitOut(i), shadow.AdmitOut(i)
		switch {
		case a.Verdict != b.Verdict:
			return unlike{"verdict", uint64(a.Verdict), uint64(b.Verdict), func(n uint64) string { return abi.Verdict(n).String() }}, true
		case a.Order != b.Order:
			return unlike{"order", uint64(a.Order), uint64(b.Order), number}, true
		case a.Verdict == abi.VerdictReject && a.Reason != b.Reason:
			return unlike{"reason", uint64(a.Reason), uint64(b.Reason), reason}, true
		}
	case abi.Score:
		if a, b := live.ScoreKey(i), shadow.ScoreKey(i); a != b {
			return unlike{"key", uint64(a), uint64(b), func(n uint64) string { return strconv.FormatInt(int64(n), 10) }}, true
		}
	}
	return unlike{}, false
}

// recordKey names what record i is about: a request, or a node of the cache; 0 for reserve, which answers for all at once.
func recordKey(hook abi.Hook, i int, in abi.Batch) uint64 {
	switch hook {
	case abi.Gate:
		return in.GateIn(i).ReqKey
	case abi.Admit:
		return in.AdmitIn(i).ReqKey
	case abi.Score:
		return in.ScoreIn(i).NodeKey
	}
	return 0
}

// show is the hook's report. skipped is how many batches found no room.
func (h *hookCount) show(skipped uint64) server.ShadowHook {
	out := server.ShadowHook{Records: h.records, Differed: h.differed, Skipped: skipped, Native: h.native, Declined: h.stats.Declined,
		Faults: map[string]uint64{}, FirstDifference: h.first}
	for class, n := range h.stats.Faults {
		if n > 0 {
			out.Faults[plugins.FaultClass(class).String()] = n
		}
	}
	if h.live.most > 0 || h.shadow.most > 0 {
		out.Fuel = &server.ShadowFuel{Median: h.shadow.median(), Most: h.shadow.most, LiveMedian: h.live.median(), LiveMost: h.live.most}
	}
	return out
}
