package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	testHash = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
	testKey  = "ed25519:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

func mustLoad(t *testing.T, src Sources) *Config {
	t.Helper()
	cfg, _, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestProblemsOfAFile(t *testing.T) {
	cases := []struct {
		name string
		file string
		want []string // each line of the error begins with one of these, in order
	}{
		{"key in the wrong section", "[http]\nranks = 2\n",
			[]string{"c.toml:2: unknown key http.ranks; did you mean decode.ranks?"}},
		{"misspelt key", "[decode]\n\npage_sise = 64\n",
			[]string{"c.toml:3: unknown key decode.page_sise; did you mean decode.page_size?"}},
		{"misspelt key outside any section", "page_sise = 64\n",
			[]string{"c.toml:1: unknown key page_sise; did you mean decode.page_size?"}},
		{"misspelt section", "[decod]\nranks = 1\n",
			[]string{"c.toml:1: unknown section [decod]; did you mean [decode]?",
				"c.toml:2: unknown key decod.ranks; did you mean decode.ranks?"}},
		{"section like none", "[hicahe]\nratio = 2\n",
			[]string{"c.toml:1: unknown section [hicahe]; the sections are http, decode",
				"c.toml:2: unknown key hicahe.ratio; "}},
		{"misspelt hook keeps its own key", "[policy.reserv]\nbuiltin = \"none\"\n",
			[]string{"c.toml:1: unknown section [policy.reserv]; did you mean [policy.reserve]?",
				"c.toml:2: unknown key policy.reserv.builtin; did you mean policy.reserve.builtin?"}},
		{"key like none", "[http]\nquality_of_service = 1\n",
			[]string{"c.toml:2: unknown key http.quality_of_service; the nearest valid name is "}},
		{"dotted key", "http.prt = 1\n", []string{"c.toml:1: unknown key http.prt; did you mean http.port?"}},
		{"quoted key", "[http]\n\"po.rt\" = 1\n", []string{`c.toml:2: unknown key http."po.rt"; did you mean http.port?`}},
		{"quoted key with a dot is not a path", "\"http.port\" = 1\n", []string{`c.toml:1: unknown key "http.port"; did you mean http.port?`}},
		{"inline table", "http = { host = \"::1\", prt = 1 }\n", []string{"c.toml:1: unknown key http.prt; did you mean http.port?"}},
		{"upper case", "[http]\nPORT = 1\n", []string{"c.toml:2: unknown key http.PORT; did you mean http.port?"}},
		{"line after long strings and arrays", "[policy.gate.config]\ntext = \"\"\"\none\n\"two\"\n\"\"\"\nlist = [ # why\n 1,\n 2,\n]\n[http]\nprt = 1\n",
			[]string{"c.toml:11: unknown key http.prt; did you mean http.port?"}},
		{"below the range", "[decode]\nranks = 0\n", []string{"c.toml:2: decode.ranks is 0, allowed is 1 to 8"}},
		{"above the range", "[decode]\nranks = 9\n", []string{"c.toml:2: decode.ranks is 9, allowed is 1 to 8"}},
		{"open end of a range", "[decode]\novercommit = 0.0\n", []string{"c.toml:2: decode.overcommit is 0.0, allowed is more than 0, up to 1"}},
		{"not a number", "[decode]\nl2_ratio = nan\n", []string{"c.toml:2: decode.l2_ratio is NaN, allowed is 0 to 64"}},
		{"infinite", "[decode]\nl2_ratio = inf\n", []string{"c.toml:2: decode.l2_ratio is +Inf, allowed is 0 to 64"}},
		{"integer overflow", "[http]\nport = 99999999999999999999\n", []string{"c.toml:2: http.port is 99999999999999999999, allowed is 0 to 65535"}},
		{"hex overflow", "[http]\nport = 0xfffffffffffffffff\n", []string{"c.toml:2: http.port is 0xfffffffffffffffff, allowed is 0 to 65535"}},
		{"float overflow", "[decode]\nl2_ratio = 1e999\n", []string{"c.toml:2: decode.l2_ratio is 1e999, allowed is 0 to 64"}},
		{"size overflow", "[http]\nmax_body = \"9999999999999GiB\"\n", []string{"c.toml:2: http.max_body is 9999999999999GiB, allowed is 1KiB to 1GiB"}},
		{"size in digits overflow", "[http]\nmax_body = \"99999999999999999999B\"\n", []string{"c.toml:2: http.max_body is 99999999999999999999B, allowed is 1KiB to 1GiB"}},
		{"duration overflow", "[http]\nread_timeout = \"99999999999h\"\n", []string{"c.toml:2: http.read_timeout is 99999999999h, allowed is 10ms to 1h"}},
		{"overflow in a free table", "[policy.gate.config]\nn = [1, 99999999999999999999]\n",
			[]string{"c.toml:2: policy.gate.config.n holds a number that does not fit 64 bits"}},
		{"duration without a unit", "[http]\nread_timeout = \"30\"\n", []string{`c.toml:2: http.read_timeout is 30, which has no unit; write "30s"`}},
		{"duration as a number", "[http]\nread_timeout = 30\n", []string{`c.toml:2: http.read_timeout is 30, which has no unit; write "30s"`}},
		{"duration of zero without a unit", "[http]\nshutdown_grace = \"0\"\n", []string{`c.toml:2: http.shutdown_grace is 0, which has no unit; write "0s"`}},
		{"short duration without a unit", "[decode]\nidle_tick = 20\n", []string{`c.toml:2: decode.idle_tick is 20, which has no unit; write "20ms"`}},
		{"size without a unit", "[http]\nmax_body = 8\n", []string{`c.toml:2: http.max_body is 8, which has no unit; write "8MiB"`}},
		{"size in bytes without a unit", "[http]\nmax_body = \"1048576\"\n", []string{`c.toml:2: http.max_body is 1048576, which has no unit; write "1048576B"`}},
		{"decimal size unit", "[http]\nmax_body = \"8MB\"\n", []string{`c.toml:2: http.max_body has the unit "MB", which is not known; write "8MiB"`}},
		{"unknown duration unit", "[http]\nread_timeout = \"30 sec\"\n", []string{`c.toml:2: http.read_timeout is "30 sec"; it must be a number and one of the units ms, s, m, h`}},
		{"unknown enum", "[log]\nlevel = \"inof\"\n", []string{`c.toml:2: log.level is "inof", must be one of debug, info, warn, error; did you mean "info"?`}},
		{"unknown builtin", "[policy.gate]\nbuiltin = \"restore-gate\"\n", []string{`c.toml:2: policy.gate.builtin is "restore-gate", must be one of restore-gated, pending-only, ungated; did you mean "restore-gated"?`}},
		{"string for an integer", "[decode]\npage_size = \"64\"\n", []string{`c.toml:2: decode.page_size must be an integer, is the string "64"`}},
		{"float for an integer", "[decode]\npage_size = 64.0\n", []string{`c.toml:2: decode.page_size must be an integer, is the number 64.0`}},
		{"integer for a flag", "[decode]\nchecksums = 1\n", []string{`c.toml:2: decode.checksums must be true or false, is the integer 1`}},
		{"table for a value", "[http.port]\n", []string{"c.toml:1: http.port must be an integer, is a table"}},
		{"value for a section", "http = 3\n", []string{"c.toml:1: http is a section and not a value, is the integer 3; write [http]"}},
		{"list of sections", "[[http]]\nport = 1\n", []string{"c.toml:1: http is a section and not a value, is an array of tables; write [http]"}},
		{"value for a free table", "[policy.gate]\nconfig = 1\n", []string{"c.toml:2: policy.gate.config must be a table, is an integer"}},
		{"string for a free table", "[policy.gate]\nconfig = \"hunter2\"\n", []string{"c.toml:2: policy.gate.config must be a table, is a string"}},
		{"a large free table", "[policy.gate.config]\na = \"" + strings.Repeat("x", MaxPolicyTable) + "\"\n",
			[]string{"c.toml:1: policy.gate.config has 65544 bytes as JSON, at most 65536 are allowed; give a smaller table"}},
		{"infinite in a free table", "[policy.gate.config]\na.b = [inf]\n", []string{"c.toml:1: policy.gate.config holds an infinity or NaN at a.b[0], which JSON cannot say"}},
		{"bad host", "[http]\nhost = \"a b\"\n", []string{`c.toml:2: http.host is "a b", must be an IP address or a host name`}},
		{"control character", "[model]\nname = \"a\\nb\"\n", []string{`c.toml:2: model.name is "a\nb", which holds a control character`}},
		{"builtin and path", "[policy.admit]\nbuiltin = \"greedy\"\npath = \"a.wasm\"\n", []string{"c.toml:3: policy.admit.builtin and policy.admit.path are both set; remove one"}},
		{"neither builtin nor path", "[policy.admit]\nbuiltin = \"\"\n", []string{"c.toml:2: neither policy.admit.builtin nor policy.admit.path is set; set one"}},
		{"native path", "[policy.admit]\npath = \"a.wasm\"\nengine = \"native\"\n", []string{`c.toml:3: policy.admit.engine is "native", but policy.admit.path (c.toml:2) is a Wasm module`}},
		{"sha256 that is none", "[policy.gate]\npath = \"a.wasm\"\nsha256 = \"12ab\"\n", []string{`c.toml:3: policy.gate.sha256 is "12ab", must be 64 hex digits`}},
		{"key that is none", "[policy.gate]\npath = \"a.wasm\"\nkey = \"ed25519:AAAA\"\n", []string{`c.toml:3: policy.gate.key is "ed25519:AAAA", must be "ed25519:" and a public key in base64`}},
		{"key of another kind", "[policy.gate]\npath = \"a.wasm\"\nkey = \"rsa:" + testKey[8:] + "\"\n", []string{`c.toml:3: policy.gate.key is "rsa:`}},
		{"pins without path", "[policy.admit]\nsha256 = \"" + testHash + "\"\nkey = \"" + testKey + "\"\nmemory_pages = 9\n", []string{
			`c.toml:2: policy.admit.sha256 is set, but the policy is the builtin "fifo-headroom"; name a module in policy.admit.path, or remove sha256`,
			`c.toml:3: policy.admit.key is set, but the policy is the builtin "fifo-headroom"`,
			`c.toml:4: policy.admit.memory_pages is set, but the policy is the builtin "fifo-headroom"`}},
		{"memory pages", "[policy.gate]\npath = \"a.wasm\"\nmemory_pages = 65537\n", []string{`c.toml:3: policy.gate.memory_pages is 65537, allowed is 0 to 65536`}},
		{"shadow ticks out of range", "[policy.gate]\nshadow_ticks = -1\n[policy.admit]\nshadow_ticks = 1000000001\n", []string{
			"c.toml:2: policy.gate.shadow_ticks is -1, allowed is 0 to 1000000000", "c.toml:4: policy.admit.shadow_ticks is 1000000001, allowed is 0 to 1000000000"}},
		{"shadow ticks in words", "[policy.gate]\nshadow_ticks = \"200\"\n", []string{"c.toml:2: policy.gate.shadow_ticks"}},
		{"fuel below zero", "[policy.reserve.fuel]\nbase = -1\nper_record = 1000000001\ncap = 0\n", []string{
			"c.toml:2: policy.reserve.fuel.base is -1, allowed is 1 to 1000000000", "c.toml:3: policy.reserve.fuel.per_record is 1000000001, allowed is 1 to 1000000000",
			"c.toml:4: policy.reserve.fuel.cap is 0, allowed is 1 to 1000000000"}},
		{"fuel as a number", "[policy.gate]\nfuel = 5\n", []string{"c.toml:2: policy.gate.fuel must be a table, is the integer 5; write its keys in braces, such as { base = 20_000_000, per_record = 10_000 }"}},
		{"on_fault that is not offered", "[policy.gate]\non_fault = \"nativ\"\n", []string{`c.toml:2: policy.gate.on_fault is "nativ", must be one of native, hold; did you mean "native"?`}},
		{"on_fault of another type", "[policy.admit]\non_fault = true\n", []string{`c.toml:2: policy.admit.on_fault must be one of a few names, is true`}},
		{"quarantine that is no table", "[policy.gate]\nquarantine = 0\n", []string{"c.toml:2: policy.gate.quarantine must be a table, is the integer 0; write its keys in braces, such as { faults = 3, window_ticks = 1000 }"}},
		{"quarantine as a list", "[[policy.gate.quarantine]]\nfaults = 3\n", []string{"c.toml:1: policy.gate.quarantine must be a table, is an array of tables; write its keys in braces"}},
		{"quarantine of nothing", "[policy.gate]\non_fault = \"hold\"\nquarantine = { faults = 0, window_ticks = 0 }\n", []string{
			"c.toml:3: policy.gate.quarantine.faults is 0, allowed is 1 to 1000", "c.toml:3: policy.gate.quarantine.window_ticks is 0, allowed is 1 to 1000000000"}},
		{"quarantine below zero", "[policy.score]\nquarantine = { faults = -3 }\n", []string{"c.toml:2: policy.score.quarantine.faults is -3, allowed is 1 to 1000"}},
		{"quarantine above the range", "[policy.reserve.quarantine]\nwindow_ticks = 1000000001\nfaults = 99999999999999999999\n", []string{
			"c.toml:2: policy.reserve.quarantine.window_ticks is 1000000001, allowed is 1 to 1000000000", "c.toml:3: policy.reserve.quarantine.faults is 99999999999999999999, allowed is 1 to 1000"}},
		{"quarantine of other types", "[policy.gate]\nquarantine = { faults = \"3\", window_ticks = 1.5 }\n", []string{
			`c.toml:2: policy.gate.quarantine.faults must be an integer, is the string "3"`, "c.toml:2: policy.gate.quarantine.window_ticks must be an integer, is the number 1.5"}},
		{"unknown keys of quarantine", "[policy.gate]\nquarantine = { fault = 3, ticks = 4 }\n", []string{
			"c.toml:2: unknown key policy.gate.quarantine.fault; did you mean policy.gate.quarantine.faults?", "c.toml:2: unknown key policy.gate.quarantine.ticks; "}},
		{"misspelt quarantine", "[policy.gate]\nquarantin = { faults = 3 }\n", []string{
			"c.toml:2: unknown section [policy.gate.quarantin]; did you mean policy.gate.quarantine?", "c.toml:2: unknown key policy.gate.quarantin.faults; did you mean policy.gate.quarantine.faults?"}},
		{"misspelt config", "[policy.gate]\nconfg = { token = \"x\" }\n", []string{"c.toml:2: unknown section [policy.gate.confg]; did you mean policy.gate.config?"}},
		{"misspelt limits", "[policy.gate]\nfuel = { bse = 1 }\nmemory_page = 1\nsha265 = \"\"\n", []string{"c.toml:2: unknown key policy.gate.fuel.bse; did you mean policy.gate.fuel.base?",
			"c.toml:3: unknown key policy.gate.memory_page; did you mean policy.gate.memory_pages?", "c.toml:4: unknown key policy.gate.sha265; did you mean policy.gate.sha256?"}},
		{"less than two pages", "[decode]\npage_size = 64\nmax_total_tokens = 127\nreserved_decode_tokens = 0\n", []string{"c.toml:3: decode.max_total_tokens is 127, but L1 needs at least two pages of decode.page_size (64); write 128 or more"}},
		{"reserve of everything", "[decode]\nmax_total_tokens = 512\n", []string{"default: decode.reserved_decode_tokens is 512, which leaves nothing of decode.max_total_tokens (512)"}},
		{"request larger than L1", "[decode]\nmax_tokens_per_request = 65537\n", []string{"c.toml:2: decode.max_tokens_per_request is 65537, more than decode.max_total_tokens (65536)"}},
		{"prefill and decode that do not divide each other", "[decode]\nranks = 8\n[prefill]\ntp = 3\n", []string{"c.toml:4: prefill.tp is 3, but one of prefill.tp and decode.ranks (8) must divide the other"}},
		{"more pages than numbers", "[decode]\npage_size = 1\nmax_total_tokens = 268435456\nl2_ratio = 64\n", []string{"c.toml:4: decode.l2_ratio is 64, which makes 17179869184 pages of L2"}},
		{"idle ticks too far apart", "[decode]\nidle_tick = \"501ms\"\n", []string{"c.toml:2: decode.idle_tick is 501ms, but idle ranks must meet within a quarter of decode.exchange_deadline (2s); write 500ms or less"}},
		{"ring smaller than a page", "[prefill]\nstaging_ring = \"4KiB\"\n[model]\nbytes_per_token_layer = 1024\n", []string{`c.toml:2: prefill.staging_ring is 4KiB, but one page is 32KiB (decode.page_size x model.layers x model.bytes_per_token_layer); write "32KiB" or more`}},
		{"a wrong key hides no cross check of others", "[decode]\npage_size = 0\nidle_tick = \"1s\"\n",
			[]string{"c.toml:2: decode.page_size is 0, allowed is 1 to 1024", "c.toml:3: decode.idle_tick is 1s, but"}},
		{"duplicate key stops", "[http]\nport = 1\nranks = 1\nport = 2\n", []string{"c.toml:4: the key http.port is written twice, first on line 2; remove one"}},
		{"duplicate section stops", "[http]\n[log]\nx = 1\n[http]\n", []string{"c.toml:4: the section [http] is written twice, first on line 1; remove one"}},
		{"syntax error stops", "[http]\nranks = 1\nport = = 2\n", []string{"c.toml:3: expected value but found '='"}},
		{"unclosed string", "[http]\nhost = \"a\n", []string{"c.toml:2: "}},
		{"overflow and syntax error", "[http]\nport = 99999999999999999999\nx = = 2\n", []string{"c.toml:3: "}},
		{"everything at once, by line", "[http]\nranks = 1\nport = 70000\n[log]\nlevel = \"loud\"\n[hicahe]\n",
			[]string{"c.toml:2: unknown key http.ranks", "c.toml:3: http.port is 70000", "c.toml:5: log.level", "c.toml:6: unknown section [hicahe]"}},
		{"windows line ends and byte order mark", "\xef\xbb\xbf[http]\r\nprt = 1\r\n", []string{"c.toml:2: unknown key http.prt"}},
		{"too deep", "a = " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n", []string{"c.toml:1: tables and arrays nest deeper than 64"}},
		{"too deep a key", strings.Repeat("a.", 100) + "a = 1\n", []string{"c.toml:1: tables and arrays nest deeper than 64"}},
		{"empty key", "[policy.gate.config]\na = [1, { \"\" = 2 }]\n", []string{`c.toml:2: a key is empty (""); give it a name`}},
		{"too large", "#" + strings.Repeat("x", MaxFile), []string{"c.toml:1: the file has 1048577 bytes"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg, _, err := Load(Sources{FileName: "c.toml", File: []byte(c.file)})
			var problems Problems
			if !errors.As(err, &problems) || cfg != nil {
				t.Fatalf("got config %v and error %v, want Problems", cfg, err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) || len(lines) != len(problems) {
				t.Fatalf("got %d problems, want %d:\n%v", len(lines), len(c.want), err)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("problem %d:\n got %s\nwant %s", i, lines[i], want)
				}
			}
		})
	}
}

// The same wrong values give the same text from each source; only the place differs.
func TestOneValidationForAllSources(t *testing.T) {
	cases := []struct{ key, toml, text string }{
		{"http.port", "70000", "70000"},
		{"http.port", "99999999999999999999", "99999999999999999999"},
		{"http.read_timeout", `"30"`, "30"},
		{"http.read_timeout", `"2h"`, "2h"},
		{"http.max_body", `"8MB"`, "8MB"},
		{"log.level", `"loud"`, "loud"},
		{"decode.overcommit", "1.5", "1.5"},
		{"decode.ranks", "-1", "-1"},
		{"http.host", `"a b"`, "a b"},
		{"policy.gate.config", "{ a = inf }", ""},
	}
	for _, c := range cases {
		t.Run(c.key+"="+c.text, func(t *testing.T) {
			var k Key
			for _, k = range Keys() {
				if k.Name == c.key {
					break
				}
			}
			sources := map[string]Sources{
				"f.toml:2":   {FileName: "f.toml", File: fmt.Appendf(nil, "[%s]\n%s = %s\n", k.Section(), k.Leaf(), c.toml)},
				k.Env():      {Environ: []string{"HOME=/", k.Env() + "=" + c.text}},
				"--" + c.key: {Flags: map[string]string{c.key: c.text}},
			}
			texts := map[string]bool{}
			for place, src := range sources {
				_, _, err := Load(src)
				var problems Problems
				if !errors.As(err, &problems) || len(problems) != 1 {
					t.Fatalf("%s: got %v, want one problem", place, err)
				}
				if problems[0].Source != place {
					t.Errorf("got source %s, want %s", problems[0].Source, place)
				}
				if problems[0].Key != c.key {
					t.Errorf("got key %s, want %s", problems[0].Key, c.key)
				}
				texts[problems[0].Text] = true
			}
			if c.text != "" && len(texts) != 1 {
				t.Errorf("the sources disagree: %v", texts)
			}
		})
	}
}

func TestProblemsOfEnvironmentAndFlags(t *testing.T) {
	_, _, err := Load(Sources{
		FileName: "c.toml", File: []byte("[http]\nranks = 1\n"),
		Environ: []string{"SLUICE_HTTP_PROT=1", "PATH=/bin", "SLUICE_POLICY_GATE_CONFIG=[1]", "SLUICE_MODEL_NAME=\xff"},
		Flags:   map[string]string{"http.prt": "1", "policy.admit.config": `{"a": null}`, "decode.checksums": "yes"},
	})
	want := []string{
		`c.toml:2: unknown key http.ranks; did you mean decode.ranks?`,
		`SLUICE_HTTP_PROT: no key has this name; did you mean SLUICE_HTTP_PORT? (names that begin with SLUICE_ are the configuration's)`,
		`SLUICE_MODEL_NAME: model.name is "\xff", which is not valid UTF-8`,
		`SLUICE_POLICY_GATE_CONFIG: policy.gate.config is no JSON object; write one JSON object, such as {"window": 8}`,
		`--decode.checksums: decode.checksums must be true or false, is "yes"`,
		`--http.prt: no key has this name; did you mean --http.port?`,
		`--policy.admit.config: policy.admit.config holds null at a; leave the key out`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func TestPrecedence(t *testing.T) {
	file := []byte("[http]\nport = 2\n[log]\nlevel = \"warn\"\n[decode]\nranks = 4\n")
	cfg := mustLoad(t, Sources{
		FileName: "c.toml", File: file,
		Environ: []string{"SLUICE_HTTP_PORT=3", "SLUICE_LOG_LEVEL=error"},
		Flags:   map[string]string{"http.port": "4"},
	})
	if cfg.HTTP.Port != 4 || cfg.Log.Level != "error" || cfg.Decode.Ranks != 4 || cfg.Decode.PageSize != 16 {
		t.Errorf("got port %d (flag 4), level %s (env error), ranks %d (file 4), page size %d (default 16)",
			cfg.HTTP.Port, cfg.Log.Level, cfg.Decode.Ranks, cfg.Decode.PageSize)
	}
	if _, _, err := Load(Sources{FileName: "c.toml", File: []byte("[http]\nport = 70000\n"), Flags: map[string]string{"http.port": "4"}}); err == nil {
		t.Error("a wrong value in the file passes because a flag overrides it")
	}
}

func TestValuesOfEveryKind(t *testing.T) {
	cfg := mustLoad(t, Sources{FileName: "c.toml", File: []byte(`
http = { host = "::1", port = 0x1F90, read_timeout = "1m30s" }
decode.l2_ratio = 2
decode.checksums = false
prefill.staging_ring = "1536KiB"
model."seed" = 1_000
`)})
	want := Default()
	want.HTTP.Host, want.HTTP.Port, want.HTTP.ReadTimeout = "::1", 8080, 90*time.Second
	want.Decode.L2Ratio, want.Decode.Checksums = 2, false
	want.Prefill.StagingRing, want.Model.Seed = 1536<<10, 1000
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got  %+v\nwant %+v", cfg, want)
	}
}

func TestHookChoice(t *testing.T) {
	const file = "[policy.gate]\n"
	cases := []struct {
		name          string
		file          string
		env           []string
		flags         map[string]string
		builtin, path string
	}{
		{"default", "", nil, nil, "restore-gated", ""},
		{"path in the file replaces the default", file + `path = "/a.wasm"`, nil, nil, "", "/a.wasm"},
		{"path of a flag replaces the file's builtin", file + `builtin = "ungated"`, nil, map[string]string{"policy.gate.path": "b.wasm"}, "", "b.wasm"},
		{"builtin of the environment replaces the file's path", file + `path = "/a.wasm"`, []string{"SLUICE_POLICY_GATE_BUILTIN=ungated"}, nil, "ungated", ""},
		{"empty builtin beside a path", file + "builtin = \"\"\npath = \"/a.wasm\"", nil, nil, "", "/a.wasm"},
		{"emptied path falls back to the lower builtin", file + `builtin = "ungated"`, []string{"SLUICE_POLICY_GATE_PATH="}, nil, "ungated", ""},
		{"relative path starts at the file", file + `path = "sub/a.wasm"`, nil, nil, "", "etc/sub/a.wasm"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := mustLoad(t, Sources{FileName: "etc/c.toml", File: []byte(c.file), Environ: c.env, Flags: c.flags})
			if g := cfg.Policy.Gate; g.Builtin != c.builtin || g.Path != c.path {
				t.Errorf("got builtin %q and path %q, want %q and %q", g.Builtin, g.Path, c.builtin, c.path)
			}
		})
	}
}

// A pin in the file holds a flag's module too, until the flags take it back; a builtin in its place is refused.
func TestPinsAndLimits(t *testing.T) {
	file := []byte("[policy.gate]\npath = \"/a.wasm\"\nsha256 = \"" + testHash + "\"\nkey = \"" + testKey + "\"\nfuel = { base = 7, cap = 11 }\nmemory_pages = 65536\nshadow_ticks = 200\n")
	env := []string{"SLUICE_POLICY_GATE_FUEL_PER_RECORD=9"}
	want := Default().Policy.Gate
	want.Builtin, want.Path, want.SHA256, want.Key = "", "/b.wasm", testHash, testKey
	want.Fuel, want.MemoryPages, want.OnFault, want.ShadowTicks = Fuel{7, 9, 11}, 65536, OnFaultNative, 200
	cfg := mustLoad(t, Sources{FileName: "c.toml", File: file, Environ: env, Flags: map[string]string{"policy.gate.path": "/b.wasm"}})
	if !reflect.DeepEqual(cfg.Policy.Gate, want) {
		t.Errorf("got  %+v\nwant %+v", cfg.Policy.Gate, want)
	}
	flags := map[string]string{"policy.gate.builtin": "ungated"}
	if _, _, err := Load(Sources{FileName: "c.toml", File: file, Flags: flags}); err == nil || !strings.HasPrefix(err.Error(), `c.toml:3: policy.gate.sha256 is set, but the policy is the builtin "ungated"`) {
		t.Errorf("a pinned builtin: %v", err)
	}
	flags["policy.gate.sha256"], flags["policy.gate.key"], flags["policy.gate.memory_pages"] = "", "", "0"
	if g := mustLoad(t, Sources{FileName: "c.toml", File: file, Flags: flags}).Policy.Gate; g.Builtin != "ungated" || g.SHA256 != "" || g.Key != "" {
		t.Errorf("after the pins were taken back: %+v", g)
	}
}

// What a hook's quarantine leaves out is as in [policy], from wherever either comes, and an emptied text takes a value back.
func TestQuarantineOfAHook(t *testing.T) {
	file := []byte("[policy]\nquarantine_faults = 7\n[policy.gate]\non_fault = \"hold\"\nquarantine = { faults = 2, window_ticks = 50 }\n[policy.admit]\nquarantine.window_ticks = 9\n")
	cfg := mustLoad(t, Sources{FileName: "c.toml", File: file, Environ: []string{"SLUICE_POLICY_QUARANTINE_WINDOW_TICKS=600"},
		Flags: map[string]string{"policy.score.quarantine.faults": "4", "policy.gate.quarantine.window_ticks": ""}})
	p := &cfg.Policy
	for _, c := range []struct {
		name      string
		hook      *Hook
		own, want Quarantine
		onFault   string
	}{
		{"gate", &p.Gate, Quarantine{Faults: 2}, Quarantine{2, 600}, OnFaultHold},
		{"reserve", &p.Reserve, Quarantine{}, Quarantine{7, 600}, OnFaultNative},
		{"admit", &p.Admit, Quarantine{WindowTicks: 9}, Quarantine{7, 9}, OnFaultNative},
		{"score", &p.Score, Quarantine{Faults: 4}, Quarantine{4, 600}, OnFaultNative},
	} {
		if got := p.QuarantineOf(c.hook); c.hook.Quarantine != c.own || got != c.want || c.hook.OnFault != c.onFault {
			t.Errorf("%s: own %+v, in force %+v, on_fault %q; want %+v, %+v, %q", c.name, c.hook.Quarantine, got, c.hook.OnFault, c.own, c.want, c.onFault)
		}
	}
	_, text, err := printAndReload(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"on_fault = \"hold\"\nfuel = {}\nquarantine = { faults = 2 }\n", "quarantine = {}\n", "quarantine = { window_ticks = 9 }\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("printed without %q:\n%s", line, text)
		}
	}
}

func TestFreeTableIsCanonicalJSON(t *testing.T) {
	const file = `
[policy.gate.config]
zeta = 1
alpha = 1.0
"a b" = "x\"\\\u0001<é"
big = 1e30
day = 1979-05-27
at = 1979-05-27T07:32:00Z
[policy.gate.config.nested]
on = true
list = [{ b = 1, a = [] }, 2]
[[policy.gate.config.items]]
k = 1
[[policy.gate.config.items]]
k = 2
`
	const want = `{"a b":"x\"\\\u0001<é","alpha":1.0,"at":"1979-05-27T07:32:00Z","big":1e+30,"day":"1979-05-27",` +
		`"items":[{"k":1},{"k":2}],"nested":{"list":[{"a":[],"b":1},2],"on":true},"zeta":1}`
	cfg := mustLoad(t, Sources{FileName: "c.toml", File: []byte(file)})
	if got := string(cfg.Policy.Gate.Config); got != want {
		t.Errorf("from the file:\n got %s\nwant %s", got, want)
	}
	if got := string(cfg.Policy.Admit.Config); got != "{}" {
		t.Errorf("no table: got %s, want {}", got)
	}
	again := mustLoad(t, Sources{Flags: map[string]string{"policy.gate.config": " " + want + "\n"}})
	if got := string(again.Policy.Gate.Config); got != want {
		t.Errorf("from a flag:\n got %s\nwant %s", got, want)
	}
}

func TestWarnings(t *testing.T) {
	cases := []struct{ name, file, want string }{
		{"a shadow that is asked nothing", "[policy.score]\nshadow_ticks = 9\n", "c.toml:2: policy.score.shadow_ticks is 9, but a start with the builtin lru asks no score policy, so there is nothing to compare; remove it"},
		{"fuel of a native policy", "[policy.gate]\nengine = \"native\"\nfuel = { per_record = 5 }\n", `c.toml:3: policy.gate.fuel.per_record is 5, but native policies are not metered (policy.gate.engine is "native")`},
		{"a cap below any call", "[policy.gate]\nfuel = { cap = 1 }\n", "c.toml:2: policy.gate.fuel.cap is 1, far below what a call has by default (20000000)"},
		{"a cap below the base", "[policy.gate]\nfuel = { base = 9, cap = 5 }\n", "c.toml:2: policy.gate.fuel.cap is 5, less than policy.gate.fuel.base (9)"},
		{"quarantine of no policy", "[policy]\nquarantine_window_ticks = 2\n", "c.toml:2: policy.quarantine_window_ticks is 2, less than the 3 faults that quarantine a policy; one fault a tick counts, so that bad answers never quarantine one, only what decode.hold_ticks or decode.starve_ticks has to end"},
		{"quarantine of no gate", "[policy.gate]\nquarantine = { window_ticks = 2 }\n", "c.toml:2: policy.gate.quarantine.window_ticks makes 3 faults within 2 ticks; one fault a tick counts, so that bad answers never quarantine the policy, only what decode.hold_ticks has to end"},
		{"quarantine of no admit", "[policy]\nquarantine_window_ticks = 5\n[policy.admit]\nquarantine = { faults = 6 }\n", "c.toml:4: policy.admit.quarantine.faults makes 6 faults within 5 ticks; one fault a tick counts, so that bad answers never quarantine the policy, only what decode.starve_ticks has to end"},
		{"quarantine of no score", "[policy.score]\nbuiltin = \"lfu\"\nquarantine = { window_ticks = 2 }\n", "c.toml:3: policy.score.quarantine.window_ticks makes 3 faults within 2 ticks; one fault a tick counts, so that bad answers never quarantine the policy, and nothing else does"},
		{"L2 smaller than L1", "[decode]\nl2_ratio = 0.5\n", "c.toml:2: decode.l2_ratio is 0.5, so L2 is smaller than L1"},
		{"no L2", "[decode]\nl2_ratio = 0\n", "c.toml:2: decode.l2_ratio is 0, so there is no L2"},
		{"part of a page", "[decode]\nmax_total_tokens = 65537\n", "c.toml:2: decode.max_total_tokens is 65537, which is no multiple of decode.page_size (16); 65536 are used"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg, warnings, err := Load(Sources{FileName: "c.toml", File: []byte(c.file)})
			if err != nil || cfg == nil {
				t.Fatal(err)
			}
			if len(warnings) != 1 || !strings.HasPrefix(warnings[0].String(), c.want) {
				t.Errorf("got %v, want one that begins with %s", warnings, c.want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	cases := []struct {
		name, want string
		close      bool
	}{
		{"page_sise", "page_size", true},
		{"pagesize", "page_size", true},
		{"prot", "port", true},
		{"zzzz", "port", false},
		{"", "port", false},
		{"PAGE_SISE", "page_size", true},
		{"por", "port", true},
		{"page", "page_size", true},
		{"pa", "port", false},
		{"x", "port", false},
		{"pot", "port", true},
		{"poet", "port", true},
		{"past", "port", false},
		{"page_width", "page_size", false},
	}
	for _, c := range cases {
		if got, close := Nearest(c.name, []string{"port", "page_size"}); got != c.want || close != c.close {
			t.Errorf("%q: got %q, %v, want %q, %v", c.name, got, close, c.want, c.close)
		}
	}
	for _, c := range []struct {
		name       string
		candidates []string
		want       string // "": nothing is near
	}{
		{"nope", []string{"restore-gated", "pending-only", "ungated"}, ""},
		{"open", []string{"native", "hold"}, ""},
		{"load", []string{"native", "hold"}, ""},
		{"x", []string{"until-retired", "pending-only", "none"}, ""},
		{"restore", []string{"restore-gated", "pending-only", "ungated"}, "restore-gated"},
		{"windows", []string{"faults", "window_ticks"}, ""},
		{"window", []string{"faults", "window_ticks"}, "window_ticks"},
		{"pol", []string{"policy.gate.path", "policy.gate.builtin"}, ""},
		{"policy.gate.pa", []string{"policy.gate.path", "policy.gate.builtin"}, "policy.gate.path"},
		{"shear", []string{"tenants", "share"}, "share"},
		{"name", nil, ""},
	} {
		if got, close := Nearest(c.name, c.candidates); close != (c.want != "") || close && got != c.want {
			t.Errorf("%q of %q: got %q, %v, want %q", c.name, c.candidates, got, close, c.want)
		}
	}
	for name, want := range map[string]string{
		"policy.gate.quarantine.window": "policy.gate.quarantine.window_ticks",
		"policy.admit.fule.base":        "policy.admit.fuel.base",
	} {
		if got, close := NearestKey(name); got != want || !close {
			t.Errorf("%s: got %s, %v, want %s", name, got, close, want)
		}
	}
}

func TestSectionKeys(t *testing.T) {
	for name, want := range map[string][]string{
		"plugins":                {"plugins.cache_dir"},
		"policy.gate.quarantine": {"policy.gate.quarantine.faults", "policy.gate.quarantine.window_ticks"},
		"policy.gate.fuel":       {"policy.gate.fuel.base", "policy.gate.fuel.per_record", "policy.gate.fuel.cap"},
		"policy.gate.path":       nil,
		"policy.gat":             nil,
		"":                       nil,
	} {
		if got := SectionKeys(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestWhere(t *testing.T) {
	src := Sources{FileName: "c.toml", File: []byte("[policy.gate]\npath = \"a.wasm\"\n[policy.admit]\npath = \"b.wasm\"\n[policy.gate.config]\nn = 1\n"),
		Environ: []string{"SLUICE_HTTP_PORT=1"}, Flags: map[string]string{"policy.admit.path": "c.wasm"}}
	for key, want := range map[string]string{"policy.gate.path": "c.toml:2", "policy.gate.config": "c.toml:5", "policy.admit.path": "--policy.admit.path",
		"http.port": "SLUICE_HTTP_PORT", "http.host": "default", "http.prot": ""} {
		if got := Where(src, key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}
