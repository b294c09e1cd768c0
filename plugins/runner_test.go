package plugins_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/plugins"
	"sluice/plugins/standard"
)

// fallback is the native caller of a hook's default policy.
func fallback(t *testing.T, hook abi.Hook) plugins.Caller {
	t.Helper()
	var p plugins.NativePolicy
	p.Gate, _ = standard.Gate(standard.Default(hook))
	p.Reserve, _ = standard.Reserve(standard.Default(hook))
	p.Admit, _ = standard.Admit(standard.Default(hook))
	return plugins.NewNative(p)
}

func TestAQuarantinedPolicyIsNotCalled(t *testing.T) {
	calls := 0
	r := nativeRunner(t, abi.ClassLocal, plugins.NativePolicy{Gate: func(b guest.GateBatch) int32 {
		calls++
		for i := range b.Len() {
			b.SetVote(i, abi.PollBootstrapping)
		}
		return 0
	}})
	r.Disable()
	if a := wantAnswers(t, r, 1); !a.Native || calls != 0 || !r.Disabled() {
		t.Errorf("native %v, calls %d, disabled %v", a.Native, calls, r.Disabled())
	}
	r.Enable()
	_, encode, _ := inputs(abi.Gate)
	a, err := r.Run(2, 1, 3, 3, encode)
	if err != nil || a.Native || calls != 1 || a.Batch.GateOut(0).Vote != abi.PollBootstrapping || r.Disabled() {
		t.Errorf("after Enable: %+v, %v, calls %d", a, err, calls)
	}
	if s := r.Stats(); s.Calls != 2 || s.Native != 1 || s.FaultTotal() != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestAReplicatedSuccessorWaitsForInstall(t *testing.T) {
	ctx := context.Background()
	fail := true
	r := nativeRunner(t, abi.ClassReplicated, plugins.NativePolicy{Admit: func(b guest.AdmitBatch) int32 {
		if fail {
			return -1
		}
		for i := range b.Candidates() {
			b.Set(i, abi.VerdictDefer, i)
		}
		return 0
	}})
	if a := wantAnswers(t, r, 1); a.Fault == nil {
		t.Fatal("no fault")
	}
	fail = false
	if r.Install() {
		t.Error("installed before there is a successor")
	}
	if err := r.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if a := wantAnswers(t, r, 2); !a.Native || r.Active() || !r.Ready() {
		t.Errorf("before Install: native %v, active %v, ready %v", a.Native, r.Active(), r.Ready())
	}
	if !r.Install() || !r.Active() {
		t.Error("not installed")
	}
	_, encode, _ := inputs(abi.Admit)
	a, err := r.Run(3, 1, 3, 2, encode)
	if err != nil || a.Native || a.Batch.AdmitOut(0).Verdict != abi.VerdictDefer {
		t.Errorf("after Install: %+v, %v", a, err)
	}
	// Another rank's fault discards this rank's instance as well.
	if err := r.Discard(ctx); err != nil {
		t.Fatal(err)
	}
	if a := wantAnswers(t, r, 4); !a.Native || a.Fault != nil || !r.Wanted() {
		t.Errorf("after Discard: native %v, fault %v, wanted %v", a.Native, a.Fault, r.Wanted())
	}
	if s := r.Stats(); s.FaultTotal() != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestHooksOfAClassShareAnInstance(t *testing.T) {
	ctx := context.Background()
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	// The gate counts its calls in memory at 900, and reserve answers the count.
	count := code(i32(900), i32(900), op(opI32Load, 2, 0), i32(1), op(opI32Add), op(opI32Store, 2, 0))
	wasm := guestModule{gate: code(count, i32(0)), reserve: code(outWord(0, 900), i32(0)), admit: code(outByte(12, 1), outWord(0, 900), i32(0))}.bytes()
	set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: wasm}, {Hook: abi.Reserve, Module: wasm}, {Hook: abi.Admit, Module: wasm}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	for tick := range uint64(3) {
		nOut, encode, _ := inputs(abi.Gate)
		if a, err := set.Gate.Run(tick, 1, 3, nOut, encode); err != nil || a.Fault != nil {
			t.Fatal(err, a.Fault)
		}
	}
	nOut, encode, _ := inputs(abi.Reserve)
	a, err := set.Reserve.Run(3, 1, 3, nOut, encode)
	if err != nil || a.Batch.ReserveOut().HeldTokens != 3 {
		t.Errorf("reserve sees %+v, %v, want the gate's 3 calls", a.Batch.ReserveOut(), err)
	}
	nOut, encode, _ = inputs(abi.Admit)
	a, err = set.Admit.Run(3, 1, 3, nOut, encode)
	if err != nil || a.Fault != nil || a.Batch.AdmitOut(0).Verdict != 0 {
		t.Errorf("admit sees %+v, %v, want nothing of the local instance", a, err)
	}
}

func TestConfigurationsKeepInstancesApart(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	// Reserve answers the second byte of its configuration, which lies at 1 KiB.
	wasm := guestModule{gate: i32(0), reserve: code(outWord(0, 1024), i32(0))}.bytes()
	for _, tc := range []struct {
		config string
		want   uint64
	}{{"ab", 0x6261}, {"c", 0x63}, {"", 0}} {
		set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Reserve, Module: wasm, Config: []byte(tc.config)}}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		nOut, encode, _ := inputs(abi.Reserve)
		a, err := set.Reserve.Run(1, 1, 3, nOut, encode)
		if err != nil || a.Batch.ReserveOut().HeldTokens != tc.want {
			t.Errorf("config %q: %+v, %v", tc.config, a.Batch.ReserveOut(), err)
		}
		closing(t, set.Close)
	}
}

func TestHooksWithoutASpecAreNative(t *testing.T) {
	set, err := plugins.NewNativeSet(standard.Config{Gate: "ungated"})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	var got []string
	for _, i := range set.Infos() {
		got = append(got, i.Hook.String()+"="+i.Name+"/"+i.Engine.String()+i.SHA256)
	}
	if s := strings.Join(got, " "); s != "gate=ungated/native reserve=until-retired/native admit=fifo-headroom/native score=lru/native" {
		t.Errorf("%s", s)
	}
	for _, h := range []abi.Hook{abi.Reserve, abi.Admit, abi.Score} {
		r := set.Runner(h)
		if a := wantAnswers(t, r, 1); a.Native || !r.Active() || !r.Ready() || r.Wanted() || !r.Install() {
			t.Errorf("%s: native %v, active %v, ready %v, wanted %v", h, a.Native, r.Active(), r.Ready(), r.Wanted())
		}
		if err := errors.Join(r.Refresh(context.Background()), r.Discard(context.Background())); err != nil {
			t.Error(err)
		}
	}
	if set.Runner(5) != nil {
		t.Error("a runner for a hook that is not called")
	}
	if _, err := plugins.NewNativeSet(standard.Config{Admit: "none"}); !errors.Is(err, plugins.ErrRejected) {
		t.Errorf("an unknown policy: %v", err)
	}
}

func TestRunnersThatCannotBeMade(t *testing.T) {
	if _, err := plugins.NewRunner(5, "p", nil, fallback(t, abi.Gate)); err == nil {
		t.Error("a runner for a hook that is not called")
	}
	if _, err := plugins.NewRunner(abi.Gate, "p", nil, nil); err == nil {
		t.Error("a runner with nothing to fall back to")
	}
	broken := errors.New("no memory")
	if _, err := plugins.NewSlot(context.Background(), abi.ClassLocal, func(context.Context) (plugins.Caller, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("a slot without an instance: %v", err)
	}
}

// A refresh runs beside the ticks: every fault's successor comes from another goroutine.
func TestRefreshBesideTheTick(t *testing.T) {
	ctx := context.Background()
	r := nativeRunner(t, abi.ClassLocal, plugins.NativePolicy{Gate: func(guest.GateBatch) int32 { return -1 }})
	ask := make(chan struct{})
	done := make(chan error)
	go func() {
		for range ask {
			done <- r.Refresh(ctx)
		}
		close(done)
	}()
	const rounds = 200
	for round := range uint64(rounds) {
		if a := wantAnswers(t, r, 2*round); a.Fault == nil {
			t.Fatalf("round %d: no fault", round)
		}
		ask <- struct{}{}
		for pending := true; pending; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				pending = false
			default:
				r.Ready()
				r.Wanted()
			}
		}
	}
	close(ask)
	<-done
	if s := r.Stats(); s.FaultTotal() != rounds {
		t.Errorf("stats %+v", s)
	}
}

func TestAFailedRefreshIsTriedAgain(t *testing.T) {
	ctx := context.Background()
	made := 0
	broken := errors.New("no memory")
	slot, err := plugins.NewSlot(ctx, abi.ClassLocal, func(context.Context) (plugins.Caller, error) {
		if made++; made == 2 {
			return nil, broken
		}
		return plugins.NewNative(plugins.NativePolicy{Gate: func(guest.GateBatch) int32 { return -1 }}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := plugins.NewRunner(abi.Gate, "p", slot, fallback(t, abi.Gate))
	if err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, r, 1)
	if err := r.Refresh(ctx); !errors.Is(err, broken) || !strings.Contains(err.Error(), `policy "p"`) {
		t.Errorf("error %v", err)
	}
	if !r.Wanted() || r.Ready() {
		t.Errorf("wanted %v, ready %v", r.Wanted(), r.Ready())
	}
	if err := r.Refresh(ctx); err != nil || !r.Ready() {
		t.Errorf("second time: %v, ready %v", err, r.Ready())
	}
	if err := errors.Join(r.Refresh(ctx), slot.Close(ctx), r.Refresh(ctx)); err != nil || made != 3 || r.Ready() {
		t.Errorf("%v, %d instances made, ready %v after Close", err, made, r.Ready())
	}
}

func TestCompiledModulesAreKeptInTheCache(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir() + "/cache"
	wasm := guestModule{gate: code(outByte(0, 3), i32(0))}.bytes()
	for range 2 {
		host := plugins.NewHost(plugins.Options{CacheDir: dir})
		set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: wasm}}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		_, encode, _ := inputs(abi.Gate)
		if a, err := set.Gate.Run(1, 1, 3, 3, encode); err != nil || a.Batch.GateOut(0).Vote != abi.PollTransferring {
			t.Errorf("%+v, %v", a, err)
		}
		closing(t, set.Close)
		closing(t, host.Close)
	}
	if n := files(t, dir); n == 0 {
		t.Error("nothing was written to the cache")
	}
}
