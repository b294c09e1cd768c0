package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
)

// counted is a queue and how often its abort ran.
func counted(limit int) (*Queue, *int) {
	n := new(int)
	return NewStream(limit, func() { *n++ }), n
}

func TestQueueMergesWhatIsUnread(t *testing.T) {
	q, aborts := counted(10)
	ctx := context.Background()
	for i, ev := range []Event{
		{Tokens: []uint32{1, 2}, Cached: CachedTokens{L1: 1}, PromptTokens: 9},
		{Retractions: 1, Cached: CachedTokens{L1: 1}, PromptTokens: 9},
		{Tokens: []uint32{3}, Cached: CachedTokens{L1: 1, L2: 4}, PromptTokens: 9, Retractions: 2},
	} {
		if !q.Push(ev) {
			t.Fatalf("push %d refused", i)
		}
	}
	ev, err := q.Next(ctx)
	if err != nil || !slices.Equal(ev.Tokens, []uint32{1, 2, 3}) || ev.Cached != (CachedTokens{L1: 1, L2: 4}) ||
		ev.PromptTokens != 9 || ev.Retractions != 2 || ev.Finish != nil {
		t.Fatalf("got %+v, %v", ev, err)
	}
	q.Push(Event{Tokens: []uint32{4}})
	q.Push(Event{Tokens: []uint32{5}, Finish: &Finish{Type: FinishLength, Length: 5}})
	ev, err = q.Next(ctx)
	if err != nil || !slices.Equal(ev.Tokens, []uint32{4, 5}) || ev.Finish == nil || ev.Finish.Length != 5 {
		t.Fatalf("got %+v, %v", ev, err)
	}
	if _, err = q.Next(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the finish: %v", err)
	}
	if q.Push(Event{Tokens: []uint32{6}}) {
		t.Error("a push after the finish was taken")
	}
	q.Close()
	if *aborts != 0 {
		t.Errorf("a finished request was aborted %d times", *aborts)
	}
}

// The tokens of an event stay as they were while later ones are pushed.
func TestQueueTokensAreTheReaders(t *testing.T) {
	q := NewStream(100, nil)
	tokens := []uint32{1, 2}
	q.Push(Event{Tokens: tokens})
	tokens[0] = 99
	ev, err := q.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		q.Push(Event{Tokens: []uint32{uint32(i)}})
	}
	if !slices.Equal(ev.Tokens, []uint32{1, 2}) {
		t.Errorf("got %v", ev.Tokens)
	}
	q.Close()
}

func TestQueueCutsASlowReader(t *testing.T) {
	q, aborts := counted(3)
	if !q.Push(Event{Tokens: []uint32{1, 2, 3}}) {
		t.Fatal("3 tokens of 3 refused")
	}
	for range 2 {
		if q.Push(Event{Tokens: []uint32{4}}) {
			t.Fatal("the 4th token of 3 was taken")
		}
	}
	if _, err := q.Next(context.Background()); !errors.Is(err, ErrSlowReader) {
		t.Errorf("got %v", err)
	}
	q.Close()
	if *aborts != 0 {
		t.Error("the producer, which knows already, was told again: the id may be another's by now")
	}
}

func TestQueueClose(t *testing.T) {
	q, aborts := counted(3)
	q.Push(Event{Tokens: []uint32{1}})
	for range 3 {
		q.Close()
	}
	if *aborts != 1 {
		t.Errorf("aborted %d times, want once", *aborts)
	}
	if q.Push(Event{Tokens: []uint32{1}}) {
		t.Error("a push after the close was taken")
	}
	if _, err := q.Next(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestQueueNextEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(q *Queue, cancel func())
		want error
	}{
		"context": {func(_ *Queue, cancel func()) { cancel() }, context.Canceled},
		"close":   {func(q *Queue, _ func()) { q.Close() }, ErrClosed},
		"cut":     {func(q *Queue, _ func()) { q.Push(Event{Tokens: []uint32{1, 2}}) }, ErrSlowReader},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewStream(1, nil)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			got := make(chan error, 1)
			go func() {
				_, err := q.Next(ctx)
				got <- err
			}()
			tc.end(q, cancel)
			if err := await(t, got); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// Every token arrives once and in order, whatever the pace of the two sides.
func TestQueueConcurrent(t *testing.T) {
	const tokens = 20000
	q := NewStream(tokens, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint32(tokens) {
			if !q.Push(Event{Tokens: []uint32{i}}) {
				t.Errorf("token %d refused", i)
				return
			}
		}
		q.Push(Event{Finish: &Finish{Type: FinishLength, Length: tokens}})
	})
	var next uint32
	for {
		ev, err := q.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range ev.Tokens {
			if token != next {
				t.Fatalf("got token %d, want %d", token, next)
			}
			next++
		}
		if ev.Finish != nil {
			break
		}
	}
	wg.Wait()
	if next != tokens {
		t.Errorf("got %d tokens", next)
	}
}

func TestQueueAllocatesNothing(t *testing.T) {
	q := NewStream(1000, nil)
	ctx := context.Background()
	ev := Event{Tokens: []uint32{1, 2, 3}}
	step := func() {
		for range 4 {
			q.Push(ev)
		}
		if got, err := q.Next(ctx); err != nil || len(got.Tokens) != 12 {
			t.Fatal(got, err)
		}
	}
	step()
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkQueuePush(b *testing.B) {
	q := NewStream(1<<20, nil)
	ctx := context.Background()
	ev := Event{Tokens: []uint32{1}}
	b.ReportAllocs()
	for b.Loop() {
		q.Push(ev)
		if _, err := q.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
