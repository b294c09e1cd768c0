// Command wasm is the shipped policies as one module. The configuration names the policy of each hook; see
// standard.Config. A hook without one declines, and the host's native policy answers.
//
// It is built into ../standard.wasm with
//
//	CGO_ENABLED=0 GOWORK=off GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -buildmode=c-shared -ldflags='-s -w'
//
// by the test that also checks that the committed file is what these sources give: go test ./plugins -run Shipped -rewrite.
package main

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/admit"
	"sluice/abi/guest/export/gate"
	"sluice/abi/guest/export/reserve"
	"sluice/abi/guest/export/score"
	"sluice/plugins/standard"
)

// chosen holds the instance's policies: set once by configure, as an instance is one process with one caller.
var chosen struct {
	gate    guest.GateFunc
	reserve guest.ReserveFunc
	admit   guest.AdmitFunc
	score   guest.ScoreFunc
}

func init() {
	export.Configure(configure)
	gate.Register(func(b guest.GateBatch) int32 {
		if chosen.gate == nil {
			return int32(abi.StatusDeclined)
		}
		return chosen.gate(b)
	})
	reserve.Register(func(b guest.ReserveBatch) int32 {
		if chosen.reserve == nil {
			return int32(abi.StatusDeclined)
		}
		return chosen.reserve(b)
	})
	admit.Register(func(b guest.AdmitBatch) int32 {
		if chosen.admit == nil {
			return int32(abi.StatusDeclined)
		}
		return chosen.admit(b)
	})
	score.Register(func(b guest.ScoreBatch) int32 {
		if chosen.score == nil {
			return int32(abi.StatusDeclined)
		}
		return chosen.score(b)
	})
}

func configure(_ abi.HostInfo, config []byte) int32 {
	c, err := standard.ParseConfig(config)
	if err != nil {
		return int32(abi.StatusBadConfig)
	}
	chosen.gate, _ = standard.Gate(c.Gate)
	chosen.reserve, _ = standard.Reserve(c.Reserve)
	chosen.admit, _ = standard.Admit(c.Admit)
	chosen.score, _ = standard.Score(c.Score)
	return int32(abi.StatusOK)
}

func main() {}
