package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/abi"
)

// heldEngine compiles one module, known by its bytes, only once it is let.
type heldEngine struct {
	engine
	of      func(wasm []byte) bool
	begun   chan struct{} // closed when it is about to compile that module
	let     chan struct{}
	count   *atomic.Int64 // of that module
	panics  bool
	refuses bool
}

func (e heldEngine) compile(ctx context.Context, wasm []byte) (program, error) {
	if !e.of(wasm) {
		return e.engine.compile(ctx, wasm)
	}
	if e.count.Add(1) == 1 {
		close(e.begun)
	}
	<-e.let
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.panics {
		panic("scripted")
	}
	if e.refuses {
		return nil, reject("engine", "scripted")
	}
	return e.engine.compile(ctx, wasm)
}

func frozen(t *testing.T, name string) []byte {
	t.Helper()
	wasm, err := os.ReadFile("../abi/testdata/frozen/v1.0/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// holding is a host whose compiler stops at the frozen C module until it is let.
func holding(t *testing.T, edit func(*heldEngine)) (*Host, *heldEngine, []byte) {
	t.Helper()
	slow := frozen(t, "c")
	held := heldEngine{begun: make(chan struct{}), let: make(chan struct{}), count: &atomic.Int64{}}
	metered, err := prepare(slow, DefaultMemoryPages)
	if err != nil {
		t.Fatal(err)
	}
	held.of = func(wasm []byte) bool { return string(wasm) == string(metered) }
	if edit != nil {
		edit(&held)
	}
	h := NewHost(Options{})
	plain := h.engine
	h.engine = func(e Engine, pages uint32) engine {
		if e != EngineCompiler {
			return plain(e, pages)
		}
		own := held
		own.engine = plain(e, pages)
		return own
	}
	return h, &held, slow
}

func TestNobodyWaitsForAnothersModule(t *testing.T) {
	ctx := context.Background()
	h, held, slow := holding(t, nil)
	other, third := frozen(t, "rust"), frozen(t, "zig")
	first, err := h.NewSet(ctx, []Spec{{Hook: abi.Gate, Module: other}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	// The first one's caller leaves while it compiles, which must not spoil it for those that wait.
	leaving, leave := context.WithCancel(ctx)
	var all sync.WaitGroup
	var got [4]*Module
	for i := range got {
		all.Go(func() {
			own := ctx
			if i == 0 {
				own = leaving
			} else {
				<-held.begun
			}
			m, err := h.held(own, slow, EngineCompiler, h.pages)
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
			got[i] = m
		})
	}
	<-held.begun
	leave()
	// All of these would wait for ever if they waited for that module.
	impatient, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := h.held(impatient, slow, EngineCompiler, h.pages); !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up waiting: %v", err)
	}
	for _, wasm := range [][]byte{other, third} {
		set, err := h.NewSet(ctx, []Spec{{Hook: abi.Gate, Module: wasm}}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := first.Close(ctx); err != nil {
		t.Error(err)
	}
	close(held.let)
	all.Wait()
	for _, m := range got {
		if m == nil || m != got[0] {
			t.Fatalf("not all have the one module: %v", got)
		}
		m.release()
	}
	if n := held.count.Load(); n != 1 {
		t.Errorf("it was compiled %d times", n)
	}
	if _, idle := got[0].idle(); !idle {
		t.Error("the module still has users")
	}
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

// Every caller gets a refusal of its own, since each writes its hook and policy into it.
func TestWhoWaitsForARefusedModule(t *testing.T) {
	ctx := context.Background()
	h, held, slow := holding(t, func(e *heldEngine) { e.refuses = true })
	var all sync.WaitGroup
	errs := make([]error, 8)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for i := range errs {
		all.Go(func() {
			_, errs[i] = h.NewSet(ctx, []Spec{{Hook: abi.Gate, Module: slow, Name: names[i]}}, abi.HostInfo{})
		})
	}
	<-held.begun
	close(held.let)
	all.Wait()
	for i, err := range errs {
		var f *Fault
		if !errors.As(err, &f) || f.Policy != names[i] || f.Kind != "engine" {
			t.Errorf("caller %s: %v", names[i], err)
		}
	}
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestWhoWaitsForACompilerThatPanics(t *testing.T) {
	ctx := context.Background()
	h, held, slow := holding(t, func(e *heldEngine) { e.panics = true })
	stopped := make(chan any, 1)
	go func() {
		defer func() { stopped <- recover() }()
		_, _ = h.held(ctx, slow, EngineCompiler, h.pages)
	}()
	<-held.begun
	_, c, mine, err := h.find(moduleKey{sha256.Sum256(slow), EngineCompiler, h.pages}, nil)
	if c == nil || mine || err != nil {
		t.Fatalf("nothing is being compiled: %v, %v", mine, err)
	}
	close(held.let)
	if got := <-stopped; got != "scripted" {
		t.Errorf("the panic is %v", got)
	}
	<-c.done
	if !errors.Is(c.err, errCompile) {
		t.Errorf("who waited gets %v", c.err)
	}
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

// A host that is closed meanwhile waits for nobody, and nothing of the module stays.
func TestCloseWhileAModuleIsCompiled(t *testing.T) {
	ctx := context.Background()
	h, held, slow := holding(t, nil)
	live := CountPrograms(h)
	got := make(chan error)
	for range 2 {
		go func() {
			_, err := h.held(ctx, slow, EngineCompiler, h.pages)
			got <- err
		}()
	}
	<-held.begun
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
	close(held.let)
	for range 2 {
		if err := <-got; !errors.Is(err, errClosed) {
			t.Errorf("error %v", err)
		}
	}
	if n := live.Load(); n != 0 {
		t.Errorf("%d programs are live", n)
	}
}

func TestManyWantManyModules(t *testing.T) {
	ctx := context.Background()
	h := NewHost(Options{CacheDir: t.TempDir()})
	live := CountPrograms(h)
	modules := [][]byte{frozen(t, "c"), frozen(t, "rust"), frozen(t, "zig"), frozen(t, "hooks-c"), frozen(t, "hooks-rust"), frozen(t, "hooks-zig")}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 12 {
				set, err := h.NewSet(ctx, []Spec{{Hook: abi.Gate, Module: modules[(i+n)%len(modules)]}}, abi.HostInfo{})
				if err != nil {
					t.Error(err)
					return
				}
				if err := set.Close(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := live.Load(); n > keptModules {
		t.Errorf("%d programs are live, at most %d may be", n, keptModules)
	}
	if err := h.Close(ctx); err != nil || live.Load() != 0 {
		t.Errorf("%d programs are live after the close, %v", live.Load(), err)
	}
}
