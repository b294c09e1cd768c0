package plugins

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/abi"
	"sluice/plugins/standard"
)

const vectorDir = "../abi/testdata/vectors"

// TestVectorsAreFrozen writes the load vectors and every shipped policy's answers as text and compares with the committed
// files: a change of either is a change of what policies see or of what the shipped ones decide.
func TestVectorsAreFrozen(t *testing.T) {
	for _, hook := range hooks() {
		var text bytes.Buffer
		fmt.Fprintf(&text, "# Load vectors of %s, policy ABI %d.%d: globals and input records in hex, then the shipped policies' output records.\n", hook, abi.Major, abi.Minor)
		for _, v := range vectors() {
			if v.hook == hook {
				writeVector(t, &text, v)
			}
		}
		path := filepath.Join(vectorDir, hook.String()+".txt")
		if flag.Lookup("rewrite").Value.String() == "true" {
			if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text.Bytes(), want) {
			t.Errorf("%s differs from the vectors in code; if that is meant: go test ./plugins -run Vectors -rewrite", path)
		}
	}
}

func writeVector(t *testing.T, text *bytes.Buffer, v vector) {
	t.Helper()
	in, out := abi.GateStride, abi.GateOutStride
	switch v.hook {
	case abi.Reserve:
		in, out = abi.ReserveStride, abi.ReserveOutStride
	case abi.Admit:
		in, out = abi.AdmitStride, abi.AdmitOutStride
	case abi.Score:
		in, out = abi.ScoreStride, abi.ScoreOutStride
	}
	lines := func(label string, b []byte, stride int) {
		for ; len(b) > 0; b = b[stride:] {
			fmt.Fprintf(text, "%s %x\n", label, b[:stride])
		}
	}
	fmt.Fprintf(text, "\nvector %q n=%d out=%d\n", v.name, v.n, v.nOut)
	for i, name := range standard.Names(v.hook) {
		p, err := builtinNative(v.hook, name)
		if err != nil {
			t.Fatal(err)
		}
		c := NewNative(p)
		b, err := c.Begin(v.hook, 1, 1, v.n, v.nOut)
		if err != nil {
			t.Fatal(err)
		}
		v.encode(b)
		if i == 0 {
			lines("globals", b.Globals, len(b.Globals))
			lines("in", b.In, in)
		}
		if status, err := c.Call(v.hook); err != nil || status != abi.StatusOK {
			t.Fatalf("%s %s: status %v, %v", v.name, name, status, err)
		}
		if b, err = c.Answer(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(text, "policy %s\n", name)
		lines("out", b.Out, out)
	}
}

// TestADifferenceOnTheVectorsIsFound gives the shipped module a reference that answers one record otherwise.
func TestADifferenceOnTheVectorsIsFound(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name      string
		own       string
		reference string
		differ    bool
	}{
		{"the same", "restore-gated", "restore-gated", false},
		{"differing in failed restores alone", "restore-gated", "pending-only", true},
		{"differing in pending restores", "pending-only", "ungated", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			build := func(name string) func(context.Context) (Caller, error) {
				return func(context.Context) (Caller, error) {
					p, err := builtinNative(abi.Gate, name)
					return NewNative(p), err
				}
			}
			err := compare(ctx, []abi.Hook{abi.Gate}, build(tc.own), build(tc.reference))
			if errors.Is(err, errVectors) != tc.differ || (err != nil) != tc.differ {
				t.Errorf("error %v, want a difference: %v", err, tc.differ)
			}
		})
	}
}

func TestEngineVersionIsTheOneInGoMod(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/tetratelabs/wazero v" + engineVersion[len("wazero-v"):]; !bytes.Contains(text, []byte(want)) {
		t.Errorf("go.mod does not have %q: change engineVersion", want)
	}
}

func TestCacheDirectory(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T, dir string) string // returns the path to open
		ok   bool
	}{
		{"made", func(_ *testing.T, dir string) string { return filepath.Join(dir, "a", "b") }, true},
		{"there, 0700", func(t *testing.T, dir string) string { return mkdir(t, dir, 0o700) }, true},
		{"group can write", func(t *testing.T, dir string) string { return mkdir(t, dir, 0o770) }, false},
		{"others can write", func(t *testing.T, dir string) string { return mkdir(t, dir, 0o702) }, false},
		{"a link", func(t *testing.T, dir string) string {
			target := mkdir(t, dir, 0o700)
			link := filepath.Join(dir, "link")
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			return link
		}, false},
		{"a file", func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "file")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := tc.make(t, t.TempDir())
			got, err := openCacheDir(path)
			if (err == nil) != tc.ok {
				t.Fatalf("%q, %v", got, err)
			}
			if !tc.ok {
				return
			}
			for _, d := range []string{path, got} {
				if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
					t.Errorf("%s: %v, %v", d, st.Mode(), err)
				}
			}
		})
	}
}

func mkdir(t *testing.T, dir string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, "d")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}
