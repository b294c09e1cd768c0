package plugins

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/plugins/standard"
)

const (
	determinismFile = "testdata/determinism.txt"
	determinismHead = `# What every guest of the repository leaves behind on the load vectors: a hash of its status and answers, the fuel it spent,
# and a hash of its memory after the call. The same on both engines, on every architecture, in every process.
# go test ./plugins -run Everywhere -rewrite, after a module, the vectors or the costs of metering have changed.
`
	shippedFile = "standard/standard.wasm"
	frozenFiles = "../abi/testdata/frozen/*/*.wasm"
)

// TestGuestsRunAlikeEverywhere runs the load vectors on the shipped module and the frozen ones and compares all that can be
// seen with the committed file, on each engine. What a run on one architecture wrote, a run on another must find.
func TestGuestsRunAlikeEverywhere(t *testing.T) {
	ctx := context.Background()
	paths, err := filepath.Glob(frozenFiles)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no frozen module at %s: %v", frozenFiles, err)
	}
	var text [2]bytes.Buffer
	for e, engine := range []Engine{EngineCompiler, EngineInterpreter} {
		text[e].WriteString(determinismHead)
		h := NewHost(Options{})
		for _, path := range append(paths, shippedFile) {
			configs := [][]byte{nil}
			if path == shippedFile {
				configs = shippedConfigs()
			}
			runAlike(t, h, engine, path, configs, &text[e])
		}
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if at, one, other := firstDifference(text[0].Bytes(), text[1].Bytes()); at > 0 {
		t.Fatalf("the engines differ, line %d: the compiler has %q, the interpreter %q", at, one, other)
	}
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(determinismFile, text[0].Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(determinismFile)
	if err != nil {
		t.Fatal(err)
	}
	if at, one, other := firstDifference(text[0].Bytes(), want); at > 0 {
		t.Errorf("line %d: this machine has %q, %s has %q; if a module, the vectors or the costs of metering have changed: go test ./plugins -run Everywhere -rewrite",
			at, one, determinismFile, other)
	}
}

// shippedConfigs are configurations that name every shipped policy at least once.
func shippedConfigs() [][]byte {
	var all [][]byte
	pick := func(h abi.Hook, i int) string { return standard.Names(h)[i%len(standard.Names(h))] }
	most := 0
	for _, h := range hooks() {
		most = max(most, len(standard.Names(h)))
	}
	for i := range most {
		c := standard.Config{Gate: pick(abi.Gate, i), Reserve: pick(abi.Reserve, i), Admit: pick(abi.Admit, i), Score: pick(abi.Score, i)}
		all = append(all, c.JSON())
	}
	return all
}

// runAlike writes what the module does on one engine.
func runAlike(t *testing.T, h *Host, e Engine, path string, configs [][]byte, text io.Writer) {
	t.Helper()
	ctx := context.Background()
	wasm, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.kept(ctx, wasm, e, h.pages)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	fmt.Fprintf(text, "\nmodule %s %x\n", path, sha256.Sum256(wasm))
	ran := 0
	for _, config := range configs {
		for _, class := range []abi.Class{abi.ClassLocal, abi.ClassReplicated} {
			hs := m.classHooks(class)
			if len(hs) == 0 {
				continue
			}
			fmt.Fprintf(text, "class %d %s\n", class, config)
			i, err := m.Instantiate(ctx, class, abi.HostInfo{PageSize: 16, TotalTokens: 24000, Ranks: 2}, config)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			for _, v := range vectors() {
				if !slices.Contains(hs, v.hook) {
					continue
				}
				ran++
				answer, fault := try(i, v)
				if fault != "" {
					t.Errorf("%s: %s: %s", path, v.name, fault)
				}
				answered, memory := sha256.Sum256(answer), i.memoryHash()
				fmt.Fprintf(text, "%q answer %x fuel %d memory %x\n", v.name, answered[:8], i.Spent(), memory[:8])
			}
			if err := i.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	if ran == 0 {
		t.Errorf("%s has no hook", path)
	}
}

// firstDifference is the number of the first line that differs and what each has there; 0 where none does.
func firstDifference(a, b []byte) (at int, inA, inB string) {
	as, bs := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	line := func(all [][]byte, i int) string {
		if i < len(all) {
			return string(all[i])
		}
		return "no such line"
	}
	for i := range max(len(as), len(bs)) {
		if inA, inB = line(as, i), line(bs, i); inA != inB {
			return i + 1, inA, inB
		}
	}
	return 0, "", ""
}
