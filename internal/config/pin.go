package config

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

func checkSHA256(s string) string {
	if b, err := hex.DecodeString(s); s != "" && (err != nil || len(b) != sha256.Size) {
		return fmt.Sprintf("must be %d hex digits, as sha256sum prints them, or empty", 2*sha256.Size)
	}
	return ""
}

func checkKey(s string) string {
	if s == "" {
		return ""
	}
	text, ok := strings.CutPrefix(s, "ed25519:")
	if b, err := base64.StdEncoding.Strict().DecodeString(text); !ok || err != nil || len(b) != ed25519.PublicKeySize {
		return `must be "ed25519:" and a public key in base64, as sluice policy keygen prints it, or empty`
	}
	return ""
}

// hookChecks judges what a hook's section says of its module against whether it names one. A pin that nothing is held to
// would look like protection, so it is refused; a limit that bounds nothing only deserves a warning where it may stay for
// the day on which the policy runs in WebAssembly again.
func (l *loader) hookChecks(h *Hook, section string, fail, warn func(cond bool, key, text string, args ...any)) {
	builtin, path, engine := section+".builtin", section+".path", section+".engine"
	if l.bad[builtin] || l.bad[path] || h.Builtin == "" && h.Path == "" {
		return
	}
	for _, pin := range []struct {
		leaf string
		set  bool
	}{{"sha256", h.SHA256 != ""}, {"key", h.Key != ""}, {"memory_pages", h.MemoryPages != 0}} {
		key := section + "." + pin.leaf
		l.unlessBad(func() {
			fail(pin.set && h.Path == "", key, "is set, but the policy is the builtin %q; name a module in %s, or remove %s", h.Builtin, path, pin.leaf)
		}, key)
	}
	for _, fuel := range []struct {
		leaf string
		n    int
	}{{"base", h.Fuel.Base}, {"per_record", h.Fuel.PerRecord}, {"cap", h.Fuel.Cap}} {
		key := section + ".fuel." + fuel.leaf
		l.unlessBad(func() {
			warn(fuel.n != 0 && h.Engine == EngineNative, key, "is %d, but native policies are not metered (%s is %q)", fuel.n, engine, EngineNative)
		}, key, engine)
	}
	l.unlessBad(func() { fuelCheck(h, section, warn) }, engine, section+".fuel.base", section+".fuel.cap")
}

// fuelCheck warns of a call that gets so little fuel that a policy may well fault in every tick.
func fuelCheck(h *Hook, section string, warn func(cond bool, key, text string, args ...any)) {
	const little = defaultFuelBase / 1000 // what a policy in Go takes for a handful of records
	base, most := section+".fuel.base", section+".fuel.cap"
	metered := h.Engine == EngineWasm
	warn(metered && h.Fuel.Base != 0 && h.Fuel.Cap != 0 && h.Fuel.Cap < h.Fuel.Base, most,
		"is %d, less than %s (%d), so that no call gets more than the cap; raise it, or lower the base", h.Fuel.Cap, base, h.Fuel.Base)
	warn(metered && h.Fuel.Base == 0 && h.Fuel.Cap != 0 && h.Fuel.Cap < little, most,
		"is %d, far below what a call has by default (%d): a policy that needs more faults in every tick; sluice policy bench shows what one needs", h.Fuel.Cap, defaultFuelBase)
}
