package replay

import (
	"context"
	"hash/fnv"
	"math/rand/v2"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/standard"
)

// manner is how a hostile policy behaves. Probabilities are in thousandths.
type manner struct {
	trap      int // of a call
	malformed int // of an answer
	decline   int
	giveUp    int // of a record
	noise     int // of a record: any vote at all; a candidate: any verdict
	fixed     int // gate: every other vote is this one; -1 = the honest one
	held      int // reserve: 0 nothing, 1 random up to the device, 2 everything, 3 more than there is
	parted    int // admit, score: answers that depend on the rank
}

func drawManner(r *rand.Rand) manner {
	m := manner{fixed: -1, noise: pick(r, 0, 100, 500, 1000), held: r.IntN(4), decline: pick(r, 0, 0, 50)}
	if r.IntN(3) == 0 {
		m.trap = pick(r, 5, 50, 300)
	}
	if r.IntN(3) == 0 {
		m.malformed = pick(r, 5, 50, 300)
	}
	if r.IntN(3) == 0 {
		m.giveUp = pick(r, 2, 20, 200)
	}
	if r.IntN(4) == 0 {
		m.fixed = r.IntN(5)
	}
	if r.IntN(3) == 0 {
		m.parted = pick(r, 10, 100, 1000)
	}
	return m
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// hostile answers a hook by its manner. What it does is a function of its seed and the batch alone, so that a
// replicated one does the same on every rank, unless it is to part them.
type hostile struct {
	manner
	hook    abi.Hook
	seed    uint64
	rank    int
	buf     []byte
	b       abi.Batch
	tick    uint64
	n, nOut int
	rng     *rand.Rand
	src     *rand.PCG
	perm    []int
}

func newHostile(hook abi.Hook, m manner, seed uint64, rank int) *hostile {
	h := &hostile{manner: m, hook: hook, seed: seed, rank: rank, src: rand.NewPCG(0, 0)}
	h.rng = rand.New(h.src)
	return h
}

// Begin implements plugins.Caller.
func (h *hostile) Begin(hook abi.Hook, tick, epoch uint64, n, nOut int) (b abi.Batch, err error) {
	if size := abi.BatchSize(hook, n, nOut); size > len(h.buf) {
		h.buf = make([]byte, 2*size)
	}
	h.tick, h.n, h.nOut = tick, n, nOut
	h.b, err = abi.Begin(h.buf, hook, tick, epoch, n, nOut)
	return h.b, err
}

func (h *hostile) chance(thousandths int) bool {
	return thousandths > 0 && h.rng.IntN(1000) < thousandths
}

// Call implements plugins.Caller.
func (h *hostile) Call(hook abi.Hook) (abi.Status, error) {
	sum := fnv.New64a()
	sum.Write(h.b.Globals)
	sum.Write(h.b.In)
	h.src.Seed(h.seed^sum.Sum64(), h.tick)
	if h.chance(h.parted) {
		h.src.Seed(h.seed^sum.Sum64(), h.tick<<8|uint64(h.rank)+1)
	}
	if h.chance(h.trap) {
		return 0, &plugins.Fault{Class: plugins.FaultTrap, Hook: hook, Kind: "unreachable"}
	}
	if h.chance(h.decline) {
		return abi.StatusDeclined, nil
	}
	switch hook {
	case abi.Gate:
		h.gate()
	case abi.Reserve:
		h.reserve()
	case abi.Admit:
		h.admit()
	case abi.Score:
		for i := range h.n {
			abi.PutScoreOut(h.b.Out[i*abi.ScoreOutStride:], &abi.ScoreOut{Key: h.rng.Uint64()})
		}
	}
	if h.chance(h.malformed) && len(h.b.Out) > 0 {
		h.b.Out[h.rng.IntN(len(h.b.Out))] ^= byte(1 << h.rng.IntN(8))
	}
	return abi.StatusOK, nil
}

func (h *hostile) gate() {
	for i := range h.n {
		in := h.b.GateIn(i)
		o := abi.GateOut{Vote: in.RawPoll}
		if in.RawPoll == abi.PollSuccess && in.Restore != abi.RestoreReady {
			o.Vote = abi.PollTransferring
			if in.Restore == abi.RestoreFailed {
				o.Vote = abi.PollFailed
			}
		}
		if h.fixed >= 0 {
			o.Vote = abi.Poll(h.fixed)
		}
		if h.chance(h.noise) {
			o.Vote, o.Reason = abi.Poll(h.rng.IntN(5)), abi.Reason(h.rng.IntN(70))
		}
		if h.chance(h.giveUp) {
			o.Flags = abi.GateOutGiveUp
		}
		abi.PutGateOut(h.b.Out[i*abi.GateOutStride:], &o)
	}
}

func (h *hostile) reserve() {
	total := h.b.ReserveGlobals().TotalTokens
	held := [...]uint64{0, h.rng.Uint64() % (total + 1), total, 1<<63 + h.rng.Uint64()>>1}[h.held]
	abi.PutReserveOut(h.b.Out, &abi.ReserveOut{HeldTokens: held})
}

func (h *hostile) admit() {
	h.perm = h.perm[:0]
	for i := range h.nOut {
		h.perm = append(h.perm, i)
	}
	h.rng.Shuffle(h.nOut, func(i, j int) { h.perm[i], h.perm[j] = h.perm[j], h.perm[i] })
	for i := range h.nOut {
		o := abi.AdmitOut{Verdict: abi.VerdictAdmit, Order: uint32(h.perm[i])}
		if h.chance(h.noise) {
			o.Verdict = pick(h.rng, abi.VerdictAdmit, abi.VerdictAdmit, abi.VerdictAdmit, abi.VerdictDefer, abi.VerdictDefer, abi.VerdictReject)
			o.Reason = abi.Reason(h.rng.IntN(70))
		}
		abi.PutAdmitOut(h.b.Out[i*abi.AdmitOutStride:], &o)
	}
}

// Answer implements plugins.Caller.
func (h *hostile) Answer() (abi.Batch, error) { return abi.View(h.buf, h.hook, h.n, h.nOut) }

// Close implements plugins.Caller.
func (h *hostile) Close(context.Context) error { return nil }

// fallback is the native build of a shipped policy.
func fallback(hook abi.Hook, name string) plugins.Caller {
	var p plugins.NativePolicy
	p.Gate, _ = standard.Gate(name)
	p.Reserve, _ = standard.Reserve(name)
	p.Admit, _ = standard.Admit(name)
	p.Score, _ = standard.Score(name)
	switch hook {
	case abi.Gate:
		p.Reserve, p.Admit, p.Score = nil, nil, nil
	case abi.Reserve:
		p.Gate, p.Admit, p.Score = nil, nil, nil
	case abi.Admit:
		p.Gate, p.Reserve, p.Score = nil, nil, nil
	case abi.Score:
		p.Gate, p.Reserve, p.Admit = nil, nil, nil
	}
	return plugins.NewNative(p)
}

// callerRunner is a runner over instances that build makes, with a shipped policy to fall back to.
func callerRunner(hook abi.Hook, native string, build func() plugins.Caller) (*plugins.Runner, error) {
	slot, err := plugins.NewSlot(context.Background(), plugins.ClassOf(hook), func(context.Context) (plugins.Caller, error) { return build(), nil })
	if err != nil {
		return nil, err
	}
	return plugins.NewRunner(hook, "hostile", slot, fallback(hook, native))
}
