package manifest

import (
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
		{"too large", `{"share":101,"tenants":[]}`, &schema, []string{"share is 101; it must be an integer between 1 and 100"}},
		{"too small", `{"share":-1,"tenants":[]}`, &schema, []string{"share is -1"}},
		{"a float for an integer", `{"share":2.0,"tenants":[]}`, &schema, []string{"share is 2.0; it must be an integer"}},
		{"a text", `{"share":"2","tenants":[]}`, &schema, []string{`share is "2"`}},
		{"a number for a text", `{"mode":2,"tenants":[]}`, &schema, []string{"mode is 2; it must be a text in quotes"}},
		{"not a boolean", `{"strict":1,"tenants":[]}`, &schema, []string{"strict is 1; it must be true or false"}},
		{"one of a list", `{"tenants":[1,-1]}`, &schema, []string{"tenants is [1, -1]; it must be a list of integers, at least 0"}},
		{"a table", `{"tenants":{}}`, &schema, []string{"tenants is a table"}},
		{"a number in a list of texts", `{"names":[1],"tenants":[]}`, &schema, []string{"names is [1]; it must be a list of texts"}},
		{"several", `{"share":0,"stric":true}`, &schema, []string{"share is 0", "; stric is no key", "did you mean strict?", "; tenants is missing"}},
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
