package kit

import (
	"math/rand/v2"

	"sluice/abi"
)

// drawn is a random batch's inputs.
type drawn struct {
	n, nOut     int
	globals, in []byte
}

func (d *drawn) encode(b abi.Batch) {
	copy(b.Globals, d.globals)
	copy(b.In, d.in)
}

// draw makes a batch of up to most input records. Fields whose values have names take these, so that the batch is one
// that a host could send; numbers are often zero, small, or at an edge.
func (l *Layout) draw(r *rand.Rand, h *HookLayout, most int) drawn {
	d := drawn{n: r.IntN(most + 1), globals: make([]byte, h.Globals.Size)}
	l.fill(r, &h.Globals, d.globals)
	d.in = make([]byte, d.n*h.In.Size)
	for i := range d.n {
		l.fill(r, &h.In, d.in[i*h.In.Size:(i+1)*h.In.Size])
	}
	if f, ok := h.Globals.field(candidates); ok {
		f.put(d.globals, uint64(r.IntN(d.n+1)))
	}
	d.nOut = h.Outs(d.n, d.globals)
	return d
}

func (l *Layout) fill(r *rand.Rand, rec *Record, b []byte) {
	for _, f := range rec.Fields {
		f.put(b, l.drawField(r, f))
	}
}

func (l *Layout) drawField(r *rand.Rand, f Field) uint64 {
	if values := l.enums[f.enum]; len(values) > 0 {
		return values[r.IntN(len(values))].value
	}
	if f.flags != "" {
		return r.Uint64() & l.flagMask(f)
	}
	if f.Range == "0..1" {
		return r.Uint64N(2)
	}
	switch r.IntN(6) {
	case 0, 1:
		return 0
	case 2, 3:
		return r.Uint64N(min(1<<16, f.largest()))
	case 4:
		return f.largest() - r.Uint64N(2)
	}
	return r.Uint64() & f.largest()
}

func (l *Layout) flagMask(f Field) (mask uint64) {
	for _, x := range l.flags {
		if len(x.name) > len(f.flags) && x.name[:len(f.flags)] == f.flags {
			mask |= x.value
		}
	}
	return mask
}
