// Package signature signs policy modules and checks their signatures: Ed25519, detached, in text files.
//
//	key, err := signature.NewKey(rand.Reader)
//	text := signature.Sign(key, wasm)                   // the content of policy.wasm.sig
//	err = signature.Verify(key.Public(), wasm, text)    // nil, or why the module is not to be trusted
//
// What is signed is a line that names the format and the module's SHA-256, so a signature of this format is good for
// nothing else. Public keys are written "ed25519:" and base64, as in a policy's key in the configuration.
//
// The package imports the standard library only and keeps no state. A Key holds a secret: its owner keeps it in a file
// that only they can read.
package signature
