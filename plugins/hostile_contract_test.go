package plugins_test

import (
	"math"

	"sluice/abi"
	"sluice/plugins"
)

// allHooks are the hooks that a policy can answer.
func allHooks() []abi.Hook { return []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} }

// legal are bodies, but for the status, that answer each hook well and not as a batch of zeros or the native policies do.
func legal() hookBodies {
	return hookBodies{
		abi.Gate:    code(outByte(8, 3), outByte(9, 255)), // record 1: transferring, for reason 255
		abi.Reserve: outByte(0, 77),
		abi.Admit:   code(outByte(4, 1), outByte(8, 1)), // the second candidate goes first and is admitted
		abi.Score:   code(outByte(0, 9), outByte(16, 8)),
	}
}

// legalAnswers is what stands of legal's answers, in the words of answers.
func legalAnswers() [5]string {
	return [5]string{abi.Gate: "failed 0, transferring 255, failed 0", abi.Reserve: "77", abi.Admit: "defer 1, admit 0", abi.Score: "9, 0, 8"}
}

// each has every body of legal go on with more code.
func each(more func(h abi.Hook) []byte) []byte {
	bodies := legal()
	for _, h := range allHooks() {
		bodies[h] = code(bodies[h], more(h))
	}
	return policyFor(bodies).Encode()
}

// oneHook is a policy with one hook, whose status is 0.
func oneHook(h abi.Hook, parts ...[]byte) []byte {
	var bodies hookBodies
	bodies[h] = code(code(parts...), i32(0))
	return policyFor(bodies).Encode()
}

// outOfContract are the policies that come back in time and break the contract in what they leave behind: an answer that is
// not well-formed, a status that is none, or writes where no answer is. Those that do no harm to their answer work.
func outOfContract() []hostile {
	out := []hostile{
		{name: "gate_vote_5", wasm: oneHook(abi.Gate, outByte(8, 5)), class: plugins.FaultIllegalAnswer, words: []string{"gate record 1", "vote is 5"}},
		{name: "gate_unknown_flag", wasm: oneHook(abi.Gate, outByte(16, 1), outByte(18, 1), outByte(19, 128)), class: plugins.FaultIllegalAnswer,
			words: []string{"gate record 2", "flags is 32769"}},
		{name: "reserve_reserved_first", hooks: []abi.Hook{abi.Reserve}, wasm: oneHook(abi.Reserve, outByte(9, 1)), class: plugins.FaultIllegalAnswer,
			words: []string{"reserve record 0", "reserved bytes is 1"}},
		{name: "reserve_reserved_last", hooks: []abi.Hook{abi.Reserve}, wasm: oneHook(abi.Reserve, outByte(15, 128)), class: plugins.FaultIllegalAnswer,
			words: []string{"reserve record 0", "reserved bytes is 36028797018963968"}},
		{name: "admit_verdict_3", hooks: []abi.Hook{abi.Admit}, wasm: oneHook(abi.Admit, outByte(8, 3), outByte(12, 1)), class: plugins.FaultIllegalAnswer,
			words: []string{"admit record 1", "verdict is 3"}},
		{name: "admit_order_twice", hooks: []abi.Hook{abi.Admit}, wasm: oneHook(abi.Admit, outByte(4, 1), outByte(12, 1)), class: plugins.FaultIllegalAnswer,
			words: []string{"admit record 1", "order is 1"}},
		{name: "admit_order_out_of_range", hooks: []abi.Hook{abi.Admit}, wasm: oneHook(abi.Admit, outByte(12, 2)), class: plugins.FaultIllegalAnswer,
			words: []string{"admit record 1", "order is 2"}},
		{name: "admit_order_highest", hooks: []abi.Hook{abi.Admit}, wasm: oneHook(abi.Admit, outByte(4, 255), outByte(5, 255), outByte(6, 255), outByte(7, 255)),
			class: plugins.FaultIllegalAnswer, words: []string{"admit record 0", "order is 4294967295"}},
		{name: "admit_reserved_bytes", hooks: []abi.Hook{abi.Admit}, wasm: oneHook(abi.Admit, outByte(12, 1), outByte(11, 1)), class: plugins.FaultIllegalAnswer,
			words: []string{"admit record 1", "reserved bytes is 256"}},
		{name: "score_tail", hooks: []abi.Hook{abi.Score}, wasm: oneHook(abi.Score, outByte(0, 9), outFill(24, 8)), works: true, answer: [5]string{abi.Score: "9, 0, 0"}},
		{name: "score_any_key", hooks: []abi.Hook{abi.Score}, wasm: oneHook(abi.Score, outByte(7, 128), outFill(8, 16)), works: true,
			answer: [5]string{abi.Score: "-9223372036854775808, -1, -1"}},
		{name: "status_255", hooks: allHooks(), wasm: each(func(abi.Hook) []byte { return i32(255) }), works: true, answer: legalAnswers()},
		{name: "header_scribbled", hooks: allHooks(), works: true, answer: legalAnswers(), wasm: each(func(abi.Hook) []byte {
			return code(op(opLocalGet, 0), i32(255), i32(abi.HeaderSize), op(0xFC, 0x0B, 0), i32(0))
		})},
		{name: "header_moves_the_answer", hooks: allHooks(), works: true, answer: legalAnswers(), wasm: each(func(abi.Hook) []byte {
			return code(outFill(512, 512), op(opLocalGet, 0, opLocalGet, 0, opI32Load, 2, 48), i32(512), op(opI32Add, opI32Store, 2, 48), i32(0))
		})},
		{name: "header_hides_the_answer", hooks: []abi.Hook{abi.Gate, abi.Admit}, class: plugins.FaultIllegalAnswer, words: []string{"record 0", "is 255"}, wasm: func() []byte {
			b := code(outFill(0, 16), op(opLocalGet, 0), i32(0), op(opI32Store, 2, 32), i32(0))
			return policyFor(hookBodies{abi.Gate: b, abi.Admit: b}).Encode()
		}()},
		{name: "writes_beyond_the_answer", hooks: allHooks(), works: true, answer: legalAnswers(), wasm: each(func(h abi.Hook) []byte {
			end := [...]int{abi.Gate: 3 * abi.GateOutStride, abi.Reserve: abi.ReserveOutStride, abi.Admit: 2 * abi.AdmitOutStride, abi.Score: 3 * abi.ScoreOutStride}
			return code(outFill(int32(end[h]), 4096), i32(0))
		})},
	}
	for _, s := range []struct {
		name  string
		code  int32
		words []string
	}{
		{"status_bad_batch", int32(abi.StatusBadBatch), []string{"-1", "bad batch"}},
		{"status_unsupported_minor", int32(abi.StatusUnsupportedMinor), []string{"-2", "unsupported minor"}},
		{"status_bad_config", int32(abi.StatusBadConfig), []string{"-3", "bad config"}},
		{"status_no_capacity", int32(abi.StatusNoCapacity), []string{"-4", "no capacity"}},
		{"status_minus_6", -6, []string{"-6"}},
		{"status_lowest", math.MinInt32, []string{"-2147483648"}},
		{"status_256", 256, []string{"256"}},
		{"status_highest", math.MaxInt32, []string{"2147483647"}},
	} {
		out = append(out, hostile{name: s.name, hooks: allHooks(), wasm: each(func(abi.Hook) []byte { return i32(s.code) }), class: plugins.FaultBadStatus, words: s.words})
	}
	return out
}

// outFill stores n bytes of 255 at an offset from the start of the output records.
func outFill(at, n int32) []byte {
	return code(op(opLocalGet, 0, opLocalGet, 0, opI32Load, 2, 48, opI32Add), i32(at), op(opI32Add), i32(255), i32(n), op(0xFC, 0x0B, 0))
}
