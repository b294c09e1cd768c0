package replay

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/abi"
	"sluice/collective"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/kvcache"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// WorldConfig makes a World.
type WorldConfig struct {
	Schedule  schedule.Config
	Model     model.Shape
	Vocab     int
	Tick      time.Duration   // virtual time between two ticks, > 0
	Skew      []time.Duration // by rank: how far its clock is ahead; none = all show the same
	Hooks     func(rank int) (rank.Hooks, error)
	Delay     func(rank int) host.Delay // ticks a copy takes; nil = ends in the next tick
	Unchecked bool                      // no page checksums

	PrefillShards int             // prefill TP; other than the decode ranks, transfers go through the staging ring. 0 = as decode
	ChunkPages    int             // pages the peer sends at once; 0 = 16
	RingPages     int             // staging ring; 0 = 256
	Script        transfer.Script // pace and faults of the peer; nil = everything lands at once

	TransferTicks uint32
	DrainTicks    uint32
	RestartDelay  time.Duration // from the peer's death to its next registration; 0 = it never comes back
	RevokeDelay   time.Duration // how long a rank takes to revoke the peer's right to write
	Logger        *slog.Logger

	// ReasonText, where set, is why a request ended in words; nil = abi.ReasonText. Only End.Reason has it.
	ReasonText func(schedule.FinishKind, abi.Reason) string
	// Refresh, where set, runs before each tick of a rank and may make successors of discarded policy instances.
	Refresh func(rank int, tick uint64) error
	// StepMayFail lets a model step that fails make no tokens, as it does outside virtual time. Else it ends the
	// run, since nothing but an injected fault can fail one.
	StepMayFail bool

	// Verify runs the oracles after every tick: books, sameness, no page freed under a writer; and compares
	// every token with the one that the right bytes give.
	Verify bool
	// Cheap runs the walk over all books only every 64th tick.
	Cheap bool
	// Edit, where set, may rewrite a rank's copy of the reduced ballot; own is the vector as it was sent. It is
	// how an experiment imposes what the host does not do.
	Edit func(r *rank.Rank, own, reduced *collective.Vector)
	// Resync has ranks that parted made equal again; without it the first divergence is the end.
	Resync bool
}

// End is how a request ended on one rank.
type End struct {
	Tick   uint64
	Kind   schedule.FinishKind
	Reason string
	Rank   int // the rank that reported a failure, -1 for none
}

// Outcome is what became of a request.
type Outcome struct {
	ID      uint64
	Ends    []End // by rank; Tick 0 = it has not ended there
	Tokens  []uint32
	Prompt  int // tokens; 0 = it was never admitted
	Promise int // tokens
	L1      int // of them on the device at admission
	Wrong   int // tokens that differ from what the right bytes give
}

// Done says whether the request has ended on rank 0, where its client is.
func (o *Outcome) Done() bool { return o.Ends[0].Tick > 0 }

// ErrParted marks a group whose ranks no longer agree: unequal ballots or digests.
var ErrParted = errors.New("replay: the ranks have parted")

// World is a decode group and its prefill peer in virtual time. One goroutine owns it.
type World struct {
	cfg    WorldConfig
	ranks  []*rank.Rank
	devs   []*host.Device
	stores []*kvcache.Store
	recv   []*transfer.Receiver
	peer   *transfer.Prefill
	leader *rank.Leader

	now     time.Duration
	tick    uint64
	nextID  uint64
	vecs    []*collective.Vector
	own     []collective.Vector
	partial [][]uint64
	tokens  []uint32

	out     map[uint64]*Outcome
	oracles map[uint64]*model.Oracle
	live    int
	flying  []inFlight
	refs    []gpu.Ref
	base    model.Oracle
	twice   error

	staging []staging
	flips   []Flip

	joined uint64 // incarnation of the peer that the stream has announced last
	known  bool   // the group has taken it in

	Exchanges        uint64 // collectives issued so far
	Resyncs          uint64 // times the ranks were made equal again
	FreedUnderWriter uint64 // pages given back while the peer could still write them, all ranks
	StepErrors       uint64 // model steps that failed and made no tokens
	Lost             error  // why decode is lost; nil while it lives
}

// inFlight is a request whose pages refs[from:to] the peer may still write on a rank.
type inFlight struct {
	rank     int
	request  uint64
	from, to int
}

// PeerID is the prefill peer's number in a World.
const PeerID = 1

// Request is one prompt for the group.
type Request struct {
	Namespace string
	Tokens    []uint32
	Limit     int
	Stops     []uint32
	Tenant    uint16
	Priority  uint16
	Room      uint64 // 0 = one of its own
	NoPrefill bool   // the peer is never told of it
}

// Tick runs one tick of the whole group. An error wraps ErrParted, or is a broken invariant; the World is then
// lost and every later Tick returns the same error.
func (w *World) Tick() error {
	if w.Lost != nil {
		return w.Lost
	}
	err := w.step()
	if w.cfg.Resync && errors.Is(err, ErrParted) {
		err = w.resync()
	}
	w.Lost = err
	return w.Lost
}

func (w *World) step() error {
	w.tick++
	w.now += w.cfg.Tick
	for _, d := range w.devs {
		d.Step(w.tick)
	}
	w.peer.Pump(w.now)
	for _, v := range w.recv {
		v.Pump(w.now)
	}
	w.rejoin()
	for r, k := range w.ranks {
		if err := w.stage(r); err != nil {
			return err
		}
		if w.cfg.Refresh != nil {
			if err := w.cfg.Refresh(r, w.tick); err != nil {
				return fmt.Errorf("tick %d, rank %d: %w", w.tick, r, err)
			}
		}
		now := w.now
		if r < len(w.cfg.Skew) {
			now += w.cfg.Skew[r]
		}
		v, err := k.Prepare(now)
		if err != nil {
			return fmt.Errorf("tick %d, rank %d: %w", w.tick, r, err)
		}
		w.vecs[r] = v
		if w.cfg.Edit != nil {
			copyVector(&w.own[r], v)
		}
	}
	if err := w.exchange(); err != nil {
		return fmt.Errorf("%w: tick %d: %w", ErrParted, w.tick, err)
	}
	if w.cfg.Edit != nil {
		for r, k := range w.ranks {
			w.cfg.Edit(k, &w.own[r], w.vecs[r])
		}
	}
	w.noteFlying()
	for r, k := range w.ranks {
		if err := k.Commit(); err != nil {
			var m *schedule.Mismatch
			if errors.As(err, &m) {
				err = fmt.Errorf("%w: %w", ErrParted, err)
			}
			return fmt.Errorf("tick %d, rank %d: %w", w.tick, r, err)
		}
		w.observe(r)
	}
	if err := w.stepModel(); err != nil {
		return fmt.Errorf("tick %d: %w", w.tick, err)
	}
	w.countFreed()
	if w.cfg.Verify {
		return w.verify()
	}
	return nil
}

// exchange is every collective of the group: what counts them is what issues them.
func (w *World) exchange() error {
	w.Exchanges++
	return collective.Reduce(w.vecs)
}

// resync makes the ranks equal again after a tick that applied nothing.
func (w *World) resync() error {
	for _, k := range w.ranks {
		k.BeginResync()
	}
	for !w.ranks[0].ResyncDone() {
		for r, k := range w.ranks {
			w.vecs[r] = k.FillResync()
		}
		if err := w.exchange(); err != nil {
			return err
		}
		for _, k := range w.ranks {
			k.TakeResync()
		}
	}
	w.Resyncs++
	for r, k := range w.ranks {
		if err := k.FinishResync(); err != nil {
			return fmt.Errorf("tick %d, rank %d: %w", w.tick, r, err)
		}
		w.observe(r)
	}
	if w.cfg.Verify {
		return w.verify()
	}
	return nil
}

func (w *World) stepModel() error {
	failed := false
	for r, k := range w.ranks {
		p, err := k.StepModel()
		if err != nil {
			if !w.cfg.StepMayFail {
				return fmt.Errorf("rank %d: model step: %w", r, err)
			}
			failed = true
			w.StepErrors++
		}
		w.partial[r] = p
	}
	n := len(w.partial[0])
	if failed {
		n = 0
	}
	digest := w.ranks[0].StepDigest()
	for r, k := range w.ranks {
		if len(w.partial[r]) != n || k.StepDigest() != digest {
			// The model's own reduction carries the digest of its batch: a mismatch ends the step with no
			// tokens, and the next exchange finds the divergence.
			n = 0
		}
	}
	if n == 0 {
		for _, k := range w.ranks {
			k.SetTokens(nil)
		}
		return nil
	}
	for len(w.tokens) < n {
		w.tokens = append(w.tokens, 0)
	}
	if err := model.Join(w.partial, w.tokens[:n], w.cfg.Vocab); err != nil {
		return err
	}
	for _, k := range w.ranks {
		k.SetTokens(w.tokens[:n])
	}
	return nil
}

func copyVector(dst, src *collective.Vector) {
	dst.U64 = append(dst.U64[:0], src.U64...)
	dst.U32 = append(dst.U32[:0], src.U32...)
	dst.U8 = append(dst.U8[:0], src.U8...)
	dst.Leader = append(dst.Leader[:0], src.Leader...)
}

// Run ticks until cond holds or limit ticks have passed; it reports whether cond came to hold.
func (w *World) Run(limit int, cond func() bool) (bool, error) {
	for range limit {
		if cond() {
			return true, nil
		}
		if err := w.Tick(); err != nil {
			return false, err
		}
	}
	return cond(), nil
}

// Idle is true when nothing is queued, copied, transferred or on its way in.
func (w *World) Idle() bool {
	return !w.leader.Pending() && w.ranks[0].Schedule().Idle()
}

// Now is the virtual time.
func (w *World) Now() time.Duration { return w.now }

// Ticks is the number of ticks run so far.
func (w *World) Ticks() uint64 { return w.tick }

// Rank returns a rank, for its state and counters.
func (w *World) Rank(r int) *rank.Rank { return w.ranks[r] }

// Store returns a rank's page store, for its counters.
func (w *World) Store(r int) *kvcache.Store { return w.stores[r] }

// Inject adds a fault to the script of a rank's device.
func (w *World) Inject(r int, f host.Fault) error { return w.devs[r].Inject(f) }

// Abort ends a request as its client would.
func (w *World) Abort(id uint64) { w.leader.Abort(id) }

// CrashPeer kills the prefill peer before the next tick. It comes back after RestartDelay.
func (w *World) CrashPeer() { w.peer.Crash() }

// CutPeer has one rank lose the prefill peer before the next tick.
func (w *World) CutPeer(rank int) { w.peer.Cut(rank) }

// rejoin announces an incarnation of the peer that every rank is connected to, once the group has fenced the
// one before.
func (w *World) rejoin() {
	s := w.ranks[0].Schedule()
	listed := false
	for i := range s.NumPeers() {
		if p := s.Peer(i); p.ID == PeerID {
			listed, w.known = true, true
		}
	}
	inc := w.peer.Incarnation()
	if listed || !w.known || inc == w.joined {
		return
	}
	for _, v := range w.recv {
		if !v.Connected(PeerID, inc) {
			return
		}
	}
	w.join(inc)
}

func (w *World) join(incarnation uint64) {
	w.joined, w.known = incarnation, false
	w.leader.Add(schedule.AppendPeer(nil, PeerID, incarnation))
}

// Flush empties the cache once the group is idle.
func (w *World) Flush() { w.leader.Add(schedule.AppendFlush(nil)) }

// Outcome is what became of a request so far.
func (w *World) Outcome(id uint64) *Outcome { return w.out[id] }

// Live is the number of submitted requests that have not ended on rank 0.
func (w *World) Live() int { return w.live }

// Close frees the devices.
func (w *World) Close() error {
	var errs []error
	for _, d := range w.devs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
