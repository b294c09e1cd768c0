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

// maxBlocks is how many different blocks have tokens of their own: 23 bits of the block beside 9 of the place in it.
const maxBlocks = 1 << 23

// maxTimestamp is a year; more is no trace of traffic, and overflows virtual time in the end.
const maxTimestamp = 366 * 24 * 3600 * 1000

// ReadTrace reads up to limit requests (0 = all), and numbers their block ids anew from 0 in order of appearance,
// since only which are equal matters. It refuses a line that is no request, an order of time that
// runs backwards and a block count that does not fit the prompt, and names the line.
func ReadTrace(r io.Reader, limit int) ([]TraceRequest, error) {
	var out []TraceRequest
	dense := map[uint64]uint64{}
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
		for i, id := range q.Blocks {
			n, seen := dense[id]
			if !seen {
				n = uint64(len(dense))
				dense[id] = n
			}
			q.Blocks[i] = n
		}
		if len(dense) > maxBlocks {
			return nil, fmt.Errorf("%w: line %d: more than %d different hash_ids; replay a part with --limit", ErrTrace, line, maxBlocks)
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
	case q.TimestampMS < 0 || q.TimestampMS > maxTimestamp:
		return fmt.Errorf("timestamp is %d ms, must be 0 to %d", q.TimestampMS, maxTimestamp)
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
		// ReadTrace keeps the numbers below 2^23, so no two blocks share a token value.
		dst = append(dst, uint32(id)<<9|uint32(i%BlockTokens))
	}
	return dst
}
