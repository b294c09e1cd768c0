package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/internal/metrics"
	"sluice/kvcache"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/decode"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/server"
	"sluice/runtime/transfer"
)

// DefaultPace is the least time between two ticks of the stand-in: a thousand tokens a second and request, and
// ages in ticks that mean about milliseconds.
const DefaultPace = time.Millisecond

// reformDeadlines is how many exchange deadlines a retry waits for the decode group to form again.
const reformDeadlines = 5

// peerID is the number of the one prefill instance.
const peerID = 1

// LocalOptions make a Local.
type LocalOptions struct {
	Config   *config.Config
	Clock    clock.Clock
	Logger   *slog.Logger
	Registry *metrics.Registry
	Plugins  *plugins.Host // compiles policy modules; the caller closes it after the Local

	Pace           time.Duration // least time between two ticks; 0: DefaultPace
	PolicyDeadline time.Duration // for the ranks to switch policies; 0: decode's own

	Recorder func(rank int) rank.Recorder // see decode.PolicyOptions; nil: nothing is recorded

	// For tests: the pace and faults of the prefill peer, what runs before each tick (see decode.Options), and
	// each rank's device once its arenas exist.
	Script     transfer.Script
	BeforeTick func(rank int, tick uint64)
	OnDevice   func(rank int, d *host.Device)
}

// Local is one prefill and one decode instance with their router, in this process.
type Local struct {
	*Router
	decode  *decode.Instance
	o       LocalOptions
	shape   model.Shape // of a page of one decode rank
	sched   schedule.Config
	prefill atomic.Pointer[transfer.Prefill] // of the present epoch

	mu      sync.Mutex
	applied map[abi.Hook]plugins.Spec // by the configuration last, at the start or by SetPolicies
}

// NewLocal builds and starts everything. The first group has formed when it returns; Ready says when it ticks.
func NewLocal(ctx context.Context, o LocalOptions) (*Local, error) {
	if o.Config == nil || o.Clock == nil || o.Logger == nil || o.Registry == nil || o.Plugins == nil {
		return nil, errors.New("local: configuration, clock, logger, registry and plugin host are all needed")
	}
	if o.Pace == 0 {
		o.Pace = DefaultPace
	}
	l := &Local{o: o, shape: shapeOf(o.Config), sched: scheduleOf(o.Config)}
	if err := l.shape.Check(); err != nil {
		return nil, err
	}
	specs, err := specsOf(&o.Config.Policy)
	if err != nil {
		return nil, err
	}
	l.apply(specs)
	d, m := &o.Config.Decode, &o.Config.Model
	l.decode, err = decode.New(decode.Options{
		Schedule: l.sched, Form: l.form,
		Policies: &decode.PolicyOptions{Host: o.Plugins, Specs: specs, Deadline: o.PolicyDeadline, Info: hostInfo(o.Config), Recorder: o.Recorder,
			ShadowTicks: shadowTicks(&o.Config.Policy), SlowCall: o.Config.Policy.SlowCall},
		Clock: o.Clock, Logger: o.Logger, Registry: o.Registry,
		Deadline: d.ExchangeDeadline, IdleTick: d.IdleTick, Pace: o.Pace,
		MaxQueue: o.Config.HTTP.MaxQueue, MaxRequestTokens: d.MaxTokensPerRequest, VocabSize: m.VocabSize,
		TransferTicks: uint32(d.TransferTicks), DrainTicks: uint32(d.DrainTicks),
		ModelName: m.Name, Fingerprint: fmt.Sprintf("%s seed=%d", m.Name, m.Seed),
		Layout:     fmt.Sprintf("page=%d layers=%d bytes=%d", l.shape.PageSize, l.shape.Layers, l.shape.BytesPerTokenLayer),
		BeforeTick: o.BeforeTick,
	})
	if err != nil {
		return nil, err
	}
	l.Router, err = New(Options{Decode: l.decode, Prefill: current{l}, Retries: o.Config.Router.Retries,
		ReformWait: reformDeadlines * d.ExchangeDeadline, Clock: o.Clock, Logger: o.Logger, Registry: o.Registry})
	if err != nil {
		return nil, errors.Join(err, l.decode.Close(ctx))
	}
	return l, nil
}

// WaitReady waits until every rank has completed a tick.
func (l *Local) WaitReady(ctx context.Context) error { return l.decode.WaitReady(ctx) }

// Policies describes the policies in use on each rank, in the order in which the hooks run.
func (l *Local) Policies() []plugins.Info { return l.decode.PolicyInfos() }

// PolicyEngine changes the policies of the decode ranks while they run.
func (l *Local) PolicyEngine() server.PolicyEngine { return l.decode }

// SetPolicies has all ranks switch to the configured policies of some hooks in one tick, once their shadow run is over
// where they have one. On an error, which wraps server.ErrPolicyRefused or server.ErrPolicyConflict, or is the cause of
// ctx's end, what runs is as it was. The shadow run is that of SetShadowTicks. The
// error is logged nowhere else.
func (l *Local) SetPolicies(ctx context.Context, c *config.Policy, changed []abi.Hook) error {
	var specs []plugins.Spec
	s, err := l.decode.StageSpecs(ctx, changed, func(h abi.Hook) (plugins.Spec, error) {
		s, err := specOf(c, h)
		specs = append(specs, s)
		return s, err
	})
	if err != nil {
		return err
	}
	if err = l.decode.WaitShadow(ctx, s.ID); err == nil {
		_, err = l.decode.ActivateSpecs(ctx, s.ID)
	}
	switch {
	case err == nil || l.active(s.ID): // or somebody else was faster
		l.apply(specs)
		return nil
	case ctx.Err() != nil:
		// Where it cannot be dropped, it stays staged, and newer ones push it out.
		_ = l.decode.Drop(context.WithoutCancel(ctx), s.ID, context.Cause(ctx).Error())
	}
	return err
}

// apply notes what the configuration has put in use.
func (l *Local) apply(specs []plugins.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.applied == nil {
		l.applied = map[abi.Hook]plugins.Spec{}
	}
	for _, s := range specs {
		l.applied[s.Hook] = s
	}
}

// Strayed lists the hooks for which another policy is in use than the configuration has put in use last, as a client's
// push or rollback leaves it: another module, source, table or limit.
func (l *Local) Strayed() []abi.Hook {
	specs := l.decode.PolicySpecs()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []abi.Hook
	for _, s := range specs {
		if a, ok := l.applied[s.Hook]; ok && !samePolicy(&a, &s) {
			out = append(out, s.Hook)
		}
	}
	slices.Sort(out)
	return out
}

func samePolicy(a, b *plugins.Spec) bool {
	return a.Builtin == b.Builtin && a.Native == b.Native && a.Name == b.Name && a.Fuel == b.Fuel && a.MemoryPages == b.MemoryPages &&
		a.Pin == b.Pin && bytes.Equal(a.Module, b.Module) && bytes.Equal(a.Config, b.Config)
}

// active says whether the set of an id is in use.
func (l *Local) active(id string) bool {
	return slices.ContainsFunc(l.decode.Policies().Sets, func(s server.PolicySet) bool { return s.ID == id && s.State == server.PolicyActive })
}

// SetShadowTicks sets how long policies that are staged from here on run in the shadow, where those who stage them do not
// say, to what is configured for the hooks.
func (l *Local) SetShadowTicks(c *config.Policy) {
	for h, n := range shadowTicks(c) {
		l.decode.SetShadowTicks(h, n)
	}
}

func shadowTicks(c *config.Policy) map[abi.Hook]int {
	out := map[abi.Hook]int{}
	for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		out[h] = HookOf(c, h).ShadowTicks
	}
	return out
}

// HookOf is a hook's section of the configuration, nil for a hook that has none.
func HookOf(c *config.Policy, h abi.Hook) *config.Hook {
	switch h {
	case abi.Gate:
		return &c.Gate
	case abi.Reserve:
		return &c.Reserve
	case abi.Admit:
		return &c.Admit
	case abi.Score:
		return &c.Score
	}
	return nil
}

// Close fails what is live and ends everything, waiting at most until ctx ends.
func (l *Local) Close(ctx context.Context) error { return l.decode.Close(ctx) }

// current is the prefill peer of the present epoch.
type current struct{ l *Local }

func (c current) Submit(r transfer.Request) error { return c.l.prefill.Load().Submit(r) }

// Abort leaves a room that a rank knows to that rank's cancel, which goes through the ballot.
func (c current) Abort(room uint64) { c.l.prefill.Load().Forget(room) }

func shapeOf(c *config.Config) model.Shape {
	return model.Shape{Layers: c.Model.Layers, BytesPerTokenLayer: c.Model.BytesPerTokenLayer * c.Decode.Ranks,
		PageSize: c.Decode.PageSize, Shards: c.Decode.Ranks}
}

func scheduleOf(c *config.Config) schedule.Config {
	d := &c.Decode
	l1 := d.MaxTotalTokens / d.PageSize
	s := schedule.Config{
		Ranks: d.Ranks, PageSize: d.PageSize, L1Pages: l1, L2Pages: int(d.L2Ratio * float64(l1)),
		MaxRunning: d.MaxRunning, MetadataSlots: d.MetadataSlots, MaxNewTokens: d.MaxNewTokens,
		// The door counts those that wait; what was admitted comes on top.
		MaxQueue:             min(c.HTTP.MaxQueue+d.MetadataSlots+2*d.MaxRunning+l1, 1<<20),
		ReservedDecodeTokens: d.ReservedDecodeTokens, Overcommit: d.Overcommit, HoldTicks: d.HoldTicks, StarveTicks: d.StarveTicks,
		AdmitWindow: d.AdmitWindow, Operations: d.Operations, LoadFailures: d.LoadFailures,
		IngressSlice: int(d.IngressSlice), EOS: schedule.NoToken, AdmitNative: c.Policy.Admit.Builtin,
		Score: !c.Policy.Score.PlainLRU(),
	}
	if c.Policy.Admit.Path != "" {
		s.AdmitNative = standard.DefaultAdmit
	}
	for _, hook := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		h := HookOf(&c.Policy, hook)
		q := c.Policy.QuarantineOf(h)
		s.Quarantine[schedule.Lane(hook)] = schedule.Quarantine{Faults: q.Faults, Window: q.WindowTicks}
		s.HoldOnFault[schedule.Lane(hook)] = h.OnFault == config.OnFaultHold
	}
	return s
}

// specsOf reads the policies' modules.
func specsOf(p *config.Policy) ([]plugins.Spec, error) {
	var specs []plugins.Spec
	var errs []error
	for _, hook := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		s, err := specOf(p, hook)
		errs, specs = append(errs, err), append(specs, s)
	}
	return specs, errors.Join(errs...)
}

func specOf(p *config.Policy, hook abi.Hook) (plugins.Spec, error) {
	h := HookOf(p, hook)
	s := plugins.Spec{Hook: hook, Builtin: h.Builtin, Native: h.Engine == config.EngineNative, Config: h.Config,
		Fuel: fuelOf(h), MemoryPages: uint32(h.MemoryPages), Pin: plugins.Pin{SHA256: h.SHA256, Key: h.Key}}
	if hook == abi.Score && h.PlainLRU() {
		s.Native = true // never asked, so there is nothing to run
	}
	if h.Path == "" {
		return s, nil
	}
	module, err := plugins.ReadModule(h.Path)
	if err != nil {
		return s, fmt.Errorf("policy.%s.path: %w", hook, err)
	}
	s.Module, s.Name, s.Builtin = module, h.Path, ""
	if h.Key != "" {
		if s.Signature, err = plugins.ReadSignature(h.Path); err != nil {
			return s, fmt.Errorf("policy.%s.key: %w", hook, err)
		}
	}
	return s, nil
}

// fuelOf is a hook's fuel: zero where none is configured, so that the module's manifest may ask for less than the default;
// else each part that is not configured is the default's.
func fuelOf(h *config.Hook) plugins.Fuel {
	if h.Fuel == (config.Fuel{}) {
		return plugins.Fuel{}
	}
	f := plugins.DefaultFuel()
	if h.Fuel.Base != 0 {
		f.Base = uint64(h.Fuel.Base)
	}
	if h.Fuel.PerRecord != 0 {
		f.PerRecord = uint64(h.Fuel.PerRecord)
	}
	f.Cap = uint64(h.Fuel.Cap)
	return f
}

// hostInfo is what every policy instance is told of its host.
func hostInfo(c *config.Config) abi.HostInfo {
	s := scheduleOf(c)
	return abi.HostInfo{Major: abi.Major, Minor: abi.Minor, MaxRecords: uint32(s.AdmitWindow), PageSize: uint32(s.PageSize),
		TotalTokens: uint64(s.L1Pages * s.PageSize), Ranks: uint32(s.Ranks)}
}

// parts is what one epoch is built of and has to be ended or freed.
type parts struct {
	devices []*host.Device
	cancel  context.CancelFunc
	pumps   sync.WaitGroup
}

func (p *parts) close() error {
	if p.cancel != nil {
		p.cancel()
	}
	p.pumps.Wait()
	var errs []error
	for _, d := range p.devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// form builds the group of an epoch: fresh devices, tiers, and both ends of the transfer.
func (l *Local) form(_ context.Context, epoch uint64) (*decode.Formation, error) {
	p := &parts{}
	f, err := l.build(epoch, p)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return f, nil
}

func (l *Local) build(epoch uint64, p *parts) (*decode.Formation, error) {
	f := &decode.Formation{Close: p.close}
	var receivers []*transfer.Receiver
	for r := range l.sched.Ranks {
		seat, rx, err := l.seat(r, p)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		f.Seats, receivers = append(f.Seats, *seat), append(receivers, rx)
	}
	prefill, err := l.peer(epoch, receivers)
	if err != nil {
		return nil, err
	}
	var run context.Context
	run, p.cancel = context.WithCancel(context.Background())
	// Run ends with its context and has no other error.
	p.pumps.Go(func() { _ = prefill.Run(run, l.o.Clock) })
	for _, rx := range receivers {
		p.pumps.Go(func() { _ = rx.Run(run, l.o.Clock) })
	}
	f.Peers = []decode.Peer{{ID: peerID, Incarnation: prefill.Incarnation()}}
	f.Rejoin = func(ctx context.Context, fenced decode.Peer) (decode.Peer, error) {
		return rejoin(prefill, receivers, fenced)
	}
	l.prefill.Store(prefill)
	return f, nil
}

// rejoin is the peer under its new incarnation once every rank is connected to that.
func rejoin(prefill *transfer.Prefill, receivers []*transfer.Receiver, fenced decode.Peer) (decode.Peer, error) {
	back := decode.Peer{ID: peerID, Incarnation: prefill.Incarnation()}
	if back.Incarnation <= fenced.Incarnation {
		return back, fmt.Errorf("peer %d has not registered again since incarnation %d", peerID, fenced.Incarnation)
	}
	for r, rx := range receivers {
		if !rx.Connected(peerID, back.Incarnation) {
			return back, fmt.Errorf("rank %d is not connected to incarnation %d of peer %d", r, back.Incarnation, peerID)
		}
	}
	return back, nil
}

// peer makes the prefill instance of an epoch. Its incarnations are above those of earlier epochs.
func (l *Local) peer(epoch uint64, receivers []*transfer.Receiver) (*transfer.Prefill, error) {
	c := l.o.Config
	shape := l.shape
	shape.Shards = c.Prefill.TP
	chunk := max(c.Prefill.ChunkTokens/shape.PageSize, 1)
	if shape.Shards != l.shape.Shards {
		chunk = min(chunk, l.ringPages())
	}
	p, err := transfer.NewPrefill(transfer.PrefillOptions{ID: peerID, Incarnation: epoch<<32 | 1, Shape: shape, Ranks: l.sched.Ranks,
		ChunkPages: chunk, Vocab: c.Model.VocabSize, Script: l.o.Script, Logger: l.o.Logger})
	if err != nil {
		return nil, fmt.Errorf("prefill.tp = %d with decode.ranks = %d: %w", shape.Shards, l.shape.Shards, err)
	}
	if err := p.Connect(receivers...); err != nil {
		return nil, err
	}
	return p, nil
}

func (l *Local) ringPages() int {
	return max(int(l.o.Config.Prefill.StagingRing/int64(l.shape.PageBytes())), 1)
}

// seat makes one rank's device with its arenas, its tiers, its shard of the model and its receiver.
func (l *Local) seat(r int, p *parts) (*decode.Seat, *transfer.Receiver, error) {
	dev, err := host.NewLive(host.Options{Rank: r, Clock: l.o.Clock, Tick: l.o.Pace})
	if err != nil {
		return nil, nil, err
	}
	p.devices = append(p.devices, dev)
	s := &decode.Seat{Device: dev}
	bytes := l.shape.PageBytes()
	if s.L1, err = dev.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: bytes, Pages: l.sched.L1Pages}); err != nil {
		return nil, nil, err
	}
	// A store has two tiers; without L2 the second is one page that the schedule never hands out.
	if s.L2, err = dev.NewArena(gpu.ArenaSpec{Name: "l2", Kind: gpu.Pinned, PageBytes: bytes, Pages: max(l.sched.L2Pages, 1)}); err != nil {
		return nil, nil, err
	}
	rx := transfer.ReceiverOptions{Rank: r, Device: dev, Pages: s.L1, Shape: l.shape, Slots: l.sched.MetadataSlots, Logger: l.o.Logger}
	if l.o.Config.Prefill.TP != l.sched.Ranks {
		if rx.Ring, err = dev.NewArena(gpu.ArenaSpec{Name: "ring", Kind: gpu.Memory, PageBytes: bytes, Pages: l.ringPages()}); err != nil {
			return nil, nil, err
		}
		if rx.Stream, err = dev.NewStream("scatter"); err != nil {
			return nil, nil, err
		}
	}
	s.Store, err = kvcache.New(kvcache.Options{Device: dev, L1: s.L1, L2: s.L2, PageTokens: l.sched.PageSize,
		Unchecked: !l.o.Config.Decode.Checksums, Operations: 4 * l.sched.Operations, Logger: l.o.Logger.With("rank", r)})
	if err != nil {
		return nil, nil, err
	}
	if s.Model, err = model.NewShard(dev, s.L1, l.shape, r); err != nil {
		return nil, nil, err
	}
	receiver, err := transfer.NewReceiver(rx)
	if err != nil {
		return nil, nil, err
	}
	s.Transport = receiver
	if l.o.OnDevice != nil {
		l.o.OnDevice(r, dev)
	}
	return s, receiver, nil
}
