package config_test

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"sluice"
	"sluice/internal/config"
)

var rewrite = flag.Bool("rewrite", false, "write the repository's config.toml from the table of keys")

func TestEmbeddedFileIsTheTableOfKeys(t *testing.T) {
	var want bytes.Buffer
	if err := config.Annotate(&want); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("../../config.toml", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(sluice.DefaultConfig, want.Bytes()) {
		t.Error("config.toml differs from the table of keys; run: go test ./internal/config -run Embedded -rewrite")
	}
}

func TestEmbeddedFileLoadsAsTheDefaults(t *testing.T) {
	cfg, warnings, err := config.Load(config.Sources{FileName: "config.toml", File: sluice.DefaultConfig})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 0 {
		t.Errorf("the defaults warn: %v", warnings)
	}
	if want := config.Default(); !reflect.DeepEqual(cfg, want) {
		t.Errorf("got %+v\nwant %+v", cfg, want)
	}
	empty, _, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cfg, empty) {
		t.Error("an empty file and the default file differ")
	}
}

// Every key of the table has its comment in the file, whole and directly above it.
func TestEmbeddedFileExplainsEveryKey(t *testing.T) {
	lines := strings.Split(string(sluice.DefaultConfig), "\n")
	section, comments := "", ""
	explained := map[string]string{}
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "# "):
			comments += line[1:]
			continue
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			explained[section] = comments
		case strings.Contains(line, " = "):
			name, _, _ := strings.Cut(line, " = ")
			explained[section+"."+name] = comments
		}
		comments = ""
	}
	inline := map[string]bool{}
	for _, s := range config.InlineTables() {
		inline[s.Name] = true
		if !strings.Contains(explained[s.Name], s.Doc) {
			t.Errorf("%s: config.toml says %q, the table says %q", s.Name, explained[s.Name], s.Doc)
		}
	}
	for _, k := range config.Keys() {
		if inline[k.Section()] {
			if text := k.Leaf() + ": " + k.Doc; !strings.Contains(explained[k.Section()], text) {
				t.Errorf("%s: config.toml says %q, the table says %q", k.Section(), explained[k.Section()], text)
			}
			continue
		}
		if !strings.Contains(explained[k.Name], k.Doc) {
			t.Errorf("%s: config.toml says %q, the table says %q", k.Name, explained[k.Name], k.Doc)
		}
	}
	for _, s := range config.Sections() {
		if !strings.Contains(explained[s.Name], s.Doc) {
			t.Errorf("[%s]: config.toml says %q, the table says %q", s.Name, explained[s.Name], s.Doc)
		}
	}
}

func TestTableOfKeysIsSound(t *testing.T) {
	sections := map[string]bool{}
	for _, s := range append(config.Sections(), config.InlineTables()...) {
		sections[s.Name] = true
	}
	names, envs := map[string]bool{}, map[string]bool{}
	for _, k := range config.Keys() {
		if names[k.Name] || envs[k.Env()] {
			t.Errorf("%s: its name or %s is used twice", k.Name, k.Env())
		}
		names[k.Name], envs[k.Env()] = true, true
		if !sections[k.Section()] {
			t.Errorf("%s: section %q is not listed", k.Name, k.Section())
		}
		if k.Doc == "" {
			t.Errorf("%s: no doc", k.Name)
		}
		// The default passes the checks of the key itself, given as a flag.
		text := strings.Trim(k.Default, `"`)
		if _, _, err := config.Load(config.Sources{Flags: map[string]string{k.Name: text}}); err != nil {
			t.Errorf("%s: its default is refused: %v", k.Name, err)
		}
	}
}
