package standard_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins/standard"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		hook abi.Hook
		want []string
	}{
		{abi.Gate, []string{"restore-gated", "pending-only", "ungated"}},
		{abi.Reserve, []string{"until-retired", "pending-only", "none"}},
		{abi.Admit, []string{"fifo-headroom", "greedy"}},
		{abi.Score, []string{"lru", "lfu"}},
		{5, nil},
	} {
		got := standard.Names(tc.hook)
		if strings.Join(got, " ") != strings.Join(tc.want, " ") {
			t.Errorf("%s: %q", tc.hook, got)
		}
		for _, n := range got {
			if !standard.Known(tc.hook, n) {
				t.Errorf("%s: %q is listed and not known", tc.hook, n)
			}
		}
		if standard.Known(tc.hook, "no-such-policy") || standard.Known(tc.hook, "") {
			t.Errorf("%s: an unknown name is known", tc.hook)
		}
		if len(tc.want) > 0 && standard.Default(tc.hook) != tc.want[0] {
			t.Errorf("%s: default %q", tc.hook, standard.Default(tc.hook))
		}
	}
	if standard.Default(9) != "" {
		t.Error("a number that is no hook has a default")
	}
}

func TestConfigRoundTrips(t *testing.T) {
	for _, c := range []standard.Config{
		{},
		{Gate: "ungated"},
		{Reserve: "pending-only"},
		{Admit: "greedy"},
		{Gate: "restore-gated", Reserve: "until-retired", Admit: "fifo-headroom"},
	} {
		got, err := standard.ParseConfig(c.JSON())
		if err != nil || got != c {
			t.Errorf("%s: %+v, %v", c.JSON(), got, err)
		}
	}
	got, err := standard.ParseConfig([]byte(" {\n\t\"builtin\" : { \"reserve\" : \"none\" , \"gate\":\"ungated\"} }\r\n"))
	if err != nil || got != (standard.Config{Gate: "ungated", Reserve: "none"}) {
		t.Errorf("with white space: %+v, %v", got, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "expected '{'"},
		{"an array", "[]", "expected '{'"},
		{"unknown key", `{"builtins":{}}`, `unknown key "builtins"`},
		{"unknown hook", `{"builtin":{"sort":"lru"}}`, `unknown hook "sort"`},
		{"unknown policy", `{"builtin":{"gate":"open"}}`, `no gate policy is named "open"`},
		{"a policy of another hook", `{"builtin":{"admit":"none"}}`, `no admit policy`},
		{"twice", `{"builtin":{"gate":"ungated","gate":"ungated"}}`, "given twice"},
		{"a tail", `{"builtin":{}} x`, "something follows"},
		{"an escape", `{"builtin":{"g\u0061te":"ungated"}}`, "escape"},
		{"no end", `{"builtin":{"gate":"ungat`, "does not end"},
		{"no colon", `{"builtin" {}}`, "expected ':'"},
		{"cut", `{"builtin":{"gate":"ungated"`, "expected '}'"},
		{"a number", `{"builtin":{"gate":1}}`, `expected '"'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := standard.ParseConfig([]byte(tc.text))
			if !errors.Is(err, standard.ErrConfig) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "byte ") {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"builtin":{"gate":"ungated"}}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := standard.ParseConfig(text)
		if err != nil {
			return
		}
		again, err := standard.ParseConfig(c.JSON())
		if err != nil || again != c {
			t.Errorf("%q gives %+v, whose JSON gives %+v, %v", text, c, again, err)
		}
	})
}

type admitCase struct {
	globals abi.AdmitGlobals
	records []abi.AdmitRecord // candidates first
	outs    int
}

// run answers an admit case and returns the verdicts; the order must be the queue's.
func (c admitCase) run(t *testing.T, name string) []abi.Verdict {
	t.Helper()
	policy, ok := standard.Admit(name)
	if !ok {
		t.Fatalf("no policy %q", name)
	}
	n := len(c.records)
	buf := make([]byte, abi.BatchSize(abi.Admit, n, c.outs))
	b, err := abi.Begin(buf, abi.Admit, 1, 1, n, c.outs)
	if err != nil {
		t.Fatal(err)
	}
	g := c.globals
	g.Candidates = uint32(c.outs)
	b.PutAdmitGlobals(&g)
	for i := range c.records {
		b.PutAdmit(i, &c.records[i])
	}
	if s := guest.RunAdmit(policy, buf); s != 0 {
		t.Fatalf("status %d", s)
	}
	if err := abi.CheckAdmitOut(b, c.outs, make([]uint64, abi.SeenWords(c.outs))); err != nil {
		t.Fatal(err)
	}
	var vs []abi.Verdict
	for i := range c.outs {
		if o := b.AdmitOut(i); int(o.Order) != i {
			t.Errorf("candidate %d has order %d", i, o.Order)
		} else {
			vs = append(vs, o.Verdict)
		}
	}
	return vs
}

// verdicts writes a for admit, d for defer.
func verdicts(vs []abi.Verdict) string {
	s := ""
	for _, v := range vs {
		s += string("dar"[v])
	}
	return s
}

func TestFifoHeadroom(t *testing.T) {
	fresh := func(need, growth uint32) abi.AdmitRecord {
		return abi.AdmitRecord{Flags: abi.AdmitFlagReady, PromptTokens: need, MaxNewTokens: 101, NeedTokens: need, GrowthTokens: growth}
	}
	resume := func(need, growth uint32) abi.AdmitRecord {
		return abi.AdmitRecord{Kind: abi.AdmitResume, PromptTokens: need, MaxNewTokens: 101, NeedTokens: need, GrowthTokens: growth}
	}
	shaking := fresh(10, 0)
	shaking.Flags = 0
	running := func(prompt, limit uint32) abi.AdmitRecord {
		return abi.AdmitRecord{Kind: abi.AdmitRunning, PromptTokens: prompt, MaxNewTokens: limit}
	}
	base := abi.AdmitGlobals{PageSize: 1, TotalTokens: 10000, FreeTokens: 10000, FreeRows: 9, FreeSlots: 9, ReservedDecodeTokens: 100, ClipMaxNew: 4096}
	with := func(edit func(*abi.AdmitGlobals)) abi.AdmitGlobals { g := base; edit(&g); return g }
	rs := func(r ...abi.AdmitRecord) []abi.AdmitRecord { return r }
	for _, tc := range []struct {
		name    string
		globals abi.AdmitGlobals
		in      []abi.AdmitRecord
		context []abi.AdmitRecord
		want    string
	}{
		{"exactly fits with head-room", base, rs(fresh(9900, 0)), nil, "a"},
		{"K no further than it can be used", base, rs(abi.AdmitRecord{Flags: abi.AdmitFlagReady, PromptTokens: 9990, MaxNewTokens: 11, NeedTokens: 9990}), nil, "a"},
		{"the last token has no KV", base, rs(abi.AdmitRecord{Flags: abi.AdmitFlagReady, PromptTokens: 9991, MaxNewTokens: 11, NeedTokens: 9991}), nil, "d"},
		{"one token too many", base, rs(fresh(9901, 0)), nil, "d"},
		{"the host's growth where it is larger than K", base, rs(fresh(9900, 101)), nil, "d"},
		{"the host's growth, fitting", base, rs(fresh(9000, 1000)), nil, "a"},
		{"K for each that was admitted", base, rs(fresh(4900, 0), fresh(4901, 0)), nil, "ad"},
		{"K for each, fitting", base, rs(fresh(4900, 0), fresh(4900, 0), fresh(1, 0)), nil, "aad"},
		{"two that fit", base, rs(fresh(4900, 0), fresh(4800, 0)), nil, "aa"},
		{"strict head of line", base, rs(fresh(9901, 0), fresh(1, 0)), nil, "dd"},
		{"no handshake is passed over", base, rs(shaking, fresh(1, 0), shaking, fresh(2, 0)), nil, "dada"},
		{"active requests keep K", with(func(g *abi.AdmitGlobals) { g.Running, g.Transfer, g.Waiting = 10, 20, 30 }), rs(fresh(3901, 0)), nil, "d"},
		{"active requests keep K, fitting", with(func(g *abi.AdmitGlobals) { g.Running, g.Transfer, g.Waiting = 10, 20, 30 }), rs(fresh(3900, 0)), nil, "a"},
		{"booked growth above K", with(func(g *abi.AdmitGlobals) { g.Running, g.GrowthTokens = 1, 5000 }), rs(fresh(4901, 0)), nil, "d"},
		{"booked growth above K, fitting", with(func(g *abi.AdmitGlobals) { g.Running, g.GrowthTokens = 1, 5000 }), rs(fresh(4900, 0)), nil, "a"},
		{"evictable counts", with(func(g *abi.AdmitGlobals) { g.FreeTokens, g.EvictableTokens = 0, 10000 }), rs(fresh(9900, 0)), nil, "a"},
		{"held back", with(func(g *abi.AdmitGlobals) { g.HeldTokens = 3000 }), rs(fresh(6901, 0)), nil, "d"},
		{"held back, fitting", with(func(g *abi.AdmitGlobals) { g.HeldTokens = 3000 }), rs(fresh(6900, 0)), nil, "a"},
		{"held beyond everything", with(func(g *abi.AdmitGlobals) { g.HeldTokens = 20000 }), rs(fresh(0, 0)), nil, "d"},
		{"prebuilt batch keeps K", with(func(g *abi.AdmitGlobals) { g.PrebuiltLast = 10 }), rs(fresh(8901, 0)), nil, "d"},
		{"prebuilt batch keeps K, fitting", with(func(g *abi.AdmitGlobals) { g.PrebuiltLast = 10 }), rs(fresh(8900, 0)), nil, "a"},
		{"one running must be able to finish", with(func(g *abi.AdmitGlobals) { g.Running, g.RunningTokens = 1, 1000 }), rs(fresh(5804, 0)), rs(running(1000, 5000)), "a"},
		{"one running must be able to finish, short", with(func(g *abi.AdmitGlobals) { g.Running, g.RunningTokens = 2, 1000 }), rs(fresh(6205, 0)), rs(running(600, 4096), running(400, 10)), "d"},
		{"C clips", with(func(g *abi.AdmitGlobals) { g.ClipMaxNew = 50 }), rs(abi.AdmitRecord{Flags: abi.AdmitFlagReady, PromptTokens: 9000, MaxNewTokens: 1 << 31, NeedTokens: 9000}), nil, "a"},
		{"without C alone it must fit", with(func(g *abi.AdmitGlobals) { g.ClipMaxNew = 0 }), rs(abi.AdmitRecord{Flags: abi.AdmitFlagReady, PromptTokens: 9000, MaxNewTokens: 1002, NeedTokens: 9000}), nil, "d"},
		{"without C alone it just fits", with(func(g *abi.AdmitGlobals) { g.ClipMaxNew = 0 }), rs(abi.AdmitRecord{Flags: abi.AdmitFlagReady, PromptTokens: 9000, MaxNewTokens: 1001, NeedTokens: 9000}), nil, "a"},
		{"a resume first, then new", base, rs(resume(5000, 0), fresh(4800, 0)), nil, "aa"},
		{"a resume that does not fit stops the rest", base, rs(resume(9901, 0), fresh(1, 0)), nil, "dd"},
		{"no row", with(func(g *abi.AdmitGlobals) { g.FreeRows = 1 }), rs(fresh(1, 0), fresh(1, 0)), nil, "ad"},
		{"no slot", with(func(g *abi.AdmitGlobals) { g.FreeSlots = 1 }), rs(fresh(1, 0), fresh(1, 0)), nil, "ad"},
		{"a resume needs no slot", with(func(g *abi.AdmitGlobals) { g.FreeSlots = 1 }), rs(resume(1, 0), fresh(1, 0), fresh(1, 0)), nil, "aad"},
		{"nobody asks", base, nil, rs(running(1, 1)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := admitCase{tc.globals, append(append([]abi.AdmitRecord{}, tc.in...), tc.context...), len(tc.in)}
			if got := verdicts(c.run(t, "fifo-headroom")); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestGreedy(t *testing.T) {
	c := admitCase{records: []abi.AdmitRecord{{NeedTokens: 1 << 31}, {Flags: abi.AdmitFlagReady, NeedTokens: 1 << 31}, {Kind: abi.AdmitResume}}, outs: 3}
	if got := verdicts(c.run(t, "greedy")); got != "daa" {
		t.Errorf("%q, want %q", got, "daa")
	}
}

// What fifo-headroom admits passes the host's own check, which starts from BudgetTokens and takes need and growth.
func TestFifoHeadroomPassesTheHostsCheck(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	admitted := 0
	for run := range 3000 {
		g := abi.AdmitGlobals{
			PageSize: 1, TotalTokens: 1 << 16, FreeTokens: rng.Uint64N(1 << 15), EvictableTokens: rng.Uint64N(1 << 15), HeldTokens: rng.Uint64N(1 << 12),
			GrowthTokens: rng.Uint64N(1 << 14), Running: rng.Uint32N(8), Transfer: rng.Uint32N(8), Waiting: rng.Uint32N(4), FreeRows: rng.Uint32N(12), FreeSlots: rng.Uint32N(12),
			ReservedDecodeTokens: rng.Uint32N(600), ClipMaxNew: rng.Uint32N(4096), RunningTokens: rng.Uint64N(1 << 14), PrebuiltLast: rng.Uint32N(3),
		}
		left := int64(g.FreeTokens+g.EvictableTokens) - int64(g.HeldTokens) - int64(g.GrowthTokens)
		c := admitCase{globals: g, outs: rng.IntN(12)}
		for range c.outs {
			c.records = append(c.records, abi.AdmitRecord{
				Kind: abi.AdmitKind(rng.UintN(2)), Flags: uint8(rng.UintN(2)), PromptTokens: rng.Uint32N(4000), MaxNewTokens: rng.Uint32N(2000),
				MatchL1Tokens: rng.Uint32N(100), NeedTokens: rng.Uint32N(4000), GrowthTokens: rng.Uint32N(2000),
			})
		}
		for i, v := range c.run(t, "fifo-headroom") {
			if v != abi.VerdictAdmit {
				continue
			}
			admitted++
			if left -= int64(c.records[i].NeedTokens) + int64(c.records[i].GrowthTokens); left < 0 {
				t.Fatalf("seed %d, run %d: candidate %d overdraws the host's budget by %d", seed, run, i, -left)
			}
		}
	}
	if admitted == 0 {
		t.Fatalf("seed %d: nothing was admitted", seed)
	}
}

func TestPoliciesAllocateNothing(t *testing.T) {
	const n = 64
	for _, hook := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
		for _, name := range standard.Names(hook) {
			buf := make([]byte, abi.BatchSize(hook, n, n))
			b, err := abi.Begin(buf, hook, 1, 1, n, abi.Outs(hook, n, n))
			if err != nil {
				t.Fatal(err)
			}
			if hook == abi.Admit {
				b.PutAdmitGlobals(&abi.AdmitGlobals{Candidates: n, FreeTokens: 1 << 20, FreeRows: n, FreeSlots: n})
			}
			gate, _ := standard.Gate(name)
			reserve, _ := standard.Reserve(name)
			admit, _ := standard.Admit(name)
			got := testing.AllocsPerRun(20, func() {
				var status int32
				switch hook {
				case abi.Gate:
					status = guest.RunGate(gate, buf)
				case abi.Reserve:
					status = guest.RunReserve(reserve, buf)
				case abi.Admit:
					status = guest.RunAdmit(admit, buf)
				}
				if status != 0 {
					t.Fatalf("status %d", status)
				}
			})
			if got != 0 {
				t.Errorf("%s %s: %v allocations", hook, name, got)
			}
		}
	}
}
