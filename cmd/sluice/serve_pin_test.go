package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/plugins/kit/signature"
)

// A signed module and its signature are replaced one after the other: the module is refused until its signature is there.
func TestServeFollowsSignedModules(t *testing.T) {
	first, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	second := append(append([]byte{}, first...), 0, 2, 1, 'x') // the same with a custom section
	sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	key, err := signature.NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.wasm")
	sign := func(b []byte) { replaceFile(t, path+signature.Extension, signature.Sign(key, b)) }
	replaceFile(t, path, first)
	sign(first)
	text := func(more string) string {
		return fmt.Sprintf("[policy.gate]\npath = %q\nkey = %q\n%s[policy.reserve]\nengine = \"native\"\n[policy.admit]\nengine = \"native\"\n", path, key.Public(), more)
	}
	f := startFollowed(t, text(""))
	if k := f.active("gate"); k.SHA256 != sum(first) {
		t.Fatalf("active %+v", k)
	}
	replaceFile(t, path, second)
	f.eventually("the refusal of the old signature", func() bool { return f.value("policy_refused_total") == 1 })
	if k := f.active("gate"); k.SHA256 != sum(first) || f.value("policy_epoch") != 0 {
		t.Errorf("after the refusal: %+v", k)
	}
	sign(second)
	f.eventually("the signed module", func() bool { return f.value("policy_epoch") == 1 })
	if k := f.active("gate"); k.SHA256 != sum(second) {
		t.Errorf("active %+v", k)
	}
	// A hangup holds what runs to a new pin, too: a wrong one changes nothing, the right one is taken.
	f.write(text(fmt.Sprintf("sha256 = %q\n", sum(first))))
	f.hup("pinned is "+sum(first), 1)
	if k := f.active("gate"); k.SHA256 != sum(second) || f.value("policy_epoch") != 1 {
		t.Errorf("after the wrong pin: %+v", k)
	}
	f.write(text(fmt.Sprintf("sha256 = %q\nfuel = { base = 5 }\n", sum(second))))
	f.hup("the configured policies are in use", 2)
	if v := f.value("policy_epoch"); v != 2 {
		t.Errorf("policy epoch %v, want 2", v)
	}
}
