package decode

import (
	"time"

	"sluice/abi"
	"sluice/collective"
	"sluice/kvcache"
	"sluice/kvcache/index"
	"sluice/plugins"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

// snapshot is what a rank shows of itself after a tick. The fields up to queues are replicated.
type snapshot struct {
	tick        uint64 // completed
	counts      schedule.Counts
	faults      [numHooks]uint64
	quarantined [numHooks]bool
	books       [2]index.Books
	queues      [schedule.QueueQuarantine + 1]int

	at       time.Duration
	local    rank.Counts
	store    kvcache.Counters
	exchange collective.Counters
	inUse    *rank.Policies
	policy   [numHooks]plugins.Stats // of inUse, since its instances were made
}

const numHooks = 4

// hooks are the hooks in the order of a snapshot.
func hooks() [numHooks]abi.Hook {
	return [numHooks]abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score}
}

// queues are the queues that metrics show.
func queues() []schedule.Queue {
	return []schedule.Queue{schedule.QueuePrealloc, schedule.QueueTransfer, schedule.QueueWaiting, schedule.QueueRunning,
		schedule.QueueRetracted, schedule.QueueResuming, schedule.QueueQuarantine}
}

// publish copies what others may read. It runs at the end of a tick on the rank's goroutine; readers hold the
// mutex only for a copy.
func (m *member) publish(now time.Duration) {
	s := m.r.Schedule()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.snap
	p.tick, p.at = s.Tick()-1, now
	p.local, p.store, p.exchange = m.r.Counts(), m.seat.Store.Counters(), m.ex.Counters()
	p.inUse, p.policy = m.inUse(), m.stats()
	if m.rank != 0 {
		return
	}
	p.counts = s.Counts()
	for i, h := range hooks() {
		p.faults[i], p.quarantined[i] = s.Faults(h), s.Quarantined(h)
	}
	p.books[index.L1], p.books[index.L2] = s.Books(index.L1), s.Books(index.L2)
	for q := range p.queues {
		p.queues[q] = s.QueueLen(schedule.Queue(q))
	}
}

func (m *member) read() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snap
}

func (m *member) lastTick() (at time.Duration, tick uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snap.at, m.snap.tick
}

// tally is what the counters show: sums over the groups of all epochs.
type tally struct {
	ticks, exchanges, bytes     uint64
	hit                         [2]uint64
	input, output               uint64
	finished                    [5]uint64
	restores, restoresFailed    uint64
	retractions, backupsRefused uint64
	modelDisagreed              uint64
	rails                       [schedule.NumRails]uint64
	faults                      [numHooks]uint64
	admitHeld                   uint64
	loadBack, backup, checksums []uint64 // by rank
	effectErrors, stepErrors    uint64
	droppedCopies               uint64
}

func newTally(ranks int) tally {
	return tally{loadBack: make([]uint64, ranks), backup: make([]uint64, ranks), checksums: make([]uint64, ranks)}
}

func (t *tally) clone() tally {
	c := *t
	c.loadBack = append([]uint64(nil), t.loadBack...)
	c.backup = append([]uint64(nil), t.backup...)
	c.checksums = append([]uint64(nil), t.checksums...)
	return c
}

// count adds what the group's ranks have counted.
func (g *group) count(t *tally) {
	for i, m := range g.members {
		s := m.read()
		t.loadBack[i] += s.store.LoadBackTokens
		t.backup[i] += s.store.BackupTokens
		t.checksums[i] += s.store.ChecksumFailures
		t.effectErrors += s.local.EffectErrors
		t.stepErrors += s.local.StepErrors
		for r, n := range s.local.Rails {
			t.rails[r] += n
		}
		if i == 0 {
			t.addReplicated(&s)
		}
	}
}

func (t *tally) addReplicated(s *snapshot) {
	c := &s.counts
	t.ticks += s.tick
	t.exchanges += s.exchange.Exchanges
	t.bytes += s.exchange.Bytes
	t.hit[0] += c.HitL1
	t.hit[1] += c.HitL2
	t.input += c.InputTokens
	t.output += c.OutputTokens
	for k, n := range c.Finished {
		t.finished[k] += n
	}
	t.restores += c.Restores
	t.restoresFailed += c.RestoresFailed
	t.retractions += c.Retractions
	t.backupsRefused += c.BackupsRefused
	t.modelDisagreed += c.ModelDisagreed
	t.droppedCopies += c.DroppedCopies
	t.admitHeld += c.AdmitHeld
	for r, n := range c.Rails {
		t.rails[r] += n
	}
	for h, n := range s.faults {
		t.faults[h] += n
	}
}
