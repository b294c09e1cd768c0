package host

import (
	"bytes"
	"context"
	"testing"

	"go.uber.org/goleak"

	"sluice/gpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a device with a tier on each side and a stream.
type rig struct {
	t      testing.TB
	dev    *Device
	l1, l2 gpu.ArenaID
	stream gpu.Stream
	size   int
}

func newRig(t testing.TB, live bool, o Options, pageBytes, pages int) *rig {
	t.Helper()
	newDevice := NewVirtual
	if live {
		newDevice = NewLive
	}
	dev, err := newDevice(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r := &rig{t: t, dev: dev, size: pageBytes}
	r.l1 = r.arena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: pageBytes, Pages: pages})
	r.l2 = r.arena(gpu.ArenaSpec{Name: "l2", Kind: gpu.Pinned, PageBytes: pageBytes, Pages: pages})
	if r.stream, err = dev.NewStream("s"); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) arena(spec gpu.ArenaSpec) gpu.ArenaID {
	r.t.Helper()
	id, err := r.dev.NewArena(spec)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// refs names pages first to first+n-1 under generation 0.
func refs(arena gpu.ArenaID, first, n int) []gpu.Ref {
	out := make([]gpu.Ref, n)
	for i := range out {
		out[i] = gpu.Ref{Arena: arena, Index: uint32(first + i)}
	}
	return out
}

// stamp writes into each page bytes that name it.
func (r *rig) stamp(pages []gpu.Ref, who byte) {
	r.t.Helper()
	for _, ref := range pages {
		b := bytes.Repeat([]byte{who, byte(ref.Index)}, (r.size+1)/2)[:r.size]
		if err := r.dev.Write(ref, 0, b); err != nil {
			r.t.Fatal(err)
		}
	}
}

// owner is whose stamp a page carries: 0 for an untouched page, '?' for a torn one.
func (r *rig) owner(ref gpu.Ref) byte {
	r.t.Helper()
	b := make([]byte, r.size)
	if err := r.dev.Read(ref, 0, b); err != nil {
		r.t.Fatal(err)
	}
	for i := 2; i < len(b); i++ {
		if b[i] != b[i-2] {
			return '?'
		}
	}
	return b[0]
}

// settle runs what is queued, in either mode, and returns the outcome.
func (r *rig) settle(c *gpu.Completion) gpu.Outcome {
	r.t.Helper()
	if r.dev.live {
		e, err := r.dev.NewEvent()
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.dev.Record(r.stream, e); err != nil {
			r.t.Fatal(err)
		}
		if err := r.dev.Wait(context.Background(), e); err != nil {
			r.t.Fatal(err)
		}
	} else {
		r.dev.Step(1 << 40)
	}
	if !c.Done() {
		r.t.Fatal("the operation did not end")
	}
	return c.Outcome()
}

// bothModes runs a test on a live and on a virtual device.
func bothModes(t *testing.T, f func(t *testing.T, live bool)) {
	t.Run("live", func(t *testing.T) { f(t, true) })
	t.Run("virtual", func(t *testing.T) { f(t, false) })
}
