package manifest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// full says something in every field.
func full() Manifest {
	return Manifest{
		Name: "fair-share", Version: "1.2.0", Author: "A. Author <a@example.org>", Description: "Shares tokens.\nBy tenant.", Licence: "Apache-2.0",
		SourceSHA256: strings.Repeat("0af9", 16),
		Reasons:      map[uint8]string{64: "tenant over its share", 255: "prompt <too> long"},
		Counters:     []string{"admitted", "over_share2"},
		State:        State{Schema: 3, Loads: []uint32{1, 2, 3}},
		Config: map[string]Key{
			"share":   {Type: Integer, Default: int64(50), Min: int64(1), Max: int64(100), Doc: "Percent."},
			"decay":   {Type: Float, Default: 0.5, Min: 0.0, Max: 1.0},
			"strict":  {Type: Boolean, Default: true},
			"tenants": {Type: Integers, Min: int64(0), Required: true},
			"names":   {Type: Strings, Default: []string{"a", "b"}},
			"mode":    {Type: String, Default: "fair"},
			"ticks":   {Type: Integers, Default: []int64{1, 2}, Max: int64(9)},
		},
		Fuel: Fuel{Base: 20000, PerRecord: 120},
	}
}

func TestEncodeIsCanonicalAndParseReadsIt(t *testing.T) {
	const want = `{"author":"A. Author <a@example.org>","config":{"decay":{"default":0.5,"max":1,"min":0,"type":"float"},` +
		`"mode":{"default":"fair","type":"string"},"names":{"default":["a","b"],"type":"array-of-string"},` +
		`"share":{"default":50,"doc":"Percent.","max":100,"min":1,"type":"integer"},"strict":{"default":true,"type":"boolean"},` +
		`"tenants":{"min":0,"required":true,"type":"array-of-integer"},"ticks":{"default":[1,2],"max":9,"type":"array-of-integer"}},` +
		`"counters":["admitted","over_share2"],"description":"Shares tokens.\nBy tenant.","fuel":{"base":20000,"per_record":120},` +
		`"licence":"Apache-2.0","name":"fair-share","reasons":{"255":"prompt <too> long","64":"tenant over its share"},` +
		`"source_sha256":"0af90af90af90af90af90af90af90af90af90af90af90af90af90af90af90af9","state":{"loads":[1,2,3],"schema":3},"version":"1.2.0"}`
	got, err := Encode(full())
	if err != nil || string(got) != want {
		t.Fatalf("%v\n%s\nwant\n%s", err, got, want)
	}
	m, err := Parse(got)
	if err != nil || !reflect.DeepEqual(m, full()) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, m, full())
	}
	if empty, err := Encode(Manifest{}); err != nil || string(empty) != "{}" {
		t.Errorf("an empty manifest is %q, %v", empty, err)
	}
	if none, err := Encode(Manifest{Config: map[string]Key{}}); err != nil || string(none) != `{"config":{}}` {
		t.Errorf("a policy without settings is %q, %v", none, err)
	}
}

func TestOrderDoesNotChangeTheBytes(t *testing.T) {
	a, err := Encode(Manifest{State: State{Schema: 3, Loads: []uint32{2, 1, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Encode(Manifest{State: State{Schema: 3, Loads: []uint32{1, 2, 3}}})
	if err != nil || string(a) != string(b) {
		t.Errorf("%s and %s, %v", a, b, err)
	}
}

// Of two values for one key readers would take different ones, and one could drop the other's schema.
func TestAKeyThatIsGivenTwice(t *testing.T) {
	for text, key := range map[string]string{
		`{"config":{"a":{"type":"integer"}},"config":{}}`:            "config",
		`{"name":"a","name":"b"}`:                                    "name",
		`{"config":{"a":{"type":"integer","type":"float"}}}`:         "config.a.type",
		`{"config":{"a":{"type":"float"},"a":{"type":"integer"}}}`:   "config.a",
		`{"reasons":{"64":"x","\u0036\u0034":"y"}}`:                  "reasons.64",
		`{"later":{"unknown":[{"to":1,"to":2}]}}`:                    "later.unknown.to",
		`{"state":{"schema":1,"loads":[1],"schema":2},"name":"bad"}`: "state.schema",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "the key "+key+" twice") {
			t.Errorf("%s: %v, want the key %s", text, err, key)
		}
	}
}

func TestAHintMayHaveOnePart(t *testing.T) {
	for want, f := range map[string]Fuel{
		`{"fuel":{"per_record":7}}`:           {PerRecord: 7},
		`{"fuel":{"base":7,"per_record":0}}`:  {Base: 7},
		`{"fuel":{"base":7,"per_record":10}}`: {Base: 7, PerRecord: 10},
	} {
		got, err := Encode(Manifest{Fuel: f})
		if err != nil || string(got) != want {
			t.Errorf("%+v: %s, %v", f, got, err)
		}
		if m, err := Parse(got); err != nil || m.Fuel != f {
			t.Errorf("%s: %+v, %v", got, m.Fuel, err)
		}
	}
	if m, err := Parse([]byte(`{"fuel":{"base":7}}`)); err != nil || m.Fuel != (Fuel{Base: 7}) {
		t.Errorf("%+v, %v", m.Fuel, err)
	}
}

func TestLookUps(t *testing.T) {
	m := full()
	for _, tc := range []struct {
		m    *Manifest
		ask  func(*Manifest) (string, bool)
		want string
	}{
		{&m, func(m *Manifest) (string, bool) { return m.Reason(64) }, "tenant over its share"},
		{&m, func(m *Manifest) (string, bool) { return m.Reason(65) }, ""},
		{nil, func(m *Manifest) (string, bool) { return m.Reason(64) }, ""},
		{&m, func(m *Manifest) (string, bool) { return m.CounterName(1) }, "over_share2"},
		{&m, func(m *Manifest) (string, bool) { return m.CounterName(2) }, ""},
		{&m, func(m *Manifest) (string, bool) { return m.CounterName(-1) }, ""},
		{nil, func(m *Manifest) (string, bool) { return m.CounterName(0) }, ""},
	} {
		if got, ok := tc.ask(tc.m); got != tc.want || ok != (tc.want != "") {
			t.Errorf("%q, %v; want %q", got, ok, tc.want)
		}
	}
	schema, loads, ok := (&Manifest{State: State{Schema: 2, Loads: []uint32{7}}}).StateSchema()
	if schema != 2 || !slices.Equal(loads, []uint32{2, 7}) || !ok {
		t.Errorf("schema %d, loads %v, %v", schema, loads, ok)
	}
	for _, m := range []*Manifest{nil, {}} {
		if _, _, ok := m.StateSchema(); ok {
			t.Errorf("%+v names a schema", m)
		}
	}
}

func TestANewerToolsKeysAreIgnored(t *testing.T) {
	m, err := Parse([]byte(`{"name":"x","features":["floats"],"state":{"schema":1,"hash":"a"},"fuel":{"base":1,"cap":2},"config":{"a":{"type":"integer","unit":"ms"}}}`))
	want := Manifest{Name: "x", State: State{Schema: 1, Loads: []uint32{1}}, Fuel: Fuel{Base: 1}, Config: map[string]Key{"a": {Type: Integer}}}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxLine+1)
	for _, tc := range []struct {
		text  string
		words []string
	}{
		{"", []string{"not JSON"}},
		{"[]", []string{"must be an object"}},
		{"null", []string{"must be an object"}},
		{"{} {}", []string{"text after"}},
		{"{\"name\":\"\xff\"}", []string{"UTF-8"}},
		{`{"x":"` + strings.Repeat("x", MaxBytes) + `"}`, []string{"65544 bytes", "at most 65536", "shorten"}},
		{`{"name":1}`, []string{"name is 1", "text in quotes"}},
		{`{"name":"a\nb"}`, []string{`name is "a\nb"`, "one line"}},
		{`{"name":"\u001b[31m"}`, []string{"name", "cannot be shown"}},
		{`{"version":"` + long + `"}`, []string{"version has 257 bytes", "at most 256"}},
		{`{"source_sha256":"abc"}`, []string{"source_sha256", "64 hex digits"}},
		{`{"reasons":[]}`, []string{"reasons is []", "table"}},
		{`{"reasons":{"63":"a"}}`, []string{`reasons names "63"`, "64 to 255"}},
		{`{"reasons":{"256":"a"}}`, []string{`"256"`, "64 to 255"}},
		{`{"reasons":{"064":"a"}}`, []string{`"064"`}},
		{`{"reasons":{"77":" "}}`, []string{"reasons.77 is empty"}},
		{`{"reasons":{"77":"a","78":"a"}}`, []string{`reasons.78 is "a"`, "reasons.77", "own text"}},
		{`{"reasons":{"77":"` + strings.Repeat("y", MaxReason+1) + `"}}`, []string{"reasons.77 has 129 bytes"}},
		{`{"counters":"a"}`, []string{`counters is "a"`, "list"}},
		{`{"counters":["A"]}`, []string{`counters[0] is "A"`, "small letter"}},
		{`{"counters":["a","9"]}`, []string{`counters[1] is "9"`}},
		{`{"counters":["a","a"]}`, []string{`counters[1] is "a"`, "counters[0]"}},
		{`{"counters":[` + strings.Repeat(`"a",`, 64) + `"a"]}`, []string{"counters has 65 entries", "at most 64"}},
		{`{"state":{"loads":[1]}}`, []string{"state.schema is missing", "between 1 and 4294967295"}},
		{`{"state":{"schema":0}}`, []string{"state.schema is 0"}},
		{`{"state":{"schema":4294967296}}`, []string{"state.schema is 4294967296"}},
		{`{"state":{"schema":1,"loads":[-1]}}`, []string{"state.loads[0] is -1"}},
		{`{"state":{"schema":1.0}}`, []string{"state.schema is 1.0"}},
		{`{"fuel":{"base":0,"per_record":1}}`, []string{"fuel.base is 0"}},
		{`{"fuel":{"base":9223372036854775808}}`, []string{"fuel.base is 9223372036854775808"}},
		{`{"fuel":{"base":1,"per_record":-1}}`, []string{"fuel.per_record is -1"}},
		{`{"config":{"a b":{"type":"integer"}}}`, []string{`config names the key "a b"`, "letters"}},
		{`{"config":{"a":1}}`, []string{"config.a is 1", "table"}},
		{`{"config":{"a":{}}}`, []string{"config.a.type is missing", "integer, float, boolean, string"}},
		{`{"config":{"a":{"type":"int"}}}`, []string{`config.a.type is "int"`}},
		{`{"config":{"a":{"type":"integer","default":"1"}}}`, []string{`config.a.default is "1"`, "an integer"}},
		{`{"config":{"a":{"type":"integer","default":1.5}}}`, []string{"config.a.default is 1.5", "an integer"}},
		{`{"config":{"a":{"type":"integer","max":4,"default":5}}}`, []string{"config.a.default is 5", "at most 4"}},
		{`{"config":{"a":{"type":"array-of-integer","min":4,"default":[5,3]}}}`, []string{"config.a.default is [5, 3]", "at least 4"}},
		{`{"config":{"a":{"type":"string","min":1}}}`, []string{"config.a.min", "only numbers"}},
		{`{"config":{"a":{"type":"integer","min":0.5}}}`, []string{"config.a.min is 0.5"}},
		{`{"config":{"a":{"type":"float","min":2,"max":1.5}}}`, []string{"config.a.min is 2", "above max", "1.5"}},
		{`{"config":{"a":{"type":"integer","required":1}}}`, []string{"config.a.required is 1", "true or false"}},
		{`{"config":{"a":{"type":"integer","required":true,"default":1}}}`, []string{"config.a.default", "remove one"}},
		{`{"config":{"a":{"type":"boolean","default":[[1]]}}}`, []string{"config.a.default is a list of lists", "true or false"}},
	} {
		_, err := Parse([]byte(tc.text))
		if err == nil {
			t.Errorf("%.80q is taken", tc.text)
			continue
		}
		for _, w := range tc.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%.80q: %q does not say %q", tc.text, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: more than one line: %v", tc.text, err)
		}
	}
}

func TestEncodeRefusesWhatParseWould(t *testing.T) {
	for _, m := range []Manifest{
		{Name: "a\nb"}, {Name: "\xff"}, {Reasons: map[uint8]string{63: "x"}}, {State: State{Loads: []uint32{1}}}, {Fuel: Fuel{PerRecord: 1 << 63}},
		{Config: map[string]Key{"a": {Type: String, Default: "\x1b[2J"}}}, {Config: map[string]Key{"a": {Type: Strings, Default: []string{"a", "\u009b"}}}},
		{Fuel: Fuel{Base: 1 << 63}}, {Config: map[string]Key{"a": {}}}, {Config: map[string]Key{"a": {Type: Boolean, Min: int64(1)}}},
		{Description: strings.Repeat("a", MaxBytes)}, {Counters: []string{""}},
	} {
		if text, err := Encode(m); err == nil {
			t.Errorf("%+v is encoded: %s", m, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	text, err := Encode(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"reasons":{"77":"x"},"later":[{}]}`))
	f.Add([]byte(`{"config":{"a":{"type":"float","default":-0.0,"min":-1e300}}}`))
	f.Fuzz(func(t *testing.T, section []byte) {
		m, err := Parse(section)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		// Escapes can make the canonical text longer than the one read.
		first, err := Encode(m)
		if err != nil {
			if len(section) < MaxBytes/8 {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			return
		}
		again, err := Parse(first)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		second, err := Encode(again)
		if err != nil || string(first) != string(second) {
			t.Fatalf("encoding is not stable: %v\n%s\n%s", err, first, second)
		}
	})
}
