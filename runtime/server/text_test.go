package server

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// decodeAll is the text of the tokens, as a client decodes it.
func decodeAll(t *testing.T, tokens []uint32) string {
	t.Helper()
	var text jsonText
	for _, token := range tokens {
		before := string(text.out)
		text.add(token)
		if !strings.HasPrefix(string(text.out), before) {
			t.Fatalf("written text changed: %q, then %q", before, text.out)
		}
	}
	text.finish()
	var s string
	if err := json.Unmarshal([]byte(`"`+string(text.out)+`"`), &s); err != nil {
		t.Fatalf("%q: %v", text.out, err)
	}
	return s
}

func TestTextOfTokens(t *testing.T) {
	for name, tc := range map[string]struct {
		tokens []uint32
		want   string
	}{
		"nothing":               {nil, ""},
		"ascii":                 {encodeText("Hello"), "Hello"},
		"what json escapes":     {encodeText("a\"b\\c\nd\te\x00f\x7f"), "a\"b\\c\nd\te\x00f\x7f"},
		"two bytes":             {encodeText("é"), "é"},
		"four bytes":            {encodeText("😀!"), "😀!"},
		"cut character":         {[]uint32{0xf0, 0x9f}, "\ufffd\ufffd"},
		"broken character":      {[]uint32{0xe2, 'x'}, "\ufffdx"},
		"stray continuation":    {[]uint32{0x80, 'x'}, "\ufffdx"},
		"ids beyond bytes":      {[]uint32{'a', 256, 151935, 'b'}, "ab"},
		"encoded surrogate":     {[]uint32{0xed, 0xa0, 0x80}, "\ufffd\ufffd\ufffd"},
		"line separator passes": {encodeText("\u2028"), "\u2028"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decodeAll(t, tc.tokens); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Any bytes decode to what Go's own decoder makes of them.
func TestTextOfRandomBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		b := make([]byte, rng.IntN(12))
		for i := range b {
			b[i] = byte(rng.Uint32())
			if rng.IntN(3) == 0 {
				b[i] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"[rng.IntN(10)]
			}
		}
		if got, want := decodeAll(t, encodeText(string(b))), string([]rune(string(b))); got != want {
			t.Fatalf("seed %d: %x decodes to %q, want %q", seed, b, got, want)
		}
	}
}

func TestFrames(t *testing.T) {
	meta := func(finish, rest string) string {
		return `"meta_info":{"id":"r\"1","finish_reason":` + finish + `,"prompt_tokens":3,"weight_version":"w",` + rest + `}`
	}
	counts := func(retractions, completion, l1, l2, l3 string, total string) string {
		return `"total_retractions":` + retractions + `,"completion_tokens":` + completion + `,"cached_tokens":` + total +
			`,"cached_tokens_details":{"device":` + l1 + `,"host":` + l2 + `,"storage":` + l3 + `}`
	}
	for name, tc := range map[string]struct {
		out    output
		events []Event
		want   string
	}{
		"nothing yet": {output{index: -1}, nil,
			`{"text":"","output_ids":[],` + meta("null", counts("0", "0", "0", "0", "0", "0")) + `}`},
		"running, cumulative": {output{index: -1},
			[]Event{{Tokens: []uint32{'a', 'b'}, Cached: CachedTokens{1, 0, 0}}, {Tokens: []uint32{'"', 300}, Cached: CachedTokens{1, 2, 4}, Retractions: 2}},
			`{"text":"ab\"","output_ids":[97,98,34,300],` + meta("null", counts("2", "4", "1", "2", "4", "7")) + `}`},
		"stop token is no text": {output{index: -1},
			[]Event{{Tokens: []uint32{'a'}}, {Tokens: []uint32{'b', 'x'}, Finish: &Finish{Type: FinishStop, Matched: 'x'}}},
			`{"text":"ab","output_ids":[97,98,120],` + meta(`{"type":"stop","matched":120}`, counts("0", "3", "0", "0", "0", "0")+`,"e2e_latency":1.500000`) + `}`},
		"stop token kept": {output{index: -1, keepStop: true},
			[]Event{{Tokens: []uint32{'b', 'x'}, Finish: &Finish{Type: FinishStop, Matched: 'x'}}},
			`{"text":"bx","output_ids":[98,120],` + meta(`{"type":"stop","matched":120}`, counts("0", "2", "0", "0", "0", "0")+`,"e2e_latency":1.500000`) + `}`},
		"length, engine counts the prompt": {output{index: -1},
			[]Event{{PromptTokens: 3, Tokens: []uint32{0xc3}, Finish: &Finish{Type: FinishLength, Length: 1}}},
			`{"text":"` + "\ufffd" + `","output_ids":[195],` + meta(`{"type":"length","length":1}`, counts("0", "1", "0", "0", "0", "0")+`,"e2e_latency":1.500000`) + `}`},
		"abort with all": {output{index: 2},
			[]Event{{Finish: &Finish{Type: FinishAbort, Message: "no \"room\"", Status: 500, ErrType: "transfer"}}},
			`{"text":"","output_ids":[],` + meta(`{"type":"abort","message":"no \"room\"","status_code":500,"err_type":"transfer"}`,
				counts("0", "0", "0", "0", "0", "0")+`,"e2e_latency":1.500000`) + `,"index":2}`},
		"abort of a client": {output{index: -1},
			[]Event{{Finish: &Finish{Type: FinishAbort, Message: "m"}}},
			`{"text":"","output_ids":[],` + meta(`{"type":"abort","message":"m","status_code":null,"err_type":null}`,
				counts("0", "0", "0", "0", "0", "0")+`,"e2e_latency":1.500000`) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			out := tc.out
			out.id, out.weightVersion, out.promptTokens = `r"1`, "w", 3
			for _, ev := range tc.events {
				out.add(ev)
			}
			got := string(out.appendJSON(nil, 1500*time.Millisecond))
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if !json.Valid([]byte(got)) {
				t.Error("not valid JSON")
			}
		})
	}
}

// A frame costs no allocation once its buffers have grown.
func TestFrameAllocatesNothing(t *testing.T) {
	out := output{id: "r", index: -1, weightVersion: "w", ids: make([]byte, 0, 1<<16)}
	out.text.out = make([]byte, 0, 1<<16)
	frames := &sse{now: func() time.Duration { return time.Second }}
	buf := make([]byte, 0, 1<<18)
	tokens := []uint32{'a', 0xc3, 0xa9, 300}
	if n := testing.AllocsPerRun(1000, func() {
		out.add(Event{Tokens: tokens, Cached: CachedTokens{L1: 3}})
		buf = frames.appendFrame(buf[:0], &out)
	}); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

func BenchmarkFrame(b *testing.B) {
	out := output{id: "r", index: -1, weightVersion: "w"}
	frames := &sse{now: func() time.Duration { return time.Second }}
	for range 128 {
		out.add(Event{Tokens: []uint32{'a'}})
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = frames.appendFrame(buf[:0], &out)
	}
	b.SetBytes(int64(len(buf)))
}
