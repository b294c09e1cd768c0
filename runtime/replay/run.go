package replay

import (
	"errors"
	"fmt"
	"time"

	"sluice/abi"
	"sluice/gpu/host"
	"sluice/kvcache/index"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// RunOptions say how a trace is replayed. Every delay is fixed or drawn from Seed, so a run is a function of these
// options and the trace.
type RunOptions struct {
	Ranks      int           // 1 or more
	L1Tokens   int           // device tokens a rank
	L2Ratio    float64       // host tokens = ratio x L1Tokens
	PageSize   int           // tokens
	Tick       time.Duration // virtual time of one tick, that is of one decode step
	Chunk      time.Duration // virtual time the prefill peer takes for a chunk of 16 pages
	LoadPages  int           // pages a copy between tiers moves in one tick
	Reserved   int           // reserved_decode_tokens
	Overcommit float64
	MaxRunning int
	Seed       uint64
	Score      bool // ask the score policy; without it eviction is plain LRU
	Verify     bool // oracles after every tick, and every token against the one that the right bytes give
	Hooks      func(rank int) (rank.Hooks, error)
	// Refresh, where set, runs before each tick of a rank and may make successors of discarded policy instances. Without it
	// a policy that fails never comes back.
	Refresh func(rank int, tick uint64) error

	Quarantine  [schedule.NumHooks]schedule.Quarantine       // by schedule.Lane
	HoldOnFault [schedule.NumHooks]bool                      // likewise; Hooks must be made with the same, see plugins.Spec
	ReasonText  func(schedule.FinishKind, abi.Reason) string // of Result.Reasons; nil = abi.ReasonText
}

// DefaultRunOptions are those of the replay command.
func DefaultRunOptions() RunOptions {
	return RunOptions{Ranks: 2, L1Tokens: 131072, L2Ratio: 4, PageSize: 64, Tick: 20 * time.Millisecond, Chunk: 20 * time.Millisecond,
		LoadPages: 256, Reserved: 512, Overcommit: 1, MaxRunning: 256, Seed: 1, Quarantine: schedule.QuarantineAll(3, 1000)}
}

// Tiers counts tokens by the tier that served them.
type Tiers struct {
	L1 uint64 `json:"l1"`
	L2 uint64 `json:"l2"`
	L3 uint64 `json:"l3"`
}

// PolicyName says which policy answered a hook.
type PolicyName struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Engine string `json:"engine"`
	// Faults are the ticks in which its answer was no good on some rank; the native policy answered then, or nobody.
	Faults      uint64 `json:"faults"`
	Quarantined bool   `json:"quarantined"`
}

// Result is what a replay found. Its JSON names are documented in the README; all but WallSeconds are the same
// in every run with the same options.
type Result struct {
	Requests    int                   `json:"requests"`
	Served      int                   `json:"served"`
	Failed      int                   `json:"failed"` // refused at the door included
	Reasons     map[string]int        `json:"failed_reasons,omitempty"`
	Ticks       uint64                `json:"ticks"`
	Collectives uint64                `json:"collectives"` // of the group
	InputTokens uint64                `json:"input_tokens"`
	OutTokens   uint64                `json:"output_tokens"`
	HitTokens   Tiers                 `json:"hit_tokens"`
	Evicted     Tiers                 `json:"evicted_tokens"`  // from each tier
	Uncached    Quantiles             `json:"uncached_tokens"` // prompt tokens of an admitted request that no tier held
	Restores    uint64                `json:"restores"`        // load operations, one a cached node
	Retractions uint64                `json:"retractions"`
	Rails       map[string]uint64     `json:"rails"`
	Policies    map[string]PolicyName `json:"policies"`
	Digest      string                `json:"digest"`
	Virtual     float64               `json:"virtual_seconds"`
	WallSeconds float64               `json:"wall_seconds"`
}

// Run replays a trace. It returns an error when an invariant breaks or the trace cannot be run to its end.
func Run(trace []TraceRequest, o RunOptions) (*Result, error) {
	w, err := New(o.world(trace))
	if err != nil {
		return nil, err
	}
	res, err := replay(w, trace)
	return res, errors.Join(err, w.Close())
}

func (o *RunOptions) world(trace []TraceRequest) WorldConfig {
	most := 1
	for i := range trace {
		most = max(most, trace[i].Output)
	}
	pages := o.L1Tokens / o.PageSize
	return WorldConfig{
		Schedule: schedule.Config{Ranks: o.Ranks, PageSize: o.PageSize, L1Pages: pages, L2Pages: int(float64(pages) * o.L2Ratio),
			MaxRunning: o.MaxRunning, MetadataSlots: 256, MaxNewTokens: most, MaxQueue: 1 << 20, ReservedDecodeTokens: o.Reserved,
			Overcommit: o.Overcommit, HoldTicks: 1000, StarveTicks: 1000, AdmitWindow: 64, Operations: 64, LoadFailures: 3,
			Quarantine: o.Quarantine, HoldOnFault: o.HoldOnFault, IngressSlice: 1 << 20, Score: o.Score, EOS: schedule.NoToken, AdmitNative: "fifo-headroom"},
		Model: model.Shape{Layers: 1, BytesPerTokenLayer: 8 * o.Ranks, PageSize: o.PageSize, Shards: o.Ranks, Stamp: true},
		Vocab: 151936, Tick: o.Tick, Hooks: o.Hooks, Refresh: o.Refresh, ReasonText: o.ReasonText, Verify: o.Verify, Cheap: !o.Verify,
		Delay: func(int) host.Delay {
			return func(_ host.Op, n int) uint64 { return 1 + uint64(n/max(o.LoadPages, 1)) }
		},
		// Jitter within a tick would not be seen: what lands between two ticks is found at the second.
		Script:        transfer.Pace{Each: o.Chunk, Jitter: o.Chunk/4 + o.Tick, Seed: o.Seed}.Script(),
		TransferTicks: 30000, DrainTicks: 3000,
	}
}

func replay(w *World, trace []TraceRequest) (*Result, error) {
	res := &Result{Requests: len(trace)}
	var tokens []uint32
	next := 0
	stuck := uint64(0)
	for next < len(trace) || w.Live() > 0 || !w.Idle() {
		if next < len(trace) && w.Live() == 0 && w.Idle() {
			// Nothing happens before the next arrival.
			w.SkipTo(time.Duration(trace[next].TimestampMS) * time.Millisecond)
		}
		for next < len(trace) && time.Duration(trace[next].TimestampMS)*time.Millisecond <= w.Now() {
			q := &trace[next]
			tokens = q.Tokens(tokens[:0])
			w.Submit(Request{Namespace: "default", Tokens: tokens, Limit: q.Output})
			next++
		}
		before := w.progress()
		if err := w.Tick(); err != nil {
			return nil, err
		}
		if stuck++; w.progress() != before || next < len(trace) {
			stuck = 0
		}
		if stuck > 100000 {
			return nil, fmt.Errorf("replay: no progress for %d ticks with %d requests live", stuck, w.Live())
		}
	}
	if err := w.Drained(); err != nil {
		return nil, err
	}
	w.result(res)
	return res, nil
}

// progress changes with every token and every ended request.
func (w *World) progress() uint64 {
	c := w.ranks[0].Schedule().Counts()
	n := c.OutputTokens
	for _, v := range c.Finished {
		n += v
	}
	return n
}

func (w *World) result(res *Result) {
	c := w.ranks[0].Schedule().Counts()
	res.Served = int(c.Finished[schedule.FinishStop] + c.Finished[schedule.FinishLength])
	res.Failed = res.Requests - res.Served
	for _, o := range w.out {
		if k := o.Ends[0].Kind; k != schedule.FinishStop && k != schedule.FinishLength {
			if res.Reasons == nil {
				res.Reasons = map[string]int{}
			}
			res.Reasons[o.Ends[0].Reason]++
		}
	}
	s := w.ranks[0].Schedule()
	res.Policies = map[string]PolicyName{}
	for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		res.Policies[h.String()] = PolicyName{Faults: s.Faults(h), Quarantined: s.Quarantined(h)}
	}
	res.Ticks, res.Collectives = w.tick, w.Exchanges
	res.InputTokens, res.OutTokens = c.InputTokens, c.OutputTokens
	res.HitTokens = Tiers{L1: c.HitL1, L2: c.HitL2}
	evicted, page := s.CacheStats().Evicted, uint64(w.cfg.Schedule.PageSize)
	res.Evicted = Tiers{L1: evicted[index.L1] * page, L2: evicted[index.L2] * page}
	res.Uncached = quantilesOf(w.uncached())
	res.Restores, res.Retractions = c.Restores, c.Retractions
	res.Rails = w.Rails()
	res.Virtual = w.now.Seconds()
	var d uint64
	for _, k := range w.ranks {
		d = d*0x100000001b3 ^ k.Schedule().Digest()
	}
	res.Digest = fmt.Sprintf("%016x", d)
}

// SkipTo moves virtual time forward while nothing is queued.
func (w *World) SkipTo(t time.Duration) { w.now = max(w.now, t) }

// Books are rank 0's booked pages of a tier.
func (w *World) Books(t index.Tier) index.Books { return w.ranks[0].Schedule().Books(t) }
