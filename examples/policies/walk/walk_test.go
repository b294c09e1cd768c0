package walk_test

import (
	"math/rand/v2"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/examples/policies/walk"
)

// batch is a random admit batch of n candidates.
func batch(t *testing.T, rng *rand.Rand, n int) ([]byte, abi.Batch) {
	t.Helper()
	buf := make([]byte, abi.BatchSize(abi.Admit, n, n))
	b, err := abi.Begin(buf, abi.Admit, 1, 1, n, n)
	if err != nil {
		t.Fatal(err)
	}
	b.PutAdmitGlobals(&abi.AdmitGlobals{Candidates: uint32(n), BudgetTokens: rng.Uint64N(20000), FreeRows: rng.Uint32N(12), FreeSlots: rng.Uint32N(12)})
	for i := range n {
		b.PutAdmit(i, &abi.AdmitRecord{
			ReqKey: uint64(i), Kind: abi.AdmitKind(rng.UintN(2)), Flags: uint8(rng.UintN(2)), Priority: uint16(rng.UintN(4)),
			NeedTokens: rng.Uint32N(4000), GrowthTokens: rng.Uint32N(1000),
		})
	}
	return buf, b
}

func byPriority(_ int, r guest.AdmitRecord) int64 { return -int64(r.Priority()) }

// What is admitted passes the host's test, the order is a permutation by key, and nothing passes what did not fit.
func TestRandomBatches(t *testing.T) {
	const seed = 20260501
	var w walk.Walker
	admitted, stopped := 0, 0
	for run := range 2000 {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		n := rng.IntN(40)
		buf, b := batch(t, rng, n)
		if status := guest.RunAdmit(func(g guest.AdmitBatch) int32 { return w.Admit(g, byPriority) }, buf); status != 0 {
			t.Fatalf("seed %d, run %d: status %d", seed, run, status)
		}
		if err := abi.CheckAdmitOut(b, n, make([]uint64, abi.SeenWords(n))); err != nil {
			t.Fatalf("seed %d, run %d: %v", seed, run, err)
		}
		g := b.AdmitGlobals()
		at := make([]int, n)
		for i := range n {
			at[b.AdmitOut(i).Order] = i
		}
		end := false
		for place, i := range at {
			r := b.AdmitIn(i)
			if place > 0 {
				before := b.AdmitIn(at[place-1])
				if before.Priority < r.Priority || before.Priority == r.Priority && at[place-1] > i {
					t.Fatalf("seed %d, run %d: candidate %d stands behind %d", seed, run, i, at[place-1])
				}
			}
			resume := r.Kind == abi.AdmitResume
			ready := resume || r.Flags&abi.AdmitFlagReady != 0
			need := uint64(r.NeedTokens) + uint64(r.GrowthTokens)
			fits := need <= g.BudgetTokens && g.FreeRows > 0 && (resume || g.FreeSlots > 0)
			want := ready && fits && !end
			if ready && !fits && !end {
				end = true
				stopped++
			}
			if got := b.AdmitOut(i).Verdict == abi.VerdictAdmit; got != want {
				t.Fatalf("seed %d, run %d: candidate %d admitted %v, want %v", seed, run, i, got, want)
			}
			if want {
				admitted++
				g.BudgetTokens -= need
				g.FreeRows--
				if !resume {
					g.FreeSlots--
				}
			}
		}
	}
	if admitted == 0 || stopped == 0 {
		t.Errorf("seed %d: %d admitted, %d walks stopped", seed, admitted, stopped)
	}
}

func TestAdmitAllocatesNothing(t *testing.T) {
	const n = 256
	buf, _ := batch(t, rand.New(rand.NewPCG(1, 1)), n)
	var w walk.Walker
	w.Prepare(abi.HostInfo{MaxRecords: n})
	policy := func(b guest.AdmitBatch) int32 { return w.Admit(b, byPriority) }
	if got := testing.AllocsPerRun(50, func() { guest.RunAdmit(policy, buf) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
