package wasmbin

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// wasm-tools is somebody else's generator, validator and mutator of modules. The tests with it are left out where it is
// neither in PATH nor named by toolVariable; .ci/guests installs it and sets toolchainsVariable, with which that is a failure.
const (
	toolVariable       = "WASM_TOOLS"
	toolchainsVariable = "SLUICE_TOOLCHAINS"
)

// Features in the words of `wasm-tools validate`.
const (
	// supported is what this package admits.
	supported = "mvp,mutable-global,sign-extension,saturating-float-to-int,bulk-memory,call-indirect-overlong"
	// everyFeature is all that the tool knows: what is invalid with it is no module at all.
	everyFeature = "all"
)

type wasmTools struct{ path string }

func findWasmTools(t *testing.T) wasmTools {
	t.Helper()
	name := os.Getenv(toolVariable)
	if name == "" {
		name = "wasm-tools"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv(toolchainsVariable) != "" {
			t.Fatalf("%s names no tool: %v", toolVariable, err)
		}
		t.Skipf("no wasm-tools: %v; .ci/guests installs it", err)
	}
	return wasmTools{path}
}

// run gives the tool its input and returns its output. What the tool says of a refusal is in the error.
func (w wasmTools) run(t *testing.T, in []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), w.path, args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	if err := cmd.Run(); err != nil {
		return nil, &toolError{err, said.String()}
	}
	return out.Bytes(), nil
}

// toolError is a refusal by the tool, or that it could not be run.
type toolError struct {
	error
	said string
}

func (e *toolError) Error() string { return e.error.Error() + ": " + e.said }

func (e *toolError) Unwrap() error { return e.error }

// status is the tool's exit status, 0 for success. An error that is no exit fails the test.
func status(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	}
	t.Fatal(err)
	return 0
}

// validate is nil for a module that is valid with the features.
func (w wasmTools) validate(t *testing.T, wasm []byte, features string) error {
	t.Helper()
	_, err := w.run(t, wasm, "validate", "--features="+features, "-")
	status(t, err)
	return err
}
