package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/files"
	"sluice/plugins/kit/signature"
	"sluice/plugins/wasmbin"
)

func newPolicyKeygenCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a signing key: the secret into FILE, a new one, and the public half on standard output",
		Args:  wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := signature.NewKey(rand.Reader)
			if err != nil {
				return err
			}
			if err := writeSecret(args[0], key.Text()); err != nil {
				return err
			}
			return say(env, key.Public().String()+"\n")
		},
	}
}

// writeSecret writes a new file that only its owner can read. It never replaces one: a key that is overwritten is lost.
func writeSecret(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return usage(fmt.Errorf("keygen: %s exists and may hold a key; name another file, or remove it", path))
	}
	if err != nil {
		return usage(fmt.Errorf("keygen: %w", err))
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keygen: %w", err)
	}
	return nil
}

func newPolicySignCommand(env *environment) *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "sign --key KEYFILE FILE.wasm",
		Short: "Sign a module: writes FILE.wasm.sig, or replaces it",
		Long: `Sign a module: writes FILE.wasm.sig, or replaces it. The signature is over the whole file, its manifest included, so
write that first (sluice policy build, or sluice policy manifest --set): a manifest that is set afterwards needs a new
signature.`,
		Args: wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if keyFile == "" {
				return usage(errors.New("sign needs --key KEYFILE, a key that sluice policy keygen made"))
			}
			text, err := readText(keyFile)
			if err != nil {
				return usage(fmt.Errorf("--key: %w", err))
			}
			key, err := signature.ParseKey(text)
			if err != nil {
				return usage(fmt.Errorf("--key %s: %w", keyFile, err))
			}
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			if _, err := wasmbin.Decode(wasm); err != nil {
				return usage(fmt.Errorf("%s is no policy to sign: %w", args[0], err))
			}
			out := args[0] + signature.Extension
			if err := os.WriteFile(out, signature.Sign(key, wasm), 0o644); err != nil {
				return fmt.Errorf("sign: %w", err)
			}
			return say(env, fmt.Sprintf("%s\nkey %s\n", out, key.Public()))
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "file with the secret key, which policy keygen wrote")
	return cmd
}

func newPolicyVerifyCommand(env *environment) *cobra.Command {
	var keyText, sigFile string
	cmd := &cobra.Command{
		Use:   "verify --key KEY FILE.wasm",
		Short: "Check a module's signature against a public key",
		Args:  wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := publicKey(keyText)
			if err != nil {
				return usage(err)
			}
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			if sigFile == "" {
				sigFile = args[0] + signature.Extension
			}
			text, err := readText(sigFile)
			if err != nil {
				return usage(fmt.Errorf("the signature: %w; sign the module, or name the file with --signature", err))
			}
			if err := signature.Verify(key, wasm, text); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return say(env, fmt.Sprintf("%s: signed by %s\n", args[0], key))
		},
	}
	cmd.Flags().StringVar(&keyText, "key", "", "the public key that is trusted, as ed25519:..., or a file with nothing else in it")
	cmd.Flags().StringVar(&sigFile, "signature", "", "file with the signature; empty: FILE.wasm"+signature.Extension)
	return cmd
}

// publicKey reads a key, or the file that holds one and nothing else. What keygen wrote is refused: it holds the secret.
func publicKey(text string) (signature.PublicKey, error) {
	if text == "" {
		return signature.PublicKey{}, errors.New("verify needs --key, the public key that is trusted; sluice policy keygen prints one")
	}
	if strings.HasPrefix(text, "ed25519:") {
		key, err := signature.ParsePublic(text)
		if err != nil {
			return key, fmt.Errorf("--key: %w", err)
		}
		return key, nil
	}
	b, err := readText(text)
	if err != nil {
		return signature.PublicKey{}, fmt.Errorf("--key: %w; give the key as ed25519:..., or a file with it", err)
	}
	if whole, err := signature.ParseKey(b); err == nil {
		return signature.PublicKey{}, fmt.Errorf("--key %s holds a secret key, which no verifier should have; give its public half, %s", text, whole.Public())
	}
	key, err := signature.ParsePublic(string(b))
	if err != nil {
		return key, fmt.Errorf("--key %s: %w", text, err)
	}
	return key, nil
}

// readText reads a small file.
func readText(path string) ([]byte, error) { return files.Read(path, 1<<26) }
