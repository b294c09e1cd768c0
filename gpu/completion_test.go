package gpu

import (
	"errors"
	"fmt"
	"testing"
)

func TestCompletion(t *testing.T) {
	var c Completion
	if c.Done() || c.Outcome() != (Outcome{}) {
		t.Error("a new completion is done")
	}
	if !c.Begin() {
		t.Fatal("a new completion cannot begin")
	}
	if c.Begin() {
		t.Error("a completion in flight began a second operation")
	}
	c.Cancel()
	if c.Done() || !c.Begin() {
		t.Error("a cancelled completion is not idle")
	}
	want := Outcome{Good: 3, BadBytes: true, Err: ErrSum}
	c.Finish(want)
	if !c.Done() || c.Outcome() != want {
		t.Errorf("outcome %+v, want %+v", c.Outcome(), want)
	}
	if !c.Begin() || c.Done() || c.Outcome() != (Outcome{}) {
		t.Error("a done completion does not serve the next operation")
	}
}

func TestTypedErrors(t *testing.T) {
	ref := Ref{Arena: 2, Index: 7, Generation: 4}
	for _, c := range []struct {
		name string
		err  error
		is   error
		want string
	}{
		{"stale", &StaleError{Ref: ref, Current: 5}, ErrStale, "gpu: page 7 of arena 2 (generation 4) has generation 5 now; the reference is stale"},
		{"sum", &SumError{Ref: ref, Want: 1, Got: 2}, ErrSum, "gpu: page 7 of arena 2 (generation 4) has checksum 0000000000000002, want 0000000000000001: its bytes have changed; drop the copy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !errors.Is(fmt.Errorf("wrapped: %w", c.err), c.is) {
				t.Errorf("%v is not %v", c.err, c.is)
			}
			if errors.Is(c.err, ErrBusy) {
				t.Errorf("%v is ErrBusy too", c.err)
			}
			if c.err.Error() != c.want {
				t.Errorf("got  %q\nwant %q", c.err, c.want)
			}
		})
	}
}

func TestKindNames(t *testing.T) {
	for k, want := range map[Kind]string{Memory: "device", Pinned: "pinned", Host: "host", 9: "kind(9)"} {
		if k.String() != want {
			t.Errorf("kind %d is %q, want %q", uint8(k), k, want)
		}
	}
}
