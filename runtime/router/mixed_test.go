package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/gpu/host"
	"sluice/runtime/server"
	"sluice/runtime/transfer"
)

// Clients that finish, abort and leave at any moment, while copies and transfers fail: everything ends once, every
// finished answer is what right bytes give, and every page comes back.
func TestMixedLoad(t *testing.T) {
	for _, c := range []struct {
		name       string
		overcommit float64
	}{{"all growth reserved", 1}, {"a tenth of it reserved, so requests are retracted", 0.1}} {
		t.Run(c.name, func(t *testing.T) { mixedLoad(t, c.overcommit) })
	}
}

func mixedLoad(t *testing.T, overcommit float64) {
	const seed, clients, each = 11, 24, 10
	fail := func(c *transfer.Chunk) { c.Err = errCopy }
	late := func(c *transfer.Chunk) { c.At += 3 * time.Millisecond }
	r := newRig(t, func(o *LocalOptions) {
		o.Config.Decode.MaxTotalTokens, o.Config.Decode.Overcommit, o.Config.Decode.ReservedDecodeTokens = 512, overcommit, 0
		var faults []transfer.Fault
		for nth := uint64(5); nth < clients*each; nth += 9 {
			faults = append(faults, transfer.Fault{Nth: nth, Rank: int(nth) % 2, Chunk: transfer.Any, OnChunk: fail},
				transfer.Fault{Nth: nth + 2, Rank: int(nth+1) % 2, Chunk: transfer.Any, OnChunk: late})
		}
		o.Script = transfer.WithFaults(nil, faults...)
		o.OnDevice = func(rank int, d *host.Device) {
			for i := range 6 {
				if err := d.Inject(host.Fault{Kind: host.Load, Rank: i % 2, After: i, Page: i % 3, Err: errCopy}); err != nil {
					t.Error(err)
				}
				if err := d.Inject(host.Fault{Kind: host.Load, Rank: i % 2, After: 2 * i, Page: i % 2, Corrupt: true}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			for i := range each {
				if err := r.one(rng, fmt.Sprintf("c%d-%d", client, i)); err != nil {
					t.Errorf("seed %d, client %d, request %d: %v", seed, client, i, err)
				}
			}
		})
	}
	all.Wait()
	r.settled()
	if e := r.value("group_epoch"); e != 1 {
		t.Errorf("seed %d: epoch %v, want 1: the ranks stayed together", seed, e)
	}
	if r.value("router_retries_total") == 0 {
		t.Errorf("seed %d: nothing was retried, so no fault was met", seed)
	}
	if v := r.value("retractions_total"); (v > 0) != (overcommit < 1) {
		t.Errorf("seed %d: %v retractions with overcommit %v", seed, v, overcommit)
	}
	if v := r.value("effect_errors_total") + r.value("step_errors_total") + r.value("model_disagreed_total"); v != 0 {
		t.Errorf("seed %d: %v effects or steps went wrong", seed, v)
	}
}

// one runs one request to one of its ends.
func (r *rig) one(rng *rand.Rand, rid string) error {
	prompt, limit := words(rng.IntN(12), 20+rng.IntN(120)), 1+rng.IntN(60)
	s, err := r.Submit(context.Background(), request(rid, prompt, limit))
	if err != nil {
		return err
	}
	defer s.Close()
	kind := rng.IntN(6)
	read := rng.IntN(limit + 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var tokens []uint32
	for {
		if kind < 2 && len(tokens) >= read {
			if kind == 0 {
				return nil // leaves
			}
			r.Abort(rid)
		}
		ev, err := s.Next(ctx)
		if err != nil {
			return err
		}
		tokens = append(tokens, ev.Tokens...)
		f := ev.Finish
		if f == nil {
			continue
		}
		if want := r.want(prompt, len(tokens)); !slices.Equal(tokens, want) {
			return fmt.Errorf("tokens %v, right bytes give %v", tokens, want)
		}
		switch {
		case f.Type == server.FinishLength && len(tokens) == limit, kind == 1 && f.ErrType == "aborted":
			return nil
		case f.ErrType == "resume_failed" && len(tokens) > 0:
			return nil // the fault hit the copy back of a retracted request, which has tokens and is not sent again
		}
		return fmt.Errorf("after %d of %d tokens: finish %+v", len(tokens), limit, f)
	}
}
