package manifest

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

const fullTOML = `
name = "fair-share"
version = "1.2.0"
author = "A. Author <a@example.org>"
description = "Shares tokens.\nBy tenant."
licence = "Apache-2.0"
source_sha256 = "0af90af90af90af90af90af90af90af90af90af90af90af90af90af90af90af9"
counters = ["admitted", "over_share2"]

[reasons]
64 = "tenant over its share"
255 = "prompt <too> long"

[state]
schema = 3
loads = [1, 2]

[fuel]
base = 20_000
per_record = 120

[config]
share = { type = "integer", default = 50, min = 1, max = 100, doc = "Percent." }
decay = { type = "float", default = 0.5, min = 0, max = 1.0 }
strict = { type = "boolean", default = true }
names = { type = "array-of-string", default = ["a", "b"] }
mode = { type = "string", default = "fair" }
ticks = { type = "array-of-integer", default = [1, 2], max = 9 }

[config.tenants]
type = "array-of-integer"
min = 0
required = true
`

func TestTheAuthorsFileSaysWhatTheSectionSays(t *testing.T) {
	m, err := ParseTOML([]byte(fullTOML))
	if err != nil || !reflect.DeepEqual(m, full()) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, m, full())
	}
	if m, err := ParseTOML(nil); err != nil || !reflect.DeepEqual(m, Manifest{}) {
		t.Errorf("an empty file: %+v, %v", m, err)
	}
}

func TestAuthorsFilesThatAreRefused(t *testing.T) {
	for _, tc := range []struct {
		text  string
		words []string
	}{
		{"nmae = \"x\"", []string{"nmae is no key of a manifest", "did you mean name?"}},
		{"xyzzy = 1", []string{"xyzzy", "the keys are name, version"}},
		{"[state]\nschema = 1\nload = [1]", []string{"state.load is no key", "did you mean loads?"}},
		{"[config.a]\ntype = \"integer\"\nmaximum = 1", []string{"config.a.maximum is no key", "type, default, min, max, required, doc"}},
		{"[fuel]\nbase = 1\nper_recrd = 1", []string{"fuel.per_recrd", "did you mean per_record?"}},
		{"name = 1", []string{"name is 1", "text in quotes"}},
		{"name = 2026-01-01", []string{"name is 2026-01-01"}},
		{"[reasons]\nold = \"x\"", []string{`reasons names "old"`, "64 to 255"}},
		{"[[counters]]\nx = 1", []string{"counters is", "list"}},
		{"[fuel]\nbase = 1.5", []string{"fuel.base is 1.5"}},
		{"[config.a]\ntype = \"float\"\nmax = inf", []string{"config.a.max is +Inf"}},
		{"name = \"x\"\nname = \"y\"", []string{"line 2", "already"}},
		{"name = ", []string{"line 1"}},
		{"a = \"" + strings.Repeat("x", MaxBytes) + "\"", []string{"at most 65536"}},
	} {
		_, err := ParseTOML([]byte(tc.text))
		if err == nil {
			t.Errorf("%.60q is taken", tc.text)
			continue
		}
		for _, w := range tc.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%.60q: %q does not say %q", tc.text, err, w)
			}
		}
	}
}

func FuzzParseTOML(f *testing.F) {
	f.Add(fullTOML)
	f.Add("[config]\na = {type = \"string\", default = \"\\u0000\"}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseTOML([]byte(text))
		if err != nil {
			return
		}
		section, err := Encode(m)
		if err != nil {
			if len(text) < MaxBytes/8 {
				t.Fatalf("what was read cannot be written: %v\n%s", err, text)
			}
			return
		}
		if again, err := Parse(section); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%v\n%+v\n%+v", err, again, m)
		}
	})
}

func TestSourceHash(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	dir := fstest.MapFS{"main.go": file("package main"), "sluice/abi/a.go": file("package abi"), "manifest.toml": file("")}
	hash := func() string {
		t.Helper()
		h, err := SourceHash(dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	var text string
	for _, f := range [][2]string{{"main.go", "package main"}, {"manifest.toml", ""}, {"sluice/abi/a.go", "package abi"}} {
		text += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(f[1])), f[0])
	}
	first := hash()
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(text))); first != want {
		t.Errorf("%s, want %s", first, want)
	}
	for _, made := range []string{"x.wasm", "x.wasm.sig", ".git/config", "sluice/.hidden", "node_modules/a/b.ts", "target/x", "zig-out/x"} {
		dir[made] = file("made")
	}
	if hash() != first {
		t.Error("what a build makes changes the hash of the sources")
	}
	// A folder sorts by its path and not before or after files.
	dir["sluice.go"] = file("x")
	second := hash()
	dir["main.go"] = file("package main2")
	if second == first || hash() == second {
		t.Error("a new file, or a changed one, does not change the hash")
	}
	dir["main.go\n"] = file("")
	if _, err := SourceHash(dir); err == nil || !strings.Contains(err.Error(), "line break") {
		t.Errorf("a line break in a name: %v", err)
	}
}
