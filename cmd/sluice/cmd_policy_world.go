package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/replay"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// liveTick is the virtual time between two ticks of a run.
const liveTick = time.Millisecond

// noLimit stands for the rails that would end a hold: in these runs the policy alone lets a request go.
const noLimit = 1 << 30

// errCopyFails is the injected fault of a copy between tiers.
var errCopyFails = errors.New("injected: the copy cannot run")

// liveRun is one random multi-rank run, drawn from its seed: prompts that share prefixes, a small device, restores that
// are late or fail on one rank, data that comes before or after them. The peer is honest and lives.
type liveRun struct {
	seed     uint64
	rng      *rand.Rand
	cfg      replay.WorldConfig
	faults   []host.Fault
	requests []replay.Request
	gaps     []int // ticks before each request
}

// liveEnd is what became of a run.
type liveEnd struct {
	served, failed int
	ends           map[string]int // how the others ended
	stuck          []uint64       // requests that never ended, oldest first
	where          []string       // where each of them is
	ticks          uint64
	rails          map[string]uint64
	faults         uint64
	faultLines     []string
	differed       uint64 // ticks in which replicated answers differed between ranks
	cut            bool   // the run was ended early, since the policy only faults; nothing is said of what did not end
	broken         error  // an invariant of the host that broke
	trace          *tracer
}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// drawRun draws a run.
func drawRun(seed uint64) *liveRun {
	r := rand.New(rand.NewPCG(seed, 0x6c697665))
	ranks := oneOf(r, 1, 2, 2, 3)
	s := schedule.Config{Ranks: ranks, PageSize: 1 + r.IntN(8), L1Pages: 16 + r.IntN(48), MaxRunning: 2 + r.IntN(8), MetadataSlots: 2 + r.IntN(8),
		MaxNewTokens: 4 + r.IntN(16), MaxQueue: 1024, ReservedDecodeTokens: oneOf(r, 0, 0, 4), Overcommit: oneOf(r, 1, 1, 0.5),
		HoldTicks: noLimit, StarveTicks: noLimit, AdmitWindow: oneOf(r, 4, 64), Operations: oneOf(r, 2, 4, 16), LoadFailures: 1 + r.IntN(3),
		Quarantine: schedule.QuarantineAll(noLimit, noLimit), IngressSlice: 4096, EOS: schedule.NoToken, AdmitNative: "fifo-headroom"}
	s.L2Pages = s.L1Pages * oneOf(r, 1, 2, 4)
	l := &liveRun{seed: seed, rng: r}
	pace := transfer.Pace{Each: time.Duration(r.IntN(4)) * liveTick, Jitter: time.Duration(r.IntN(8)) * liveTick, Seed: seed}
	l.cfg = replay.WorldConfig{Schedule: s, Model: model.Shape{Layers: 1, BytesPerTokenLayer: 8 * ranks, PageSize: s.PageSize, Shards: ranks, Stamp: true},
		Vocab: 1000, Tick: liveTick, PrefillShards: oneOf(r, ranks, ranks, 1), ChunkPages: 1 + r.IntN(4), Script: pace.Script(),
		TransferTicks: noLimit, DrainTicks: 200, Verify: true, Cheap: true,
		Delay: func(rank int) host.Delay { return host.SeededDelay(seed<<8|uint64(rank), seed%3, seed%3+seed%11) }}
	for range r.IntN(5) {
		l.faults = append(l.faults, host.Fault{Kind: host.Load, Rank: r.IntN(ranks), After: r.IntN(8), Times: 1 + r.IntN(3),
			Err: oneOf(r, nil, errCopyFails), DelayTicks: 1 + r.IntN(20)})
	}
	l.drawRequests(s.L1Pages * s.PageSize)
	return l
}

// drawRequests draws the prompts: stretches of two roots, so that prefixes are hit, with tails of their own.
func (l *liveRun) drawRequests(tokens int) {
	r := l.rng
	var roots [2][]uint32
	for i := range roots {
		for range tokens {
			roots[i] = append(roots[i], r.Uint32N(1000))
		}
	}
	for range 16 + r.IntN(16) {
		root := roots[r.IntN(len(roots))]
		prompt := slices.Clone(root[:1+r.IntN(max(tokens/oneOf(r, 2, 4, 8)-1, 1))])
		if r.IntN(2) == 0 {
			for i := r.IntN(len(prompt)); i < len(prompt); i++ {
				prompt[i] = r.Uint32N(1000)
			}
		}
		limit := 1 + r.IntN(l.cfg.Schedule.MaxNewTokens)
		limit = min(limit, tokens-len(prompt)+1)
		l.requests = append(l.requests, replay.Request{Namespace: "default", Tokens: prompt, Limit: limit, Tenant: uint16(r.IntN(3)), Priority: uint16(r.IntN(3))})
		l.gaps = append(l.gaps, r.IntN(12))
	}
}

// enoughFaults ends a run: its verdict is known, and an endless loop costs milliseconds a call.
const enoughFaults = 32

// errEnough is why drive ends early.
var errEnough = errors.New("enough faults")

// makeSet makes the policies of one rank.
type makeSet func(info abi.HostInfo) (*plugins.Set, error)

// run drives the requests through a group with the given policies until all have ended, or patience ticks after the last
// one came.
func (l *liveRun) run(ctx context.Context, sets makeSet, patience int) (end liveEnd, err error) {
	cfg := l.cfg
	end.trace = newTracer(cfg.Schedule.Ranks)
	var made []*plugins.Set
	var policies []*rank.Policies
	defer func() {
		for _, s := range made {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	logger := newFaultLog(&end.faultLines)
	cfg.Hooks = func(r int) (rank.Hooks, error) {
		set, err := sets(abi.HostInfo{PageSize: uint32(cfg.Schedule.PageSize), TotalTokens: uint64(cfg.Schedule.L1Pages * cfg.Schedule.PageSize),
			Ranks: uint32(cfg.Schedule.Ranks)})
		if err != nil {
			return rank.Hooks{}, err
		}
		made = append(made, set)
		p := rank.NewPolicies(set, logger)
		policies = append(policies, p)
		return end.trace.wrap(r, p.Hooks()), nil
	}
	cfg.Refresh = func(r int, _ uint64) error {
		if policies[r].Wanted() {
			return policies[r].Refresh(ctx)
		}
		return nil
	}
	cfg.ReasonText = func(k schedule.FinishKind, r abi.Reason) string { return rank.ReasonText(made[0], k, r) }
	w, err := replay.New(cfg)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, f := range l.faults {
		if err := w.Inject(f.Rank, f); err != nil {
			return end, err
		}
	}
	ids, broken := l.drive(ctx, w, patience, func() bool { return faultsOf(made) >= enoughFaults })
	if end.cut = errors.Is(broken, errEnough); end.cut {
		broken = nil
	}
	if errors.Is(broken, context.Canceled) || errors.Is(broken, context.DeadlineExceeded) {
		return end, broken
	}
	end.broken = broken
	end.collect(w, ids, made)
	return end, nil
}

// drive submits the requests at their ticks and then waits. It ends early with errEnough where enough says so.
func (l *liveRun) drive(ctx context.Context, w *replay.World, patience int, enough func() bool) (ids []uint64, err error) {
	for i, q := range l.requests {
		for range l.gaps[i] {
			if err := w.Tick(); err != nil {
				return ids, err
			}
			if enough() {
				return ids, errEnough
			}
		}
		ids = append(ids, w.Submit(q))
	}
	for i := range patience {
		if w.Live() == 0 && w.Idle() {
			return ids, nil
		}
		if i%64 == 0 && ctx.Err() != nil {
			return ids, ctx.Err()
		}
		if err := w.Tick(); err != nil {
			return ids, err
		}
		if enough() {
			return ids, errEnough
		}
	}
	return ids, nil
}

// faultsOf counts the faults of all hooks of some sets.
func faultsOf(sets []*plugins.Set) (n uint64) {
	for _, s := range sets {
		for _, i := range s.Infos() {
			n += s.Runner(i.Hook).Stats().FaultTotal()
		}
	}
	return n
}

func (end *liveEnd) collect(w *replay.World, ids []uint64, sets []*plugins.Set) {
	end.ticks, end.rails, end.ends = w.Ticks(), w.Rails(), map[string]int{}
	for _, id := range ids {
		o := w.Outcome(id)
		switch e := o.Ends[0]; {
		case !o.Done() && end.cut:
		case !o.Done():
			end.stuck = append(end.stuck, id)
			end.where = append(end.where, w.Rank(0).Schedule().Where(id).String())
		case e.Kind == schedule.FinishStop || e.Kind == schedule.FinishLength:
			end.served++
		default:
			end.failed++
			end.ends[fmt.Sprintf("%s: %s", e.Kind, e.Reason)]++
		}
	}
	end.faults = faultsOf(sets)
	if end.faults == 0 {
		s := w.Rank(0).Schedule()
		end.differed = s.Faults(abi.Admit) + s.Faults(abi.Score)
	}
}
