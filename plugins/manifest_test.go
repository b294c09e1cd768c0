package plugins_test

import (
	"context"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/manifest"
	"sluice/plugins/wasmbin"
)

func withManifest(t *testing.T, g guestModule, m manifest.Manifest) []byte {
	t.Helper()
	wasm, err := manifest.Write(g.bytes(), m)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func TestAModulesManifest(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	bare, err := host.Compile(context.Background(), guestModule{gate: i32(0)}.bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := bare.StateSchema(); ok || bare.Manifest() != nil {
		t.Errorf("a module without manifest has %+v", bare.Manifest())
	}
	wasm := withManifest(t, guestModule{gate: i32(0)}, manifest.Manifest{Name: "x", State: manifest.State{Schema: 2, Loads: []uint32{1}}})
	m, err := host.Compile(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	schema, loads, ok := m.StateSchema()
	if m.Manifest().Name != "x" || schema != 2 || !slices.Equal(loads, []uint32{1, 2}) || !ok {
		t.Errorf("%+v, schema %d, loads %v, %v", m.Manifest(), schema, loads, ok)
	}
	if m.SHA256() == bare.SHA256() {
		t.Error("the manifest is not part of the module's hash")
	}
}

// A policy is called by the name in its manifest, wherever its module is from; without one by where it is from.
func TestAPolicysName(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	const hash = "" // stands for the first 12 digits of the module's
	for _, c := range []struct{ title, from, want string }{
		{"pace", "srv/pace2.wasm", "pace"},
		{"pace", hash, "pace"},
		{" pace  ", "srv/pace.wasm", "pace"},
		{"", "srv/pace.wasm", "srv/pace.wasm"},
		{"  ", "srv/pace.wasm", "srv/pace.wasm"},
		{"", hash, hash},
	} {
		wasm := withManifest(t, guestModule{gate: code(op(opUnreachable))}, manifest.Manifest{Name: c.title, Version: "2"})
		set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: c.from}}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, set.Close)
		i := set.Infos()[0]
		want, from := c.want, c.from
		if c.from == hash {
			from = i.SHA256[:12]
		}
		if c.want == hash {
			want = i.SHA256[:12]
		}
		if i.Policy() != want || i.Name != from || i.Manifest().Version != "2" || set.Gate.Policy() != want {
			t.Errorf("%+v: %+v is called %q, its runner %q, want %q from %q", c, i, i.Policy(), set.Gate.Policy(), want, from)
		}
		nOut, encode, _ := inputs(abi.Gate)
		a, err := set.Gate.Run(1, 1, 3, nOut, encode)
		if err != nil || a.Fault == nil || a.Fault.Policy != want {
			t.Errorf("%+v: %v, %v; want a fault of %s", c, a.Fault, err, want)
		}
	}
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Builtin: "ungated"}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	if i := set.Infos()[0]; i.Policy() != "ungated" || i.Manifest() != nil {
		t.Errorf("a shipped policy is called %q, with manifest %+v", i.Policy(), i.Manifest())
	}
}

func TestABadManifestIsRefused(t *testing.T) {
	wasm := wasmbin.AppendCustom(guestModule{gate: i32(0)}.bytes(), manifest.Section, []byte(`{"reasons":{"3":"x"}}`))
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	_, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: "x.wasm"}}, abi.HostInfo{})
	wantRefusal(t, err, "manifest", "x.wasm", `"3"`, "64 to 255")
}

func TestAConfigurationIsHeldToTheSchema(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	wasm := withManifest(t, guestModule{gate: i32(0)}, manifest.Manifest{Config: map[string]manifest.Key{
		"hold_ticks": {Type: manifest.Integer, Max: int64(100)},
	}})
	load := func(config string) error {
		set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: "x.wasm", Config: []byte(config)}}, abi.HostInfo{})
		if err == nil {
			closing(t, set.Close)
		}
		return err
	}
	for _, good := range []string{"", "{}", `{"hold_ticks":100}`} {
		if err := load(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	wantRefusal(t, load(`{"hold_tick":1}`), "config", "x.wasm", "gate", "hold_tick is no key", "did you mean hold_ticks?")
	wantRefusal(t, load(`{"hold_ticks":101}`), "config", "hold_ticks is out of its range", "at most 100")
}

// A hint lowers what a call may spend where the operator says nothing, and never raises it.
func TestTheFuelHint(t *testing.T) {
	host := plugins.NewHost(plugins.Options{Fuel: plugins.Fuel{Base: 10_000, PerRecord: 100}})
	defer closing(t, host.Close)
	// A loop of 400 turns: 400 to 4,000 units of fuel.
	loop := code(i32(400), op(opLocalSet, 0, opLoop, 0x40, opLocalGet, 0), i32(1), op(opI32Sub, opLocalTee, 0, opBrIf, 0, opEnd), i32(0))
	for _, tc := range []struct {
		name  string
		hint  manifest.Fuel
		given plugins.Fuel
		fault bool
	}{
		{"no hint", manifest.Fuel{}, plugins.Fuel{}, false},
		{"a hint that is enough", manifest.Fuel{Base: 5_000}, plugins.Fuel{}, false},
		{"a hint that is too low", manifest.Fuel{Base: 300, PerRecord: 1}, plugins.Fuel{}, true},
		{"a hint for a base alone leaves records the default", manifest.Fuel{Base: 300}, plugins.Fuel{}, false},
		{"a hint for records alone leaves the base the default", manifest.Fuel{PerRecord: 1}, plugins.Fuel{}, false},
		{"a low hint for a base, a high one for records", manifest.Fuel{Base: 300, PerRecord: 1 << 40}, plugins.Fuel{}, false},
		{"the operator knows better", manifest.Fuel{Base: 300}, plugins.Fuel{Base: 6_000}, false},
		{"the operator gives less than a hint", manifest.Fuel{Base: 5_000}, plugins.Fuel{Base: 300}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wasm := withManifest(t, guestModule{gate: loop}, manifest.Manifest{Fuel: tc.hint})
			set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm, Fuel: tc.given}}, abi.HostInfo{})
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, set.Close)
			a, err := set.Gate.Run(1, 1, 64, 64, func(abi.Batch) {})
			if err != nil || (a.Fault != nil) != tc.fault {
				t.Errorf("%v, %v", a.Fault, err)
			}
			if a.Fault != nil && a.Fault.Class != plugins.FaultOutOfFuel {
				t.Errorf("%v", a.Fault)
			}
		})
	}
	high := plugins.NewHost(plugins.Options{Fuel: plugins.Fuel{Base: 300}})
	defer closing(t, high.Close)
	set, err := high.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: withManifest(t, guestModule{gate: loop}, manifest.Manifest{Fuel: manifest.Fuel{Base: 1 << 40}})}}, abi.HostInfo{})
	if err == nil {
		t.Cleanup(func() { closing(t, set.Close) })
		a, err := set.Gate.Run(1, 1, 1, 1, func(abi.Batch) {})
		if err != nil || a.Fault == nil || a.Fault.Class != plugins.FaultOutOfFuel {
			t.Errorf("a hint raises the host's default: %v, %v", a.Fault, err)
		}
	} else {
		t.Fatal(err)
	}
}

func TestReasonTexts(t *testing.T) {
	host := plugins.NewHost(plugins.Options{})
	defer closing(t, host.Close)
	gate := withManifest(t, guestModule{gate: i32(0)}, manifest.Manifest{Reasons: map[uint8]string{77: "too far"}})
	admit := withManifest(t, guestModule{admit: i32(0)}, manifest.Manifest{Reasons: map[uint8]string{77: "over its share", 78: "asleep"}})
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: gate}, {Hook: abi.Admit, Module: admit}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, set.Close)
	for _, tc := range []struct {
		hook abi.Hook
		r    abi.Reason
		want string
	}{
		{abi.Gate, 77, "too far"}, {abi.Admit, 77, "over its share"}, {abi.Gate, 78, "policy reason 78"}, {abi.Admit, 78, "asleep"},
		{abi.Reserve, 77, "policy reason 77"}, {abi.Score, 77, "policy reason 77"}, {9, 77, "policy reason 77"},
		{abi.Gate, abi.ReasonRestoreFailed, "HiCache restore failed"},
	} {
		if got := set.ReasonText(tc.hook, tc.r); got != tc.want {
			t.Errorf("%s, reason %d: %q, want %q", tc.hook, tc.r, got, tc.want)
		}
	}
}
