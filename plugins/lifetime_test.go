package plugins_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"sluice/abi"
	"sluice/plugins"
)

// numbered is one of many small modules: equal but for their bytes.
func numbered(n int) []byte {
	return guestModule{gate: code(i32(int32(n)), []byte{opDrop}, i32(int32(abi.StatusDeclined)))}.bytes()
}

func setOf(t testing.TB, h *plugins.Host, wasm []byte) *plugins.Set {
	t.Helper()
	set, err := h.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func declines(t testing.TB, set *plugins.Set) {
	t.Helper()
	a, err := set.Gate.Run(1, 1, 1, 1, func(b abi.Batch) { b.PutGate(0, &abi.GateRecord{ReqKey: 1}) })
	if err != nil || a.Fault != nil || a.Status != abi.StatusDeclined {
		t.Fatalf("answer %+v, error %v", a, err)
	}
}

// Each module is tried on both engines, so a set has two programs.
func TestModulesAreFreedWithTheirSets(t *testing.T) {
	h := plugins.NewHost(plugins.Options{})
	live := plugins.CountPrograms(h)
	first := setOf(t, h, numbered(0))
	pinned, err := h.Compile(context.Background(), numbered(1))
	if err != nil {
		t.Fatal(err)
	}
	const modules = 200
	// As ranks do, two sets share each module, and the sets of one are closed once those of the next are there.
	var last []*plugins.Set
	for n := range modules {
		next := []*plugins.Set{setOf(t, h, numbered(2+n)), setOf(t, h, numbered(2+n))}
		declines(t, next[1])
		for _, s := range last {
			closing(t, s.Close)
		}
		last = next
		// In use: the compiler's programs of the first set, of the pinned module and of these sets.
		if got, most := live.Load(), int64(3+plugins.KeptModules+2); got > most {
			t.Fatalf("%d programs are live after %d modules, at most %d may be", got, n+1, most)
		}
	}
	declines(t, first)
	i, err := pinned.Instantiate(context.Background(), abi.ClassLocal, abi.HostInfo{}, nil)
	if err != nil {
		t.Fatalf("the module that Compile gave out: %v", err)
	}
	closing(t, i.Close)
	for _, s := range append(last, first) {
		closing(t, s.Close)
		closing(t, s.Close) // a second time takes no second user away
	}
	if got := live.Load(); got != 1+plugins.KeptModules {
		t.Errorf("%d programs are live with every set closed, want %d", got, 1+plugins.KeptModules)
	}
	closing(t, h.Close)
	if got := live.Load(); got != 0 {
		t.Errorf("%d programs are live after the host is closed", got)
	}
}

func TestRefusedModulesAreFreed(t *testing.T) {
	h := plugins.NewHost(plugins.Options{})
	live := plugins.CountPrograms(h)
	for n := range 20 {
		spec := plugins.Spec{Hook: abi.Admit, Module: numbered(n)} // it answers no admit
		if _, err := h.NewSet(context.Background(), []plugins.Spec{spec}, abi.HostInfo{}); err == nil {
			t.Fatal("a module that does not answer the hook was taken")
		}
	}
	if got := live.Load(); got != plugins.KeptModules {
		t.Errorf("%d programs are live, want %d", got, plugins.KeptModules)
	}
	closing(t, h.Close)
}

func TestAModuleThatIsPutBackSoonIsNotCompiledAgain(t *testing.T) {
	h := plugins.NewHost(plugins.Options{})
	closing(t, setOf(t, h, numbered(0)).Close)
	live := plugins.CountPrograms(h)
	again := setOf(t, h, numbered(0))
	declines(t, again)
	if got := live.Load(); got != 0 {
		t.Errorf("%d programs were compiled again", got)
	}
	closing(t, again.Close)
	closing(t, h.Close)
}

// A successor that is made while its set is closed, and modules come and go, touches no freed module.
func TestRefreshBesideClose(t *testing.T) {
	h := plugins.NewHost(plugins.Options{})
	live := plugins.CountPrograms(h)
	for n := range 20 {
		set := setOf(t, h, numbered(n))
		if err := set.Gate.Discard(context.Background()); err != nil {
			t.Fatal(err)
		}
		var beside sync.WaitGroup
		beside.Go(func() { _ = set.Gate.Refresh(context.Background()) }) // either it comes first, or the set is closed
		closing(t, set.Close)
		beside.Wait()
	}
	// An instance that was made last of all is closed at once, and its module goes with the next set.
	closing(t, setOf(t, h, numbered(20)).Close)
	if got := live.Load(); got > plugins.KeptModules {
		t.Errorf("%d programs are live, at most %d may be", got, plugins.KeptModules)
	}
	closing(t, h.Close)
}

// Every instance has one memory until it is closed, or could not be made: those that a load tries and those that a fault
// discards too.
func TestLiveCountsMemories(t *testing.T) {
	ctx := context.Background()
	h := plugins.NewHost(plugins.Options{})
	want := func(what string, n int) {
		t.Helper()
		if got := h.Live(); got != n {
			t.Errorf("%s: %d instances have a memory, want %d", what, got, n)
		}
	}
	one, two := setOf(t, h, numbered(1)), setOf(t, h, numbered(1))
	want("two sets", 2)
	declines(t, one)
	if err := one.Gate.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	want("with a spare", 3)
	closing(t, one.Rest)
	want("without it", 2)
	for what, m := range map[string]guestModule{
		"configure": {gate: code(i32(0)), configure: code(op(opUnreachable), i32(0))},
		"arenas":    {gate: code(i32(0)), arena: code(i32(3))},
	} {
		if _, err := h.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: m.bytes()}}, abi.HostInfo{}); !errors.Is(err, plugins.ErrRejected) {
			t.Errorf("%s: %v", what, err)
		}
		want("a refusal for its "+what, 2)
	}
	closing(t, one.Close)
	want("one closed", 1)
	closing(t, two.Close)
	want("both closed", 0)
	closing(t, h.Close)
}
