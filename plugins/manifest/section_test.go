package manifest

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"sluice/plugins/wasmbin"
)

const head = "\x00asm\x01\x00\x00\x00"

func shipped(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("../standard/standard.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWriteKeepsEveryOtherSection(t *testing.T) {
	wasm := shipped(t)
	before := bytes.Clone(wasm)
	one, err := Write(wasm, Manifest{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wasm, before) {
		t.Error("the given bytes were written to")
	}
	if !bytes.HasPrefix(one, wasm) {
		t.Error("the other sections' bytes changed")
	}
	if m, err := Read(one); err != nil || m == nil || m.Name != "one" {
		t.Errorf("read %+v, %v", m, err)
	}
	// A manifest in the middle is replaced too, and again the last.
	middle := wasmbin.AppendCustom(bytes.Clone(one), "later", []byte("x"))
	two, err := Write(middle, Manifest{Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if want := wasmbin.AppendCustom(bytes.Clone(wasm), "later", []byte("x")); !bytes.HasPrefix(two, want) {
		t.Error("replacing one changed another section")
	}
	direct, err := Write(wasm, Manifest{Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := Write(one, Manifest{Name: "two"}); err != nil || !bytes.Equal(twice, direct) {
		t.Errorf("writing over one differs from writing the first, %v", err)
	}
	if bare, err := Strip(one); err != nil || !bytes.Equal(bare, wasm) {
		t.Errorf("what is left without the manifest is not what was there before it, %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	two := wasmbin.AppendCustom(wasmbin.AppendCustom([]byte(head), Section, []byte("{}")), Section, []byte("{}"))
	for _, tc := range []struct {
		name string
		wasm []byte
		word string
	}{
		{"two", two, "two sections sluice.manifest"},
		{"no module", []byte("MZ"), "does not start"},
		{"truncated", []byte(head + "\x00\x05\x01a"), "truncated"},
		{"no name", []byte(head + "\x00\x01\x05"), "truncated"},
		{"not JSON", wasmbin.AppendCustom([]byte(head), Section, []byte("x")), "not JSON"},
	} {
		if m, err := Read(tc.wasm); err == nil || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s: %+v, %v; want an error with %q", tc.name, m, err, tc.word)
		}
	}
	if m, err := Read([]byte(head)); m != nil || err != nil {
		t.Errorf("a module without one: %+v, %v", m, err)
	}
	// Writing repairs a module that has two.
	if fixed, err := Write(two, Manifest{Name: "x"}); err != nil || len(fixed) != len(head)+2+1+len(Section)+len(`{"name":"x"}`) {
		t.Errorf("%q, %v", fixed, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(head))
	f.Add(wasmbin.AppendCustom([]byte(head), Section, []byte(`{"name":"x"}`)))
	f.Add(wasmbin.AppendCustom([]byte(head+"\x01\x80\x00"), "name", nil))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		before := bytes.Clone(wasm)
		_, readErr := Read(wasm)
		out, err := Write(wasm, Manifest{Name: "fuzz", Counters: []string{"a"}})
		if !bytes.Equal(wasm, before) {
			t.Fatal("the given bytes were written to")
		}
		if err != nil {
			if readErr == nil {
				t.Fatalf("a module that can be read cannot be written: %v", err)
			}
			return
		}
		if m, err := Read(out); err != nil || m == nil || m.Name != "fuzz" {
			t.Fatalf("read %+v, %v", m, err)
		}
		bare, err := Strip(out)
		if err != nil {
			t.Fatal(err)
		}
		if readErr == nil {
			if m, _ := Read(wasm); m == nil && !bytes.Equal(bare, wasm) {
				t.Fatal("other sections changed")
			}
		}
	})
}
