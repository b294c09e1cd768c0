package replay

import (
	"slices"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/collective"
	"sluice/gpu/host"
	"sluice/kvcache/index"
	"sluice/plugins"
	"sluice/plugins/standard"
	"sluice/runtime/model"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// sim is a World for a scenario: real pages, every oracle after every tick, a scripted peer.
type sim struct {
	*World
	t      *testing.T
	script *scripted
	holds  uint64
}

// scripted is a peer whose every answer a test may set; nil functions leave everything at once and well.
type scripted struct {
	chunk  func(k transfer.Key, chunk int) transfer.Chunk
	finish func(k transfer.Key) transfer.Finish
	ack    func(k transfer.Key) transfer.Ack
}

// holdRoom and above are rooms whose data never comes.
const holdRoom = 1 << 60

func (s *scripted) Chunk(k transfer.Key, chunk, _ int) transfer.Chunk {
	if k.Room&^0xffff == holdRoom {
		return transfer.Chunk{Drop: true}
	}
	if s.chunk == nil {
		return transfer.Chunk{}
	}
	return s.chunk(k, chunk)
}

func (s *scripted) Finish(k transfer.Key) transfer.Finish {
	if s.finish == nil || k.Room&^0xffff == holdRoom {
		return transfer.Finish{}
	}
	return s.finish(k)
}

func (s *scripted) Ack(k transfer.Key) transfer.Ack {
	if s.ack == nil || k.Room&^0xffff == holdRoom {
		return transfer.Ack{}
	}
	return s.ack(k)
}

func simConfig(ranks, page, l1, l2 int) WorldConfig {
	return WorldConfig{
		Schedule: schedule.Config{Ranks: ranks, PageSize: page, L1Pages: l1, L2Pages: l2, MaxRunning: 64, MetadataSlots: 64, MaxNewTokens: 4096,
			MaxQueue: 1024, Overcommit: 1, HoldTicks: 500, StarveTicks: 500, AdmitWindow: 64, Operations: 64, LoadFailures: 3,
			Quarantine: schedule.QuarantineAll(3, 1000), IngressSlice: 1 << 16, EOS: schedule.NoToken, AdmitNative: "greedy"},
		Model: model.Shape{Layers: 2, BytesPerTokenLayer: 8 * ranks, PageSize: page, Shards: ranks},
		Vocab: 151936, Tick: tick, ChunkPages: 1, Verify: true, Hooks: natives("restore-gated", "until-retired", "greedy"),
	}
}

// natives are shipped policies as plain Go.
func natives(gate, reserve, admit string) func(int) (rank.Hooks, error) {
	return func(int) (rank.Hooks, error) {
		set, err := plugins.NewNativeSet(standard.Config{Gate: gate, Reserve: reserve, Admit: admit})
		if err != nil {
			return rank.Hooks{}, err
		}
		return rank.NewPolicies(set, nil).Hooks(), nil
	}
}

// nativesWith puts functions in the place of some of the restore-gated, until-retired and greedy policies.
func nativesWith(make func(rank int) plugins.NativePolicy) func(int) (rank.Hooks, error) {
	return func(r int) (rank.Hooks, error) {
		set, err := plugins.NewNativeSet(standard.Config{Gate: "restore-gated", Reserve: "until-retired", Admit: "greedy"})
		if err != nil {
			return rank.Hooks{}, err
		}
		p := make(r)
		if p.Gate != nil {
			set.Gate, err = callerRunner(abi.Gate, "restore-gated", func() plugins.Caller { return plugins.NewNative(plugins.NativePolicy{Gate: p.Gate}) })
		}
		if p.Admit != nil && err == nil {
			set.Admit, err = callerRunner(abi.Admit, "greedy", func() plugins.Caller { return plugins.NewNative(plugins.NativePolicy{Admit: p.Admit}) })
		}
		return rank.NewPolicies(set, nil).Hooks(), err
	}
}

func newSim(t *testing.T, cfg WorldConfig) *sim {
	t.Helper()
	s := &sim{t: t, script: &scripted{}}
	cfg.Script = s.script
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.World = w
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	s.steps(2)
	return s
}

func counting(base, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(base + i)
	}
	return out
}

// add offers a prompt that counts up from base: equal bases share a prefix.
func (s *sim) add(base, prompt, limit int) uint64 {
	return s.Submit(Request{Namespace: "default", Tokens: counting(base, prompt), Limit: limit})
}

func (s *sim) step() {
	s.t.Helper()
	if err := s.Tick(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sim) steps(n int) {
	s.t.Helper()
	for range n {
		s.step()
	}
}

func (s *sim) until(what string, cond func() bool) {
	s.t.Helper()
	ok, err := s.Run(2000, cond)
	if err != nil {
		s.t.Fatalf("waiting for %s: %v", what, err)
	}
	if !ok {
		s.t.Fatalf("tick %d: still waiting for: %s", s.tick, what)
	}
}

// untilIdle waits until nothing is queued, copied or on its way, and checks that nothing is held then.
func (s *sim) untilIdle() {
	s.t.Helper()
	s.steps(2)
	s.until("the group to be idle", func() bool { return s.Live() == 0 && s.Idle() })
	if err := s.Drained(); err != nil {
		s.t.Fatal(err)
	}
	for r, k := range s.ranks {
		if st := k.Schedule().CacheStats(); st.Locks != 0 || st.Ops != 0 {
			s.t.Fatalf("rank %d is idle with %d locks and %d operations", r, st.Locks, st.Ops)
		}
	}
}

func (s *sim) where(id uint64) schedule.Queue { return s.ranks[0].Schedule().Where(id) }

func (s *sim) in(q schedule.Queue, id uint64) func() bool {
	return func() bool { return s.where(id) == q }
}

func (s *sim) done(ids ...uint64) func() bool {
	return func() bool { return !slices.ContainsFunc(ids, func(id uint64) bool { return !s.Outcome(id).Done() }) }
}

// warm caches the full pages of a prompt on the device and, where there is one, in the host tier.
func (s *sim) warm(base, prompt int) {
	s.t.Helper()
	id := s.add(base, prompt, 1)
	s.untilIdle()
	s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
}

// demote pushes every cached page off the device: a request takes all of it and is aborted before any of its data
// has come.
func (s *sim) demote() {
	s.t.Helper()
	n := s.cfg.Schedule.L1Pages * s.cfg.Schedule.PageSize
	s.holds++
	id := s.Submit(Request{Namespace: "pressure", Tokens: counting(1<<20, n), Limit: 1, Room: holdRoom + s.holds})
	s.until("the device to be emptied", s.in(schedule.QueueTransfer, id))
	s.Abort(id)
	s.untilIdle()
	if b := s.Books(index.L1); b.Free != s.cfg.Schedule.L1Pages {
		s.t.Fatalf("the device is not empty: %+v", b)
	}
}

// wantEnd checks that a request ended in the same tick with the same words on every rank.
func (s *sim) wantEnd(id uint64, k schedule.FinishKind, reason abi.Reason) End {
	s.t.Helper()
	o := s.Outcome(id)
	for r, e := range o.Ends {
		if e.Tick == 0 || e.Kind != k || e.Reason != abi.ReasonText(reason) || e != o.Ends[0] {
			s.t.Errorf("request %d ended on rank %d as %v %q at tick %d, want %v %q at tick %d", id, r, e.Kind, e.Reason, e.Tick, k,
				abi.ReasonText(reason), o.Ends[0].Tick)
		}
	}
	return o.Ends[0]
}

// wantTokens checks how many tokens a request was given. Verify has compared each with the one that the right bytes give.
func (s *sim) wantTokens(id uint64, n int) {
	s.t.Helper()
	if o := s.Outcome(id); len(o.Tokens) != n || o.Wrong != 0 {
		s.t.Errorf("request %d was given %d tokens, %d of them wrong; want %d", id, len(o.Tokens), o.Wrong, n)
	}
}

// wantBooks compares the device's books on every rank.
func (s *sim) wantBooks(want index.Books) {
	s.t.Helper()
	for r, k := range s.ranks {
		if b := k.Schedule().Books(index.L1); b != want {
			s.t.Errorf("tick %d, rank %d: books are %+v, want %+v", s.tick, r, b, want)
		}
	}
}

func (s *sim) inject(r int, f host.Fault) {
	s.t.Helper()
	f.Rank = r
	if err := s.Inject(r, f); err != nil {
		s.t.Fatal(err)
	}
}

// loaded is the tokens a rank has brought back from the host tier.
func (s *sim) loaded(r int) uint64 { return s.stores[r].Counters().LoadBackTokens }

// lane is a rank's own vote on transfer entry i in a ballot it has just filled.
func lane(k *rank.Rank, own *collective.Vector, i int) schedule.Value {
	return schedule.Value(own.U32[k.Schedule().NumHandshake()+i] >> 28)
}

// smallestFirst admits whatever fits, those that need least first.
func smallestFirst(b guest.AdmitBatch) int32 {
	order := make([]int, b.Candidates())
	for i := range order {
		order[i] = i
	}
	need := func(i int) uint32 { r := b.At(i); return r.NeedTokens() }
	slices.SortStableFunc(order, func(i, j int) int { return int(need(i)) - int(need(j)) })
	for at, i := range order {
		b.Set(i, abi.VerdictAdmit, at)
	}
	return int32(abi.StatusOK)
}
