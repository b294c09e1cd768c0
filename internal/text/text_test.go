package text

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for _, c := range []struct{ name, text, line, lines string }{
		{"nothing", "", "", ""},
		{"plain", `héllo "w" \n 世界`, `héllo "w" \n 世界`, `héllo "w" \n 世界`},
		{"a terminal's escape", "\x1b[31mX", `\x1b[31mX`, `\x1b[31mX`},
		{"C1 controls", "a\u009b31m\u0085", `a\u009b31m\u0085`, `a\u009b31m\u0085`},
		{"bytes that are no text", "a\xff\x9b", `a\xff\x9b`, `a\xff\x9b`},
		{"a real replacement character", "a\uFFFDb", "a\uFFFDb", "a\uFFFDb"},
		{"line breaks", "a\nb\tc\r", `a\nb\tc\r`, "a\nb\tc\\r"},
		{"right to left", "a\u202eb\u200b", `a\u202eb\u200b`, `a\u202eb\u200b`},
		{"delete", "\x7f\x00", `\x7f\x00`, `\x7f\x00`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Escape(c.text); got != c.line || Escape(got) != got {
				t.Errorf("got %q, want %q, twice %q", got, c.line, Escape(got))
			}
			if got := Lines(c.text); got != c.lines || Lines(got) != got {
				t.Errorf("lines: got %q, want %q", got, c.lines)
			}
		})
	}
}

func TestClipAndLine(t *testing.T) {
	for _, c := range []struct {
		text       string
		most       int
		clip, line string
	}{
		{"abc", 3, "abc", "abc"},
		{"abcd", 3, "abc…", "abc…"},
		{"aéé", 2, "a…", "a…"},
		{"世界", 5, "世…", "世…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80…", `\x80…`},
		{"\x1b\x1b", 5, "\x1b\x1b", `\x1b\…`},
		{"abc", 0, "…", "…"},
		{"abc…", 3, "abc…", "abc…"},
		{"abc", -1, "…", "…"},
	} {
		if got := Clip(c.text, c.most); got != c.clip {
			t.Errorf("Clip(%q, %d) is %q, want %q", c.text, c.most, got, c.clip)
		}
		if got := Line(c.text, c.most); got != c.line {
			t.Errorf("Line(%q, %d) is %q, want %q", c.text, c.most, got, c.line)
		}
	}
	huge := strings.Repeat("\x7f", 15<<20)
	if n := testing.AllocsPerRun(5, func() { Line(huge, 100); Quote(huge) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
	if got := len(Line(huge, 100)); got > 100+len(more) {
		t.Errorf("a line of %d bytes", got)
	}
}

func TestQuote(t *testing.T) {
	long := strings.Repeat("x", MaxQuoted)
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", `""`},
		{"short", "RawPoll", `"RawPoll"`},
		{"control characters and quotes", "a\n\"b\"\x1b", `"a\n\"b\"\x1b"`},
		{"as long as can be", long, `"` + long + `"`},
		{"one rune more", long + "y", `"` + long + `"…`},
		{"runes are whole", strings.Repeat("é", MaxQuoted+1), `"` + strings.Repeat("é", MaxQuoted) + `"…`},
		{"bytes that are no text", strings.Repeat("\xff", MaxQuoted+1), `"` + strings.Repeat(`\xff`, MaxQuoted) + `"…`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Quote(c.text); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestList(t *testing.T) {
	for _, c := range []struct {
		names []string
		most  int
		want  string
	}{
		{nil, 3, "none"},
		{[]string{"a", "b\n"}, 3, `a, b\n`},
		{[]string{"a", "b", "c"}, 2, "a, b and 1 more"},
		{[]string{strings.Repeat("k", 65)}, 1, strings.Repeat("k", 64) + "…"},
	} {
		if got := List(c.names, c.most); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, s := range []string{"plain", "\x1b\x00\x7f\u009b\u202e", "\U000e0001 世界", "\uFFFD"} {
		b, err := json.MarshalIndent(map[string]string{"k": s}, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		out := JSON(b)
		var again map[string]string
		if err := json.Unmarshal(out, &again); err != nil || again["k"] != s {
			t.Errorf("%q became %q, %v", s, again["k"], err)
		}
		if strings.ContainsFunc(string(out), func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
			t.Errorf("%q does not print", out)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b\xff世", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most %= 300
		for _, out := range []string{Escape(s), Line(s, most), Quote(s)} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q of %q does not print", out, s)
			}
		}
		if got := Line(s, most); len(got) > max(most, 0)+len(more) {
			t.Fatalf("%d bytes, at most %d", len(got), most)
		}
		if utf8.ValidString(s) && !utf8.ValidString(Clip(s, most)) {
			t.Fatalf("Clip cuts a rune of %q", s)
		}
	})
}
