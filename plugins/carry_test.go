package plugins_test

import (
	"context"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/manifest"
)

func i64(v int64) []byte {
	out := []byte{opI64Const}
	for {
		b := byte(v & 0x7F)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// remembering is a reserve policy that holds back as many tokens as it was asked times, and step more each time. Its
// count lies at 512, and the fixed STATE arena at 1792.
func remembering(step int32) guestModule {
	const count, state = 512, 1024 + 3*256
	copyWord := func(to, from int32) []byte {
		return code(i32(to), i32(from), op(opI32Load, 2, 0), op(opI32Store, 2, 0))
	}
	return guestModule{
		reserve: code(i32(count), i32(count), op(opI32Load, 2, 0), i32(step), op(opI32Add), op(opI32Store, 2, 0), outWord(0, count), i32(0)),
		save:    code(copyWord(state, count), i64(4)),
		load:    code(copyWord(count, state), i32(0)),
	}
}

func ofSchema(t *testing.T, g guestModule, schema uint32, loads ...uint32) []byte {
	t.Helper()
	return withManifest(t, g, manifest.Manifest{State: manifest.State{Schema: schema, Loads: loads}})
}

func reserveSet(t *testing.T, module []byte, more ...plugins.Spec) *plugins.Set {
	t.Helper()
	specs := append([]plugins.Spec{{Hook: abi.Reserve, Module: module}}, more...)
	set, err := sharedHost().NewSet(context.Background(), specs, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, set.Close) })
	return set
}

// held is what the set's reserve policy answers next.
func held(t *testing.T, set *plugins.Set) (uint64, *plugins.Fault) {
	t.Helper()
	a, err := set.Reserve.Run(1, 1, 0, 1, func(abi.Batch) {})
	if err != nil {
		t.Fatal(err)
	}
	return a.Batch.ReserveOut().HeldTokens, a.Fault
}

func wantHeld(t *testing.T, set *plugins.Set, want uint64) {
	t.Helper()
	if got, fault := held(t, set); fault != nil || got != want {
		t.Errorf("holds %d, fault %v; want %d", got, fault, want)
	}
}

func carriedReserve(t *testing.T, cs []plugins.Carried) plugins.Carried {
	t.Helper()
	for _, c := range cs {
		if c.Hook == abi.Reserve {
			return c
		}
	}
	t.Fatalf("no word of reserve in %+v", cs)
	return plugins.Carried{}
}

func TestCarry(t *testing.T) {
	old := ofSchema(t, remembering(1), 1)
	declines, fails, traps, withoutSave := remembering(10), remembering(10), remembering(10), remembering(10)
	declines.load = i32(int32(abi.StatusDeclined))
	fails.load = i32(int32(abi.StatusBadConfig))
	traps.load = op(opUnreachable)
	withoutSave.save, withoutSave.load = nil, nil
	for _, tc := range []struct {
		name   string
		from   []byte
		to     []byte
		want   plugins.Carried
		reason string
		held   uint64
		fault  plugins.FaultClass
		faulty bool
	}{
		{name: "the same schema", to: ofSchema(t, remembering(10), 1), want: plugins.Carried{What: plugins.CarriedState, Bytes: 4}, held: 13},
		{name: "an older schema that it loads", to: ofSchema(t, remembering(10), 2, 1), want: plugins.Carried{What: plugins.CarriedState, Bytes: 4}, held: 13},
		{name: "the very same policy", to: old, want: plugins.Carried{What: plugins.CarriedInstance}, held: 4},
		{name: "a schema that it does not load", to: ofSchema(t, remembering(10), 2), reason: "of schema 1, the successor loads [2]", held: 10},
		{name: "no manifest", to: remembering(10).bytes(), reason: "the successor loads no state", held: 10},
		{name: "a manifest and no functions", to: ofSchema(t, withoutSave, 1), reason: "the successor loads no state", held: 10},
		{name: "a predecessor that saves none", from: remembering(1).bytes(), to: ofSchema(t, remembering(10), 1), reason: "the predecessor saves no state", held: 10},
		{name: "neither keeps any", from: remembering(1).bytes(), to: remembering(10).bytes(), held: 10},
		{name: "a successor that declines", to: ofSchema(t, declines, 1), want: plugins.Carried{Bytes: 4}, reason: `begins without: sluice_state_load says "declined" of a state of schema 1 with 4 bytes`, held: 10},
		{name: "a successor that fails", to: ofSchema(t, fails, 1), want: plugins.Carried{Bytes: 4}, reason: `not loaded: sluice_state_load says "bad config"`, fault: plugins.FaultTrap, faulty: true},
		{name: "a successor that traps", to: ofSchema(t, traps, 1), want: plugins.Carried{Bytes: 4}, reason: "sluice_state_load: wasm error: unreachable", fault: plugins.FaultTrap, faulty: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from := tc.from
			if from == nil {
				from = old
			}
			a, b := reserveSet(t, from), reserveSet(t, tc.to)
			for i := range uint64(3) {
				wantHeld(t, a, i+1)
			}
			got := carriedReserve(t, b.Carry(a))
			if got.What != tc.want.What || got.Bytes != tc.want.Bytes || (tc.reason == "") != (got.Reason == "") || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("carried %+v, want %+v because %q", got, tc.want, tc.reason)
			}
			if !tc.faulty {
				wantHeld(t, b, tc.held)
				return
			}
			if _, fault := held(t, b); fault == nil || fault.Class != tc.fault || fault.Hook != abi.Reserve {
				t.Fatalf("fault %+v, want %s of reserve", fault, tc.fault)
			}
			if err := b.Reserve.Refresh(context.Background()); err != nil {
				t.Fatal(err)
			}
			b.Reserve.Install()
			wantHeld(t, b, 10) // its successor starts from nothing
		})
	}
}

// A policy that a change leaves alone goes on with the instance it has, and with its memory. What was in use before goes
// on as it was left.
func TestCarryAndBack(t *testing.T) {
	same := remembering(1).bytes() // saves nothing: no manifest
	a := reserveSet(t, same)
	b := reserveSet(t, same, plugins.Spec{Hook: abi.Gate, Builtin: "ungated"})
	wantHeld(t, a, 1)
	wantHeld(t, a, 2)
	if c := carriedReserve(t, b.Carry(a)); c.What != plugins.CarriedInstance {
		t.Errorf("carried %+v, want the instance", c)
	}
	wantHeld(t, b, 3)
	if c := carriedReserve(t, a.Carry(b)); c.What != plugins.CarriedInstance {
		t.Errorf("carried back %+v, want the instance", c)
	}
	wantHeld(t, a, 4)

	// Also where the one that comes back could not load the other's state anyway, and where it was never asked.
	old, next := reserveSet(t, ofSchema(t, remembering(1), 1)), reserveSet(t, ofSchema(t, remembering(10), 2, 1))
	next.Carry(old)
	wantHeld(t, next, 10)
	if c := carriedReserve(t, old.Carry(next)); c.What != plugins.CarriedNothing || !strings.Contains(c.Reason, "was left with") {
		t.Errorf("carried back %+v, want nothing: it goes on with its own", c)
	}
	wantHeld(t, old, 1)

	x, y := reserveSet(t, ofSchema(t, remembering(1), 1)), reserveSet(t, ofSchema(t, remembering(10), 1))
	wantHeld(t, x, 1)
	y.Carry(x)
	wantHeld(t, y, 11)
	if c := carriedReserve(t, x.Carry(y)); c.What != plugins.CarriedNothing || !strings.Contains(c.Reason, "was left with") {
		t.Errorf("carried back %+v, want nothing", c)
	}
	wantHeld(t, x, 2)
	if c := carriedReserve(t, y.Carry(x)); c.What != plugins.CarriedNothing {
		t.Errorf("carried forth %+v, want nothing", c)
	}
	wantHeld(t, y, 21)
}

// An instance that has stopped has no state to hand on.
func TestCarryFromAStoppedPolicy(t *testing.T) {
	a, b := reserveSet(t, ofSchema(t, remembering(1), 1)), reserveSet(t, ofSchema(t, remembering(10), 1))
	wantHeld(t, a, 1)
	if err := a.Reserve.Discard(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c := carriedReserve(t, b.Carry(a)); c.What != plugins.CarriedNothing || !strings.Contains(c.Reason, "had stopped") {
		t.Errorf("carried %+v, want nothing", c)
	}
	wantHeld(t, b, 10)
}

// A policy that stops while it saves is not used again, also not by a rollback: half of what it did then is in its memory.
func TestCarryFromAPolicyThatStopsInTheSave(t *testing.T) {
	stops, refuses := remembering(1), remembering(1)
	scribble := code(i32(512), i32(7777), op(opI32Store, 2, 0))
	stops.save = code(scribble, op(opUnreachable), i64(4))
	refuses.save = i64(int64(abi.StatusNoCapacity) << 32)
	for _, tc := range []struct {
		name string
		from guestModule
		back uint64
	}{{"stops", stops, 1}, {"refuses", refuses, 2}} { // a fresh instance, and the one that was kept
		t.Run(tc.name, func(t *testing.T) {
			a, b := reserveSet(t, ofSchema(t, tc.from, 1)), reserveSet(t, ofSchema(t, remembering(10), 1))
			wantHeld(t, a, 1)
			if c := carriedReserve(t, b.Carry(a)); c.What != plugins.CarriedNothing || !strings.Contains(c.Reason, "was not saved") {
				t.Errorf("carried %+v, want nothing", c)
			}
			wantHeld(t, b, 10)
			if err := a.Reserve.Refresh(context.Background()); err != nil {
				t.Fatal(err)
			}
			a.Carry(b)
			a.Reserve.Install()
			wantHeld(t, a, tc.back)
		})
	}
}

// The instance of a policy that stays goes on also where its own set had lost its instance in the tick of the switch.
func TestCarryBackIntoAnEmptySlot(t *testing.T) {
	same := remembering(1).bytes()
	for _, refreshed := range []bool{true, false} {
		a, b := reserveSet(t, same), reserveSet(t, same, plugins.Spec{Hook: abi.Gate, Builtin: "ungated"})
		wantHeld(t, a, 1)
		if err := a.Reserve.Discard(context.Background()); err != nil {
			t.Fatal(err)
		}
		if c := carriedReserve(t, b.Carry(a)); c.What != plugins.CarriedNothing {
			t.Errorf("carried %+v from an empty slot", c)
		}
		for i := range uint64(5) {
			wantHeld(t, b, i+1)
		}
		if refreshed {
			if err := a.Reserve.Refresh(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if c := carriedReserve(t, a.Carry(b)); c.What != plugins.CarriedInstance {
			t.Errorf("carried back %+v, want the instance; a successor was ready: %v", c, refreshed)
		}
		wantHeld(t, a, 6)
		if b.Reserve.Active() != refreshed || b.Reserve.Ready() != refreshed {
			t.Errorf("the set that was left has an instance: %v, ready: %v; want %v", b.Reserve.Active(), b.Reserve.Ready(), refreshed)
		}
	}
}

// An instance is given a state once, however often its set comes into use without a call between.
func TestCarryOnce(t *testing.T) {
	adds := remembering(10)
	adds.load = code(i32(512), i32(512), op(opI32Load, 2, 0), i32(1792), op(opI32Load, 2, 0), op(opI32Add, opI32Store, 2, 0), i32(0))
	a, b := reserveSet(t, ofSchema(t, remembering(1), 1)), reserveSet(t, ofSchema(t, adds, 1))
	wantHeld(t, a, 1)
	for i, want := range []plugins.Carriage{plugins.CarriedState, plugins.CarriedNothing} {
		if c := carriedReserve(t, b.Carry(a)); c.What != want {
			t.Errorf("switch %d carried %+v, want %s", i, c, want)
		}
		a.Carry(b)
	}
	b.Carry(a)
	wantHeld(t, b, 11)
}

// Lies about a saved state.
func TestBadStates(t *testing.T) {
	for _, tc := range []struct {
		name string
		save []byte
		want string
	}{
		{"refused", i64(int64(abi.StatusNoCapacity) << 32), `says "no capacity"`},
		{"beyond the cap", i64(abi.MaxStateBytes + 1), "1048577 bytes, 1048576 are allowed"},
		{"more than its memory", i64(1 << 20), "is not 1048576 bytes of memory"},
		{"without end", code(op(opLoop, 0x40), op(opBr, 0), op(opEnd), i64(0)), "out_of_fuel"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := remembering(1)
			g.save = tc.save
			a, b := reserveSet(t, ofSchema(t, g, 1)), reserveSet(t, ofSchema(t, remembering(10), 1))
			wantHeld(t, a, 1)
			c := carriedReserve(t, b.Carry(a))
			if c.What != plugins.CarriedNothing || !strings.Contains(c.Reason, tc.want) {
				t.Errorf("carried %+v, want nothing because of %q", c, tc.want)
			}
			wantHeld(t, b, 10)
		})
	}
	half := remembering(1)
	half.load = nil
	if _, err := sharedHost().NewSet(context.Background(), []plugins.Spec{{Hook: abi.Reserve, Module: half.bytes()}}, abi.HostInfo{}); err == nil || !strings.Contains(err.Error(), "exports both") {
		t.Errorf("a module that only saves: %v", err)
	}
}
