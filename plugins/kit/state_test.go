package kit_test

import (
	"context"
	"strings"
	"testing"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/kit"
	"sluice/plugins/kit/kittest"
	"sluice/plugins/manifest"
)

func TestHandOn(t *testing.T) {
	l := layout(t)
	host := plugins.NewHost(plugins.Options{})
	t.Cleanup(func() { _ = host.Close(context.Background()) })
	schema := manifest.Manifest{State: manifest.State{Schema: 1}}
	forgets := kittest.Remembers(abi.Score.Export(), 1)
	forgets[2].Body = kittest.Const(0) // it takes the state and looks at nothing
	refuses := kittest.Remembers(abi.Score.Export(), 1)
	refuses[2].Body = kittest.Const(int32(abi.StatusDeclined))
	for _, tc := range []struct {
		name    string
		exports []kittest.Export
		m       manifest.Manifest
		tried   bool
		want    string // in the problem; empty: none
		changed string // how the state changes when it is loaded
	}{
		{"it remembers all", kittest.Remembers(abi.Score.Export(), 1), schema, true, "", ""},
		{"it counts its loads", kittest.CountsLoads(abi.Score.Export(), 1), schema, true, "", "4 bytes 32000000, then 4 bytes 32010000"},
		{"it forgets", forgets, schema, true, "remembers more than it saves and loads", "4 bytes 32000000, then 4 bytes 00000000"},
		{"it refuses its own", refuses, schema, true, "is not loaded", ""},
		{"no schema", kittest.Remembers(abi.Score.Export(), 1), manifest.Manifest{}, false, "", ""},
		{"no functions", kittest.Remembers(abi.Score.Export(), 1)[:1], schema, false, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wasm, err := manifest.Write(kittest.Module(tc.exports...), tc.m)
			if err != nil {
				t.Fatal(err)
			}
			m, err := host.Compile(context.Background(), wasm)
			if err != nil {
				t.Fatal(err)
			}
			got, err := l.HandOn(context.Background(), m, kit.FuzzOptions{Options: kit.Options{Name: "x"}, Seed: 3, Runs: 50})
			if err != nil {
				t.Fatal(err)
			}
			if !tc.tried {
				if len(got) != 0 {
					t.Errorf("tried: %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Class != abi.ClassReplicated || got[0].Bytes != 4 {
				t.Fatalf("results %+v", got)
			}
			text := strings.Join(got[0].Problem, "; ")
			if (tc.want == "") != (text == "") || !strings.Contains(text, tc.want) || (tc.want == "" && got[0].Batches != 50) {
				t.Errorf("problem %q after %d batches, want %q", text, got[0].Batches, tc.want)
			}
			if got[0].Changed != tc.changed {
				t.Errorf("the state changes by %q, want %q", got[0].Changed, tc.changed)
			}
		})
	}
}
