package plugins_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
)

// Where the modules of these tests have their arenas.
const (
	logAt      = 8192
	countersAt = 20480
)

// talkingArenas are the fixed arenas, with the LOG arena at one address and the COUNTERS arena at another.
func talkingArenas(log, counters int32) []byte {
	return code(op(opLocalGet, 0), i32(4), op(opI32Eq, opIf, typeI32), i32(log),
		op(opElse, opLocalGet, 0), i32(5), op(opI32Eq, opIf, typeI32), i32(counters), op(opElse), fixedArenas(), op(opEnd, opEnd))
}

// poke stores bytes at an address.
func poke(at int32, text string) []byte {
	var out []byte
	for ; len(text) > 0; at, text = at+4, text[min(4, len(text)):] {
		var word [4]byte
		copy(word[:], text)
		out = append(out, code(i32(at), i32(int32(binary.LittleEndian.Uint32(word[:]))), op(opI32Store, 2, 0))...)
	}
	return out
}

// everyEntry makes all entries of the log the same. It does not raise the number of entries.
func everyEntry(level, length byte, text string) []byte {
	out := poke(logAt+abi.LogRingSize, string([]byte{level, length})+"\x00\x00\x00\x00\x00\x00"+text)
	for n := int32(1); n < abi.LogEntries; n *= 2 {
		out = append(out, code(i32(logAt+abi.LogRingSize+n*abi.LogEntrySize), i32(logAt+abi.LogRingSize), i32(n*abi.LogEntrySize), op(0xFC, 0x0A, 0, 0))...)
	}
	return out
}

// wrote raises the number of entries.
func wrote(n int32) []byte {
	return code(i32(logAt), i32(logAt), op(opI32Load, 2, 0), i32(n), op(opI32Add, opI32Store, 2, 0))
}

// raise adds to a counter.
func raise(counter, n int32) []byte {
	at := countersAt + 8*counter
	return code(i32(at), i32(at), op(0x29, 3, 0, opI64Const), i32(n)[1:], op(0x7C, 0x37, 3, 0)) // i64.load, i64.add, i64.store
}

// line is a line of a policy's log as slog gets it.
type line struct {
	level slog.Level
	text  string
	attrs map[string]string
}

// heard is a slog handler that keeps the lines of policies.
type heard struct {
	least slog.Level
	lines *[]line
}

func (h heard) Enabled(_ context.Context, l slog.Level) bool { return l >= h.least }
func (h heard) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h heard) WithGroup(string) slog.Handler                { return h }
func (h heard) Handle(_ context.Context, r slog.Record) error {
	l := line{level: r.Level, attrs: map[string]string{}}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "text" {
			l.text = a.Value.String()
		} else {
			l.attrs[a.Key] = a.Value.String()
		}
		return true
	})
	*h.lines = append(*h.lines, l)
	return nil
}

func listen(least slog.Level) (*slog.Logger, *[]line) {
	var lines []line
	return slog.New(heard{least, &lines}), &lines
}

// talking is the runner of a gate that logs, and what is heard of it.
func talking(t testing.TB, m guestModule, o plugins.Options, least slog.Level) (*plugins.Runner, *[]line) {
	t.Helper()
	if m.arena == nil {
		m.arena = talkingArenas(logAt, countersAt)
	}
	host := plugins.NewHost(o)
	t.Cleanup(func() { closing(t, host.Close) })
	set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: m.bytes(), Name: "x.wasm"}}, abi.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, set.Close) })
	log, lines := listen(least)
	set.Gate.LogTo(log)
	return set.Gate, lines
}

func ask(t testing.TB, r *plugins.Runner, tick uint64) plugins.Answer {
	t.Helper()
	nOut, encode, _ := inputs(r.Hook())
	a, err := r.Run(tick, 1, 3, nOut, encode)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhatALineSays(t *testing.T) {
	long := strings.Repeat("ab", 80)
	for _, tc := range []struct {
		name   string
		level  byte
		length byte
		text   string
		want   string
		slog   slog.Level
	}{
		{"debug", 0, 5, "hello", "hello", slog.LevelDebug},
		{"info", 1, 5, "hello", "hello", slog.LevelInfo},
		{"warning", 2, 4, "hello", "hell", slog.LevelWarn},
		{"error", 3, 0, "hello", "", slog.LevelError},
		{"no level", 4, 5, "hello", "hello", slog.LevelError},
		{"the highest of no level", 255, 5, "hello", "hello", slog.LevelError},
		{"UTF-8", 1, 7, "gr\u00fc\u00dfe", "gr\u00fc\u00dfe", slog.LevelInfo},
		{"control characters", 1, 8, "a\nb\x1b[2J\x00", `a\nb\x1b[2J\x00`, slog.LevelInfo},
		{"what turns the direction of writing", 1, 4, "\u202ea", `\u202ea`, slog.LevelInfo},
		{"no UTF-8", 1, 3, "\xff\xfea", `\xff\xfea`, slog.LevelInfo},
		{"half a character", 1, 1, "\u00fc", `\xc3`, slog.LevelInfo},
		{"as long as can be", 1, 120, long, long[:120], slog.LevelInfo},
		{"longer than can be", 1, 255, long, long[:120], slog.LevelInfo},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := tc.text[:min(len(tc.text), abi.LogTextBytes)]
			r, lines := talking(t, guestModule{configure: code(everyEntry(tc.level, tc.length, text), i32(0)), gate: code(wrote(1), i32(0))}, plugins.Options{}, slog.LevelDebug)
			if a := ask(t, r, 7); a.Fault != nil || a.Native {
				t.Fatal(a.Fault)
			}
			want := map[string]string{"policy": "x.wasm", "hook": "gate", "class": "local", "tick": "7"}
			if len(*lines) != 1 || (*lines)[0].text != tc.want || (*lines)[0].level != tc.slog || fmt.Sprint((*lines)[0].attrs) != fmt.Sprint(want) {
				t.Errorf("heard %+v, want %q at %v with %v", *lines, tc.want, tc.slog, want)
			}
		})
	}
}

// The number of entries is the guest's: each call raises it by something, or says anything at all.
func TestHowManyLinesAreNew(t *testing.T) {
	for _, tc := range []struct {
		name        string
		raise       int32
		lines, lost uint64 // after three calls
	}{
		{"none", 0, 0, 0},
		{"one", 1, 3, 0},
		{"a full ring", abi.LogEntries, 3 * abi.LogEntries, 0},
		{"more than the ring holds", abi.LogEntries + 1, 3 * abi.LogEntries, 3},
		{"far more", math.MaxInt32, 3 * abi.LogEntries, 3 * (math.MaxInt32 - abi.LogEntries)},
		{"back by one", -1, 0, 0},
		{"back to the other end", math.MinInt32, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := guestModule{configure: code(everyEntry(1, 2, "hi"), i32(0)), gate: code(wrote(tc.raise), i32(0))}
			r, lines := talking(t, m, plugins.Options{LogLimit: plugins.LogLimit{Burst: 1000}}, slog.LevelDebug)
			for tick := range uint64(3) {
				ask(t, r, tick)
			}
			if s := r.Stats(); s.Lines != tc.lines || s.LinesLost != tc.lost || s.LinesLimited != 0 || uint64(len(*lines)) != tc.lines || s.FaultTotal() != 0 {
				t.Errorf("%d lines, %d heard, %d lost, %d kept back, faults %d; want %d and %d lost", s.Lines, len(*lines), s.LinesLost, s.LinesLimited, s.FaultTotal(), tc.lines, tc.lost)
			}
			for i, l := range *lines {
				if lost := uint64(i % abi.LogEntries); l.text != "hi" || (l.attrs["lost"] != "") != (tc.lost > 0 && lost == 0) {
					t.Fatalf("line %d: %+v", i, l)
				}
			}
		})
	}
}

// The entries come in the order in which they were written, wherever in the ring they start.
func TestLinesAreInOrder(t *testing.T) {
	// Entry k is as long as k, and each call writes 25.
	configure := code(everyEntry(1, 0, strings.Repeat("x", abi.LogTextBytes)))
	for k := range int32(abi.LogEntries) {
		configure = append(configure, poke(logAt+abi.LogRingSize+k*abi.LogEntrySize, string([]byte{1, byte(k), 0, 0}))...)
	}
	r, lines := talking(t, guestModule{configure: code(configure, i32(0)), gate: code(wrote(25), i32(0))}, plugins.Options{LogLimit: plugins.LogLimit{Burst: 1000}}, slog.LevelDebug)
	for tick := range uint64(10) {
		ask(t, r, tick)
	}
	if len(*lines) != 250 {
		t.Fatalf("%d lines", len(*lines))
	}
	for i, l := range *lines {
		if len(l.text) != i%abi.LogEntries || l.attrs["tick"] != fmt.Sprint(i/25) {
			t.Fatalf("line %d: %+v", i, l)
		}
	}
}

// A burst, then a line for every so many ticks; what is kept back is counted in the next line that passes.
func TestLinesAreLimitedByTicks(t *testing.T) {
	m := guestModule{configure: code(everyEntry(2, 2, "hi"), i32(0)), gate: code(wrote(2), i32(0))}
	for _, tc := range []struct {
		name  string
		limit plugins.LogLimit
		step  uint64
		want  []string // tick and what was suppressed before
	}{
		{"defaults", plugins.LogLimit{}, 1, []string{"0 ", "0 ", "1 ", "1 ", "2 ", "2 ", "3 ", "3 ", "4 ", "4 ", "5 ", "5 ", "6 ", "6 ", "7 ", "7 ",
			"10 4", "20 19", "30 19"}},
		{"its own", plugins.LogLimit{Burst: 1, Every: 15}, 1, []string{"0 ", "15 29", "30 29"}},
		{"ticks far apart", plugins.LogLimit{Burst: 1, Every: 15}, 1 << 62, []string{"0 ", "4611686018427387904 1", "9223372036854775808 1", "13835058055282163712 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, lines := talking(t, m, plugins.Options{LogLimit: tc.limit}, slog.LevelDebug)
			ticks := uint64(35)
			if tc.step > 1 {
				ticks = 4
			}
			for tick := range ticks {
				ask(t, r, tick*tc.step)
			}
			var got []string
			for _, l := range *lines {
				got = append(got, l.attrs["tick"]+" "+l.attrs["suppressed"])
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if s := r.Stats(); s.Lines != uint64(len(got)) || s.Lines+s.LinesLimited != 2*ticks {
				t.Errorf("%d lines and %d kept back in %d ticks", s.Lines, s.LinesLimited, ticks)
			}
		})
	}
}

// A level that is not shown takes nothing of the limit.
func TestLevelsThatAreNotShownAreFree(t *testing.T) {
	m := guestModule{configure: code(everyEntry(0, 2, "hi"), i32(0)), gate: code(wrote(abi.LogEntries), i32(0))}
	r, lines := talking(t, m, plugins.Options{}, slog.LevelInfo)
	for tick := range uint64(5) {
		ask(t, r, tick)
	}
	if s := r.Stats(); len(*lines) != 0 || s.Lines != 5*abi.LogEntries || s.LinesLimited != 0 {
		t.Errorf("%d heard, %d lines, %d kept back", len(*lines), s.Lines, s.LinesLimited)
	}
}

// The last words of a call that did not end well come out, and its fault has them even where the limit keeps them back.
func TestLastWords(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  []byte
	}{{"trap", op(opUnreachable)}, {"no fuel", again()}, {"bad status", i32(-1)}, {"illegal answer", code(outByte(0, 9), i32(0))}} {
		t.Run(tc.name, func(t *testing.T) {
			m := guestModule{gate: code(everyEntry(3, 4, "oops"), wrote(1), raise(3, 5), tc.end)}
			r, lines := talking(t, m, plugins.Options{Fuel: plugins.Fuel{Base: 100_000}, LogLimit: plugins.LogLimit{Burst: 1, Every: 1 << 20}}, slog.LevelDebug)
			for round := range uint64(3) {
				a := ask(t, r, round)
				if a.Fault == nil || !strings.Contains(a.Fault.Error(), `its last line of log is "oops"`) {
					t.Fatalf("fault %v", a.Fault)
				}
				if err := r.Refresh(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			s := r.Stats()
			if len(*lines) != 1 || (*lines)[0].text != "oops" || s.Lines != 1 || s.LinesLimited != 2 || s.Counters[3] != 15 || s.Replaced != 3 {
				t.Errorf("heard %+v, stats %+v", *lines, s)
			}
		})
	}
}

func TestWhatIsSaidInConfigure(t *testing.T) {
	say := code(everyEntry(1, 5, "limit"), wrote(2), raise(0, 7))
	r, lines := talking(t, guestModule{configure: code(say, i32(0)), gate: code(wrote(1), i32(0))}, plugins.Options{}, slog.LevelDebug)
	ask(t, r, 4)
	var got []string
	for _, l := range *lines {
		got = append(got, l.attrs["hook"]+" "+l.attrs["tick"]+" "+l.text)
	}
	if want := []string{"configure 4 limit", "configure 4 limit", "gate 4 limit"}; !slices.Equal(got, want) || r.Stats().Counters[0] != 7 {
		t.Errorf("%q, counters %v", got, r.Stats().Counters)
	}
	for name, tc := range map[string]struct {
		end  []byte
		rule string
	}{"refused": {i32(-3), "config"}, "unsupported": {i32(-2), "configure"}, "stopped": {op(opUnreachable), "configure"}} {
		wasm := guestModule{configure: code(say, tc.end), gate: i32(0), arena: talkingArenas(logAt, countersAt)}.bytes()
		_, err := sharedHost().NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: wasm, Name: name}}, abi.HostInfo{})
		wantRefusal(t, err, tc.rule, `its last line of log is "limit"`)
	}
}

// A guest may print instead of logging: each line is one of its log, for the author.
func TestPrintedLines(t *testing.T) {
	// One write of two parts, and the same once more.
	print := code(poke(640, "one\n\n  two\nthr"), poke(600, "\x80\x02\x00\x00\x0e\x00\x00\x00"), i32(2), i32(600), i32(1), i32(620), op(opCall, 0, opDrop))
	m := guestModule{gate: code(print, print, i32(0)), imports: []testImport{fdWrite}}
	r, lines := talking(t, m, plugins.Options{}, slog.LevelDebug)
	for tick := range uint64(2) {
		ask(t, r, tick)
	}
	var got []string
	for _, l := range *lines {
		got = append(got, l.attrs["tick"]+l.level.String()+l.text)
	}
	if want := []string{"0DEBUGone", "0DEBUGtwo", "0DEBUGthrone", "0DEBUGtwo", "0DEBUGthr", "1DEBUGone", "1DEBUGtwo", "1DEBUGthrone", "1DEBUGtwo", "1DEBUGthr"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a guest prints before it panics, however much, does not hide the panic.
func TestAPanicIsSeenBehindOtherOutput(t *testing.T) {
	chatter := code(i32(640), i32('a'), i32(2000), op(0xFC, 0x0B, 0), poke(600, "\x80\x02\x00\x00\xd0\x07\x00\x00"), i32(1), i32(600), i32(1), i32(620), op(opCall, 0, opDrop))
	panics := code(poke(640, "panic: no way\n\ngoroutine 1"), poke(600, "\x80\x02\x00\x00\x1a\x00\x00\x00"), i32(2), i32(600), i32(1), i32(620), op(opCall, 0, opDrop))
	m := guestModule{gate: code(chatter, panics, op(opUnreachable)), imports: []testImport{fdWrite}}
	r, lines := talking(t, m, plugins.Options{}, slog.LevelDebug)
	if a := ask(t, r, 1); a.Fault == nil || !strings.HasSuffix(a.Fault.Detail, "panic: no way") {
		t.Errorf("fault %v", a.Fault)
	}
	if len(*lines) != 2 || len((*lines)[0].text) != 256 || (*lines)[1].text != "goroutine 1" {
		t.Errorf("heard %+v", *lines)
	}
}

func TestCounters(t *testing.T) {
	store := func(counter int32, v int32) []byte { // as 64 bits, with the sign
		return code(i32(countersAt+8*counter), op(opI64Const), i32(v)[1:], op(0x37, 3, 0))
	}
	once := func(then []byte) []byte { // from the second call on
		return code(i32(900), i32(900), op(opI32Load, 2, 0), i32(1), op(opI32Add, opI32Store, 2, 0), i32(900), op(opI32Load, 2, 0), i32(1), op(0x4B, opIf, 0x40), then, op(opEnd))
	}
	for _, tc := range []struct {
		name string
		gate []byte
		want map[int]uint64 // after three calls
	}{
		{"nothing", nil, nil},
		{"first and last", code(raise(0, 1), raise(63, 1000)), map[int]uint64{0: 3, 63: 3000}},
		{"set once", store(5, 12), map[int]uint64{5: 12}},
		{"falls and rises again", code(store(2, 10), once(store(2, 4))), map[int]uint64{2: 10}},
		{"as large as can be", store(1, -1), map[int]uint64{1: math.MaxUint64}},
		{"past the largest", code(store(1, -10), once(raise(1, 20)), once(store(1, -1))), map[int]uint64{1: math.MaxUint64}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := talking(t, guestModule{gate: code(tc.gate, i32(0))}, plugins.Options{}, slog.LevelDebug)
			for tick := range uint64(3) {
				ask(t, r, tick)
			}
			for i, got := range r.Stats().Counters {
				if got != tc.want[i] {
					t.Errorf("counter %d is %d, want %d", i, got, tc.want[i])
				}
			}
		})
	}
}

func TestArenasThatAreRefused(t *testing.T) {
	only := func(kind int32, then []byte) []byte {
		return code(op(opLocalGet, 0), i32(kind), op(opI32Eq, opIf, typeI32), then, op(opElse), fixedArenas(), op(opEnd))
	}
	for _, tc := range []struct {
		name  string
		arena []byte
		words []string // none: it is taken
	}{
		{"no log", only(4, i32(0)), nil},
		{"no counters", only(5, i32(0)), nil},
		{"log misaligned", only(4, i32(8200)), []string{"kind log", "16-byte aligned"}},
		{"counters misaligned", only(5, i32(8193)), []string{"kind counters", "16-byte aligned"}},
		{"log past the end", only(4, i32(8<<16-8192)), []string{"log arena", "not 8208 bytes of memory"}},
		{"log up to the end", only(4, i32(8<<16-8208)), nil},
		{"counters past the end", only(5, i32(8<<16-496)), []string{"counters arena", "not 512 bytes of memory"}},
		{"counters up to the end", only(5, i32(8<<16-512)), nil},
		{"log at the end of the address space", only(4, i32(-16)), []string{"log arena at 0xfffffff0"}},
		{"trap for log", only(4, op(opUnreachable)), []string{"unreachable", "kind log", "return 0"}},
		{"endless for counters", only(5, again()), []string{"out_of_fuel", "kind counters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := plugins.NewHost(plugins.Options{})
			defer closing(t, host.Close)
			set, err := host.NewSet(context.Background(), []plugins.Spec{{Hook: abi.Gate, Module: guestModule{gate: i32(0), arena: tc.arena}.bytes()}}, abi.HostInfo{})
			if tc.words != nil {
				wantRefusal(t, err, "arena", tc.words...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a := ask(t, set.Gate, 1); a.Fault != nil || a.Native {
				t.Error(a.Fault)
			}
			closing(t, set.Close)
		})
	}
}

// Neither counting nor a line that is kept back allocates.
func TestListeningAllocatesNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		gate []byte
	}{
		{"counts", code(raise(0, 1), raise(40, 3), i32(0))},
		{"is kept back", code(everyEntry(3, 200, "text"), wrote(100), i32(0))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, lines := talking(t, guestModule{gate: tc.gate}, plugins.Options{LogLimit: plugins.LogLimit{Burst: 1, Every: math.MaxUint32}}, slog.LevelDebug)
			nOut, encode, _ := inputs(abi.Gate)
			tick := uint64(0)
			run := func() {
				tick++
				if _, err := r.Run(tick, 1, 3, nOut, encode); err != nil {
					t.Fatal(err)
				}
			}
			run()
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if s := r.Stats(); s.FaultTotal() > 0 || s.Counters[0]+s.LinesLimited < 100 || len(*lines) > 1 {
				t.Errorf("stats %+v, %d lines", s, len(*lines))
			}
		})
	}
}
