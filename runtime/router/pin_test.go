package router

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/internal/log"
	"sluice/internal/metrics"
	"sluice/plugins"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/kit/signature"
	"sluice/plugins/manifest"
	"sluice/runtime/server"
)

// signedGate is a gate's module in a file with a good signature beside it, and the hook's section that names and pins it.
type signedGate struct {
	t    *testing.T
	key  signature.Key
	wasm []byte
	hook config.Hook
}

func newSignedGate(t *testing.T) *signedGate {
	t.Helper()
	key, err := signature.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	g := &signedGate{t: t, key: key, wasm: gateModule(byte(abi.PollSuccess))}
	g.hook = config.Default().Policy.Gate
	g.hook.Builtin, g.hook.Path = "", filepath.Join(t.TempDir(), "gate.wasm")
	g.hook.SHA256, g.hook.Key = hash(g.wasm), key.Public().String()
	g.write("", g.wasm)
	g.write(signature.Extension, signature.Sign(key, g.wasm))
	return g
}

// write replaces the module's file, or with an extension the one beside it.
func (g *signedGate) write(extension string, b []byte) {
	g.t.Helper()
	if err := os.WriteFile(g.hook.Path+extension, b, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// name gives the module a manifest, and pins and signs it anew.
func (g *signedGate) name(m manifest.Manifest) {
	g.t.Helper()
	wasm, err := manifest.Write(g.wasm, m)
	if err != nil {
		g.t.Fatal(err)
	}
	g.wasm, g.hook.SHA256 = wasm, hash(wasm)
	g.write("", wasm)
	g.write(signature.Extension, signature.Sign(g.key, wasm))
}

// request stages what the files hold.
func (g *signedGate) request(t *testing.T) server.StageRequest {
	t.Helper()
	sig, err := plugins.ReadSignature(g.hook.Path)
	if err != nil {
		t.Fatal(err)
	}
	return server.StageRequest{Module: g.wasm, Name: g.hook.Path, Signature: sig}
}

// gateModule answers with one vote for every request.
func gateModule(vote byte) []byte {
	return kittest.Module(kittest.Export{Name: abi.Gate.Export(), Body: kittest.Votes(kittest.Const(int32(vote)))})
}

func hash(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// brokenPins are the ways in which a module is not what its section says, and what a refusal says of each.
func brokenPins() map[string]func(g *signedGate) []string {
	other := gateModule(0)
	return map[string]func(g *signedGate) []string{
		"wrong hash": func(g *signedGate) []string {
			g.hook.SHA256 = hash(other)
			return []string{"sha256", hash(g.wasm), hash(other)}
		},
		"another module": func(g *signedGate) []string {
			g.write("", other)
			return []string{"sha256", hash(g.wasm), hash(other)}
		},
		"missing signature": func(g *signedGate) []string {
			if err := os.Remove(g.hook.Path + signature.Extension); err != nil {
				g.t.Fatal(err)
			}
			return []string{"policy.gate.key", "gate.wasm.sig", "sluice policy sign"}
		},
		"wrong signature": func(g *signedGate) []string {
			g.write(signature.Extension, signature.Sign(g.key, other))
			return []string{"key", hash(g.wasm), hash(other)}
		},
		"another signer": func(g *signedGate) []string {
			k, err := signature.NewKey(rand.Reader)
			if err != nil {
				g.t.Fatal(err)
			}
			g.write(signature.Extension, signature.Sign(k, g.wasm))
			return []string{"key", k.Public().String(), g.hook.Key}
		},
		"a misspelt setting": func(g *signedGate) []string {
			g.name(manifest.Manifest{Config: map[string]manifest.Key{"hold_ticks": {Type: manifest.Integer}}})
			g.hook.Config = []byte(`{"hold_tick":1}`)
			return []string{"load_rejected{config}", "hold_tick is no key of the policy", "did you mean hold_ticks?"}
		},
		"too little memory": func(g *signedGate) []string {
			g.hook.MemoryPages = 1
			return []string{"raise memory_pages"}
		},
	}
}

func wantRefusal(t *testing.T, what string, err error, says []string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s takes it", what)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q does not say %q", what, err, s)
		}
	}
}

// What a start refuses, a check refuses in the same words.
func TestPinsAtTheStart(t *testing.T) {
	start := func(t *testing.T, g *signedGate) (check, start error) {
		ctx := context.Background()
		h := plugins.NewHost(plugins.Options{})
		o := LocalOptions{Config: testConfig(), Clock: clock.NewReal(), Logger: log.Discard(), Registry: metrics.New(), Plugins: h}
		o.Config.Policy.Gate = g.hook
		check = Check(ctx, o.Config, h, nil)
		l, start := NewLocal(ctx, o)
		if start == nil {
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		return check, start
	}
	t.Run("as pinned", func(t *testing.T) {
		if check, start := start(t, newSignedGate(t)); check != nil || start != nil {
			t.Errorf("check: %v; start: %v", check, start)
		}
	})
	for name, spoil := range brokenPins() {
		t.Run(name, func(t *testing.T) {
			g := newSignedGate(t)
			says := spoil(g)
			check, start := start(t, g)
			wantRefusal(t, "check", check, says)
			wantRefusal(t, "start", start, says)
		})
	}
}

// A running server refuses the same, whether the configuration names the module or a client stages it, and keeps what
// runs. The pins of the configuration in force hold for what clients stage.
func TestPinsOfARunningServer(t *testing.T) {
	ctx := context.Background()
	good := newSignedGate(t)
	r := newRig(t, func(o *LocalOptions) { o.Config.Policy.Gate = good.hook })
	gate := func() string { return r.Policies()[0].SHA256 }
	for name, spoil := range brokenPins() {
		t.Run(name, func(t *testing.T) {
			g := newSignedGate(t)
			says := spoil(g)
			p := r.o.Config.Policy
			p.Gate = g.hook
			err := r.SetPolicies(ctx, &p, []abi.Hook{abi.Gate})
			wantRefusal(t, "the configuration", err, says)
			if !errors.Is(err, server.ErrPolicyRefused) || gate() != hash(good.wasm) {
				t.Errorf("error %v, running is %s", err, gate())
			}
		})
	}
	other, stranger := gateModule(0), newSignedGate(t) // the stranger's is the same module, signed with another key
	for _, c := range []struct {
		name string
		q    server.StageRequest
		says []string
	}{
		{"bytes", server.StageRequest{Module: other}, []string{hash(other), hash(good.wasm)}},
		{"bytes without a signature", server.StageRequest{Module: good.wasm}, []string{"no signature by " + good.hook.Key}},
		{"bytes with a signature by another key", stranger.request(t), []string{stranger.hook.Key, good.hook.Key}},
	} {
		t.Run("staged "+c.name, func(t *testing.T) {
			c.q.Hook = "gate"
			_, err := r.PolicyEngine().Stage(ctx, c.q)
			wantRefusal(t, "stage", err, c.says)
		})
	}
	swap := func(q server.StageRequest) {
		t.Helper()
		q.Hook = "gate"
		s, err := r.PolicyEngine().Stage(ctx, q)
		if err == nil {
			_, err = r.PolicyEngine().Activate(ctx, s.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// A builtin needs no signature, and the pin outlives it.
	swap(server.StageRequest{Builtin: "ungated", Engine: config.EngineNative})
	if _, err := r.PolicyEngine().Stage(ctx, server.StageRequest{Hook: "gate", Module: other}); err == nil {
		t.Error("after a builtin an unpinned module is taken")
	}
	swap(good.request(t))
	// What was staged under one pin is not activated under the next.
	staged := good.request(t)
	staged.Hook = "gate"
	s, err := r.PolicyEngine().Stage(ctx, staged)
	if err != nil {
		t.Fatal(err)
	}
	next := r.o.Config.Policy
	next.Gate = stranger.hook
	if err := r.SetPolicies(ctx, &next, []abi.Hook{abi.Gate}); err != nil {
		t.Fatal(err)
	}
	_, err = r.PolicyEngine().Activate(ctx, s.ID)
	wantRefusal(t, "activate", err, []string{good.hook.Key, stranger.hook.Key})
}

// A policy with too little fuel never answers: each call is out_of_fuel and answered natively, and the tokens are right.
func TestFuelOfTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		name                  string
		base, perRecord, most int
		spent                 bool
	}{
		{"the default", 0, 0, 0, false},
		{"a part of the default", 1, 0, 0, false},
		{"too little", 1, 1, 0, true},
		{"enough under too low a cap", 0, 0, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newSignedGate(t)
			g.hook.Fuel = config.Fuel{Base: c.base, PerRecord: c.perRecord, Cap: c.most}
			r := newRig(t, func(o *LocalOptions) {
				o.Config.Policy.Gate, o.Config.Policy.QuarantineFaults = g.hook, 1000
			})
			r.generate("a", words(1, 100), 8)
			k := r.decode.Policies().Sets[0].Hooks[0]
			if k.Calls == 0 || (k.Faults["out_of_fuel"] > 0) != c.spent || (k.Native == k.Calls) != c.spent {
				t.Errorf("%+v; want all out of fuel: %v", k, c.spent)
			}
		})
	}
}

// The documentation of the keys names the host's own defaults.
func TestDocumentedDefaultsOfLimits(t *testing.T) {
	f := plugins.DefaultFuel()
	want := map[string]string{"base": fmt.Sprintf("by default %d.", f.Base), "per_record": fmt.Sprintf("by default %d.", f.PerRecord), "memory_pages": fmt.Sprintf("the default, %d.", plugins.DefaultMemoryPages)}
	seen := 0
	for _, k := range config.Keys() {
		if text, ok := want[k.Leaf()]; ok {
			seen++
			if !strings.Contains(k.Doc, text) {
				t.Errorf("%s: %q does not say %q", k.Name, k.Doc, text)
			}
		}
	}
	if seen != 3*4 {
		t.Errorf("%d keys, want 3 of each hook", seen)
	}
}
