package server

import (
	"strconv"
	"time"
)

// output is what one request has produced so far, kept as the JSON it is sent
// as: text and output_ids are cumulative in every frame, and only their new ends
// are encoded again.
type output struct {
	id            string
	index         int // the sample's number, -1 for a single one
	weightVersion string
	keepStop      bool

	text         jsonText
	ids          []byte // inside of the JSON list
	completion   int    // tokens made
	promptTokens int
	cached       CachedTokens
	retractions  int
	finish       *Finish
}

// add takes one event in.
func (o *output) add(ev Event) {
	shown := len(ev.Tokens)
	if f := ev.Finish; f != nil && f.Type == FinishStop && !o.keepStop && shown > 0 &&
		ev.Tokens[shown-1] == uint32(f.Matched) {
		shown-- // the stop token is an id of the output, but not text
	}
	for i, token := range ev.Tokens {
		if i < shown {
			o.text.add(token)
		}
		if o.completion > 0 {
			o.ids = append(o.ids, ',')
		}
		o.ids = strconv.AppendUint(o.ids, uint64(token), 10)
		o.completion++
	}
	if ev.PromptTokens > 0 {
		o.promptTokens = ev.PromptTokens
	}
	o.cached, o.retractions = ev.Cached, ev.Retractions
	if ev.Finish != nil {
		o.end(ev.Finish)
	}
}

// end marks the output as finished.
func (o *output) end(f *Finish) {
	o.finish = f
	o.text.finish()
}

// appendJSON appends the answer object. latency is the time since the request
// arrived; it is shown on the last object only.
func (o *output) appendJSON(dst []byte, latency time.Duration) []byte {
	dst = append(dst, `{"text":"`...)
	dst = append(dst, o.text.out...)
	dst = append(dst, `","output_ids":[`...)
	dst = append(dst, o.ids...)
	dst = append(dst, `],"meta_info":{"id":`...)
	dst = appendJSONString(dst, o.id)
	dst = append(dst, `,"finish_reason":`...)
	dst = appendFinish(dst, o.finish)
	dst = appendInt(append(dst, `,"prompt_tokens":`...), o.promptTokens)
	dst = appendJSONString(append(dst, `,"weight_version":`...), o.weightVersion)
	dst = appendInt(append(dst, `,"total_retractions":`...), o.retractions)
	dst = appendInt(append(dst, `,"completion_tokens":`...), o.completion)
	dst = appendInt(append(dst, `,"cached_tokens":`...), o.cached.Total())
	dst = appendInt(append(dst, `,"cached_tokens_details":{"device":`...), o.cached.L1)
	dst = appendInt(append(dst, `,"host":`...), o.cached.L2)
	dst = appendInt(append(dst, `,"storage":`...), o.cached.L3)
	dst = append(dst, '}')
	if o.finish != nil {
		dst = append(dst, `,"e2e_latency":`...)
		dst = strconv.AppendFloat(dst, latency.Seconds(), 'f', 6, 64)
	}
	dst = append(dst, '}')
	if o.index >= 0 {
		dst = appendInt(append(dst, `,"index":`...), o.index)
	}
	return append(dst, '}')
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }

func appendFinish(dst []byte, f *Finish) []byte {
	if f == nil {
		return append(dst, "null"...)
	}
	dst = appendJSONString(append(dst, `{"type":`...), f.Type)
	switch f.Type {
	case FinishStop:
		dst = appendInt(append(dst, `,"matched":`...), f.Matched)
	case FinishLength:
		dst = appendInt(append(dst, `,"length":`...), f.Length)
	default:
		dst = appendJSONString(append(dst, `,"message":`...), f.Message)
		dst = append(dst, `,"status_code":`...)
		if f.Status == 0 {
			dst = append(dst, "null"...)
		} else {
			dst = appendInt(dst, f.Status)
		}
		dst = append(dst, `,"err_type":`...)
		if f.ErrType == "" {
			dst = append(dst, "null"...)
		} else {
			dst = appendJSONString(dst, f.ErrType)
		}
	}
	return append(dst, '}')
}
