package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice/abi"
	"sluice/examples/policies/conformance"
	"sluice/plugins"
)

const (
	frozenDir = "../../../abi/testdata/frozen"
	goldenDir = "../../../abi/testdata/vectors"
	// largest is the size of a frozen module; one Go guest a version may be larger.
	largest = 512 << 10
)

// sharedHost compiles each module once for the whole test process.
var sharedHost = sync.OnceValue(func() *plugins.Host { return plugins.NewHost(plugins.Options{}) })

// releases lists the folders of the released ABI versions.
func releases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(frozenDir, "v*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no release below %s: %v", frozenDir, err)
	}
	return dirs
}

// sums reads a release's SHA256SUMS: hex by file name.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		hex, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("%s: line %q is no checksum", f.Name(), lines.Text())
		}
		out[name] = hex
	}
	return out
}

// frozen calls f for the frozen gate of each language.
func frozen(t *testing.T, f func(t *testing.T, name string, wasm []byte)) {
	t.Helper()
	frozenFiles(t, f, "go", "c", "rust", "assemblyscript", "zig")
}

func frozenFiles(t *testing.T, f func(t *testing.T, name string, wasm []byte), files ...string) {
	t.Helper()
	for _, dir := range releases(t) {
		for _, file := range files {
			name := filepath.Base(dir) + "/" + file
			t.Run(name, func(t *testing.T) {
				wasm, err := os.ReadFile(filepath.Join(dir, file+".wasm"))
				if err != nil {
					t.Fatal(err)
				}
				f(t, name, wasm)
			})
		}
	}
}

func TestFrozenModulesAreWhatTheirChecksumsSay(t *testing.T) {
	for _, dir := range releases(t) {
		want := sums(t, dir)
		files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != len(want) {
			t.Errorf("%s: %d modules, %d checksums", dir, len(files), len(want))
		}
		large := 0
		for _, path := range files {
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(wasm)); got != want[filepath.Base(path)] {
				t.Errorf("%s has hash %s, SHA256SUMS says %q: a frozen module never changes", path, got, want[filepath.Base(path)])
			}
			if len(wasm) > largest {
				large++
			}
		}
		if large > 1 {
			t.Errorf("%s: %d modules of more than %d bytes", dir, large, largest)
		}
	}
}

func TestFrozenModulesAnswerTheGoldenVectors(t *testing.T) {
	vs := golden(t, abi.Gate)
	frozen(t, func(t *testing.T, _ string, wasm []byte) { runVectors(t, wasm, vs, "restore-gated") })
}

func golden(t *testing.T, hook abi.Hook) []conformance.Vector {
	t.Helper()
	vs, err := conformance.Read(filepath.Join(goldenDir, hook.String()+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

// runVectors loads a module as the server does and gives it the vectors of one policy.
func runVectors(t *testing.T, wasm []byte, vs []conformance.Vector, policy string) {
	t.Helper()
	ctx := context.Background()
	m, err := sharedHost().Compile(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Instantiate(ctx, plugins.ClassOf(vs[0].Hook), abi.HostInfo{PageSize: 16, TotalTokens: 24000, Ranks: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := conformance.Run(c, vs, policy); err != nil {
		t.Error(err)
	}
}

// Random batches go through the runner that a rank uses: load vectors on both engines first, then each answer is judged.
func TestFrozenModulesAnswerAsTheNativeGateDoes(t *testing.T) {
	frozen(t, func(t *testing.T, name string, wasm []byte) { sameAsNative(t, name, wasm) })
}

func sameAsNative(t *testing.T, name string, wasm []byte) {
	t.Helper()
	const seed = 20260502
	ctx := context.Background()
	runners := make([]*plugins.Runner, 2)
	for i, spec := range []plugins.Spec{
		{Hook: abi.Gate, Module: wasm, Name: name},
		{Hook: abi.Gate, Builtin: "restore-gated", Native: true},
	} {
		set, err := sharedHost().NewSet(ctx, []plugins.Spec{spec}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := set.Close(ctx); err != nil {
				t.Error(err)
			}
		}()
		runners[i] = set.Gate
	}
	records := 0
	for run := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, run))
		n := rng.IntN(700)
		records += n
		in := make([]byte, n*abi.GateStride)
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		encode := func(b abi.Batch) {
			copy(b.In, in)
			for i := range n {
				r := b.GateIn(i)
				r.RawPoll, r.Restore, r.PrevVote = r.RawPoll%5, r.Restore%3, r.PrevVote%5
				b.PutGate(i, &r)
			}
		}
		var out [2][]byte
		for i, r := range runners {
			a, err := r.Run(run+1, 1, n, n, encode)
			if err != nil || a.Fault != nil || a.Native {
				t.Fatalf("seed %d, run %d: %v, fault %v, answered natively %v", seed, run, err, a.Fault, a.Native)
			}
			out[i] = a.Batch.Out
		}
		if !bytes.Equal(out[0], out[1]) {
			t.Fatalf("seed %d, run %d: the module gives %x, native gives %x", seed, run, out[0], out[1])
		}
	}
	if records < 1000 {
		t.Fatalf("seed %d: %d records in all", seed, records)
	}
}

func TestAFrozenCallAllocatesNothing(t *testing.T) {
	const n = 256
	ctx := context.Background()
	frozen(t, func(t *testing.T, name string, wasm []byte) {
		set, err := sharedHost().NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: name}}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := set.Close(ctx); err != nil {
				t.Error(err)
			}
		}()
		encode := func(b abi.Batch) {
			for i := range n {
				b.PutGate(i, &abi.GateRecord{ReqKey: uint64(i), RawPoll: abi.Poll(i % 5), Restore: abi.RestoreStatus(i % 3)})
			}
		}
		tick := uint64(0)
		if got := testing.AllocsPerRun(50, func() {
			tick++
			if a, err := set.Gate.Run(tick, 1, n, n, encode); err != nil || a.Native {
				t.Fatalf("%v, answered natively %v", err, a.Native)
			}
		}); got != 0 {
			t.Errorf("%v allocations a call", got)
		}
	})
}
