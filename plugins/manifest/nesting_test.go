package manifest

import (
	"strings"
	"testing"
)

func TestNesting(t *testing.T) {
	in := func(n int, before, middle, after string) string {
		return strings.Repeat(before, n) + middle + strings.Repeat(after, n)
	}
	for _, c := range []struct {
		name, file string
		line       int
	}{
		{"empty", "", 0},
		{"the full one", fullTOML, 0},
		{"8 lists", "a = " + in(8, "[", "", "]"), 0},
		{"9 lists", "x = 1\na = " + in(9, "[", "", "]"), 2},
		{"9 lists on lines of their own", "a = " + in(9, "[\n", "", "]"), 9},
		{"9 inline tables", "a = " + in(9, "{a=", "1", "}"), 1},
		{"8 parts", in(7, "a.", "a", "") + " = 1", 0},
		{"9 parts", in(8, "a.", "a", "") + " = 1", 1},
		{"9 parts of a header", "\n[" + in(8, "a.", "a", "") + "]", 2},
		{"9 quoted parts", in(8, `"a.b".`, "a", "") + " = 1", 1},
		{"dots and brackets in strings", `a = "....................[[[[[[[[[["` + "\nb = '....[[[[[[[[[[['\n", 0},
		{"in long strings", "a = \"\"\"\n[[[[[[[[[[\\\"\"\" [[[[[[[[[\n\"\"\"\nb = '''[[[[[[[[[[[[\n''''\nc = " + in(9, "[", "", "]"), 6},
		{"in comments", "# [[[[[[[[[[[[ \" \na = 1 # .........\nb = " + in(9, "[", "", "]"), 3},
		{"behind a string without an end", "a = \"\nb = " + in(9, "[", "", "]"), 2},
		{"after an escape", `a = "\"` + in(9, "[", "", "]") + `"`, 0},
		{"after a literal that only looks escaped", `a = 'x\'` + in(9, "[", "", "]"), 1},
		{"many lists beside each other", "a = [" + strings.Repeat("[],", 100) + "]", 0},
		{"numbers with points", strings.Repeat("a = 1.5\n", 20), 0},
		{"a list of numbers", "a = [" + strings.Repeat("1.5, ", 20) + "]", 0},
	} {
		if got := tooDeep(c.file); got != c.line {
			t.Errorf("%s: line %d, want %d", c.name, got, c.line)
		}
	}
}

// Files that took the decoder most of a minute are refused unread. The test has no clock: it would not end in time.
func TestDeepFilesAreRefusedUnread(t *testing.T) {
	var headers strings.Builder
	for path := "a"; headers.Len() < 60_000; path += ".a" {
		headers.WriteString("[" + path + "]\n")
	}
	for name, file := range map[string]string{
		"lists":   "a = " + strings.Repeat("[", 32000) + strings.Repeat("]", 32000),
		"inline":  "a = " + strings.Repeat("{a=", 15000) + "1" + strings.Repeat("}", 15000),
		"dots":    strings.Repeat("a.", 30000) + "a = 1",
		"header":  "[" + strings.Repeat("a.", 30000) + "a]",
		"headers": headers.String(),
	} {
		if _, err := ParseTOML([]byte(file)); err == nil || !strings.Contains(err.Error(), "deeper than 8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
