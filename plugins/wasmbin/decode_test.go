package wasmbin

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// everything is a module with an item in every section.
func everything() *Module {
	m := build(
		fn{types(I32, 0, I64), []LocalRun{{2, I64}, {3, F32}}, cat(get(0), op(0xAC))},
		fn{types(0), nil, nil},
	)
	m.Types = append(m.Types, types(I32, 0))
	m.Imports = []Import{{Module: "wasi_snapshot_preview1", Name: "proc_exit", Type: 2}}
	m.Exports = []Export{{"memory", KindMemory, 0}, {"a", KindFunction, 1}, {"t", KindTable, 0}, {"g", KindGlobal, 1}}
	m.Tables = []Limit{{Min: 4}}
	m.Globals = []Global{{I32, true, cat(i32(-5), op(opEnd))}, {F64, false, cat(f64(2.5), op(opEnd))}}
	m.Elements = []Element{{cat(i32(1), op(opEnd)), []uint32{1, 2, 0}}}
	m.Data = []Data{{cat(i32(16), op(opEnd)), []byte("active")}, {nil, []byte("passive")}}
	m.DataCount = 2
	m.Customs = []Custom{{"name", []byte{1, 2, 3}}, {"sluice.manifest", []byte("x")}}
	return m
}

func TestRoundTripKeepsEverything(t *testing.T) {
	shipped, err := Decode(readShipped(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*Module{"every section": everything(), "shipped": shipped} {
		t.Run(name, func(t *testing.T) {
			first := m.Encode()
			d, err := Decode(first)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(d.Encode(), first) {
				t.Error("encoding what was decoded gives other bytes")
			}
			// Where the bytes lay is no part of a module.
			a, b := *m, *d
			a.size, b.size = 0, 0
			for _, bodies := range []*[]Body{&a.Bodies, &b.Bodies} {
				*bodies = append([]Body{}, *bodies...)
				for i := range *bodies {
					(*bodies)[i].Offset = 0
					if len((*bodies)[i].Locals) == 0 {
						(*bodies)[i].Locals = nil
					}
				}
			}
			for _, ts := range []*[]FuncType{&a.Types, &b.Types} {
				*ts = append([]FuncType{}, *ts...)
				for i, ft := range *ts {
					(*ts)[i] = FuncType{append([]ValueType{}, ft.Params...), append([]ValueType{}, ft.Results...)}
				}
			}
			av, bv := reflect.ValueOf(a), reflect.ValueOf(b)
			for i := range av.NumField() {
				if f := av.Type().Field(i); f.IsExported() && !reflect.DeepEqual(av.Field(i).Interface(), bv.Field(i).Interface()) {
					t.Errorf("%s differ", f.Name)
				}
			}
		})
	}
}

func wantError(t *testing.T, err error, rule string, words ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Rule != rule {
		t.Fatalf("error %v, want rule %s", err, rule)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

// judge is Decode and then Verify.
func judge(wasm []byte, l Limits) error {
	m, err := Decode(wasm)
	if err != nil {
		return err
	}
	return Verify(m, l)
}

func TestEveryPrefixIsRefused(t *testing.T) {
	m := everything()
	m.Customs = nil
	whole := m.Encode()
	l := shippedLimits(m)
	if err := judge(whole, l); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := judge(whole[:n], l); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, len(whole))
		}
	}
}

func section(id byte, content ...byte) []byte {
	return cat(op(id), appendUint(nil, uint32(len(content))), content)
}

func TestMalformedSections(t *testing.T) {
	wasm := func(sections ...[]byte) []byte { return cat(append([][]byte{header[:]}, sections...)...) }
	emptyType := section(1, 1, 0x60, 0, 0)
	for _, tc := range []struct {
		name  string
		wasm  []byte
		rule  string
		words []string
	}{
		{"nothing", nil, RuleMalformed, []string{"offset 0x0"}},
		{"version 2", []byte{0, 'a', 's', 'm', 2, 0, 0, 0}, RuleMalformed, nil},
		{"component", []byte{0, 'a', 's', 'm', 0x0D, 0, 1, 0}, RuleMalformed, nil},
		{"unknown section", wasm(section(14)), RuleMalformed, []string{"section 14", "offset 0x8"}},
		{"tags", wasm(section(13, 0)), RuleFeature, []string{"exceptions"}},
		{"twice", wasm(emptyType, emptyType), RuleMalformed, []string{"type section", "twice"}},
		{"out of order", wasm(section(3, 0), emptyType), RuleMalformed, []string{"too late"}},
		{"data count after code", wasm(section(10, 0), section(12, 0)), RuleMalformed, []string{"too late"}},
		{"section past the end", wasm([]byte{1, 9, 0}), RuleMalformed, []string{"9 bytes", "1 are left"}},
		{"rest in a section", wasm(section(1, 0, 0)), RuleMalformed, []string{"1 bytes follow"}},
		{"many items in few bytes", wasm(section(1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F)), RuleMalformed, []string{"4294967295 items"}},
		{"number of 33 bits", wasm(section(1, 0x80, 0x80, 0x80, 0x80, 0x10)), RuleMalformed, []string{"32 bits"}},
		{"number of six bytes", wasm(section(1, 0x80, 0x80, 0x80, 0x80, 0x80, 0)), RuleMalformed, []string{"32 bits"}},
		{"value type", wasm(section(1, 1, 0x60, 1, 0x11, 0)), RuleMalformed, []string{"0x11", "offset 0xd"}},
		{"v128", wasm(section(1, 1, 0x60, 1, 0x7B, 0)), RuleFeature, []string{"SIMD"}},
		{"externref", wasm(section(1, 1, 0x60, 1, 0x6F, 0)), RuleFeature, []string{"reference"}},
		{"anyref", wasm(section(1, 1, 0x60, 1, 0x6E, 0)), RuleFeature, []string{"0x6e", "garbage collection"}},
		{"a typed reference", wasm(section(6, 1, 0x63, 0, 0, 0xD0, 0, 0x0B)), RuleFeature, []string{"0x63", "typed references"}},
		{"struct type", wasm(section(1, 1, 0x5F, 0)), RuleFeature, []string{"0x5f"}},
		{"shared memory", wasm(section(5, 1, 3, 1, 1)), RuleFeature, []string{"threads"}},
		{"64-bit memory", wasm(section(5, 1, 4, 1)), RuleFeature, []string{"wasm32"}},
		{"limit flags", wasm(section(5, 1, 9, 1)), RuleMalformed, []string{"0x9"}},
		{"maximum below minimum", wasm(section(5, 1, 1, 2, 1)), RuleMalformed, []string{"maximum 1"}},
		{"table of references", wasm(section(4, 1, 0x6F, 0, 1)), RuleFeature, []string{"0x6f"}},
		{"tag import", wasm(section(2, 1, 0, 0, 4, 0, 0)), RuleFeature, []string{"exceptions"}},
		{"imports of one module", wasm(emptyType, section(2, 1, 1, 'm', 0, 0x7F, 1, 1, 'f', 0, 0)), RuleFeature, []string{"compact imports"}},
		{"imports of one type", wasm(emptyType, section(2, 1, 1, 'm', 0, 0x7E, 0, 0, 1, 1, 'f')), RuleFeature, []string{"compact imports"}},
		{"kind 5", wasm(section(2, 1, 0, 0, 5, 0)), RuleMalformed, []string{"0x5"}},
		{"name that is no text", wasm(section(2, 1, 1, 0xFF, 0, 0, 0)), RuleMalformed, []string{"UTF-8"}},
		{"global.get in a constant", wasm(section(6, 1, 0x7F, 0, 0x23, 0, 0x0B)), RuleFeature, []string{"extended-const"}},
		{"two constants", wasm(section(6, 1, 0x7F, 0, 0x41, 0, 0x41, 0, 0x6A, 0x0B)), RuleFeature, []string{"extended-const"}},
		{"mutability 4", wasm(section(6, 1, 0x7F, 4, 0x41, 0, 0x0B)), RuleMalformed, []string{"0x4"}},
		{"a shared global", wasm(section(6, 1, 0x7F, 3, 0x41, 0, 0x0B)), RuleFeature, []string{"threads"}},
		{"passive elements", wasm(section(9, 1, 1, 0, 0)), RuleFeature, []string{"form 1"}},
		{"data for memory 1", wasm(section(11, 1, 2, 1, 0x41, 0, 0x0B, 0)), RuleFeature, []string{"multi-memory"}},
		{"code without functions", wasm(section(10, 1, 2, 0, 0x0B)), RuleMalformed, []string{"0 functions are declared, 1"}},
		{"functions without code", wasm(emptyType, section(3, 1, 0)), RuleMalformed, []string{"1 functions are declared, 0"}},
		{"empty body", wasm(emptyType, section(3, 1, 0), section(10, 1, 1, 0)), RuleMalformed, []string{"function 0", "no instructions"}},
		{"data count", wasm(section(12, 1)), RuleMalformed, []string{"1 data segments"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode(tc.wasm)
			wantError(t, err, tc.rule, tc.words...)
		})
	}
}

func TestSignedNumbers(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []byte
		bits int
		want int64
		ok   bool
	}{
		{"zero", []byte{0}, 32, 0, true},
		{"-1", []byte{0x7F}, 32, -1, true},
		{"-1, longer than needed", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0x7F}, 32, -1, true},
		{"63, longer than needed", []byte{0xBF, 0x80, 0x00}, 32, 63, true},
		{"lowest of 32", []byte{0x80, 0x80, 0x80, 0x80, 0x78}, 32, math.MinInt32, true},
		{"highest of 32", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0x07}, 32, math.MaxInt32, true},
		{"too high for 32", []byte{0x80, 0x80, 0x80, 0x80, 0x08}, 32, 0, false},
		{"too low for 32", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0x77}, 32, 0, false},
		{"six bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, 32, 0, false},
		{"lowest of 64", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F}, 64, math.MinInt64, true},
		{"highest of 64", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00}, 64, math.MaxInt64, true},
		{"65 bits", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 64, 0, false},
		{"cut", []byte{0x80}, 64, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &reader{buf: tc.in}
			got := r.signed(tc.bits)
			if (r.err == nil) != tc.ok || (tc.ok && (got != tc.want || !r.done())) {
				t.Errorf("%d, error %v", got, r.err)
			}
		})
	}
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, math.MaxInt64, math.MinInt64} {
		r := &reader{buf: appendInt(nil, v)}
		if got := r.signed(64); got != v || r.err != nil || !r.done() {
			t.Errorf("%d is read as %d, error %v", v, got, r.err)
		}
	}
}
