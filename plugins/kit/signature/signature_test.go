package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/plugins/kit/signature"
)

// key is a fixed key, another for each seed.
func key(t testing.TB, seed byte) signature.Key {
	t.Helper()
	k, err := signature.ParseKey(keyText(seed))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keyText(seed byte) []byte {
	k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return fmt.Appendf(nil, "sluice-policy-key 1\nsecret ed25519:%s\npublic ed25519:%s\n", base64.StdEncoding.EncodeToString(k.Seed()),
		base64.StdEncoding.EncodeToString(k[ed25519.SeedSize:]))
}

// A drawn key is written as it is read.
func TestNewKey(t *testing.T) {
	k, err := signature.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	again, err := signature.ParseKey(k.Text())
	if err != nil || again.Public() != k.Public() || k.Public() == (signature.PublicKey{}) {
		t.Errorf("%v, %v, %v", k.Public(), again.Public(), err)
	}
	if fixed := key(t, 1); !bytes.Equal(fixed.Text(), keyText(1)) {
		t.Errorf("got %q", fixed.Text())
	}
}

func TestSignAndVerify(t *testing.T) {
	k, wasm := key(t, 1), []byte("a module")
	text := signature.Sign(k, wasm)
	if err := signature.Verify(k.Public(), wasm, text); err != nil {
		t.Fatal(err)
	}
	crlf := bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	if err := signature.Verify(k.Public(), wasm, crlf); err != nil {
		t.Errorf("with the line ends of another system: %v", err)
	}
	public, err := signature.ParsePublic(k.Public().String() + "\n")
	if err != nil || public != k.Public() {
		t.Errorf("public key: %v", err)
	}
	if s, err := signature.Parse(text); err != nil || s.Key != k.Public() {
		t.Errorf("parsed %+v, %v", s, err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	k, other, wasm := key(t, 1), key(t, 2), []byte("a module")
	text := string(signature.Sign(k, wasm))
	lines := strings.Split(text, "\n")
	for _, c := range []struct {
		name string
		key  signature.PublicKey
		wasm []byte
		text string
		want string
	}{
		{"no key", signature.PublicKey{}, wasm, text, "no key to check against"},
		{"another key", other.Public(), wasm, text, "made with the key " + k.Public().String()},
		{"another module", k.Public(), []byte("b module"), text, "of a module with sha256"},
		{"the key's name changed", other.Public(), wasm, strings.Replace(text, k.Public().String(), other.Public().String(), 1), "not made by the secret half"},
		{"the hash changed with the module", k.Public(), []byte("b module"),
			strings.Replace(text, lines[1], strings.Split(string(signature.Sign(other, []byte("b module"))), "\n")[1], 1), "not made by the secret half"},
		{"empty", k.Public(), wasm, "", "the first line is not \"sluice-policy-signature 1\""},
		{"another format", k.Public(), wasm, strings.Replace(text, "signature 1", "signature 2", 1), "the first line is not"},
		{"cut", k.Public(), wasm, strings.Join(lines[:3], "\n"), "3 lines, want 4"},
		{"more", k.Public(), wasm, text + "signature x\n", "5 lines, want 4"},
		{"swapped", k.Public(), wasm, strings.Join([]string{lines[0], lines[2], lines[1], lines[3]}, "\n"), "line 2 is not \"sha256\""},
		{"a hash that is none", k.Public(), wasm, strings.Replace(text, lines[1], "sha256 xyz", 1), "sha256 is not 64 hex digits"},
		{"a key that is none", k.Public(), wasm, strings.Replace(text, lines[2], "key rsa:abc", 1), "does not begin with \"ed25519:\""},
		{"a signature that is none", k.Public(), wasm, strings.Replace(text, lines[3], "signature AAAA", 1), "is not 64 bytes in base64"},
		{"huge", k.Public(), wasm, strings.Repeat("x", 1<<16), "more than any such file has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := signature.Verify(c.key, c.wasm, []byte(c.text))
			if !errors.Is(err, signature.ErrSignature) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// No byte of a signature file can change and still be good.
func TestEveryByteOfASignatureCounts(t *testing.T) {
	k, wasm := key(t, 3), []byte("a module")
	text := signature.Sign(k, wasm)
	for i := range len(text) - 1 { // the last line's end is no content
		bad := slices.Clone(text)
		bad[i] ^= 1
		if err := signature.Verify(k.Public(), wasm, bad); !errors.Is(err, signature.ErrSignature) {
			t.Fatalf("byte %d (%q) changed: %v", i, text[i], err)
		}
	}
}

func TestBadKeys(t *testing.T) {
	good, other := string(keyText(1)), strings.Split(string(keyText(2)), "\n")
	lines := strings.Split(good, "\n")
	for name, text := range map[string]string{
		"empty":               "",
		"no secret":           strings.Join([]string{lines[0], lines[2]}, "\n"),
		"halves of two keys":  strings.Replace(good, lines[2], other[2], 1),
		"a short secret":      strings.Replace(good, lines[1], "secret ed25519:AAAA", 1),
		"a secret that is no": strings.Replace(good, lines[1], "secret hello", 1),
		"no head":             strings.Join(lines[1:], "\n"),
		"two heads":           lines[0] + "\n" + good,
		"swapped":             strings.Join([]string{lines[0], lines[2], lines[1]}, "\n"),
		"no algorithm":        strings.Replace(good, "secret ed25519:", "secret ", 1),
	} {
		_, err := signature.ParseKey([]byte(text))
		if !errors.Is(err, signature.ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
		_, public := signature.ParsePublic(text)
		for _, err := range []error{err, public} {
			if secret := strings.TrimPrefix(lines[1], "secret ed25519:"); err != nil && strings.Contains(err.Error(), secret[:8]) {
				t.Errorf("%s: the error tells the secret: %v", name, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	k := key(f, 4)
	f.Add(signature.Sign(k, []byte("a module")))
	f.Add(k.Text())
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := signature.Parse(text); err != nil && !errors.Is(err, signature.ErrSignature) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if _, err := signature.ParseKey(text); err != nil && !errors.Is(err, signature.ErrKey) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}
