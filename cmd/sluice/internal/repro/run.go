package repro

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/cmd/sluice/internal/ranklocal"
	"sluice/gpu/host"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/replay"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// The experiment's fixed numbers.
const (
	ranks        = 2
	l1Tokens     = 24000
	l2Ratio      = 4
	prompts      = 24
	promptTokens = 3000
	outputTokens = 16
	window       = 8 // offered at a time
	rounds       = 4
	vocabulary   = 151936
	tick         = time.Millisecond
	reserved     = 512
	retries      = 5 // the router's
	maxOffset    = 20
)

// Policies are the shipped policies of one column, by name.
type Policies struct{ Gate, Reserve, Admit string }

// Options say how the experiment runs.
type Options struct {
	// Hooks makes one rank's policies; the command gives native or Wasm ones.
	Hooks func(p Policies, rank int) (rank.Hooks, error)
	// SkipOffsets leaves the second part out.
	SkipOffsets bool
	// EveryTick walks all books after every tick and not only after every 64th.
	EveryTick bool
}

type behaviour struct {
	name     string
	policies Policies
	local    bool
}

func behaviours() []behaviour {
	return []behaviour{
		// The ranks of the report ran the gate of before the fix.
		{RankLocal, Policies{"pending-only", "pending-only", "fifo-headroom"}, true},
		{Ungated, Policies{"ungated", "none", "fifo-headroom"}, false},
		{PendingOnly, Policies{"pending-only", "pending-only", "fifo-headroom"}, false},
		{RestoreGated, Policies{"restore-gated", "until-retired", "fifo-headroom"}, false},
	}
}

// Run runs every column, and the offsets.
func Run(o Options) (*Report, error) {
	r := &Report{skipped: o.SkipOffsets}
	for _, b := range behaviours() {
		c, err := column(o, b)
		if err != nil {
			return nil, fmt.Errorf("repro: %s: %w", b.name, err)
		}
		r.Columns = append(r.Columns, *c)
	}
	if o.SkipOffsets {
		return r, nil
	}
	for _, flight := range []bool{false, true} {
		probes := map[string]undisturbed{}
		for _, b := range behaviours() {
			u, err := probe(o, b, flight)
			if err != nil {
				return nil, fmt.Errorf("repro: %s, undisturbed, peer in flight %v: %w", b.name, flight, err)
			}
			probes[b.name] = u
		}
		for offset := -maxOffset; offset <= maxOffset; offset++ {
			for _, b := range behaviours() {
				v, err := offsetRun(o, b, probes[b.name], offset, flight)
				if err != nil {
					return nil, fmt.Errorf("repro: %s at offset %d, peer in flight %v: %w", b.name, offset, flight, err)
				}
				r.Offsets = append(r.Offsets, *v)
			}
		}
	}
	return r, nil
}

func scheduleConfig(tokens int) schedule.Config {
	return schedule.Config{Ranks: ranks, PageSize: 1, L1Pages: tokens, L2Pages: l2Ratio * tokens, MaxRunning: 64,
		MetadataSlots: 64, MaxNewTokens: 4096, MaxQueue: 1024, ReservedDecodeTokens: reserved, Overcommit: 1,
		HoldTicks: 1000, StarveTicks: 1000, AdmitWindow: 64, Operations: 64, LoadFailures: 3,
		Quarantine: schedule.QuarantineAll(3, 1000), IngressSlice: 64 << 10, EOS: schedule.NoToken, AdmitNative: "fifo-headroom"}
}

func (o *Options) world(b behaviour, cfg replay.WorldConfig) (*replay.World, error) {
	cfg.Model = model.Shape{Layers: 2, BytesPerTokenLayer: 8, PageSize: 1, Shards: ranks}
	cfg.Vocab = vocabulary
	cfg.Tick = tick
	cfg.PrefillShards, cfg.ChunkPages, cfg.RingPages = 1, 256, 4096
	cfg.TransferTicks, cfg.DrainTicks = 30000, 3000
	cfg.Hooks = func(r int) (rank.Hooks, error) { return o.Hooks(b.policies, r) }
	if b.local {
		cfg.Edit = ranklocal.EditReduced
	} else {
		cfg.Verify, cfg.Cheap = true, !o.EveryTick
	}
	return replay.New(cfg)
}

// prompt is the tokens of prompt i, with n of them; prompts share no prefix.
func prompt(i, n int) []uint32 {
	out := make([]uint32, n)
	for k := range out {
		out[k] = uint32((i*7919 + k*104729 + 1) % vocabulary)
	}
	out[0] = uint32(i + 1)
	return out
}

func column(o Options, b behaviour) (*Column, error) {
	w, err := o.world(b, replay.WorldConfig{
		Schedule: scheduleConfig(l1Tokens),
		Script:   transfer.Pace{Total: 10 * tick}.Script(),
		Delay:    func(int) host.Delay { return func(_ host.Op, pages int) uint64 { return 1 + uint64(pages)/1000 } },
	})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	c := &Column{Name: b.name}
	for n := range rounds {
		if n == injectedRound && w.Lost == nil {
			if err := w.Inject(1, host.Fault{Kind: host.Load, Rank: 1, Err: errInjected}); err != nil {
				return nil, err
			}
		}
		r, err := round(w)
		if err != nil {
			return nil, err
		}
		c.Rounds = append(c.Rounds, *r)
	}
	c.DecodeAlive = w.Lost == nil
	if w.Lost != nil {
		if !b.local {
			return nil, w.Lost
		}
		c.Lost = w.Lost.Error()
	}
	c.CollectivesPerTick = float64(w.Exchanges) / float64(w.Ticks())
	c.PagesFreedUnderWriter = w.FreedUnderWriter
	c.Rails = w.Rails()
	return c, nil
}

var errInjected = errors.New("injected: the copy cannot run")

// attempt is one prompt on its way: the router's view.
type attempt struct {
	request replay.Request
	id      uint64
	tries   int
	over    bool
}

// round offers all prompts in order, so many at a time, and retries a failed one at once, in its place.
func round(w *replay.World) (*Round, error) {
	r := &Round{Offered: prompts, Failed: []Failure{}}
	before := loaded(w)
	var out []attempt
	next := 0
	limit := w.Ticks() + 200000
	for {
		for len(out) < window && next < prompts {
			q := request(next)
			out = append(out, attempt{request: q, id: w.Submit(q)})
			next++
		}
		if len(out) == 0 && (w.Idle() || w.Lost != nil) {
			break
		}
		if err := w.Tick(); err != nil && !lost(err) {
			return nil, err
		}
		if w.Ticks() > limit {
			return nil, fmt.Errorf("round not over after %d ticks", w.Ticks())
		}
		if w.Lost != nil {
			// There is no decode worker: whatever was offered and whatever would be fails.
			for _, a := range out {
				r.Failed = append(r.Failed, Failure{Request: a.id, Ranks: endedOn(w, a.id), Tick: w.Ticks(), Reason: "decode is lost"})
			}
			out, next = nil, prompts
			continue
		}
		for i := range out {
			r.judge(w, &out[i])
		}
		out = slices.DeleteFunc(out, func(a attempt) bool { return a.over })
	}
	after := loaded(w)
	for i := range after {
		r.LoadBackTokens = append(r.LoadBackTokens, after[i]-before[i])
	}
	return r, nil
}

func request(i int) replay.Request {
	return replay.Request{Namespace: "default", Tokens: prompt(i, promptTokens), Limit: outputTokens}
}

func lost(err error) bool { return errors.Is(err, replay.ErrParted) || ranklocal.Lost(err) }

// judge counts a prompt that has ended, or offers it again at once, in its place.
func (r *Round) judge(w *replay.World, a *attempt) {
	o := w.Outcome(a.id)
	if !o.Done() {
		return
	}
	end := o.Ends[0]
	if end.Kind == schedule.FinishLength {
		a.over = true
		if o.Wrong == 0 && len(o.Tokens) == outputTokens {
			r.Served++
		}
		return
	}
	r.Failed = append(r.Failed, Failure{Request: a.id, Ranks: endedOn(w, a.id), Tick: end.Tick, Reason: end.Reason,
		apart: slices.ContainsFunc(o.Ends, func(e replay.End) bool { return e.Tick != end.Tick })})
	if a.tries++; a.tries > retries {
		a.over = true
		return
	}
	r.Retried++
	a.id = w.Submit(a.request)
}

func endedOn(w *replay.World, id uint64) []int {
	on := []int{}
	for r, e := range w.Outcome(id).Ends {
		if e.Tick > 0 && e.Kind == schedule.FinishFailed {
			on = append(on, r)
		}
	}
	return on
}

func loaded(w *replay.World) (out []uint64) {
	for r := range ranks {
		out = append(out, w.Store(r).Counters().LoadBackTokens)
	}
	return out
}
