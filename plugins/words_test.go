package plugins_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode"

	"sluice/abi"
	"sluice/plugins"
)

// writes prints text, at most a line of it at once, through import 0.
func writes(text string) []byte {
	word := func(at, v int32) []byte { return code(i32(at), i32(v), op(opI32Store, 2, 0)) }
	text += strings.Repeat(" ", -len(text)&3)
	out := code(word(600, 640), word(604, int32(len(text))))
	for i := 0; i < len(text); i += 4 {
		out = code(out, word(int32(640+i), int32(uint32(text[i])|uint32(text[i+1])<<8|uint32(text[i+2])<<16|uint32(text[i+3])<<24)))
	}
	return code(out, i32(2), i32(600), i32(1), i32(620), op(opCall, 0, opDrop))
}

// What a guest prints before it stops is in the fault, on one line that a terminal can show.
func TestTheLastWordsOfAGuestAreEscaped(t *testing.T) {
	const said = "\x1b[2J\x9b31m\u202eX\rverdict  ok\x7f"
	for name, text := range map[string]string{"printed": said, "panic": "panic: " + said, "long": strings.Repeat("\x7f", 700)} {
		stops := code(writes(text), op(opUnreachable))
		one := guestModule{imports: []testImport{fdWrite}, gate: stops}
		set, err := sharedHost().NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: one.bytes()}}, abi.HostInfo{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := set.Gate.Run(1, 1, 1, 1, func(b abi.Batch) { b.PutGate(0, &abi.GateRecord{ReqKey: 1}) })
		closing(t, set.Close)
		if err != nil || a.Fault == nil {
			t.Fatalf("%s: %+v, %v", name, a, err)
		}
		showable(t, name, a.Fault.Error())
		for _, status := range [][]byte{op(opUnreachable), i32(-3), i32(-2)} {
			two := guestModule{imports: []testImport{fdWrite}, gate: i32(0), configure: code(writes(text), status)}
			_, err := sharedHost().NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: two.bytes()}}, abi.HostInfo{})
			if !errors.Is(err, plugins.ErrRejected) {
				t.Fatalf("%s: %v", name, err)
			}
			showable(t, name+" in configure", err.Error())
		}
	}
}

func showable(t *testing.T, name, text string) {
	t.Helper()
	if len(text) > 2<<10 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !strings.Contains(text, `\x`) {
		t.Errorf("%s: %d bytes, %q", name, len(text), text)
	}
}

// A module's names are cut wherever they are told.
func TestTheNamesOfAModuleAreCut(t *testing.T) {
	long := strings.Repeat("\x1b", 1<<20)
	for name, g := range map[string]guestModule{
		"import":       {gate: i32(0), imports: []testImport{{long, long, typeNothing}}},
		"marker":       {gate: i32(0), marker: "sluice_abi_" + long},
		"two markers":  {gate: i32(0), extra: []string{"sluice_abi_" + long}},
		"need":         {gate: i32(0), extra: []string{"sluice_need_" + long}},
		"export twice": {gate: i32(0), extra: []string{long, long}},
	} {
		_, err := sharedHost().Compile(context.Background(), g.bytes())
		if !errors.Is(err, plugins.ErrRejected) {
			t.Errorf("%s: %.100v", name, err)
			continue
		}
		showable(t, name, err.Error())
		if !strings.Contains(err.Error(), ";") && name != "export twice" {
			t.Errorf("%s: what to do was cut: %v", name, err)
		}
	}
}
