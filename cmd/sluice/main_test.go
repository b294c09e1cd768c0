package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice"
	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/plugins/kit/kittest"
)

// runCommand runs one command line in-process under a clock that stands still.
func runCommand(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), &environment{
		args: args, environ: environ, stdin: strings.NewReader(""), stdout: &out, stderr: &errs, clock: clock.NewVirtual(),
	})
	return code, out.String(), errs.String()
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestUsageErrorsAreOneLineAndExitTwo(t *testing.T) {
	cases := []struct {
		name string
		args []string
		want string
	}{
		{"unknown command", []string{"nope"}, `sluice: unknown command "nope" for "sluice"`},
		{"mistyped command", []string{"polcy"}, `sluice: unknown command "polcy" for "sluice"; did you mean policy?`},
		{"short command", []string{"serv"}, `sluice: unknown command "serv" for "sluice"; did you mean serve?`},
		{"section as a flag", []string{"config", "check", "--policy.gate.fuel", "x"},
			"sluice: unknown flag: --policy.gate.fuel; it is a section, with the keys --policy.gate.fuel.base, --policy.gate.fuel.per_record, --policy.gate.fuel.cap"},
		{"beginning of a section", []string{"config", "check", "--pol", "3"}, "sluice: unknown flag: --pol; see sluice config check --help"},
		{"unknown flag", []string{"version", "--nope"}, "sluice: unknown flag: --nope; see sluice version --help"},
		{"unknown short flag", []string{"version", "-x"}, "sluice: unknown shorthand flag: 'x' in -x; see sluice version --help"},
		{"mistyped key", []string{"config", "check", "--http.prt", "1"}, "sluice: unknown flag: --http.prt; did you mean --http.port?"},
		{"key in the wrong section", []string{"config", "check", "--http.ranks", "1"}, "sluice: unknown flag: --http.ranks; did you mean --decode.ranks?"},
		{"mistyped flag", []string{"config", "check", "--confg", "x"}, "sluice: unknown flag: --confg; did you mean --config?"},
		{"flag without a value", []string{"config", "check", "--http.port"}, "sluice: flag needs an argument: --http.port; see sluice config check --help"},
		{"unknown argument", []string{"version", "now"}, `sluice: unknown command "now" for "sluice version"`},
		{"group alone", []string{"config"}, "sluice: config needs a command: check, print or default"},
		{"unknown in a group", []string{"config", "chek"}, `sluice: config has no command "chek"; use check, print or default`},
		{"no file", []string{"config", "check", "--config", "/does/not/exist"}, "sluice: read the configuration: open /does/not/exist: no such file or directory; name a readable TOML file with --config"},
		{"folder as a file", []string{"config", "check", "--config", "/"}, "sluice: read the configuration: / is a folder; name a readable TOML file with --config"},
		{"empty file name", []string{"config", "check", "--config="}, "sluice: read the configuration: open : no such file or directory; name a readable TOML file with --config"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runCommand(t, nil, c.args...)
			if code != exitUsage || out != "" || errs != c.want+"\n" {
				t.Errorf("got status %d, stdout %q, stderr\n%swant status 2 and\n%s", code, out, errs, c.want)
			}
		})
	}
}

func TestRootAloneShowsHelp(t *testing.T) {
	code, out, errs := runCommand(t, nil)
	if code != exitOK || !strings.Contains(out, "config") || !strings.Contains(out, "version") || errs != "" {
		t.Errorf("got status %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := runCommand(t, nil, "version")
	if code != exitOK || !strings.HasPrefix(out, "sluice ") || strings.Count(out, "\n") != 1 {
		t.Errorf("got status %d and %q", code, out)
	}
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"},
	}}
	info.Main.Version = "v1.2.3"
	if line := versionLine(info, true); !strings.HasPrefix(line, "sluice v1.2.3 modified (0123456789ab, go") {
		t.Errorf("got %q", line)
	}
	if line := versionLine(nil, false); !strings.HasPrefix(line, "sluice (devel) (go") {
		t.Errorf("without build information: got %q", line)
	}
}

func TestConfigCheck(t *testing.T) {
	good := writeFile(t, "[http]\nport = 0\n")
	warned := writeFile(t, "[decode]\nl2_ratio = 0.5\n")
	bad := writeFile(t, "[http]\nranks = 2\n[decode]\npage_sise = 64\n[hicahe]\n[policy.gate.config]\nany = \"thing\"\n")
	cases := []struct {
		name           string
		environ, args  []string
		code           int
		stdout, stderr string
	}{
		{"built-in", nil, nil, exitOK, "config ok\n", ""},
		{"file", nil, []string{"--config", good}, exitOK, "config ok\n", ""},
		{"warning", nil, []string{"--config", warned}, exitOK, "config ok\n",
			"warning: " + warned + ":2: decode.l2_ratio is 0.5, so L2 is smaller than L1: pages are evicted from L2 while L1 still holds them\n"},
		{"flag mends nothing of the file", nil, []string{"--config", bad, "--decode.page_size", "64"}, exitUsage, "",
			bad + ":2: unknown key http.ranks; did you mean decode.ranks?\n" +
				bad + ":4: unknown key decode.page_sise; did you mean decode.page_size?\n" +
				bad + ":5: unknown section [hicahe]; the sections are http, decode, prefill, model, router, policy, policy.gate, policy.reserve, policy.admit, policy.score, plugins, log\n"},
		{"every source at once", []string{"SLUICE_HTTP_PROT=1", "SLUICE_LOG_LEVEL=wran"}, []string{"--http.port=70000", "--http.read_timeout", "30"}, exitUsage, "",
			"SLUICE_HTTP_PROT: no key has this name; did you mean SLUICE_HTTP_PORT? (names that begin with SLUICE_ are the configuration's)\n" +
				"SLUICE_LOG_LEVEL: log.level is \"wran\", must be one of debug, info, warn, error; did you mean \"warn\"?\n" +
				"--http.port: http.port is 70000, allowed is 0 to 65535\n" +
				"--http.read_timeout: http.read_timeout is 30, which has no unit; write \"30s\"\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runCommand(t, c.environ, append([]string{"config", "check"}, c.args...)...)
			if code != c.code || out != c.stdout || errs != c.stderr {
				t.Errorf("got status %d, stdout %q, stderr\n%s\nwant status %d, stdout %q, stderr\n%s", code, out, errs, c.code, c.stdout, c.stderr)
			}
		})
	}
}

// What print writes is what check accepts, and flags and environment are in it.
func TestConfigPrint(t *testing.T) {
	code, out, errs := runCommand(t, []string{"SLUICE_LOG_LEVEL=debug"}, "config", "print", "--http.port", "1234", "--decode.checksums=false")
	if code != exitOK || errs != "" {
		t.Fatalf("status %d: %s", code, errs)
	}
	for _, want := range []string{"port = 1234\n", "checksums = false\n", "level = \"debug\"\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in\n%s", want, out)
		}
	}
	if code, _, errs := runCommand(t, nil, "config", "check", "--config", writeFile(t, out)); code != exitOK {
		t.Errorf("check refuses what print wrote: %s", errs)
	}
}

func TestConfigDefaultIsTheEmbeddedFile(t *testing.T) {
	code, out, _ := runCommand(t, nil, "config", "default")
	if code != exitOK || out != string(sluice.DefaultConfig) {
		t.Errorf("status %d; the text differs from the embedded file", code)
	}
}

// A module that is refused is told like any other mistake: where it is named, by which key, and once.
func TestConfigCheckPlacesARefusal(t *testing.T) {
	module := filepath.Join(t.TempDir(), "p.wasm")
	if err := os.WriteFile(module, kittest.Module(), 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, fmt.Sprintf("[policy.gate]\n\npath = %q\n", module))
	status, _, stderr := runCommand(t, nil, "config", "check", "--config", file)
	want := file + ":3: policy.gate.path: " + module + ": load_rejected{export}: the module exports none of "
	if status != exitUsage || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, got %s, want one line that begins with %s", status, stderr, want)
	}
}

func TestEveryKeyIsAFlag(t *testing.T) {
	cmd := &cobra.Command{}
	addConfigFlags(cmd)
	for _, k := range config.Keys() {
		if f := cmd.Flags().Lookup(k.Name); f == nil || f.Usage != firstSentence(k.Doc) || f.Usage == "" || !strings.HasPrefix(k.Doc, f.Usage) || f.DefValue != k.Default {
			t.Errorf("%s: got flag %+v", k.Name, f)
		}
	}
	flags := 0
	cmd.Flags().VisitAll(func(*pflag.Flag) { flags++ })
	if want := len(config.Keys()) + 1; flags != want {
		t.Errorf("got %d flags, want %d", flags, want)
	}
}

// A command's own error exits with 1, one marked as usage with 2, and both are told on stderr.
func TestExitStatusOfACommandsError(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, exitOK},
		{"broken", errors.New("a page has two holders"), exitBroken},
		{"usage", usage(errors.New("no such trace")), exitUsage},
		{"wrapped usage", fmt.Errorf("replay: %w", usage(errors.New("no such trace"))), exitUsage},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var started bool
			cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return c.err }}
			markStart(cmd, &started)
			cmd.SetArgs([]string{})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			var errs bytes.Buffer
			if got := exitStatus(cmd.Execute(), started, &errs); got != c.want {
				t.Errorf("got status %d, want %d", got, c.want)
			}
			if c.err != nil && errs.String() != "sluice: "+c.err.Error()+"\n" {
				t.Errorf("got stderr %q", errs.String())
			}
		})
	}
}

func TestAFailingOutputIsAnError(t *testing.T) {
	var errs bytes.Buffer
	for _, args := range [][]string{{"version"}, {"config", "print"}, {"config", "default"}, {"config", "check"}} {
		errs.Reset()
		code := run(context.Background(), &environment{args: args, stdout: brokenWriter{}, stderr: &errs})
		if code != exitBroken || !strings.Contains(errs.String(), "disk full") {
			t.Errorf("%v: got status %d and %q, want 1 and the reason", args, code, errs.String())
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }
