package settings_test

import (
	"fmt"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/examples/policies/settings"
)

func TestRead(t *testing.T) {
	const bad = int32(abi.StatusBadConfig)
	for _, tc := range []struct {
		name, config string
		status       int32
		want         []string
	}{
		{"no table", "", 0, nil},
		{"an empty table", "{}", 0, nil},
		{"one", `{"a":1}`, 0, []string{"a=1"}},
		{"two", `{"a":1,"b":18446744073709551615}`, 0, []string{"a=1", "b=18446744073709551615"}},
		{"unknown", `{"no":1}`, bad, nil},
		{"too large", `{"a":18446744073709551616}`, bad, nil},
		{"negative", `{"a":-1}`, bad, nil},
		{"a fraction", `{"a":1.5}`, bad, nil},
		{"a string", `{"a":"1"}`, bad, nil},
		{"nested", `{"a":{"b":1}}`, bad, nil},
		{"no colon", `{"a"1}`, bad, nil},
		{"no key", `{1}`, bad, nil},
		{"no end", `{"a":1`, bad, nil},
		{"no quote", `{"a:1}`, bad, nil},
		{"a comma too many", `{"a":1,}`, bad, nil},
		{"a comma only", `{,}`, bad, nil},
		{"a list", `[1]`, bad, nil},
		{"one byte", `{`, bad, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			status := settings.Read([]byte(tc.config), func(key string, value uint64) bool {
				if key == "no" {
					return false
				}
				got = append(got, fmt.Sprintf("%s=%d", key, value))
				return true
			})
			if status != tc.status || status == 0 && !slices.Equal(got, tc.want) {
				t.Errorf("status %d, %q; want %d, %q", status, got, tc.status, tc.want)
			}
		})
	}
}

func TestNone(t *testing.T) {
	for config, want := range map[string]int32{"": 0, "{}": 0, `{"a":1}`: int32(abi.StatusBadConfig)} {
		if got := settings.None(abi.HostInfo{}, []byte(config)); got != want {
			t.Errorf("%q: status %d, want %d", config, got, want)
		}
	}
}
