package plugins

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"sluice/internal/files"
	signing "sluice/plugins/kit/signature"
)

// maxSignatureBytes is more than any signature file has.
const maxSignatureBytes = 1 << 12

// Pin says which bytes may be a hook's module. The zero value allows any.
type Pin struct {
	SHA256 string // of the module, 64 hex digits; empty: whatever it is
	Key    string // "ed25519:" and base64: whose signature the module must have; empty: none is needed
}

// check refuses a module that is not the pinned one, or that lacks the signature asked for. sig is the content of its
// signature file, empty where there is none. It looks at the bytes alone: nothing of the module has been decoded yet.
func (p Pin) check(wasm, sig []byte) error {
	if p.SHA256 != "" {
		if got := fmt.Sprintf("%x", sha256.Sum256(wasm)); !strings.EqualFold(got, p.SHA256) {
			return reject("sha256", "the module's sha256 is %s, pinned is %s; give the module that was meant, or pin its hash", got, p.SHA256)
		}
	}
	if p.Key == "" {
		return nil
	}
	key, err := signing.ParsePublic(p.Key)
	if err != nil {
		return reject("key", "%v; write the public key that sluice policy keygen prints", err)
	}
	if len(sig) == 0 {
		return reject("key", "the module has no signature by %s; sign it with sluice policy sign, and put FILE.wasm%s beside it, or send its content as signature_base64 with a push of the bytes", p.Key, signing.Extension)
	}
	if err := signing.Verify(key, wasm, sig); err != nil {
		return reject("key", "%v", err)
	}
	return nil
}

// ReadSignature reads the signature file beside a module's file. It is an error that there is none.
func ReadSignature(module string) ([]byte, error) {
	path := module + signing.Extension
	b, err := files.Read(path, maxSignatureBytes)
	if err != nil {
		return nil, fmt.Errorf("the module's signature: %w; sign the module with sluice policy sign, and put the file beside it", err)
	}
	return b, nil
}
