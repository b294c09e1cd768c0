package kit

import (
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	long := strings.Repeat("x", mostQuoted)
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", `""`},
		{"short", "RawPoll", `"RawPoll"`},
		{"control characters and quotes", "a\n\"b\"\x1b", `"a\n\"b\"\x1b"`},
		{"as long as can be", long, `"` + long + `"`},
		{"one rune more", long + "y", `"` + long + `"…`},
		{"runes are whole", strings.Repeat("é", mostQuoted+1), `"` + strings.Repeat("é", mostQuoted) + `"…`},
		{"bytes that are no text", strings.Repeat("\xff", mostQuoted+1), `"` + strings.Repeat(`\xff`, mostQuoted) + `"…`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := quote(c.text); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
