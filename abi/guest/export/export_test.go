package export_test

import (
	"testing"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export/counters"
	"sluice/abi/guest/export/gate"
	"sluice/abi/guest/export/log"
	"sluice/abi/guest/export/state"
)

// talker is a policy as an author writes it: what it says and counts natively is what its test reads.
type talker struct{ seen uint64 }

const records = 3 // a counter

func (p *talker) gate(b guest.GateBatch) int32 {
	p.seen += uint64(b.Len())
	counters.Add(records, uint64(b.Len()))
	log.Line(abi.LogInfo).Text("gate of ").Uint(uint64(b.Len())).Text(" records").End()
	return int32(abi.StatusOK)
}

func (p *talker) save([]byte) (int, bool) { return 0, true }

func (p *talker) load([]byte, uint32) int32 { return int32(abi.StatusDeclined) }

func TestWhatAPolicySaysIsReadNatively(t *testing.T) {
	p := new(talker)
	gate.Register(p.gate)
	state.Register(8, p.save, p.load)
	buf := make([]byte, abi.BatchSize(abi.Gate, 5, 5))
	if _, err := abi.Begin(buf, abi.Gate, 1, 1, 5, 5); err != nil {
		t.Fatal(err)
	}
	from, counted := log.Written(), counters.Get(records)
	if status := guest.RunGate(p.gate, buf); status != int32(abi.StatusOK) {
		t.Fatalf("status %d", status)
	}
	if level, text := log.Entry(from); log.Written() != from+1 || level != abi.LogInfo || text != "gate of 5 records" {
		t.Errorf("%d lines, %s %q", log.Written()-from, level, text)
	}
	if got := counters.Get(records) - counted; got != 5 {
		t.Errorf("counted %d", got)
	}
}

func TestEachLevelHasItsFunction(t *testing.T) {
	for want, write := range map[abi.LogLevel]func(string){abi.LogDebug: log.Debug, abi.LogInfo: log.Info, abi.LogWarn: log.Warn, abi.LogError: log.Error} {
		from := log.Written()
		write("said")
		if level, text := log.Entry(from); level != want || text != "said" {
			t.Errorf("%s %q, want %s", level, text, want)
		}
	}
	from := log.Written()
	log.Write(9, "said")
	if level, _ := log.Entry(from); level != 9 {
		t.Errorf("level %d", level)
	}
}
