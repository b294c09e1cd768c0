package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pinned maps each version to the hash of its description. Once a version is out of its release candidate, a changed
// description needs a new version here, and never a new hash for an old one.
var pinned = map[string]string{
	"1.0": "68cac9250cbb3311b8adaf3c000efeea55516a8dea88a09f5c62fb7e30a5b400",
}

func TestOutputsAreWhatTheDescriptionGives(t *testing.T) {
	outs, err := generate("../abi.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(outs) != 7 {
		t.Fatalf("%d outputs, want 7", len(outs))
	}
	for name, want := range outs {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("abi/%s is not what abi.json gives: run go run ./abi/gen", name)
		}
	}
}

func TestDescriptionIsPinnedToItsVersion(t *testing.T) {
	text, err := os.ReadFile("../abi.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := load("../abi.json")
	if err != nil {
		t.Fatal(err)
	}
	version := fmt.Sprintf("%d.%d", d.Major, d.Minor)
	if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != pinned[version] {
		t.Errorf("abi.json has hash %s, version %s is pinned to %q: raise the version", got, version, pinned[version])
	}
}

func TestBadDescriptionsAreRefused(t *testing.T) {
	text, err := os.ReadFile("../abi.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"stage", `"stage": "rc"`, `"stage": "beta"`, `stage "beta"`},
		{"overlap", `"AgeTicks", "off": 12`, `"AgeTicks", "off": 8`, "overlaps"},
		{"misaligned", `"RestoreTokens", "off": 16`, `"RestoreTokens", "off": 18`, "multiple of 4"},
		{"past the end", `"name": "Priority", "off": 26`, `"name": "Priority", "off": 32`, "ends past"},
		{"unknown type", `"off": 0, "type": "u64", "range": "any"`, `"off": 0, "type": "f64", "range": "any"`, "type"},
		{"local field in admit", `"WaitTicks", "off": 16, "type": "u32", "unit": "ticks", "range": "saturates", "scope": "replicated"`,
			`"WaitTicks", "off": 16, "type": "u32", "unit": "ticks", "range": "saturates", "scope": "local"`, "a local field"},
		{"no word for zero", `"zero": "came this tick"`, `"zero": ""`, "required"},
		{"unknown key", `"align": 16`, `"align": 16, "algin": 16`, "unknown field"},
		{"a field in the text", `"Length", "off": 1, "type": "u8"`, `"Length", "off": 8, "type": "u8"`, "overlap the 120 bytes of text"},
		{"odd size", `"role": "out", "size": 8`, `"role": "out", "size": 12`, "multiple of 8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := strings.Replace(string(text), tc.old, tc.new, 1)
			if changed == string(text) {
				t.Fatal("the edit matches nothing")
			}
			path := filepath.Join(t.TempDir(), "abi.json")
			if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := generate(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	if _, err := generate(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing description: %v", err)
	}
}
