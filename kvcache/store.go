package kvcache

import (
	"errors"
	"fmt"
	"log/slog"

	"sluice/gpu"
)

// Errors of operations and of New. They are wrapped with the operation and page they are about.
var (
	// ErrOptions says that a Store cannot be made from its options.
	ErrOptions = errors.New("kvcache: not a usable configuration")
	// ErrPages says that an operation's pages do not fit each other or are not in the tiers it copies
	// between.
	ErrPages = errors.New("kvcache: wrong pages for this operation")
	// ErrNoSum says that an L2 page has no checksum under the generation named: no backup of it has
	// ended well.
	ErrNoSum = errors.New("kvcache: page was never backed up")
)

// Kind is what an operation does.
type Kind uint8

const (
	Load   Kind = iota + 1 // L2 to L1: a load back
	Backup                 // L1 to L2: write-through
	Save                   // L1 to L2: a request is retracted
)

// String is the kind's name in logs and metrics.
func (k Kind) String() string {
	switch k {
	case Load:
		return "load_back"
	case Backup:
		return "backup"
	case Save:
		return "save"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Result is how an operation ended on this rank.
type Result struct {
	Op       uint64 // the number it was started under
	Kind     Kind
	Good     int   // leading pages that are good; 0 where it could not start
	BadBytes bool  // the first page that is not good was copied, and its checksum differed
	Err      error // why not all pages are good; nil if they are
}

// Options configures a Store.
type Options struct {
	Device     gpu.Device
	L1         gpu.ArenaID  // kind Memory
	L2         gpu.ArenaID  // kind Pinned or Host, with pages of the same size
	PageTokens int          // tokens a page holds, 1 or more; the unit of the token counters
	Unchecked  bool         // leaves the checksums out: neither taken nor compared
	Operations int          // operations in flight to have room for from the start; 0 = 64. More are taken, at an allocation each
	Logger     *slog.Logger // gets one warning a failed operation; nil = none
}

const defaultOperations = 64

// Store carries out one rank's copies between L1 and L2. All methods but Counters belong to one
// goroutine.
type Store struct {
	o      Options
	loads  gpu.Stream
	saves  gpu.Stream
	sums   sumTable
	live   []*operation // started and not yet reported, in the order they were started
	free   []*operation
	counts counters
}

// operation is one copy with the memory that the device reads and writes until it is done.
type operation struct {
	op      uint64
	kind    Kind
	pages   int // pages asked for
	dst     []gpu.Ref
	src     []gpu.Ref
	sums    []uint64
	done    gpu.Completion
	started bool
	err     error // why it did not start, or why it was cut short before it did
}

// New makes the Store of one rank. ErrOptions says what does not fit.
func New(o Options) (*Store, error) {
	switch {
	case o.Device == nil:
		return nil, fmt.Errorf("%w: no device", ErrOptions)
	case o.PageTokens < 1:
		return nil, fmt.Errorf("%w: a page of %d tokens; it must hold 1 or more", ErrOptions, o.PageTokens)
	case o.Operations < 0:
		return nil, fmt.Errorf("%w: room for %d operations; it must be 0 or more", ErrOptions, o.Operations)
	}
	l1, err := o.Device.Arena(o.L1)
	if err != nil {
		return nil, fmt.Errorf("%w: L1: %w", ErrOptions, err)
	}
	l2, err := o.Device.Arena(o.L2)
	if err != nil {
		return nil, fmt.Errorf("%w: L2: %w", ErrOptions, err)
	}
	if l1.Kind != gpu.Memory || l2.Kind == gpu.Memory {
		return nil, fmt.Errorf("%w: L1 is a %v arena and L2 a %v one; L1 must be on the device and L2 must not", ErrOptions, l1.Kind, l2.Kind)
	}
	if l1.PageBytes != l2.PageBytes {
		return nil, fmt.Errorf("%w: pages of L1 have %d bytes, those of L2 %d; they must be equal", ErrOptions, l1.PageBytes, l2.PageBytes)
	}
	if o.Operations == 0 {
		o.Operations = defaultOperations
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{o: o, live: make([]*operation, 0, o.Operations)}
	if s.loads, err = o.Device.NewStream("load back"); err != nil {
		return nil, fmt.Errorf("kvcache: stream for loads: %w", err)
	}
	if s.saves, err = o.Device.NewStream("backup"); err != nil {
		return nil, fmt.Errorf("kvcache: stream for backups: %w", err)
	}
	if !o.Unchecked {
		s.sums = newSumTable(l2.Pages)
	}
	slab := make([]operation, o.Operations)
	s.free = make([]*operation, o.Operations)
	for i := range slab {
		s.free[i] = &slab[i]
	}
	return s, nil
}

// StartLoad starts the load back of src in L2 to dst in L1, page by page in order. Like every Start
// it copies the references, always ends in one Result, and fails only there.
//
// With checksums on, a page of src with no sum on record cuts the load short: the pages before it
// are copied, and the Result names it.
func (s *Store) StartLoad(op uint64, src, dst []gpu.Ref) {
	o := s.begin(op, Load, src, dst)
	if o.err != nil {
		return
	}
	if !s.o.Unchecked {
		o.sums = o.sums[:0]
		for i, ref := range src {
			sum, ok := s.sums.get(ref)
			if !ok {
				o.err = fmt.Errorf("%w: load %d: page %d of %d: %v", ErrNoSum, op, i, len(src), ref)
				break
			}
			o.sums = append(o.sums, sum)
		}
		o.src, o.dst = o.src[:len(o.sums)], o.dst[:len(o.sums)]
		if o.err != nil && len(o.sums) == 0 {
			return
		}
	}
	s.queue(s.loads, o)
}

// StartBackup starts the write-through of src in L1 to dst in L2. See StartLoad for what all Starts
// share. Until the backup has ended well, the pages of dst have no sum and cannot be loaded.
func (s *Store) StartBackup(op uint64, src, dst []gpu.Ref) { s.startOut(op, Backup, src, dst) }

// StartSave starts the copy of a retracted request's pages from src in L1 to dst in L2. It is a
// backup, counted apart.
func (s *Store) StartSave(op uint64, src, dst []gpu.Ref) { s.startOut(op, Save, src, dst) }

func (s *Store) startOut(op uint64, kind Kind, src, dst []gpu.Ref) {
	o := s.begin(op, kind, src, dst)
	if o.err != nil {
		return
	}
	if !s.o.Unchecked {
		o.sums = o.sums[:0]
		for _, ref := range dst {
			s.sums.forget(ref)
			o.sums = append(o.sums, 0)
		}
	}
	s.queue(s.saves, o)
}

// begin takes an operation in, with its place in the order, and sets its err where its pages are
// not what its kind needs.
func (s *Store) begin(op uint64, kind Kind, src, dst []gpu.Ref) *operation {
	var o *operation
	if n := len(s.free); n > 0 {
		o, s.free = s.free[n-1], s.free[:n-1]
	} else {
		o = new(operation)
	}
	s.live = append(s.live, o)
	o.op, o.kind, o.pages, o.started, o.err = op, kind, len(src), false, nil
	o.src, o.dst = append(o.src[:0], src...), append(o.dst[:0], dst...)
	from, to := s.o.L1, s.o.L2
	if kind == Load {
		from, to = to, from
	}
	switch {
	case len(src) != len(dst):
		o.err = fmt.Errorf("%w: %v %d has %d sources and %d destinations", ErrPages, kind, op, len(src), len(dst))
	case !allIn(src, from):
		o.err = fmt.Errorf("%w: %v %d has a source outside arena %d", ErrPages, kind, op, from)
	case !allIn(dst, to):
		o.err = fmt.Errorf("%w: %v %d has a destination outside arena %d", ErrPages, kind, op, to)
	}
	return o
}

func allIn(refs []gpu.Ref, arena gpu.ArenaID) bool {
	for _, ref := range refs {
		if ref.Arena != arena {
			return false
		}
	}
	return true
}

// queue hands an operation to the device.
func (s *Store) queue(stream gpu.Stream, o *operation) {
	b := gpu.Batch{Op: o.op, Dst: o.dst, Src: o.src}
	if !s.o.Unchecked {
		b.Sums, b.Check = o.sums, o.kind == Load
	}
	if err := s.o.Device.Copy(stream, b, &o.done); err != nil {
		o.err = fmt.Errorf("kvcache: %v %d did not start: %w", o.kind, o.op, err)
		return
	}
	o.started = true
}

// Poll appends the result of each operation that has ended since the last Poll to dst, in the order
// they were started, and returns it. It does not block, and allocates only where dst has no room.
func (s *Store) Poll(dst []Result) []Result {
	kept := s.live[:0]
	for _, o := range s.live {
		if o.started && !o.done.Done() {
			kept = append(kept, o)
			continue
		}
		dst = append(dst, s.end(o))
		s.free = append(s.free, o)
	}
	clear(s.live[len(kept):])
	s.live = kept
	return dst
}

// Outstanding is the number of operations started and not yet reported by Poll.
func (s *Store) Outstanding() int { return len(s.live) }

// end turns a finished operation into its result, and keeps the sums of the pages that are good.
func (s *Store) end(o *operation) Result {
	r := Result{Op: o.op, Kind: o.kind, Err: o.err}
	if o.started {
		out := o.done.Outcome()
		r.Good, r.BadBytes = out.Good, out.BadBytes
		if out.Err != nil {
			r.Err = out.Err
		}
	}
	if o.kind != Load && !s.o.Unchecked {
		for i := range r.Good {
			s.sums.put(o.dst[i], o.sums[i])
		}
	}
	s.counts.add(r, s.o.PageTokens)
	if r.Err != nil {
		s.o.Logger.Warn("tier copy failed", "kind", r.Kind.String(), "op", r.Op, "good_pages", r.Good, "pages", o.pages, "bad_bytes", r.BadBytes, "err", r.Err)
	}
	return r
}
