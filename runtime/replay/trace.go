package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// BlockTokens is the tokens that one hash id of a Mooncake trace stands for; the last block of a request may
// be partial.
const BlockTokens = 512

// TraceRequest is one line of a trace.
type TraceRequest struct {
	TimestampMS int64    `json:"timestamp"`     // arrival, milliseconds from the start; not before the line above
	Input       int      `json:"input_length"`  // prompt tokens, >= 1
	Output      int      `json:"output_length"` // tokens to generate, >= 1
	Blocks      []uint64 `json:"hash_ids"`      // ceil(Input/512) ids; equal id = equal prefix up to there
}

// ErrTrace marks a trace that is not in the format.
var ErrTrace = errors.New("replay: not a Mooncake trace")

const maxTraceLine = 16 << 20

// ReadTrace reads up to limit requests (0 = all). It refuses a line that is no request, an order of time that
// runs backwards and a block count that does not fit the prompt, and names the line.
func ReadTrace(r io.Reader, limit int) ([]TraceRequest, error) {
	var out []TraceRequest
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxTraceLine)
	for line := 1; sc.Scan(); line++ {
		text := bytes.TrimSpace(sc.Bytes())
		if len(text) == 0 {
			continue
		}
		if limit > 0 && len(out) == limit {
			return out, nil
		}
		var q TraceRequest
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&q); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTrace, line, err)
		}
		if _, err := d.Token(); err != io.EOF {
			return nil, fmt.Errorf("%w: line %d: more text after the request", ErrTrace, line)
		}
		if err := q.check(out); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTrace, line, err)
		}
		out = append(out, q)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%w: after %d requests: %w", ErrTrace, len(out), err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: it holds no request", ErrTrace)
	}
	return out, nil
}

func (q *TraceRequest) check(before []TraceRequest) error {
	const most = 1 << 24
	switch {
	case q.Input < 1 || q.Input > most:
		return fmt.Errorf("input_length is %d, must be 1 to %d", q.Input, most)
	case q.Output < 1 || q.Output > most:
		return fmt.Errorf("output_length is %d, must be 1 to %d", q.Output, most)
	case len(q.Blocks) != (q.Input+BlockTokens-1)/BlockTokens:
		return fmt.Errorf("%d hash_ids for %d tokens, %d blocks of %d are needed", len(q.Blocks), q.Input, (q.Input+BlockTokens-1)/BlockTokens, BlockTokens)
	case q.TimestampMS < 0:
		return fmt.Errorf("timestamp is %d, must not be negative", q.TimestampMS)
	case len(before) > 0 && q.TimestampMS < before[len(before)-1].TimestampMS:
		return fmt.Errorf("timestamp %d is before the line above (%d)", q.TimestampMS, before[len(before)-1].TimestampMS)
	}
	return nil
}

// Tokens makes the prompt that the ids stand for: position i of block b is a token of its own, so equal id
// sequences give equal tokens and different ones differ from their first different block on.
func (q *TraceRequest) Tokens(dst []uint32) []uint32 {
	for i := range q.Input {
		id := q.Blocks[i/BlockTokens]
		// 22 bits of the id and 9 of the place in the block: no two ids of a trace share a token value.
		dst = append(dst, uint32(id)<<9|uint32(i%BlockTokens))
	}
	return dst
}
