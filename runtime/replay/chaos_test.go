package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/abi"
	"sluice/collective"
	"sluice/gpu/host"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// names are the shipped policies of one choice.
type names struct{ gate, reserve, admit, score string }

// wasmPool keeps the shipped policies in WebAssembly for one goroutine: they hold no state, and an instance costs
// milliseconds.
type wasmPool struct {
	host *plugins.Host
	sets map[wasmKey]*plugins.Set
}

type wasmKey struct {
	names
	rank int
}

func (p *wasmPool) set(n names, r int) (*plugins.Set, error) {
	s := p.sets[wasmKey{n, r}]
	if s == nil {
		var err error
		s, err = p.host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Builtin: n.gate}, {Hook: abi.Reserve, Builtin: n.reserve},
			{Hook: abi.Admit, Builtin: n.admit}, {Hook: abi.Score, Builtin: n.score}}, abi.HostInfo{})
		if err != nil {
			return nil, err
		}
		p.sets[wasmKey{n, r}] = s
	}
	// What the last run's group agreed on is not this one's.
	for _, h := range []*plugins.Runner{s.Gate, s.Reserve, s.Admit, s.Score} {
		h.Enable()
		if err := h.Refresh(context.Background()); err != nil {
			return nil, err
		}
		h.Install()
	}
	return s, nil
}

func (p *wasmPool) close() error {
	var errs []error
	for _, s := range p.sets {
		errs = append(errs, s.Close(context.Background()))
	}
	return errors.Join(errs...)
}

// chaos is one random run: a World whose every circumstance is drawn from one seed.
type chaos struct {
	*World
	seed  uint64
	rng   *rand.Rand
	cfg   WorldConfig
	wasm  bool
	names names
	rough [4]bool // hooks with a hostile policy
	how   manner

	policies []*rank.Policies
	wanted   []uint64 // by rank: tick since which a successor is wanted, 0 = none is

	requests, crashes, cuts int
	gap                     int
	ids                     []uint64
	told                    []said
	roots                   [][]uint32
	crashOdds, abortOdds    int
	lostOdds                int
	spoiled                 map[uint64]bool // see troubles
	reused                  map[uint64]bool // rooms that several requests were offered under
	digest                  uint64
}

// said is a request with its number.
type said struct {
	Request
	id uint64
}

// newChaos draws a run.
func newChaos(seed uint64, pool *wasmPool, edit func(*rank.Rank, *collective.Vector, *collective.Vector)) (*chaos, error) {
	r := rand.New(rand.NewPCG(seed, 0x73656564))
	c := &chaos{seed: seed, rng: r, reused: map[uint64]bool{}, wasm: seed%8 == 0, gap: 1 + r.IntN(8), requests: 8 + r.IntN(40), abortOdds: pick(r, 0, 5, 20)}
	c.names = pick(r, names{"restore-gated", "until-retired", "fifo-headroom", "lru"}, names{"pending-only", "pending-only", "greedy", "lfu"},
		names{"ungated", "none", "fifo-headroom", "lfu"}, names{"restore-gated", "none", "greedy", "lru"})
	scored := seed/3%3 == 0
	calm := seed%3 == 0 // nobody lies and the peer lives; only copies between tiers may fail
	if !calm {
		for i := range c.rough {
			c.rough[i] = (i < 3 || scored) && r.IntN(3) == 0
		}
		c.how = drawManner(r)
		if r.IntN(5) == 0 {
			c.crashOdds = pick(r, 5, 20)
		}
		if r.IntN(5) == 0 {
			c.lostOdds = 100
		}
	}
	n := pick(r, 1, 2, 2, 2, 3)
	s := schedule.Config{Ranks: n, PageSize: 1 + r.IntN(8), L1Pages: 8 + r.IntN(57), MaxRunning: 1 + r.IntN(8), MetadataSlots: 1 + r.IntN(8),
		MaxNewTokens: 4 + r.IntN(21), MaxQueue: pick(r, 6, 100, 100, 100, 100, 100), ReservedDecodeTokens: pick(r, 0, 0, 4, 16), Overcommit: pick(r, 1, 1, 0.5, 0.1),
		HoldTicks: 3 + r.IntN(18), StarveTicks: 3 + r.IntN(18), AdmitWindow: pick(r, 1, 3, 64), Operations: pick(r, 1, 2, 4, 16),
		LoadFailures: 1 + r.IntN(3), Quarantine: schedule.QuarantineAll(1+r.IntN(4), 20+r.IntN(200)), IngressSlice: pick(r, 64, 300, 4096),
		EOS: pick(r, uint32(schedule.NoToken), 65), AdmitNative: pick(r, "greedy", "fifo-headroom"), Score: scored}
	for h := range s.HoldOnFault {
		s.HoldOnFault[h] = seed>>h&1 == 0
		s.Quarantine[h].Faults += int(seed>>(2*h)) & 3
	}
	s.L2Pages = int(float64(s.L1Pages) * pick(r, 0, 0.5, 1, 2, 2, 4))
	shape := model.Shape{Layers: 1 + r.IntN(2), BytesPerTokenLayer: 8 * n, PageSize: s.PageSize, Shards: n, Stamp: r.IntN(2) == 0}
	trouble := drawTroubles(r, seed)
	if calm {
		trouble = troubles{seed: seed, spoiled: trouble.spoiled, pace: trouble.pace, ack: trouble.ack, early: trouble.early, twice: trouble.twice, flight: trouble.flight}
	}
	c.spoiled = trouble.spoiled
	c.cfg = WorldConfig{Schedule: s, Model: shape, Vocab: 1000, Tick: tick, PrefillShards: pick(r, n, n, 1, 2*n), ChunkPages: 1 + r.IntN(4),
		Script: transfer.Script(&trouble), TransferTicks: uint32(20 + r.IntN(60)), DrainTicks: uint32(20 + r.IntN(40)),
		RestartDelay: time.Duration(1+r.IntN(20)) * tick, RevokeDelay: time.Duration(r.IntN(6)) * tick,
		StepMayFail: true, Verify: true, Edit: edit,
		Delay: func(r int) host.Delay { return host.SeededDelay(seed<<8|uint64(r), seed%3, seed%3+seed%7) }}
	c.cfg.RingPages = c.cfg.ChunkPages * (1 + r.IntN(3))
	c.cfg.Hooks = func(r int) (rank.Hooks, error) { return c.hooks(pool, r) }
	c.cfg.Refresh = c.refresh
	for range 1 + r.IntN(3) {
		root := make([]uint32, s.L1Pages*s.PageSize+2)
		for i := range root {
			root[i] = r.Uint32N(1000)
		}
		c.roots = append(c.roots, root)
	}
	var err error
	if c.World, err = New(c.cfg); err != nil {
		return nil, err
	}
	for _, f := range deviceFaults(r, n) {
		if calm && f.Kind != host.Load && f.Kind != host.Backup {
			continue
		}
		if err := c.Inject(f.Rank, f); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// hooks makes a rank's policies: shipped ones, native or WebAssembly, with a hostile one in the place of some.
func (c *chaos) hooks(pool *wasmPool, r int) (rank.Hooks, error) {
	var set *plugins.Set
	var err error
	if c.wasm {
		if set, err = pool.set(c.names, r); err == nil {
			set = &plugins.Set{Gate: set.Gate, Reserve: set.Reserve, Admit: set.Admit, Score: set.Score}
		}
	} else {
		set, err = plugins.NewNativeSet(standard.Config{Gate: c.names.gate, Reserve: c.names.reserve, Admit: c.names.admit, Score: c.names.score})
	}
	if err != nil {
		return rank.Hooks{}, err
	}
	for i, h := range hooksInOrder {
		if !c.rough[i] {
			continue
		}
		seed := c.seed*31 + uint64(h)
		if plugins.ClassOf(h) == abi.ClassLocal {
			seed += uint64(r) << 32 // local facts and local whims
		}
		run, err := callerRunner(h, [...]string{c.names.gate, c.names.reserve, c.names.admit, c.names.score}[i], func() plugins.Caller {
			return newHostile(h, c.how, seed, r)
		})
		if err != nil {
			return rank.Hooks{}, err
		}
		run.SetOnFault(c.onFault(h))
		*[...]**plugins.Runner{&set.Gate, &set.Reserve, &set.Admit, &set.Score}[i] = run
	}
	p := rank.NewPolicies(set, nil)
	c.policies, c.wanted = append(c.policies, p), append(c.wanted, 0)
	return p.Hooks(), nil
}

func (c *chaos) onFault(h abi.Hook) plugins.OnFault {
	if c.cfg.Schedule.HoldOnFault[schedule.Lane(h)] {
		return plugins.OnFaultHold
	}
	return plugins.OnFaultNative
}

// refresh makes successors of discarded instances, on each rank after a delay of its own.
func (c *chaos) refresh(r int, now uint64) error {
	if !c.policies[r].Wanted() {
		c.wanted[r] = 0
		return nil
	}
	if c.wanted[r] == 0 {
		c.wanted[r] = now
	}
	if now-c.wanted[r] < (c.seed>>r)%8 {
		return nil
	}
	return c.policies[r].Refresh(context.Background())
}

// arrive is what happens between two ticks while the run is young.
func (c *chaos) arrive() {
	r := c.rng
	if len(c.ids) < c.requests && r.IntN(c.gap) == 0 {
		q := c.request()
		id := c.Submit(q)
		c.ids, c.told = append(c.ids, id), append(c.told, said{q, id})
	}
	if len(c.ids) > 0 && roll(r, c.abortOdds) {
		id := pick(r, c.ids...)
		if r.IntN(2) == 0 {
			c.Abort(id)
		} else {
			c.leader.Add(schedule.AppendAbort(nil, id))
		}
	}
	switch {
	case roll(r, c.crashOdds):
		c.CrashPeer()
		c.crashes++
	case roll(r, c.crashOdds):
		c.CutPeer(r.IntN(len(c.ranks)))
		c.cuts++
	case r.IntN(200) == 0:
		c.Flush()
	}
}

// request draws a prompt: a stretch of a root that others share, and a tail of its own.
func (c *chaos) request() Request {
	r := c.rng
	root := pick(r, c.roots...)
	most := len(root) - 2
	n := 1 + r.IntN(max(most*pick(r, 2, 5, 8)/10, 1))
	if r.IntN(50) == 0 {
		n = most + r.IntN(3)
	}
	tokens := slices.Clone(root[:n])
	if r.IntN(3) == 0 {
		for i := r.IntN(n); i < n; i++ {
			tokens[i] = r.Uint32N(1000)
		}
	}
	space := pick(r, "one", "one", "one", "other")
	if len(c.told) > 0 && r.IntN(3) == 0 {
		// The next turn of a conversation, or the same prompt again.
		was := pick(r, c.told...)
		tokens, space = slices.Clone(was.Tokens), was.Namespace
		if r.IntN(2) == 0 {
			tokens = append(tokens, c.out[was.id].Tokens...)
			for range r.IntN(8) {
				tokens = append(tokens, r.Uint32N(1000))
			}
		}
	}
	q := Request{Namespace: space, Tokens: tokens, Limit: pick(r, 0, 1, 1+r.IntN(24), 1+r.IntN(24)),
		Tenant: uint16(r.IntN(3)), Priority: uint16(r.IntN(3)), NoPrefill: roll(r, c.lostOdds)}
	if r.IntN(8) == 0 {
		q.Stops = []uint32{66, 67}
	}
	if r.IntN(20) == 0 && len(c.ids) > 0 {
		q.Room = roomOf(pick(r, c.ids...))
		c.reused[q.Room] = true
	}
	return q
}

// drainTicks bounds how long everything may take to end once nothing new comes.
const drainTicks = 6000

// run drives the world until it is idle and says what is wrong with it then.
func (c *chaos) run() error {
	for len(c.ids) < c.requests {
		c.arrive()
		if err := c.Tick(); err != nil {
			return err
		}
	}
	quiet := func() bool { return c.Live() == 0 && c.Idle() && c.settled() }
	if ok, err := c.World.Run(drainTicks, quiet); err != nil || !ok {
		if err == nil {
			err = fmt.Errorf("tick %d: not idle %d ticks after the last request: %s", c.tick, drainTicks, c.state())
		}
		return err
	}
	if err := c.Drained(); err != nil {
		return err
	}
	c.fold()
	return c.complete()
}

// complete checks that every request that ended well was given what it asked for, and that all were told.
func (c *chaos) complete() error {
	for _, q := range c.told {
		o, s := c.out[q.id], &c.cfg.Schedule
		limit := min(q.Limit, s.MaxNewTokens)
		if q.Limit == 0 {
			limit = min(s.L1Pages*s.PageSize-len(q.Tokens)+1, s.MaxNewTokens)
		}
		n := len(o.Tokens)
		switch kind := o.Ends[0].Kind; {
		case n > max(limit, 0):
			return fmt.Errorf("request %d was given %d tokens, its limit is %d", q.id, n, limit)
		case kind == schedule.FinishLength && n != limit:
			return fmt.Errorf("request %d ended at its length with %d of %d tokens", q.id, n, limit)
		case kind == schedule.FinishStop && (n == 0 || o.Tokens[n-1] != s.EOS && !slices.Contains(q.Stops, o.Tokens[n-1])):
			return fmt.Errorf("request %d ended at a stop token with %v", q.id, o.Tokens)
		case n > 0 && c.spoiled[roomOf(q.id)] && !c.reused[roomOf(q.id)] && q.Room == 0:
			return fmt.Errorf("request %d was given %d tokens although its metadata was no good on some rank", q.id, n)
		case kind == schedule.FinishRefused && n > 0:
			return fmt.Errorf("request %d was refused after %d tokens", q.id, n)
		}
	}
	return nil
}

// settled says whether nothing is under way on any rank: no copy, no page of a ring.
func (c *chaos) settled() bool {
	for r := range c.ranks {
		if granted, free := c.recv[r].Watermark(); granted != free || c.stores[r].Outstanding() > 0 {
			return false
		}
	}
	return true
}

func (c *chaos) state() string {
	s := c.ranks[0].Schedule()
	text := fmt.Sprintf("%d live", c.Live())
	for q := schedule.QueuePrealloc; q <= schedule.QueueQuarantine; q++ {
		text += fmt.Sprintf(", %v %d", q, s.QueueLen(q))
	}
	text += fmt.Sprintf(", operations %d, books %+v", s.NumOperations(), s.Books(0))
	for r := range c.ranks {
		granted, free := c.recv[r].Watermark()
		text += fmt.Sprintf("; rank %d: ring %d to %d, %d copies", r, free, granted, c.stores[r].Outstanding())
	}
	return text
}

// fold sums the run up in one word.
func (c *chaos) fold() {
	h := c.tick
	mix := func(v uint64) {
		h = (h ^ v) * 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	for _, k := range c.ranks {
		mix(k.Schedule().Digest())
		for _, n := range k.Counts().Rails {
			mix(n)
		}
	}
	for id := uint64(1); id <= c.nextID; id++ {
		o := c.out[id]
		for _, e := range o.Ends {
			mix(e.Tick<<8 | uint64(e.Kind))
		}
		for _, t := range o.Tokens {
			mix(uint64(t))
		}
	}
	c.digest = h
}

// String says what the run is like.
func (c *chaos) String() string {
	s := &c.cfg.Schedule
	return fmt.Sprintf("%d ranks, pages of %d tokens, %d in L1, %d in L2, prefill shards %d, policies %v (wasm %v, hostile %v, held on a fault %v)",
		s.Ranks, s.PageSize, s.L1Pages, s.L2Pages, c.cfg.PrefillShards, c.names, c.wasm, c.rough, s.HoldOnFault)
}

var hooksInOrder = [...]abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score}
