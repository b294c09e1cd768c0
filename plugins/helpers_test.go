package plugins_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"

	"sluice/abi"
	"sluice/plugins"
)

func closing(t testing.TB, f func(context.Context) error) {
	t.Helper()
	if err := f(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// gateRecords is n records that cycle through every poll and status.
func gateRecords(n int) []abi.GateRecord {
	rs := make([]abi.GateRecord, n)
	for i := range rs {
		rs[i] = abi.GateRecord{ReqKey: uint64(i), RawPoll: abi.Poll(i % 5), Restore: abi.RestoreStatus(i / 5 % 3), RestoreTokens: 64, AgeTicks: uint32(i)}
	}
	return rs
}

// sharedHost is one host for the whole test process: the shipped module takes seconds to compile under the race detector.
var sharedHost = sync.OnceValue(func() *plugins.Host { return plugins.NewHost(plugins.Options{}) })

// files counts the regular files below dir.
func files(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
