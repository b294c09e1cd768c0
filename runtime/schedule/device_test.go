package schedule

import (
	"fmt"

	"sluice/kvcache/index"
)

// device is one rank's bytes: a stamp a page instead of KV, which names the tokens that the page and all before it
// hold. It is moved only by effects, so a page that is freed too early, restored wrongly or read by the wrong request
// shows as a wrong stamp.
type device struct {
	l1, l2 []uint64
	rows   map[uint32][]index.Page
	ops    map[uint64]copyJob
	sends  map[uint64]*send
}

type copyJob struct {
	kind     EffectKind
	src, dst []index.Page
}

// send is what a peer may write on this rank.
type send struct {
	pages   []index.Page
	promise int  // tokens
	over    bool // the peer has written everything, or let go
}

func newDevice(cfg Config) *device {
	return &device{l1: make([]uint64, cfg.L1Pages), l2: make([]uint64, cfg.L2Pages), rows: map[uint32][]index.Page{},
		ops: map[uint64]copyJob{}, sends: map[uint64]*send{}}
}

const garbage = 0xdead

// stamp is the content of a page whose last token with KV is the n-th of the sequence.
func stamp(tokens []uint32, n int) uint64 {
	h := uint64(1)
	for _, t := range tokens[:n] {
		h = mix(h, uint64(t))
	}
	return h
}

func clonePages(p []index.Page) []index.Page { return append([]index.Page(nil), p...) }

// take carries the effects of one apply out.
func (d *device) take(e *Effects) error {
	for i := range e.List {
		f := &e.List[i]
		switch f.Kind {
		case EffectSend:
			d.sends[f.Request] = &send{pages: clonePages(e.Dst(i)), promise: int(f.Promise)}
		case EffectForget:
			delete(d.sends, f.Request)
		case EffectLoad, EffectBackup, EffectSave, EffectResume:
			d.ops[f.Operation] = copyJob{f.Kind, clonePages(e.Src(i)), clonePages(e.Dst(i))}
		case EffectRow:
			row := d.rows[f.Row]
			if int(f.At) > len(row) {
				return fmt.Errorf("row %d of %d pages is written from page %d on", f.Row, len(row), f.At)
			}
			d.rows[f.Row] = append(row[:f.At:f.At], append(clonePages(e.Dst(i)), row[min(len(row), int(f.At)+len(e.Dst(i))):]...)...)
		case EffectFreeRow:
			delete(d.rows, f.Row)
		}
	}
	return nil
}

// copy ends an operation with good leading pages; the rest holds nothing, or junk.
func (d *device) copy(op uint64, good int) {
	j := d.ops[op]
	delete(d.ops, op)
	from, to := d.l1, d.l2
	if j.kind == EffectLoad || j.kind == EffectResume {
		from, to = to, from
	}
	for k := range j.src {
		v := uint64(garbage)
		if k < good {
			v = from[j.src[k]]
		}
		to[j.dst[k]] = v
	}
}

// write is the peer's transfer of a request that ended on this rank.
func (d *device) write(id uint64, prompt []uint32, pageSize int) {
	s := d.sends[id]
	if s == nil || s.over {
		return
	}
	s.over = true
	for k, p := range s.pages {
		d.l1[p] = stamp(prompt, min(s.promise+(k+1)*pageSize, len(prompt)))
	}
}

// scribble is a late write of a peer that has not let go.
func (d *device) scribble(id uint64) {
	if s := d.sends[id]; s != nil && !s.over {
		for _, p := range s.pages {
			d.l1[p] = garbage + id<<16
		}
	}
}

// letGo ends the peer's writes: it has acked the drain.
func (d *device) letGo(id uint64) {
	if s := d.sends[id]; s != nil {
		s.over = true
	}
}

// step runs the model over the batch: every request must read its own tokens' pages, and writes one token's KV.
func (d *device) step(s *Scheduler) error {
	p := s.cfg.PageSize
	var tokens []uint32
	var table []index.Page
	for i := range s.NumStep() {
		v := s.Step(i)
		tokens = s.AppendTokens(tokens[:0], v.Request)
		table = s.AppendTable(table[:0], v.Request)
		row := d.rows[v.Row]
		if v.Len != len(tokens) || len(row)*p < v.Len {
			return fmt.Errorf("request %d steps to %d tokens, it has %d and a row of %d pages", v.Request, v.Len, len(tokens), len(row))
		}
		for k, at := range table {
			if row[k] != at {
				return fmt.Errorf("request %d: row page %d is %d, its table says %d", v.Request, k, row[k], at)
			}
		}
		h, before := uint64(1), v.Len-1
		for n := range before {
			h = mix(h, uint64(tokens[n]))
			if full := (n+1)%p == 0; full && d.l1[row[n/p]] != h {
				return fmt.Errorf("request %d reads page %d (number %d) with a wrong stamp", v.Request, n/p, row[n/p])
			}
		}
		next := mix(h, uint64(tokens[before]))
		last := row[before/p]
		if before%p != 0 && d.l1[last] != h && d.l1[last] != next {
			return fmt.Errorf("request %d reads its last page (number %d) with a wrong stamp", v.Request, last)
		}
		d.l1[last] = next
	}
	return nil
}
