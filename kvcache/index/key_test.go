package index

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// unframe reads one framed string. An encoding that can be read back is injective.
func unframe(t *testing.T, b []byte) (string, []byte) {
	t.Helper()
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		t.Fatalf("no framed string in %q", b)
	}
	return string(b[k : k+int(n)]), b[k+int(n):]
}

func decodeFields(t *testing.T, b []byte) []Field {
	t.Helper()
	var out []Field
	for len(b) > 0 {
		var f Field
		f.Name, b = unframe(t, b)
		f.Present, b = b[0] == 1, b[1:]
		if f.Present {
			f.Value, b = unframe(t, b)
		}
		out = append(out, f)
	}
	return out
}

func decodeKey(t *testing.T, b []byte) Key {
	t.Helper()
	var k Key
	b = b[1:]
	for tag, to := range map[byte]*string{tagNamespace: &k.Namespace, tagFingerprint: &k.Fingerprint, tagLayout: &k.Layout} {
		rest := b
		for {
			got := rest[0]
			var s string
			s, rest = unframe(t, rest[1:])
			if got == tag {
				*to = s
				break
			}
		}
	}
	return k
}

func FuzzKeyIsInjective(f *testing.F) {
	f.Add("a", "bc", "", "ab", "c", "")
	f.Add("", "", "", "", "", "")
	f.Add(strings.Repeat("x", 200), "\x00", "f", "l", "\x01n", "y")
	f.Fuzz(func(t *testing.T, n1, f1, l1, n2, f2, l2 string) {
		a, b := Key{n1, f1, l1}, Key{n2, f2, l2}
		ea, eb := a.AppendCanonical(nil), b.AppendCanonical(nil)
		if (a == b) != bytes.Equal(ea, eb) {
			t.Fatalf("%q and %q encode to %q and %q", a, b, ea, eb)
		}
		if a != b && (bytes.HasPrefix(ea, eb) || bytes.HasPrefix(eb, ea)) {
			t.Fatalf("the encoding of %q starts that of %q", a, b)
		}
		if got := decodeKey(t, ea); got != a {
			t.Fatalf("%q reads back as %q", a, got)
		}
		if got := a.AppendCanonical([]byte("x")); string(got) != "x"+string(ea) {
			t.Fatalf("appended %q", got)
		}
	})
}

func FuzzNamespaceIsInjective(f *testing.F) {
	f.Add("adapter", "S", "salt", "", uint8(1), uint8(2))
	f.Add("a", "bc", "ab", "c", uint8(3), uint8(3))
	f.Add("a", "", "a", "", uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string, m1, m2 uint8) {
		// The same strings as one field, as two, and with each choice of what is present.
		lists := [][]Field{
			{{n1, v1, m1&1 > 0}, {n2, v2, m1&2 > 0}},
			{{n1, v1, m2&1 > 0}, {n2, v2, m2&2 > 0}},
			{{n1 + v1, n2 + v2, true}},
			{{n1, v1 + n2 + v2, true}},
			{{n2, v2, true}, {n1, v1, true}},
			nil,
		}
		for _, list := range lists {
			for i := range list {
				if !list[i].Present {
					list[i].Value = "" // the value of an absent field does not count
				}
			}
		}
		for _, a := range lists {
			ea := FrameNamespace(nil, a...)
			if got := decodeFields(t, ea); !slices.Equal(got, a) {
				t.Fatalf("%+v reads back as %+v", a, got)
			}
			for _, b := range lists {
				if slices.Equal(a, b) != bytes.Equal(ea, FrameNamespace(nil, b...)) {
					t.Fatalf("%+v and %+v: encodings and lists do not agree", a, b)
				}
			}
		}
	})
}

func TestAbsentValueIsIgnored(t *testing.T) {
	a := FrameNamespace(nil, Field{Name: "salt", Value: "x"})
	if b := FrameNamespace(nil, Field{Name: "salt"}); !bytes.Equal(a, b) {
		t.Fatalf("an absent field encodes its value: %q, %q", a, b)
	}
}
