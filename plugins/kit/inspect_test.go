package kit_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
)

func TestInspect(t *testing.T) {
	l := layout(t)
	wasm := kittest.ModuleWith([]kittest.Import{{Module: "env", Name: "abort", Params: "il"}}, kittest.Export{Name: "sluice_gate_v1", Body: kittest.Const(0)},
		kittest.Export{Name: "sluice_need_warp", Body: kittest.Const(0)})
	in, err := l.Inspect(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if in.Size != len(wasm) || in.SHA256 != fmt.Sprintf("%x", sha256.Sum256(wasm)) || in.Functions != 5 || in.Start || len(in.Tables) != 0 {
		t.Errorf("%+v", in)
	}
	if !slices.Equal(in.Hooks, []string{"gate"}) || !slices.Equal(in.Markers, []string{"sluice_abi_1", "sluice_need_warp"}) {
		t.Errorf("hooks %v, markers %v", in.Hooks, in.Markers)
	}
	if !slices.Equal(in.Imports, []kit.Symbol{{Name: "env.abort", Detail: "function (i32, i64) -> (i32)"}}) {
		t.Errorf("imports %v", in.Imports)
	}
	if !slices.Contains(in.Exports, kit.Symbol{Name: "sluice_arena", Detail: "function (i32, i32) -> (i32)"}) || !slices.Contains(in.Exports, kit.Symbol{Name: "memory", Detail: "memory"}) {
		t.Errorf("exports %v", in.Exports)
	}
	if len(in.Memories) != 1 || in.Memories[0].String() != "8, no maximum" {
		t.Errorf("memories %v", in.Memories)
	}
	three := uint32(3)
	if s := (kit.Memory{Min: 2, Max: &three}).String(); s != "2 to 3" {
		t.Errorf("got %q", s)
	}
	whole, err := l.Inspect(shipped(t))
	if err != nil || len(whole.Imports) != 10 || len(whole.Customs) == 0 || whole.DataBytes == 0 || whole.CodeBytes == 0 {
		t.Errorf("the shipped module: %d imports, %d custom sections, %v", len(whole.Imports), len(whole.Customs), err)
	}
}

// Bytes cut or changed anywhere give an error or a description, never more; size and hash are told either way.
func TestInspectSurvivesAnything(t *testing.T) {
	l := layout(t)
	wasm := gate(kittest.Votes(kittest.InByte(8)))
	for cut := range wasm {
		if in, err := l.Inspect(wasm[:cut]); err == nil && cut > 8 && in.Functions > 4 || in.Size != cut || in.SHA256 == "" {
			t.Fatalf("cut at %d: %+v, %v", cut, in, err)
		}
	}
	for i := range wasm {
		for _, x := range []byte{0x01, 0x80, 0xFF} {
			bad := slices.Clone(wasm)
			bad[i] ^= x
			if in, _ := l.Inspect(bad); in.Size != len(bad) {
				t.Fatalf("byte %d ^ %#x: %+v", i, x, in)
			}
		}
	}
}
