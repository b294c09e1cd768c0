package manifest

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheckConfig(t *testing.T) {
	schema := full()
	none := Manifest{Config: map[string]Key{}}
	for _, tc := range []struct {
		name, config string
		m            *Manifest
		words        []string // none: allowed
	}{
		{"no manifest", `{"x":1}`, nil, nil},
		{"no schema", `{"x":1}`, &Manifest{}, nil},
		{"no table and no keys", ``, &none, nil},
		{"an empty table and no keys", `{}`, &none, nil},
		{"a key where there are none", `{"x":1}`, &none, []string{"x is no key of the policy", "there are none, remove it"}},
		{"all good", `{"decay":0.25,"mode":"x","names":[],"share":1,"strict":false,"tenants":[0,5],"ticks":[-3,9]}`, &schema, nil},
		{"an integer for a float", `{"decay":1,"tenants":[]}`, &schema, nil},
		{"misspelt", `{"shear":1,"tenants":[]}`, &schema, []string{"shear is no key", "did you mean share?"}},
		{"strange", `{"a b":1,"tenants":[]}`, &schema, []string{`"a b" is no key`, "the keys are decay, mode, names, share, strict, tenants, ticks"}},
		{"missing", `{}`, &schema, []string{"tenants is missing; write a list of integers, at least 0"}},
		{"too large", `{"share":101,"tenants":[]}`, &schema, []string{"share is out of its range; it must be an integer between 1 and 100"}},
		{"too small", `{"share":-1,"tenants":[]}`, &schema, []string{"share is out of its range"}},
		{"a float for an integer", `{"share":2.0,"tenants":[]}`, &schema, []string{"share is a number with a fraction; it must be an integer"}},
		{"a text", `{"share":"2","tenants":[]}`, &schema, []string{`share is a text; it must be an integer`}},
		{"a number for a text", `{"mode":2,"tenants":[]}`, &schema, []string{"mode is an integer; it must be a text in quotes"}},
		{"not a boolean", `{"strict":1,"tenants":[]}`, &schema, []string{"strict is an integer; it must be true or false"}},
		{"one of a list", `{"tenants":[1,-1]}`, &schema, []string{"tenants is a list with an entry, of 2, that is not allowed; it must be a list of integers, at least 0"}},
		{"a table", `{"tenants":{}}`, &schema, []string{"tenants is a table"}},
		{"a number in a list of texts", `{"names":[1],"tenants":[]}`, &schema, []string{"names is a list with an entry, of 1, that is not allowed; it must be a list of texts"}},
		{"several", `{"share":0,"stric":true}`, &schema, []string{"share is out of its range", "; stric is no key", "did you mean strict?", "; tenants is missing"}},
		{"a boolean", `{"share":true,"tenants":[]}`, &schema, []string{"share is true or false; it must be an integer"}},
		{"null", `{"share":null,"tenants":[]}`, &schema, []string{"share is null"}},
		{"a list for an integer", `{"share":["hunter2"],"tenants":[]}`, &schema, []string{"share is a list;"}},
		{"a float that is too large", `{"decay":7.5,"tenants":[]}`, &schema, []string{"decay is out of its range"}},
		{"a huge integer", `{"share":99999999999999999999,"tenants":[]}`, &schema, []string{"share is an integer that does not fit 64 bits"}},
		{"no object", `[1]`, &schema, []string{"not one JSON object"}},
		{"two objects", `{}{}`, &schema, []string{"not one JSON object"}},
	} {
		err := tc.m.CheckConfig([]byte(tc.config))
		if (err == nil) != (len(tc.words) == 0) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.words)
			continue
		}
		for _, w := range tc.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", tc.name, err, w)
			}
		}
	}
}

// What is wrong is kept and told to others, so it tells no value, and never much.
func TestCheckConfigTellsNoValues(t *testing.T) {
	schema := full()
	const secret = "hunter2"
	for _, v := range []string{`"hunter2"`, `["hunter2"]`, `{"hunter2":"hunter2"}`, `[["hunter2"]]`} {
		for _, key := range sorted(schema.Config) {
			if err := schema.CheckConfig([]byte(`{"` + key + `":` + v + `}`)); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s = %s: %v", key, v, err)
			}
		}
	}
	var many strings.Builder
	many.WriteString(`{"` + strings.Repeat("k", 1<<20) + `":1`)
	for i := range 100_000 {
		fmt.Fprintf(&many, `,"k%d":1`, i)
	}
	many.WriteString("}")
	err := schema.CheckConfig([]byte(many.String()))
	if err == nil || len(err.Error()) > 4<<10 || !strings.Contains(err.Error(), "and 99994 more") {
		t.Errorf("%.300v", err)
	}
}
