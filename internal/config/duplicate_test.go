package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDuplicateKey(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{}`, ""},
		{`1`, ""},
		{`{"a":1,"b":1}`, ""},
		{`{"a":1,"A":1}`, ""},
		{`{"a":{"a":{"a":1}},"b":{"a":1}}`, ""},
		{`{"a":"a","b":"a","c":["a","a",{"a":1},{"a":1}]}`, ""},
		{`{"a":1,"a":1}`, "a"},
		{`{"a":1,"\u0061":2}`, "a"},
		{`{"x":{"y":[1,{"z":1},{"z":1,"b":[],"z":{}}]}}`, "x.y.z"},
		{`[{"a":{},"a":[]}]`, "a"},
		{`{"a":[[]],"b":{"c":[{}]},"a":1}`, "a"},
		{`{"":1,"":2}`, `""`},
		{`{"a b\u001b":1,"a b\u001b":2}`, `"a b\u001b"`},
		{`{"` + strings.Repeat("k", 1<<20) + `":1,"` + strings.Repeat("k", 1<<20) + `":1}`, `"` + strings.Repeat("k", 255)},
		{strings.Repeat(`{"a":`, 9000) + `{"b":1,"b":1}` + strings.Repeat("}", 9000), strings.Repeat("a.", 128)},
		{`{"a":1,`, ""},
		{``, ""},
	} {
		if got := DuplicateKey(c.text); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || len(got) > 300 {
			t.Errorf("%.60q: %.300q, want %.60q", c.text, got, c.want)
		}
	}
}

func TestPolicyTable(t *testing.T) {
	for _, c := range []struct{ text, want, says string }{
		{`{ "b" : 1.0, "a":[true,9007199254740993] }`, `{"a":[true,9007199254740993],"b":1.0}`, ""},
		{`{}`, `{}`, ""},
		{`{"a":{"secret":"hunter2","secret":"hunter3"}}`, "", "holds the key a.secret twice; give it once"},
		{`["hunter2"]`, "", "is no JSON object"},
		{`{"a":"hunter2"} x`, "", "text after the object"},
		{`{"hunter2"`, "", "is no JSON object"},
		{`{"a":1e999}`, "", "holds a number at a that does not fit 64 bits"},
		{`{"a":null}`, "", "null at a"},
		{`{"a":"` + strings.Repeat("x", MaxPolicyTable-8) + `"}`, `{"a":"` + strings.Repeat("x", MaxPolicyTable-8) + `"}`, ""},
		{`{"a":"` + strings.Repeat("hunter2", MaxPolicyTable/7) + `"}`, "", "at most 65536 are allowed"},
		{`{}` + strings.Repeat(" ", MaxPolicyTable-1), "", "has 65537 bytes as JSON"},
		{`{"a":"` + strings.Repeat("\x7f", MaxPolicyTable/2) + `"}`, "", "has 196616 bytes as JSON"}, // its escapes are longer
	} {
		got, err := PolicyTable(c.text)
		if string(got) != c.want || (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%s: %s, %v", c.text, got, err)
		}
	}
}

func FuzzDuplicateKey(f *testing.F) {
	f.Add(`{"a":[1,{"b":1,"b":2}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) {
			return
		}
		if got := DuplicateKey(s); got != "" && strings.Count(s, `"`) < 4 {
			t.Fatalf("%q in %q", got, s)
		}
	})
}
