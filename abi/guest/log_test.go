package guest_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
)

// arenaFor has a tail that no view may touch.
func arenaFor(size int) []byte {
	return append(make([]byte, size), 0xA5, 0xA5, 0xA5, 0xA5)
}

func openLog(t *testing.T) (guest.Log, []byte) {
	t.Helper()
	buf := arenaFor(guest.LogBytes)
	l, ok := guest.OpenLog(buf)
	if !ok {
		t.Fatal("no log")
	}
	return l, buf
}

func TestLogLines(t *testing.T) {
	long := strings.Repeat("0123456789", 13)
	for _, tc := range []struct {
		name  string
		write func(guest.Log)
		level abi.LogLevel
		want  string
	}{
		{"a text", func(l guest.Log) { l.Write(abi.LogWarn, "no page is free") }, abi.LogWarn, "no page is free"},
		{"nothing", func(l guest.Log) { l.Write(abi.LogInfo, "") }, abi.LogInfo, ""},
		{"texts and a number", func(l guest.Log) { l.Line(abi.LogError).Text("held ").Uint(12).Text(" ticks").End() }, abi.LogError, "held 12 ticks"},
		{"zero", func(l guest.Log) { l.Line(abi.LogDebug).Uint(0).Int(0).End() }, abi.LogDebug, "00"},
		{"ten and nine", func(l guest.Log) { l.Line(abi.LogDebug).Uint(9).Text(" ").Uint(10).End() }, abi.LogDebug, "9 10"},
		{"the largest", func(l guest.Log) { l.Line(abi.LogDebug).Uint(math.MaxUint64).Text(" ").Int(math.MaxInt64).End() }, abi.LogDebug, "18446744073709551615 9223372036854775807"},
		{"the smallest", func(l guest.Log) { l.Line(abi.LogDebug).Int(-1).Text(" ").Int(math.MinInt64).End() }, abi.LogDebug, "-1 -9223372036854775808"},
		{"a long text", func(l guest.Log) { l.Write(abi.LogInfo, long) }, abi.LogInfo, long[:abi.LogTextBytes]},
		{"exactly full", func(l guest.Log) { l.Write(abi.LogInfo, long[:abi.LogTextBytes]) }, abi.LogInfo, long[:abi.LogTextBytes]},
		{"a number across the end", func(l guest.Log) { l.Line(abi.LogInfo).Text(long[:118]).Uint(789).Text("x").End() }, abi.LogInfo, long[:118] + "78"},
		{"a text across the end", func(l guest.Log) { l.Line(abi.LogInfo).Text(long[:118]).Text("abc").Uint(1).End() }, abi.LogInfo, long[:118] + "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, buf := openLog(t)
			tc.write(l)
			if level, text := l.Entry(0); l.Written() != 1 || level != tc.level || text != tc.want {
				t.Errorf("%d lines, the first %s %q, want %s %q", l.Written(), level, text, tc.level, tc.want)
			}
			if got := abi.GetLogEntry(buf[abi.LogRingSize:]); got != (abi.LogEntry{Level: tc.level, Length: uint8(len(tc.want))}) {
				t.Errorf("the host reads %+v", got)
			}
			if rest := buf[abi.LogRingSize+abi.LogEntrySize:]; len(bytes.Trim(rest[:len(rest)-4], "\x00")) > 0 {
				t.Error("the line is longer than its entry")
			}
		})
	}
}

// The host sees a line when it has ended, in the place that its number says, and nothing is written outside the arena.
func TestLogIsARing(t *testing.T) {
	l, buf := openLog(t)
	for k := range uint32(3*abi.LogEntries + 5) {
		line := l.Line(abi.LogLevel(k % 4)).Text("line ").Uint(uint64(k))
		if got := abi.GetLogRing(buf); got.Written != k {
			t.Fatalf("line %d is counted before it has ended: %d", k, got.Written)
		}
		line.End()
		at := abi.LogRingSize + int(k%abi.LogEntries)*abi.LogEntrySize
		want := fmt.Sprintf("line %d", k)
		if got := string(buf[at+8 : at+8+int(buf[at+1])]); got != want || buf[at] != byte(k%4) {
			t.Fatalf("entry %d: level %d, %q, want %q", k, buf[at], got, want)
		}
	}
	for k := l.Written() - abi.LogEntries; k < l.Written(); k++ {
		if level, text := l.Entry(k); level != abi.LogLevel(k%4) || text != fmt.Sprintf("line %d", k) {
			t.Errorf("line %d reads back as %s %q", k, level, text)
		}
	}
	if tail := buf[guest.LogBytes:]; !bytes.Equal(tail, []byte{0xA5, 0xA5, 0xA5, 0xA5}) {
		t.Errorf("written behind the arena: %x", tail)
	}
}

func TestLogWrapsItsCount(t *testing.T) {
	l, buf := openLog(t)
	abi.PutLogRing(buf, &abi.LogRing{Written: math.MaxUint32})
	l.Write(abi.LogInfo, "last")
	l.Write(abi.LogInfo, "first")
	if _, last := l.Entry(math.MaxUint32); l.Written() != 1 || last != "last" {
		t.Errorf("%d lines, the last of them %q", l.Written(), last)
	}
	if _, first := l.Entry(0); first != "first" {
		t.Errorf("line 0 is %q", first)
	}
}

func TestCounters(t *testing.T) {
	buf := arenaFor(guest.CountersBytes)
	c, ok := guest.OpenCounters(buf)
	if !ok {
		t.Fatal("no counters")
	}
	c.Add(0, 1)
	c.Add(0, 1<<40)
	c.Add(abi.Counters-1, 7)
	if c.Get(0) != 1<<40+1 || c.Get(1) != 0 || c.Get(abi.Counters-1) != 7 {
		t.Errorf("counters %x", buf)
	}
	if want := []byte{1, 0, 0, 0, 0, 1, 0, 0}; !bytes.Equal(buf[:8], want) {
		t.Errorf("the host reads %x, want %x", buf[:8], want)
	}
	if tail := buf[guest.CountersBytes:]; !bytes.Equal(tail, []byte{0xA5, 0xA5, 0xA5, 0xA5}) {
		t.Errorf("written behind the arena: %x", tail)
	}
	for _, i := range []int{-1, abi.Counters} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("counter %d does not panic", i)
				}
			}()
			c.Add(i, 1)
		}()
	}
}

func TestArenasThatAreTooSmall(t *testing.T) {
	if _, ok := guest.OpenLog(make([]byte, guest.LogBytes-1)); ok {
		t.Error("a short LOG arena is taken")
	}
	if _, ok := guest.OpenCounters(make([]byte, guest.CountersBytes-1)); ok {
		t.Error("a short COUNTERS arena is taken")
	}
}

func TestTalkingAllocatesNothing(t *testing.T) {
	l, _ := openLog(t)
	c, ok := guest.OpenCounters(make([]byte, guest.CountersBytes))
	if !ok {
		t.Fatal("no counters")
	}
	state := make([]byte, 8)
	if got := testing.AllocsPerRun(100, func() {
		l.Write(abi.LogInfo, "no page is free")
		l.Line(abi.LogWarn).Text("held ").Uint(12).Text(" ticks, moved by ").Int(-3).End()
		c.Add(3, 1)
		guest.RunSave(save8, state, 8)
		guest.RunLoad(load8, state, 8, 1)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func save8(dst []byte) (int, bool) {
	if len(dst) < 8 {
		return 0, false
	}
	return copy(dst, "8 bytes!"), true
}

func load8(src []byte, schema uint32) int32 {
	if schema != 1 || string(src) != "8 bytes!" {
		return int32(abi.StatusDeclined)
	}
	return int32(abi.StatusOK)
}

func TestSave(t *testing.T) {
	refused := int64(abi.StatusNoCapacity) << 32
	for _, tc := range []struct {
		name  string
		f     guest.SaveFunc
		arena int
		limit uint32
		want  int64
	}{
		{"fits", save8, 16, 1 << 20, 8},
		{"fits exactly", save8, 8, 8, 8},
		{"the host takes less", save8, 16, 7, refused},
		{"the arena is smaller", save8, 7, 1 << 20, refused},
		{"no state", func([]byte) (int, bool) { return 0, true }, 8, 8, 0},
		{"more than there is room for", func([]byte) (int, bool) { return 9, true }, 8, 8, refused},
		{"a negative number of bytes", func([]byte) (int, bool) { return -1, true }, 8, 8, refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			arena := make([]byte, tc.arena)
			got := guest.RunSave(tc.f, arena, tc.limit)
			if got != tc.want {
				t.Errorf("%#x, want %#x", got, tc.want)
			}
			if got == 8 && string(arena[:8]) != "8 bytes!" {
				t.Errorf("saved %q", arena)
			}
		})
	}
	if status, n := abi.Status(refused>>32), uint32(refused); status != abi.StatusNoCapacity || n != 0 {
		t.Errorf("a refusal reads as %s and %d bytes", status, n)
	}
}

func TestLoad(t *testing.T) {
	arena := []byte("8 bytes!and more")
	for _, tc := range []struct {
		name      string
		n, schema uint32
		want      abi.Status
	}{
		{"known", 8, 1, abi.StatusOK},
		{"another schema", 8, 2, abi.StatusDeclined},
		{"another size", 16, 1, abi.StatusDeclined},
		{"more than the arena", 17, 1, abi.StatusNoCapacity},
		{"a size that is negative as an int32", 1<<32 - 8, 1, abi.StatusNoCapacity},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := guest.RunLoad(load8, arena, tc.n, tc.schema); got != int32(tc.want) {
				t.Errorf("status %s, want %s", abi.Status(got), tc.want)
			}
		})
	}
}
