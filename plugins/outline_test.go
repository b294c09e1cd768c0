package plugins

import (
	"strings"
	"testing"
)

func TestOutline(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{"", "of 0 bytes"},
		{"{}", "of 2 bytes without a key"},
		{`{"token":"hunter2","b":{"c":1}}`, "of 31 bytes with the keys b, token"},
		{`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`, "of 55 bytes with the keys a, b, c, d, e, f, g, h and 1 more"},
		{"{\"\x1b\":1}", "of 7 bytes, which is no JSON object"},
		{`{"\u001b[2J\n":1}`, `of 17 bytes with the keys \x1b[2J\n`},
		{`["hunter2"]`, "of 11 bytes, which is no JSON object"},
		{`{"` + strings.Repeat("k", 1<<20) + `":1}`, "of 1048582 bytes with the keys " + strings.Repeat("k", 64) + "…"},
	} {
		if got := outline([]byte(c.config)); got != c.want {
			t.Errorf("%.40q: %q, want %q", c.config, got, c.want)
		}
	}
}
