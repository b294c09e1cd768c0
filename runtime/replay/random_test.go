package replay

import (
	"context"
	"errors"
	cli "flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/plugins"
	"sluice/runtime/schedule"
)

var (
	seedFlag = cli.Uint64("seed", 0, "run the random test with this seed alone; 0 = the usual seeds")
	runsFlag = cli.Uint64("runs", 10000, "runs of the random test")
)

// tally adds up what the runs have met.
type tally struct {
	mu       sync.Mutex
	runs     int
	wasm     int
	ticks    uint64
	counts   schedule.Counts
	rails    map[string]uint64
	joins    uint64
	crashes  int
	steps    uint64
	staged   int
	quarant  [4]int
	revoked  uint64
	ringFull uint64
	badBytes uint64
	held     [3]uint64 // answers of gate and reserve, ticks of admit
}

func (t *tally) add(c *chaos) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs++
	if c.wasm {
		t.wasm++
	}
	t.ticks += c.tick
	n := c.ranks[0].Schedule().Counts()
	for k := range n.Finished {
		t.counts.Finished[k] += n.Finished[k]
	}
	t.counts.Restores += n.Restores
	t.counts.RestoresFailed += n.RestoresFailed
	t.counts.DroppedCopies += n.DroppedCopies
	t.counts.Retractions += n.Retractions
	t.counts.Overruled += n.Overruled
	t.counts.HitL1 += n.HitL1
	t.counts.HitL2 += n.HitL2
	t.counts.OutputTokens += n.OutputTokens
	t.counts.ModelDisagreed += n.ModelDisagreed
	for h, k := range n.HookFaults {
		t.counts.HookFaults[h] += k
	}
	for k, v := range c.Rails() {
		t.rails[k] += v
	}
	t.joins += c.joined - 1
	t.crashes += c.crashes + c.cuts
	t.steps += c.StepErrors
	t.held[2] += n.AdmitHeld
	for _, p := range c.policies {
		t.held[0] += p.Set().Gate.Stats().Held
		t.held[1] += p.Set().Reserve.Stats().Held
	}
	for h := range t.quarant {
		if c.ranks[0].Schedule().Quarantined(hooksInOrder[h]) {
			t.quarant[h]++
		}
	}
	if c.cfg.PrefillShards != c.cfg.Schedule.Ranks {
		t.staged++
	}
	for r := range c.ranks {
		k := c.recv[r].Counts()
		t.revoked += k.RevokedPeers
		t.ringFull += k.RingFull
		t.badBytes += c.stores[r].Counters().ChecksumFailures
	}
}

// one makes one run.
func one(seed uint64, pool *wasmPool, total *tally) error {
	c, err := newChaos(seed, pool, nil)
	if err != nil {
		return err
	}
	if err = c.run(); err == nil {
		total.add(c)
	} else {
		err = fmt.Errorf("%v: %w", c, err)
	}
	return errors.Join(err, c.Close())
}

// TestRandomRuns drives whole worlds, drawn from one seed each, until everything in them has ended: random policies,
// devices and peers, honest or not, native and in WebAssembly. A failing run prints the flag that repeats it alone.
func TestRandomRuns(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer func() {
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	total := tally{rails: map[string]uint64{}}
	fail := func(seed uint64, err error) {
		t.Errorf("seed %d: %v\nrepeat with: go test ./runtime/replay -run TestRandomRuns -seed %d", seed, err, seed)
	}
	if *seedFlag != 0 {
		pool := &wasmPool{host, map[wasmKey]*plugins.Set{}}
		if err := errors.Join(one(*seedFlag, pool, &total), pool.close()); err != nil {
			fail(*seedFlag, err)
		}
		return
	}
	runs := *runsFlag
	if testing.Short() {
		runs /= 20
	}
	var next, failed atomic.Uint64
	var workers sync.WaitGroup
	for range max(runtime.GOMAXPROCS(0), 1) {
		workers.Go(func() {
			pool := &wasmPool{host, map[wasmKey]*plugins.Set{}}
			for failed.Load() < 5 {
				seed := next.Add(1)
				if seed > runs {
					break
				}
				if err := one(seed, pool, &total); err != nil {
					failed.Add(1)
					fail(seed, err)
				}
			}
			if err := pool.close(); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	total.judge(t, runs)
}

// judge reports what the runs have met, and fails where they have met too little to mean anything.
func (t *tally) judge(tb testing.TB, runs uint64) {
	n := &t.counts
	tb.Logf("%d runs (%d in WebAssembly, %d staged) of %d ticks: ends %v, %d tokens, hits %d and %d, restores %d (%d requests failed by one), copies dropped %d, pages with bad bytes %d, retractions %d, overruled %d",
		t.runs, t.wasm, t.staged, t.ticks, n.Finished, n.OutputTokens, n.HitL1, n.HitL2, n.Restores, n.RestoresFailed, n.DroppedCopies, t.badBytes, n.Retractions, n.Overruled)
	tb.Logf("rails %v, hook faults %v, policies quarantined %v, held %v, peers lost %d and back %d, revoked %d, failed steps %d, ring full %d", t.rails, n.HookFaults, t.quarant, t.held, t.crashes, t.joins, t.revoked, t.steps, t.ringFull)
	if runs < 400 || tb.Failed() {
		return
	}
	for k, v := range n.Finished {
		if v == 0 {
			tb.Errorf("no request ended as %v", schedule.FinishKind(k))
		}
	}
	for k, v := range t.rails {
		if v == 0 && k != schedule.RailNone.String() {
			tb.Errorf("no rail %s was tripped", k)
		}
	}
	if uint64(t.wasm)*10 < runs {
		tb.Errorf("%d of %d runs used the shipped module, want a tenth", t.wasm, runs)
	}
	for what, v := range map[string]uint64{"restore failed": n.RestoresFailed, "copy was dropped": n.DroppedCopies, "request was retracted": n.Retractions,
		"peer came back": t.joins, "right to write was revoked": t.revoked, "model step failed": t.steps, "ring was full": t.ringFull,
		"page came back with bad bytes": t.badBytes, "policy was quarantined": uint64(min(t.quarant[0], t.quarant[1], t.quarant[2])),
		"policy was held on a fault": min(t.held[0], t.held[1], t.held[2])} {
		if v == 0 {
			tb.Errorf("no %s: the test reaches too little", what)
		}
	}
	if n.ModelDisagreed > 0 {
		tb.Errorf("the ranks' tokens differed in %d ticks", n.ModelDisagreed)
	}
}
