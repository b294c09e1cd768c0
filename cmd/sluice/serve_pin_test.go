package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/plugins/kit/signature"
	"sluice/runtime/server"
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

// A server whose hook has a key takes a signed module over HTTP, by its path with the signature's file beside it or as
// bytes with the signature's content, and nothing else.
func TestServeTakesSignedPushes(t *testing.T) {
	first, err := os.ReadFile(trapModule(t))
	if err != nil {
		t.Fatal(err)
	}
	second := append(append([]byte{}, first...), 0, 2, 1, 'x') // the same with a custom section
	newKey := func(seed byte) signature.Key {
		k, err := signature.NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	key, stranger := newKey(7), newKey(8)
	base := t.TempDir()
	dir := filepath.Join(base, "policies")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name string, wasm, sig []byte) string {
		path := filepath.Join(dir, name)
		replaceFile(t, path, wasm)
		if sig != nil {
			replaceFile(t, path+signature.Extension, sig)
		}
		return path
	}
	good := signature.Sign(key, second)
	path := put("policy.wasm", first, signature.Sign(key, first))
	put("pace2.wasm", second, good)
	put("unsigned.wasm", second, nil)
	put("other.wasm", second, signature.Sign(key, first))
	put("stranger.wasm", second, signature.Sign(stranger, second))
	put("linked.wasm", second, nil)
	outside := filepath.Join(base, "outside.sig")
	replaceFile(t, outside, good)
	if err := os.Symlink(outside, filepath.Join(dir, "linked.wasm"+signature.Extension)); err != nil {
		t.Fatal(err)
	}
	f := startFollowed(t, fmt.Sprintf("[policy.gate]\npath = %q\nkey = %q\n[policy.reserve]\nengine = \"native\"\n[policy.admit]\nengine = \"native\"\n", path, key.Public()))
	stage := func(body string) (int, string) {
		resp, err := f.client.Post(f.url+"/policies/stage", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	named := func(name string) string { return fmt.Sprintf(`{"hook":"gate","path":%q}`, filepath.Join(dir, name)) }
	sent := func(sig []byte) string {
		return fmt.Sprintf(`{"hook":"gate","module_base64":%q,"signature_base64":%q}`, base64.StdEncoding.EncodeToString(second), base64.StdEncoding.EncodeToString(sig))
	}
	for _, c := range []struct{ name, body, says string }{
		{"path without a signature", named("unsigned.wasm"), "no signature by " + key.Public().String()},
		{"path with another module's signature", named("other.wasm"), "load_rejected{key}"},
		{"path with another key's signature", named("stranger.wasm"), stranger.Public().String()},
		{"path with a signature through a link that leaves the folder", named("linked.wasm"), "linked.wasm.sig"},
		{"bytes without a signature", sent(nil), "no signature by " + key.Public().String()},
		{"bytes with another module's signature", sent(signature.Sign(key, first)), "load_rejected{key}"},
		{"bytes with another key's signature", sent(signature.Sign(stranger, second)), stranger.Public().String()},
	} {
		if status, answer := stage(c.body); status != http.StatusBadRequest || !strings.Contains(answer, c.says) {
			t.Errorf("%s: %d %s; want 400 and %q", c.name, status, answer, c.says)
		}
	}
	for _, body := range []string{named("pace2.wasm"), sent(good)} {
		if status, answer := stage(body); status != http.StatusOK {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	staged := f.sets(server.PolicyStaged)
	if len(staged) != 2 {
		t.Fatalf("%d sets are staged, want 2", len(staged))
	}
	if status, _ := f.post("/policies/activate", fmt.Sprintf(`{"id":%q}`, staged[0].ID)); status != http.StatusOK {
		t.Errorf("activate: %d", status)
	}
	if k := f.active("gate"); k.SHA256 != fmt.Sprintf("%x", sha256.Sum256(second)) {
		t.Errorf("active %+v", k)
	}
}
