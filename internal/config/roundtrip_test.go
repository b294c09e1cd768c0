package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"pgregory.net/rapid"
)

// printAndReload prints cfg and loads the text; the file's folder is the working folder, so paths stay as they are.
func printAndReload(cfg *Config) (*Config, string, error) {
	var b bytes.Buffer
	if err := cfg.Print(&b); err != nil {
		return nil, "", err
	}
	again, _, err := Load(Sources{FileName: "printed.toml", File: b.Bytes()})
	return again, b.String(), err
}

func drawValue(t *rapid.T, k Key) any {
	switch k.Kind {
	case KindString:
		if k.check != nil {
			return rapid.StringMatching(`[a-z0-9.:-]{1,20}`).Draw(t, k.Name)
		}
		return ""
	case KindEnum:
		return rapid.SampledFrom(k.Enum).Draw(t, k.Name)
	case KindInt:
		if k.optional && rapid.Bool().Draw(t, k.Name+" is set") {
			return 0
		}
		return int(rapid.Int64Range(k.low, k.high).Draw(t, k.Name))
	case KindFloat:
		f := rapid.Float64Range(k.flow, k.fhigh).Draw(t, k.Name)
		if k.openLow && f == k.flow {
			return k.fhigh
		}
		return f
	case KindBool:
		return rapid.Bool().Draw(t, k.Name)
	case KindDuration:
		return time.Duration(rapid.Int64Range(k.low, k.high).Draw(t, k.Name))
	case KindSize:
		return rapid.Int64Range(k.low, k.high).Draw(t, k.Name)
	case KindTable:
		text, err := json.Marshal(drawTable(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		v, wrong := tableFromJSON(string(text))
		if wrong != "" {
			t.Fatalf("%s: %s", text, wrong)
		}
		return v
	}
	t.Fatalf("%s: kind %v has no generator", k.Name, k.Kind)
	return nil
}

func drawTable(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		m["k"+rapid.String().Draw(t, "key")] = drawItem(t, depth)
	}
	return m
}

func drawItem(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "item") {
	case 0:
		return rapid.String().Draw(t, "string")
	case 1:
		return rapid.Int64().Draw(t, "int")
	case 2:
		return json.Number(formatFloat(rapid.Float64().Draw(t, "float")))
	case 3:
		return rapid.Bool().Draw(t, "bool")
	case 4:
		return drawTable(t, depth-1)
	default:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, drawItem(t, depth-1))
		}
		return list
	}
}

// Any configuration that passes the checks survives being printed and loaded.
func TestPrintRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := &Config{}
		for _, k := range keys() {
			k.set(cfg, drawValue(t, k))
		}
		for _, h := range []*Hook{&cfg.Policy.Gate, &cfg.Policy.Reserve, &cfg.Policy.Admit, &cfg.Policy.Score} {
			h.SHA256, h.Key = "", ""
			if h.Builtin == "" {
				h.Path, h.Engine = rapid.StringMatching(`/[a-zé "\\]{1,12}\.wasm`).Draw(t, "path"), EngineWasm
				h.SHA256 = rapid.StringMatching(`|[0-9a-fA-F]{64}`).Draw(t, "sha256")
				h.Key = rapid.StringMatching(`|ed25519:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=`).Draw(t, "key")
			} else {
				h.MemoryPages = 0
			}
		}
		d := &cfg.Decode
		d.MaxTotalTokens = max(d.MaxTotalTokens, 2*d.PageSize)
		d.L2Ratio = min(d.L2Ratio, float64(maxPages)/float64(d.MaxTotalTokens/d.PageSize))
		if cfg.Prefill.TP%d.Ranks != 0 && d.Ranks%cfg.Prefill.TP != 0 {
			cfg.Prefill.TP = d.Ranks
		}
		d.ReservedDecodeTokens = min(d.ReservedDecodeTokens, d.MaxTotalTokens-1)
		d.MaxTokensPerRequest = min(d.MaxTokensPerRequest, d.MaxTotalTokens)
		d.IdleTick = min(d.IdleTick, d.ExchangeDeadline/4)
		cfg.Model.Layers = min(cfg.Model.Layers, 4)
		cfg.Model.BytesPerTokenLayer = max(1, min(int(cfg.Prefill.StagingRing)/(d.PageSize*cfg.Model.Layers), cfg.Model.BytesPerTokenLayer))
		again, text, err := printAndReload(cfg)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(cfg, again) {
			t.Fatalf("got  %+v\nwant %+v\n%s", again, cfg, text)
		}
	})
}

// Every key the decoder sees has a line, and the key's last part stands on it.
func checkLines(data []byte) error {
	s := scan(data)
	if s.deep > 0 || s.nameless > 0 {
		return nil
	}
	tree, err := decode(string(s.text))
	if err != nil {
		return nil
	}
	lines := strings.Split(string(data), "\n")
	var walk func(v any, path []string) error
	walk = func(v any, path []string) error {
		switch v := v.(type) {
		case map[string]any:
			for name, item := range v {
				full := append(append([]string(nil), path...), name)
				line := s.lines[pathText(full)]
				if line < 1 || line > len(lines) {
					return fmt.Errorf("key %s has line %d of %d", pathText(full), line, len(lines))
				}
				if plain := keyText(name) == name; plain && !strings.Contains(lines[line-1], name) && !strings.Contains(lines[line-1], `\`) {
					return fmt.Errorf("key %s is not on its line %d: %q", pathText(full), line, lines[line-1])
				}
				if err := walk(item, full); err != nil {
					return err
				}
			}
		case []map[string]any:
			for _, item := range v {
				if err := walk(item, path); err != nil {
					return err
				}
			}
		case []any:
			for _, item := range v {
				if err := walk(item, path); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(tree, nil)
}

func TestLinesOfWhatTheDecoderSees(t *testing.T) {
	docs := map[string]string{
		"tables":         "a = 1\n[b]\nc = 2\n[b.d]\ne = 3\n[[f]]\ng = 4\n[[f]]\nh = 5\n[f.i]\nj = 6\n",
		"dotted":         "a.b.c = 1\na . d = 2\n\"q t\".'l.it' = 3\n[x.y . \"z\"]\nw.v = 4\n",
		"strings":        "a = \"x # [y]\"\nb = '''\n[no]\nno = 1\n'''\nc = \"\"\"\"q\"\"\"\"\"\nd = '\\'\ne = \"\\\"\"\nf = \"\"\"\\\"\"\"\"\nlast = 1\n",
		"arrays":         "a = [\n [1, 2], # ]\n \"]\", { k = [\n 3 ] },\n]\nb = {}\nc = { x = { y = 1 }, z = [] }\nlast = 2\n",
		"literals":       "a = 1979-05-27 07:32:00\nb = inf\nc = -nan\nd = 0b1_0\ne = 1_0.5e-3\nf = true\nlast = 1\n",
		"escapes in key": "\"a\\u0041\\tb\" = 1\n\"\\\"\" = 2\nlast = 1\n",
		"odd spacing":    "\t[ a ]\r\n\t b\t=\t1\t# x\r\n\n\n[[ c ]]\r\nd=1",
	}
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			var tree map[string]any
			if _, err := toml.Decode(doc, &tree); err != nil {
				t.Fatalf("the document is wrong: %v", err)
			}
			if err := checkLines([]byte(doc)); err != nil {
				t.Error(err)
			}
			if line := scan([]byte(doc)).lines["last"]; line != 0 && line != strings.Count(doc, "\n") {
				t.Errorf("the last key has line %d, want %d", line, strings.Count(doc, "\n"))
			}
		})
	}
}

// Nothing makes the loader panic; what it refuses it places; what it accepts survives Print.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("[http]\nport = 1\n"), "SLUICE_HTTP_PORT=2", "http.port", "3")
	f.Add([]byte("[decode]\nranks = 99999999999999999999\nl2_ratio = 1e999\n"), "SLUICE_X", "x", "")
	f.Add([]byte("[policy.gate.config]\na = [{ \"b\\u0000\" = 1979-05-27 }]\n"), "", "policy.admit.config", `{"a":1e300}`)
	f.Add([]byte("http.\"po.rt\" = '''\n'''\n[[policy]]\n"), "SLUICE_LOG_LEVEL=", "http.read_timeout", "1h1m")
	f.Add([]byte("\xef\xbb\xbfa = {b.c=[[],{}],}\r\n[a"), "=", "http.max_body", "16KiB")
	f.Fuzz(func(t *testing.T, file []byte, env, flag, value string) {
		if err := checkLines(file); err != nil {
			t.Error(err)
		}
		cfg, _, err := Load(Sources{FileName: "f.toml", File: file, Environ: []string{env}, Flags: map[string]string{flag: value}})
		if err != nil {
			for _, p := range err.(Problems) {
				if p.Source == "" || p.Text == "" || p.Source == "f.toml:0" {
					t.Errorf("a problem with no place or no text: %#v", p)
				}
			}
			return
		}
		again, text, err := printAndReload(cfg)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(cfg, again) {
			t.Fatalf("got  %+v\nwant %+v\n%s", again, cfg, text)
		}
	})
}
