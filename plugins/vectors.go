package plugins

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"sluice/abi"
)

// vector is one batch that a module is tried on when it is loaded.
type vector struct {
	name    string
	hook    abi.Hook
	n, nOut int
	encode  func(abi.Batch)
}

// vectors covers each hook's whole input space where that is small (every poll, restore status and flag) and its edges
// where it is not. Their inputs and the shipped policies' answers are frozen in abi/testdata/vectors.
func vectors() []vector {
	v := []vector{gateVector(), {name: "gate empty", hook: abi.Gate, encode: func(abi.Batch) {}}}
	v = append(v, reserveVectors()...)
	v = append(v, admitVectors()...)
	return append(v, scoreVectors()...)
}

func scoreVectors() []vector {
	globals := abi.ScoreGlobals{TimeNS: 1, PageSize: 16, Nodes: 40, TotalTokens: 24000, FreeTokens: 4000, EvictableTokens: 6000}
	batch := func(name string, records ...abi.ScoreRecord) vector {
		return vector{name: "score " + name, hook: abi.Score, n: len(records), nOut: len(records), encode: func(b abi.Batch) {
			b.PutScoreGlobals(&globals)
			for i := range records {
				b.PutScore(i, &records[i])
			}
		}}
	}
	var all []abi.ScoreRecord
	for i := range 24 {
		all = append(all, abi.ScoreRecord{
			NodeKey: uint64(i) + 1, LastUse: uint64(100 - i), Hits: uint32(i * i % 7), Tokens: uint32(16 * (1 + i%3)), DepthTokens: uint32(16 * i),
			Tenant: uint16(i % 3), Flags: uint16(i % 4), Class: abi.ScoreClass(i % 3),
		})
	}
	large := abi.ScoreRecord{NodeKey: 1<<32 - 1, LastUse: 1<<64 - 1, Hits: 1<<32 - 1, Tokens: 1<<32 - 1, DepthTokens: 1<<32 - 1, Tenant: 1<<16 - 1, Flags: 3, Class: abi.ScoreAwaiting}
	return []vector{batch("empty"), batch("every class and flag", all...), batch("every count at its largest", large), batch("never used", abi.ScoreRecord{NodeKey: 1, Tokens: 16})}
}

// gateVector is every raw poll with every restore status and every set of flags.
func gateVector() vector {
	const polls, statuses, flags = 5, 3, 32
	n := polls * statuses * flags
	return vector{name: "gate all", hook: abi.Gate, n: n, nOut: n, encode: func(b abi.Batch) {
		b.PutGateGlobals(&abi.GateGlobals{TimeNS: 1_000_000_000})
		for i := range n {
			b.PutGate(i, &abi.GateRecord{
				ReqKey: uint64(i) + 1, RawPoll: abi.Poll(i % polls), Restore: abi.RestoreStatus(i / polls % statuses),
				PrevVote: abi.Poll((i / 7) % polls), Flags: uint8(i / (polls * statuses)),
				AgeTicks: uint32(i * i), RestoreTokens: uint32(i * 16), TransferredPages: uint32(i), Tenant: uint16(i % 3), Priority: uint16(i % 4),
			})
		}
	}}
}

func reserveVectors() []vector {
	globals := abi.ReserveGlobals{TimeNS: 1, PageSize: 16, TotalTokens: 24000, FreeTokens: 4000, EvictableTokens: 6000, FloorTokens: 3000, SetAsideTokens: 512}
	batch := func(name string, records ...abi.ReserveRecord) vector {
		return vector{name: "reserve " + name, hook: abi.Reserve, n: len(records), nOut: 1, encode: func(b abi.Batch) {
			b.PutReserveGlobals(&globals)
			for i := range records {
				b.PutReserve(i, &records[i])
			}
		}}
	}
	var all []abi.ReserveRecord
	for i := range 6 {
		all = append(all, abi.ReserveRecord{
			ReqKey: uint64(i), Restore: abi.RestoreStatus(i % 3), SetAside: uint8(i / 3), RestoreTokens: 1 << i * 100, OwedTokens: uint32(1-i/3) << i * 100,
		})
	}
	large := abi.ReserveRecord{RestoreTokens: 1<<32 - 1, OwedTokens: 1<<32 - 1}
	return []vector{batch("empty"), batch("every status", all...), batch("past 32 bits", large, large, large)}
}

func admitVectors() []vector {
	base := abi.AdmitGlobals{
		TimeNS: 1, PageSize: 1, TotalTokens: 24000, FreeTokens: 20000, EvictableTokens: 4000, BudgetTokens: 24000,
		FreeRows: 64, FreeSlots: 64, ReservedDecodeTokens: 512, ClipMaxNew: 4096,
	}
	fresh := func(key uint64, tokens uint32) abi.AdmitRecord {
		return abi.AdmitRecord{ReqKey: key, Kind: abi.AdmitNew, Flags: abi.AdmitFlagReady, PromptTokens: tokens, MaxNewTokens: 16, NeedTokens: tokens, GrowthTokens: 16}
	}
	resume := func(key uint64, tokens uint32) abi.AdmitRecord {
		return abi.AdmitRecord{ReqKey: key, Kind: abi.AdmitResume, PromptTokens: tokens, OutputTokens: 8, MaxNewTokens: 64, NeedTokens: tokens + 7, GrowthTokens: 57, Retractions: 1}
	}
	running := func(key uint64, tokens, limit uint32) abi.AdmitRecord {
		return abi.AdmitRecord{ReqKey: key, Kind: abi.AdmitRunning, PromptTokens: tokens, OutputTokens: 4, MaxNewTokens: limit}
	}
	batch := func(name string, edit func(*abi.AdmitGlobals), candidates []abi.AdmitRecord, context ...abi.AdmitRecord) vector {
		g := base
		g.Candidates = uint32(len(candidates))
		edit(&g)
		records := append(append([]abi.AdmitRecord{}, candidates...), context...)
		return vector{name: "admit " + name, hook: abi.Admit, n: len(records), nOut: len(candidates), encode: func(b abi.Batch) {
			b.PutAdmitGlobals(&g)
			for i := range records {
				b.PutAdmit(i, &records[i])
			}
		}}
	}
	same := func(*abi.AdmitGlobals) {}
	var eight []abi.AdmitRecord
	for i := range 8 {
		eight = append(eight, fresh(uint64(i), 3000))
	}
	notReady := fresh(9, 100)
	notReady.Flags = 0
	hit := abi.AdmitRecord{ReqKey: 10, Flags: abi.AdmitFlagReady, PromptTokens: 3000, MaxNewTokens: 16, MatchL1Tokens: 1000, MatchRestoreTokens: 2000, NeedTokens: 3000, GrowthTokens: 16}
	return []vector{
		batch("empty", same, nil),
		batch("as many as fit", same, eight),
		batch("head does not fit", func(g *abi.AdmitGlobals) { g.FreeTokens, g.EvictableTokens = 2000, 0 }, []abi.AdmitRecord{fresh(1, 3000), fresh(2, 10)}),
		batch("not ready is passed over", same, []abi.AdmitRecord{notReady, fresh(1, 100)}),
		batch("held back", func(g *abi.AdmitGlobals) { g.HeldTokens = 23000 }, []abi.AdmitRecord{fresh(1, 100), fresh(2, 500)}),
		batch("held beyond the pool", func(g *abi.AdmitGlobals) { g.HeldTokens = 1 << 40 }, []abi.AdmitRecord{fresh(1, 1)}),
		batch("resumes first", same, []abi.AdmitRecord{resume(1, 8000), resume(2, 16000), fresh(3, 10)}),
		batch("rows end", func(g *abi.AdmitGlobals) { g.FreeRows = 2 }, eight),
		batch("slots end", func(g *abi.AdmitGlobals) { g.FreeSlots = 1 }, []abi.AdmitRecord{resume(1, 10), fresh(2, 10), fresh(3, 10)}),
		batch("growth of the host", func(g *abi.AdmitGlobals) { g.GrowthTokens, g.Running = 20000, 4 }, []abi.AdmitRecord{fresh(1, 3000), fresh(2, 3000)}, running(8, 100, 10)),
		batch("one must be able to finish", func(g *abi.AdmitGlobals) { g.Running, g.RunningTokens = 1, 104 }, []abi.AdmitRecord{fresh(1, 21000)}, running(8, 100, 4000)),
		batch("prebuilt batch", func(g *abi.AdmitGlobals) { g.PrebuiltLast = 40 }, []abi.AdmitRecord{fresh(1, 3000), fresh(2, 3000)}),
		batch("with a restore", func(g *abi.AdmitGlobals) { g.Transfer, g.Waiting = 3, 2 }, []abi.AdmitRecord{hit, fresh(1, 17000)}),
		batch("no clip", func(g *abi.AdmitGlobals) { g.ClipMaxNew = 0 }, []abi.AdmitRecord{{ReqKey: 1, Flags: abi.AdmitFlagReady, PromptTokens: 10, MaxNewTokens: 1 << 31, NeedTokens: 10}}),
		batch("every count at its largest", func(g *abi.AdmitGlobals) {
			*g = abi.AdmitGlobals{
				Candidates: 2, TotalTokens: 1<<64 - 1, FreeTokens: 1<<64 - 1, EvictableTokens: 1<<64 - 1, GrowthTokens: 1<<64 - 1, RunningTokens: 1<<64 - 1,
				Running: 1<<32 - 1, Transfer: 1<<32 - 1, Waiting: 1<<32 - 1, FreeRows: 1<<32 - 1, FreeSlots: 1<<32 - 1,
				ReservedDecodeTokens: 1<<32 - 1, ClipMaxNew: 1<<32 - 1, PrebuiltLast: 1<<32 - 1,
			}
		}, []abi.AdmitRecord{fresh(1, 1<<32-1), resume(2, 1<<31)}, running(3, 1<<32-1, 1<<32-1)),
	}
}

// errVectors is why a module is not trusted to an engine.
var errVectors = errors.New("answers differ on the load vectors")

// agrees runs the vectors on a fresh instance of the module and on a fresh reference, and wants the same answers,
// statuses and faults. Each configuration is tried once.
func (m *Module) agrees(ctx context.Context, class abi.Class, info abi.HostInfo, config []byte, reference func(context.Context) (Caller, error)) error {
	key := sha256.Sum256(append([]byte{byte(class)}, config...))
	m.mu.Lock()
	done := m.checked[key]
	m.mu.Unlock()
	if done {
		return nil
	}
	own := func(ctx context.Context) (Caller, error) { return m.Instantiate(ctx, class, info, config) }
	if err := compare(ctx, m.classHooks(class), own, reference); err != nil {
		return err
	}
	m.mu.Lock()
	m.checked[key] = true
	m.mu.Unlock()
	return nil
}

// classHooks lists the hooks of the class that the module exports.
func (m *Module) classHooks(class abi.Class) []abi.Hook {
	var hs []abi.Hook
	for _, h := range hooks() {
		if m.Has(h) && ClassOf(h) == class {
			hs = append(hs, h)
		}
	}
	return hs
}

// ClassOf is the class of the instance that answers the hook.
func ClassOf(h abi.Hook) abi.Class {
	if h == abi.Admit || h == abi.Score {
		return abi.ClassReplicated
	}
	return abi.ClassLocal
}

// compare runs the vectors of some hooks on an instance of each kind, one kind after the other so that their memories do
// not add up.
func compare(ctx context.Context, hs []abi.Hook, makeA, makeB func(context.Context) (Caller, error)) error {
	got, err := trials(ctx, hs, makeA)
	if err != nil {
		return err
	}
	want, err := trials(ctx, hs, makeB)
	if err != nil {
		return err
	}
	for i := range got {
		if !got[i].equal(&want[i]) {
			return fmt.Errorf("%w: %s: %s against %s", errVectors, got[i].name, &got[i], &want[i])
		}
	}
	return nil
}

// trial is what one vector gave. Fuel and memory are those of WebAssembly instances only; the memory is looked at after
// the last vector of an instance.
type trial struct {
	name   string
	answer []byte // status and output bytes
	fault  string // or the class of the fault
	guest  bool
	fuel   uint64
	memory [sha256.Size]byte
}

func (t *trial) equal(o *trial) bool {
	same := t.fault == o.fault && bytes.Equal(t.answer, o.answer)
	return same && (!t.guest || !o.guest || t.fuel == o.fuel && t.memory == o.memory)
}

func (t *trial) String() string {
	s := describe(t.answer, t.fault)
	if t.guest {
		s += fmt.Sprintf(", fuel %d, memory %x", t.fuel, t.memory[:4])
	}
	return s
}

// trials runs the vectors of some hooks. A faulting instance is replaced, as in a tick.
func trials(ctx context.Context, hs []abi.Hook, build func(context.Context) (Caller, error)) (all []trial, err error) {
	var c Caller
	closeIt := func() {
		if c != nil {
			if i, ok := c.(*Instance); ok {
				all[len(all)-1].memory = i.memoryHash()
			}
			err = errors.Join(err, c.Close(ctx))
			c = nil
		}
	}
	defer closeIt()
	for _, v := range vectors() {
		if !slices.Contains(hs, v.hook) {
			continue
		}
		if c == nil {
			made, err := build(ctx)
			if err != nil {
				return nil, err
			}
			c = made
		}
		t := trial{name: v.name}
		t.answer, t.fault = try(c, v)
		if i, ok := c.(*Instance); ok {
			t.guest, t.fuel = true, i.Spent()
		}
		all = append(all, t)
		if t.fault != "" {
			if closeIt(); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// try runs one vector and returns status and output bytes, or the class of the fault.
func try(c Caller, v vector) (answer []byte, fault string) {
	b, err := c.Begin(v.hook, 1, 1, v.n, v.nOut)
	if err != nil {
		return nil, asFault(err, v.hook).Class.String()
	}
	v.encode(b)
	status, err := c.Call(v.hook)
	if err != nil {
		return nil, asFault(err, v.hook).Class.String()
	}
	if b, err = c.Answer(); err != nil {
		return nil, asFault(err, v.hook).Class.String()
	}
	return append([]byte{byte(status)}, b.Out...), ""
}

func describe(answer []byte, fault string) string {
	if fault != "" {
		return fault
	}
	if len(answer) > 1+64 {
		return fmt.Sprintf("status %d, %d bytes %x", int8(answer[0]), len(answer)-1, sha256.Sum256(answer[1:]))
	}
	return fmt.Sprintf("status %d, %x", int8(answer[0]), answer[1:])
}
