package decode

import (
	"sync/atomic"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/rank"
)

// tape counts what one rank has had taken down, by policy name.
type tape struct {
	pendingOnly, others atomic.Uint64
	busy                atomic.Bool
	shared              atomic.Bool // two goroutines were in it at once
}

func (p *tape) Run(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	if !p.busy.CompareAndSwap(false, true) {
		p.shared.Store(true)
	}
	defer p.busy.Store(false)
	if r.Policy() == "pending-only" && r.Hook() == abi.Gate {
		p.pendingOnly.Add(1)
	} else {
		p.others.Add(1)
	}
	return r.Run(tick, epoch, n, nOut, encode)
}

// A rank has one recorder, through switches of policies and new groups.
func TestRecordersOutliveSetsAndGroups(t *testing.T) {
	var tapes [2]tape
	r := newSwapRig(t, func(o *Options) {
		o.Policies.Recorder = func(i int) rank.Recorder { return &tapes[i] }
	})
	work := func(rid string) {
		t.Helper()
		if tokens, _ := outcome(t, r.submit(rid, 5, 5)); len(tokens) != 5 {
			t.Fatalf("%d tokens, want 5", len(tokens))
		}
	}
	work("first")
	for i := range tapes {
		if tapes[i].others.Load() == 0 || tapes[i].pendingOnly.Load() != 0 {
			t.Errorf("rank %d: %d batches before the switch", i, tapes[i].others.Load())
		}
	}
	r.swap(builtin("gate", "pending-only"))
	asked := func(rid string) {
		t.Helper()
		before := [2]uint64{tapes[0].pendingOnly.Load(), tapes[1].pendingOnly.Load()}
		work(rid)
		for i := range tapes {
			if n := tapes[i].pendingOnly.Load(); n <= before[i] {
				t.Errorf("rank %d: %d batches before the request %q and %d after", i, before[i], rid, n)
			}
		}
	}
	asked("second")
	var once atomic.Bool
	r.beforeTick(func(rank int, _ uint64) {
		if rank == 1 && once.CompareAndSwap(false, true) {
			panic("no such page")
		}
	})
	eventually(t, "epoch 2", func() bool { return r.value("group_epoch") == 2 })
	r.ready()
	asked("third")
	for i := range tapes {
		if tapes[i].shared.Load() {
			t.Errorf("rank %d: two goroutines used the recorder at once", i)
		}
	}
}
