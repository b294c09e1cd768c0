package schedule

import (
	"fmt"

	"sluice/abi"
	"sluice/kvcache/index"
)

// Scheduler is the replicated state of one decode group as one rank holds it. Its tick loop owns it.
type Scheduler struct {
	cfg     Config
	cfgHash uint64
	x       *index.Index

	epoch, tick, policyEpoch uint64
	timeNS                   uint64
	digest                   uint64
	broken                   error

	reqs     []request
	freeReqs []int32
	byID     map[uint64]int32
	rooms    map[uint64]bool

	prealloc, transfer, waiting, running  []int32
	retracted, resuming, quarantine, step []int32
	freeSlots                             []int32
	commits, clock                        uint64
	busy                                  uint64           // last tick with something running or in transfer, let in, or nothing to let in
	noRoom                                [numHolds]uint64 // last tick in which nothing ran and the head of the queue had no room
	prebuilt                              int              // requests merged into the running batch in the last tick

	ops       []operation
	freeOps   []int32
	opList    []int32 // outstanding, in issue order
	opCount   [numOperationKinds]int
	opID      uint64
	rests     []rest
	loadFails map[index.NodeID]loadFail
	unbacked  []index.NodeID

	peers []peer
	lay   layout

	in       ingress
	heldLast int // pages, last tick's reduced answer or the floor

	hooks [numHooks]hookState
	cand  []candidate
	batch []byte // the admit batch that this tick's proposals answer
	nOut  int

	scoreNodes []index.NodeID // of the score batch that this tick's proposals answer
	scoreBatch []byte
	scoreNext  index.NodeID // where the turn through the cache goes on, 0 = a new turn
	scoreSince uint64       // nodes used at this clock or later are shown again
	scoreTurn  uint64       // scoreSince of the next turn

	counts Counts

	// Scratch, kept for its capacity.
	spare     []int32
	path      []index.NodeID
	src, dst  []index.Page
	order     []int32
	native    []byte
	nativeRun bool
	one       [1]int32
}

// peer is a prefill instance the group knows.
type peer struct {
	id          uint32
	incarnation uint64
}

// hookState is the agreed health of one hook's policy.
type hookState struct {
	quarantined bool
	generation  uint64 // replicated instance in use, or wanted while down
	diverged    bool   // within an apply: the answers of this tick were valid and not the same
	down        bool   // no instance answers until every rank has `generation` ready
	faults      recent // of any kind
	rails       recent // of these, the ones that a rail found
	passed      uint64 // tick in which the policy last let somebody pass itself
}

// New returns the state of a freshly formed group at tick 1. peers join through the ingress stream.
func New(cfg Config, epoch uint64) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	x, err := index.New(index.Config{PageSize: cfg.PageSize, L1Pages: cfg.L1Pages, L2Pages: cfg.L2Pages})
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	s := &Scheduler{cfg: cfg, cfgHash: cfg.Hash(), x: x, epoch: epoch, tick: 1,
		byID: make(map[uint64]int32), rooms: make(map[uint64]bool), loadFails: make(map[index.NodeID]loadFail)}
	for i := range cfg.MetadataSlots {
		s.freeSlots = append(s.freeSlots, int32(i))
	}
	for h := range s.hooks {
		s.hooks[h].generation = 1
	}
	s.digest = mix(s.cfgHash, epoch)
	s.resetScores()
	s.prepareNext()
	return s, nil
}

// Digest is the rolling digest of every decision so far, tree included: equal on all ranks or they have diverged.
func (s *Scheduler) Digest() uint64 { return mix(s.digest, s.x.Digest()) }

// Epoch is the group epoch.
func (s *Scheduler) Epoch() uint64 { return s.epoch }

// Tick is the number of the tick whose ballot is next, from 1.
func (s *Scheduler) Tick() uint64 { return s.tick }

// TimeNS is the agreed time of the last tick, nanoseconds, monotonic.
func (s *Scheduler) TimeNS() uint64 { return s.timeNS }

// PolicyEpoch is the policy epoch in force.
func (s *Scheduler) PolicyEpoch() uint64 { return s.policyEpoch }

// PageSize is tokens a page.
func (s *Scheduler) PageSize() int { return s.cfg.PageSize }

// Generation is the generation of a page number, which a reference to the page carries.
func (s *Scheduler) Generation(t index.Tier, p index.Page) uint32 { return s.x.Generation(t, p) }

// Books are the booked states of a tier's pages.
func (s *Scheduler) Books(t index.Tier) index.Books { return s.x.Books(t) }

// CacheStats are the tree's counters.
func (s *Scheduler) CacheStats() index.Stats { return s.x.Stats() }

// Idle is true when no request is in any queue and no operation is outstanding.
func (s *Scheduler) Idle() bool {
	return len(s.byID) == 0 && len(s.opList) == 0 && len(s.unbacked) == 0 && s.in.idle()
}

// Busy is true when some queue is not empty: the group must not wait before its next tick.
func (s *Scheduler) Busy() bool { return !s.Idle() || s.lay.ingress > 0 }

// QueueLen is the number of requests in a queue.
func (s *Scheduler) QueueLen(q Queue) int {
	switch q {
	case QueuePrealloc:
		return len(s.prealloc)
	case QueueTransfer:
		return len(s.transfer)
	case QueueWaiting:
		return len(s.waiting)
	case QueueRunning:
		return len(s.running)
	case QueueRetracted:
		return len(s.retracted)
	case QueueResuming:
		return len(s.resuming)
	case QueueQuarantine:
		return len(s.quarantine)
	}
	return 0
}

// Counts are replicated counters: equal on all ranks.
type Counts struct {
	Rails          [NumRails]uint64
	Finished       [5]uint64 // by FinishKind
	Admitted       uint64
	Restores       uint64 // load operations issued
	RestoresFailed uint64 // requests whose restore failed, agreed
	LoadPages      uint64 // pages brought back good on all ranks
	BackupPages    uint64
	BackupsRefused uint64 // pages that found no host room
	DroppedCopies  uint64 // nodes whose host copy was dropped
	Retractions    uint64
	DeferredStale  uint64 // deferrals that only this tick's own changes caused
	Overruled      uint64 // admit's order ended by a request that did not fit
	ModelDisagreed uint64 // ticks in which a rank's own tokens differed
	Resyncs        uint64 // how often this rank's state was made equal to its peers' again
	HookFaults     [numHooks]uint64
	AdmitHeld      uint64 // ticks in which a fault of admit's policy deferred every candidate
	HitL1, HitL2   uint64 // tokens promised from each tier at admission
	InputTokens    uint64 // prompt tokens admitted
	OutputTokens   uint64
	Scored         uint64 // keys given by the score policy
	SatOut         uint64 // steps a running request sat out for a page that was being saved
}

// Counts returns the counters.
func (s *Scheduler) Counts() Counts { return s.counts }

// Faults is how often a hook's answer was no good on some rank, and Quarantined whether its policy is out of use.
func (s *Scheduler) Faults(h abi.Hook) uint64 { return s.counts.HookFaults[hookLane(h)] }

// Quarantined says whether a hook's policy has been taken out of use on all ranks.
func (s *Scheduler) Quarantined(h abi.Hook) bool { return s.hooks[hookLane(h)].quarantined }

// PolicyAnswers says whether a hook's policy is asked in the coming tick: not while quarantined, and for the
// replicated hooks not until every rank has the instance's agreed generation ready.
func (s *Scheduler) PolicyAnswers(h abi.Hook) bool {
	k := &s.hooks[hookLane(h)]
	return !k.quarantined && !k.down
}
