package replay

import (
	"errors"
	"fmt"

	"sluice/collective"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/kvcache"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/transfer"
)

// New builds the group and its peer, and lets the peer join.
func New(cfg WorldConfig) (*World, error) {
	n := cfg.Schedule.Ranks
	switch {
	case cfg.Tick <= 0:
		return nil, fmt.Errorf("replay: a tick of %v, must be above 0", cfg.Tick)
	case cfg.Hooks == nil:
		return nil, errors.New("replay: no policies")
	case cfg.Model.Shards != n || cfg.Model.PageSize != cfg.Schedule.PageSize:
		return nil, fmt.Errorf("replay: the model has %d shards and pages of %d tokens, the group %d ranks and pages of %d",
			cfg.Model.Shards, cfg.Model.PageSize, n, cfg.Schedule.PageSize)
	}
	if cfg.PrefillShards == 0 {
		cfg.PrefillShards = n
	}
	if cfg.RingPages == 0 {
		cfg.RingPages = 256
	}
	w := &World{cfg: cfg, leader: rank.NewLeader(), out: map[uint64]*Outcome{}, oracles: map[uint64]*model.Oracle{},
		own: make([]collective.Vector, n), vecs: make([]*collective.Vector, n), partial: make([][]uint64, n)}
	for r := range n {
		if err := w.addRank(r); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	shape := cfg.Model
	shape.Shards = cfg.PrefillShards
	restart := cfg.RestartDelay
	if restart == 0 {
		restart = -1
	}
	var err error
	w.peer, err = transfer.NewPrefill(transfer.PrefillOptions{ID: PeerID, Incarnation: 1, Shape: shape, Ranks: n,
		ChunkPages: cfg.ChunkPages, Vocab: cfg.Vocab, Script: cfg.Script, RestartDelay: restart,
		// However long a prompt queues for decode's pages, in virtual time its peer waits.
		BootstrapTimeout: 1 << 62, Logger: cfg.Logger})
	if err == nil {
		err = w.peer.Connect(w.recv...)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.join(1)
	base, err := model.NewOracle(cfg.Model, "")
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.base = base
	return w, nil
}

// addRank builds one rank: its device, tiers, transport, shard and scheduler.
func (w *World) addRank(r int) error {
	cfg := &w.cfg
	o := host.Options{Rank: r}
	if cfg.Delay != nil {
		o.Delay = cfg.Delay(r)
	}
	d, err := host.NewVirtual(o)
	if err != nil {
		return err
	}
	w.devs = append(w.devs, d)
	bytes := cfg.Model.PageBytes()
	l1, err := d.NewArena(gpu.ArenaSpec{Name: "L1", Kind: gpu.Memory, PageBytes: bytes, Pages: cfg.Schedule.L1Pages})
	if err != nil {
		return err
	}
	l2, err := d.NewArena(gpu.ArenaSpec{Name: "L2", Kind: gpu.Pinned, PageBytes: bytes, Pages: max(cfg.Schedule.L2Pages, 1)})
	if err != nil {
		return err
	}
	ro := transfer.ReceiverOptions{Rank: r, Device: d, Pages: l1, Shape: cfg.Model, Slots: cfg.Schedule.MetadataSlots,
		RevokeDelay: cfg.RevokeDelay, Logger: cfg.Logger}
	if cfg.PrefillShards != cfg.Schedule.Ranks {
		if ro.Ring, err = d.NewArena(gpu.ArenaSpec{Name: "staging", Kind: gpu.Memory, PageBytes: bytes, Pages: cfg.RingPages}); err != nil {
			return err
		}
		if ro.Stream, err = d.NewStream("scatter"); err != nil {
			return err
		}
	}
	recv, err := transfer.NewReceiver(ro)
	if err != nil {
		return err
	}
	w.recv = append(w.recv, recv)
	store, err := kvcache.New(kvcache.Options{Device: d, L1: l1, L2: l2, PageTokens: cfg.Schedule.PageSize, Unchecked: cfg.Unchecked,
		Operations: 4 * cfg.Schedule.Operations, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	w.stores = append(w.stores, store)
	shard, err := model.NewShard(d, l1, cfg.Model, r)
	if err != nil {
		return err
	}
	hooks, err := cfg.Hooks(r)
	if err != nil {
		return err
	}
	ko := rank.Options{Rank: r, Schedule: cfg.Schedule, Epoch: 1, Device: d, L1: l1, L2: l2, Store: store, Transport: recv, Model: shard,
		Hooks: hooks, Logger: cfg.Logger, TransferTicks: cfg.TransferTicks, DrainTicks: cfg.DrainTicks}
	if r == 0 {
		ko.Leader = w.leader
	}
	k, err := rank.New(ko)
	if err != nil {
		return err
	}
	w.ranks = append(w.ranks, k)
	return nil
}
