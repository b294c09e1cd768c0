package repro

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/runtime/replay"
	"sluice/runtime/transfer"
)

// The second part: few prompts, half of each in L2, a slow suffix.
const (
	offsetPrompts   = 3
	offsetTokens    = 300
	offsetCached    = 150
	offsetL1        = 3000
	pressurePrompts = 2
	pressureTokens  = 2400
	suffixTicks     = 40
	doneTicks       = 10 // the peer rank's suffix, where it is done first
	flightTicks     = 80 // and where it is still in flight
	failingRank     = 1
)

// offsetRun lets the failing rank's copy for the first prompt fail so many ticks after the tick in which that
// rank's raw poll becomes Success.
func offsetRun(o Options, b behaviour, u undisturbed, offset int, peerInFlight bool) (*Offset, error) {
	delay := u.success + offset - u.copied
	if delay < 0 {
		return nil, fmt.Errorf("the copy ends at tick %d, later than %d", u.copied, u.success+offset)
	}
	w, ids, err := offsetWorld(o, b, peerInFlight, &host.Fault{Kind: host.Load, Rank: failingRank, Err: errInjected, DelayTicks: delay})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	v := &Offset{Offset: offset, PeerInFlight: peerInFlight, Name: b.name, Offered: offsetPrompts, RanksAgree: true}
	r := &Round{}
	var out []attempt
	for i, id := range ids {
		out = append(out, attempt{request: offsetRequest(i), id: id})
	}
	for range 5000 {
		if w.Lost != nil || len(out) == 0 && w.Idle() {
			break
		}
		if err := w.Tick(); err != nil && !lost(err) {
			return nil, err
		}
		for i := range out {
			r.judge(w, &out[i])
		}
		out = slices.DeleteFunc(out, func(a attempt) bool { return a.over })
	}
	v.Served = r.Served
	v.RanksAgree = w.Lost == nil
	v.PagesFreedUnderWriter = w.FreedUnderWriter
	if w.Lost == nil {
		if err := w.Drained(); err != nil {
			return nil, err
		}
		if len(r.Failed) != 1 {
			return nil, fmt.Errorf("%d attempts failed, want the one whose copy was made to fail", len(r.Failed))
		}
	}
	return v, nil
}

func offsetRequest(i int) replay.Request {
	return replay.Request{Namespace: "default", Tokens: prompt(100+i, offsetTokens), Limit: outputTokens}
}

// undisturbed is when, in ticks from submission, the failing rank's raw poll of the first prompt becomes Success
// and its copies end, if nothing fails.
type undisturbed struct{ success, copied int }

func probe(o Options, b behaviour, peerInFlight bool) (undisturbed, error) {
	var u undisturbed
	w, ids, err := offsetWorld(o, b, peerInFlight, nil)
	if err != nil {
		return u, err
	}
	defer w.Close()
	start := w.Ticks()
	for range 5000 {
		if err := w.Tick(); err != nil {
			return u, err
		}
		at := int(w.Ticks() - start)
		if u.copied == 0 && w.Store(failingRank).Counters().LoadBackTokens >= offsetCached {
			u.copied = at
		}
		if raw, ok := w.Raw(failingRank, ids[0]); u.success == 0 && ok && raw == abi.PollSuccess {
			u.success = at
		}
		if u.success > 0 && u.copied > 0 {
			return u, nil
		}
	}
	return u, errors.New("the first prompt's transfer or copy never ended")
}

// offsetWorld caches half of each prompt, pushes it out to L2, and submits the prompts.
func offsetWorld(o Options, b behaviour, peerInFlight bool, f *host.Fault) (*replay.World, []uint64, error) {
	peer := doneTicks
	if peerInFlight {
		peer = flightTicks
	}
	// The warm-up's requests come before the three, which are then the peer's nth requests from here on.
	warm := uint64(offsetPrompts + pressurePrompts)
	slow := func(ticks int) func(*transfer.Chunk) {
		return func(c *transfer.Chunk) { c.At = time.Duration(ticks) * tick }
	}
	var faults []transfer.Fault
	for n := range uint64(3 * offsetPrompts) {
		for r := range ranks {
			ticks := suffixTicks
			if r != failingRank {
				ticks = peer
			}
			faults = append(faults, transfer.Fault{Nth: warm + 1 + n, Rank: r, Chunk: transfer.Any, OnChunk: slow(ticks)})
		}
	}
	w, err := o.world(b, replay.WorldConfig{
		Schedule: scheduleConfig(offsetL1),
		Script:   transfer.WithFaults(transfer.Pace{}.Script(), faults...),
		Delay:    func(int) host.Delay { return func(host.Op, int) uint64 { return 1 } },
	})
	if err != nil {
		return nil, nil, err
	}
	if err := warmUp(w); err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	if f != nil {
		if err := w.Inject(failingRank, *f); err != nil {
			return nil, nil, errors.Join(err, w.Close())
		}
	}
	var ids []uint64
	for i := range offsetPrompts {
		ids = append(ids, w.Submit(offsetRequest(i)))
	}
	return w, ids, nil
}

func warmUp(w *replay.World) error {
	idle := func() bool { return w.Live() == 0 && w.Idle() }
	for i := range offsetPrompts {
		w.Submit(replay.Request{Namespace: "default", Tokens: prompt(100+i, offsetTokens)[:offsetCached], Limit: 1})
	}
	if ok, err := w.Run(1000, idle); err != nil || !ok {
		return errors.Join(errors.New("warm-up not over"), err)
	}
	// Two prompts that do not fit L1 together push the halves out to L2.
	for i := range pressurePrompts {
		w.Submit(replay.Request{Namespace: "default", Tokens: prompt(90+i, pressureTokens), Limit: 1})
		if ok, err := w.Run(1000, idle); err != nil || !ok {
			return errors.Join(errors.New("pressure not over"), err)
		}
	}
	return nil
}
