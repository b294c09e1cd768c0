package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Extension is what a signature file's name adds to its module's.
const Extension = ".sig"

const (
	keyPrefix  = "ed25519:"
	keyHead    = "sluice-policy-key 1"
	signHead   = "sluice-policy-signature 1"
	maxLine    = 256
	maxTextLen = 4096
)

// ErrKey is what every error about the text of a key wraps.
var ErrKey = errors.New("policy key")

// ErrSignature is what every refusal of a signature wraps: malformed, of another module, by another key, or not good.
var ErrSignature = errors.New("policy signature")

// Key is a secret signing key.
type Key struct{ private ed25519.PrivateKey }

// PublicKey is what a signature is checked against. The zero value is no key and verifies nothing.
type PublicKey struct{ public [ed25519.PublicKeySize]byte }

// NewKey draws a key from random, crypto/rand's reader.
func NewKey(random io.Reader) (Key, error) {
	_, private, err := ed25519.GenerateKey(random)
	if err != nil {
		return Key{}, fmt.Errorf("%w: draw a key: %w", ErrKey, err)
	}
	return Key{private}, nil
}

// Public is the key's public half.
func (k Key) Public() PublicKey {
	var p PublicKey
	copy(p.public[:], k.private[ed25519.SeedSize:])
	return p
}

// Text is the content of a key file. It holds the secret.
func (k Key) Text() []byte {
	return fmt.Appendf(nil, "%s\nsecret %s%s\npublic %s\n", keyHead, keyPrefix, base64.StdEncoding.EncodeToString(k.private.Seed()), k.Public())
}

// String is the public key as configuration and signature files write it.
func (p PublicKey) String() string {
	return keyPrefix + base64.StdEncoding.EncodeToString(p.public[:])
}

// ParseKey reads a key file. The two halves must belong together.
func ParseKey(text []byte) (Key, error) {
	lines, err := fields(text, keyHead, "secret", "public")
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w; make one with sluice policy keygen", ErrKey, err)
	}
	seed, err := decode(lines[0], ed25519.SeedSize)
	if err != nil {
		return Key{}, fmt.Errorf("%w: secret: %w", ErrKey, err)
	}
	k := Key{ed25519.NewKeyFromSeed(seed)}
	public, err := ParsePublic(lines[1])
	if err != nil {
		return Key{}, err
	}
	if public != k.Public() {
		return Key{}, fmt.Errorf("%w: the public half is not the secret's: it is %s, the secret's is %s", ErrKey, public, k.Public())
	}
	return k, nil
}

// ParsePublic reads a public key as String writes it.
func ParsePublic(text string) (PublicKey, error) {
	b, err := decode(strings.TrimSpace(text), ed25519.PublicKeySize)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: public: %w", ErrKey, err)
	}
	var p PublicKey
	copy(p.public[:], b)
	return p, nil
}

func decode(text string, size int) ([]byte, error) {
	raw, ok := strings.CutPrefix(text, keyPrefix)
	if !ok {
		return nil, fmt.Errorf("the key does not begin with %q", keyPrefix)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(raw)
	if err != nil || len(b) != size {
		return nil, fmt.Errorf("not %d bytes in base64", size)
	}
	return b, nil
}

// Sign makes the content of a module's signature file.
func Sign(k Key, wasm []byte) []byte {
	hash := sha256.Sum256(wasm)
	good := ed25519.Sign(k.private, message(hash))
	return fmt.Appendf(nil, "%s\nsha256 %x\nkey %s\nsignature %s\n", signHead, hash, k.Public(), base64.StdEncoding.EncodeToString(good))
}

func message(hash [sha256.Size]byte) []byte {
	return fmt.Appendf(nil, "%s\nsha256 %x\n", signHead, hash)
}

// Signature is a parsed signature file. Nothing in it is trusted before Verify.
type Signature struct {
	SHA256 [sha256.Size]byte
	Key    PublicKey // that it says it was made with
	good   []byte
}

// Parse reads a signature file.
func Parse(text []byte) (Signature, error) {
	var s Signature
	lines, err := fields(text, signHead, "sha256", "key", "signature")
	if err != nil {
		return s, fmt.Errorf("%w: %w; sign the module with sluice policy sign", ErrSignature, err)
	}
	hash, err := hex.DecodeString(lines[0])
	if err != nil || len(hash) != sha256.Size {
		return s, fmt.Errorf("%w: sha256 is not %d hex digits", ErrSignature, 2*sha256.Size)
	}
	copy(s.SHA256[:], hash)
	if s.Key, err = ParsePublic(lines[1]); err != nil {
		return s, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if s.good, err = base64.StdEncoding.Strict().DecodeString(lines[2]); err != nil || len(s.good) != ed25519.SignatureSize {
		return s, fmt.Errorf("%w: the signature is not %d bytes in base64", ErrSignature, ed25519.SignatureSize)
	}
	return s, nil
}

// Verify says whether text is the signature file of exactly these bytes by exactly this key. Errors wrap ErrSignature.
func Verify(key PublicKey, wasm, text []byte) error {
	s, err := Parse(text)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(wasm)
	switch {
	case key == (PublicKey{}):
		return fmt.Errorf("%w: no key to check against", ErrSignature)
	case s.Key != key:
		return fmt.Errorf("%w: made with the key %s, trusted is %s; sign with the trusted key, or trust the other", ErrSignature, s.Key, key)
	case s.SHA256 != hash:
		return fmt.Errorf("%w: of a module with sha256 %x, this one has %x; sign the module that is to run", ErrSignature, s.SHA256, hash)
	case !ed25519.Verify(key.public[:], message(hash), s.good):
		return fmt.Errorf("%w: not made by the secret half of %s: the file was changed", ErrSignature, key)
	}
	return nil
}

// fields reads a head line and one "name value" line for each name, in order, and nothing else. Errors quote nothing of the
// text, which may hold a secret.
func fields(text []byte, head string, names ...string) ([]string, error) {
	if len(text) > maxTextLen {
		return nil, fmt.Errorf("%d bytes of text, more than any such file has", len(text))
	}
	lines := bytes.Split(bytes.TrimRight(text, "\r\n"), []byte("\n"))
	if got := strings.TrimSuffix(string(lines[0]), "\r"); got != head {
		return nil, fmt.Errorf("the first line is not %q", head)
	}
	if len(lines) != len(names)+1 {
		return nil, fmt.Errorf("%d lines, want %d", len(lines), len(names)+1)
	}
	var out []string
	for i, name := range names {
		line := strings.TrimSuffix(string(lines[i+1]), "\r")
		value, ok := strings.CutPrefix(line, name+" ")
		if !ok || len(value) > maxLine {
			return nil, fmt.Errorf("line %d is not %q and its value", i+2, name)
		}
		out = append(out, value)
	}
	return out, nil
}
