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
}
