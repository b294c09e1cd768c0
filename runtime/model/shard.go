package model

import (
	"errors"
	"fmt"

	"sluice/gpu"
)

// ErrStep is wrapped by every failure of a step on one rank.
var ErrStep = errors.New("model: step failed")

// Item is one request of a step.
type Item struct {
	Request uint64
	Row     []gpu.Ref // pages of positions 0 to Len-1, at least
	Len     int       // tokens with Token, 1 or more
	Token   uint32    // the newest token; its KV is written by the step
	Prefix  Prefix    // after Token
}

// Log is a device that can tell which pages of an arena were written since a mark, whoever wrote them: Written
// appends them and returns the mark to ask from next; ok is false when it no longer reaches back that far. A
// [Shard] on such a device keeps the sums of full pages it has read, until one of them is written.
type Log interface {
	Written(arena gpu.ArenaID, mark uint64, dst []uint32) (pages []uint32, now uint64, ok bool)
}

// Shard is the engine's share of one rank. The rank's goroutine owns it.
type Shard struct {
	dev     gpu.Device
	arena   gpu.ArenaID
	shape   Shape
	shard   int
	digest  *digester
	scratch []byte
	weights []uint64 // pageWeight by page of the sequence, grown as sequences grow
	known   known
}

// NewShard makes rank shard's engine on an arena of dev. ErrShape where the arena's pages are not
// the shape's.
func NewShard(dev gpu.Device, arena gpu.ArenaID, shape Shape, shard int) (*Shard, error) {
	if err := shape.checkShard(shard); err != nil {
		return nil, err
	}
	spec, err := dev.Arena(arena)
	if err != nil {
		return nil, fmt.Errorf("model: arena of shard %d: %w", shard, err)
	}
	if spec.PageBytes != shape.PageBytes() {
		return nil, fmt.Errorf("%w: pages of arena %q have %d bytes, the model's have %d; make the arena with the shape's PageBytes",
			ErrShape, spec.Name, spec.PageBytes, shape.PageBytes())
	}
	m := &Shard{dev: dev, arena: arena, shape: shape, shard: shard, digest: newDigester(shape, shard), scratch: make([]byte, shape.PageBytes())}
	if l, ok := dev.(Log); ok {
		m.known.init(l, arena, spec.Pages)
	}
	return m, nil
}

// Step writes the KV of each item's newest token and then reads every KV byte of its positions 0 to
// Len-1: partial[i] becomes a sum, modulo 2^61-1, that any other byte anywhere would change. The
// sums of all ranks make the tokens (see Join).
//
// partial has one entry an item. An error, ErrStep, names the request and the page; then no entry
// of partial is to be used.
func (m *Shard) Step(items []Item, partial []uint64) error {
	if len(partial) != len(items) {
		return fmt.Errorf("%w: %d items and room for %d sums", ErrStep, len(items), len(partial))
	}
	for i := range items {
		it := &items[i]
		if pages := m.shape.Pages(it.Len); it.Len < 1 || pages > len(it.Row) {
			return fmt.Errorf("%w: request %d has %d tokens and %d pages of %d tokens", ErrStep, it.Request, it.Len, len(it.Row), m.shape.PageSize)
		}
		if err := m.write(it); err != nil {
			return fmt.Errorf("%w: request %d, write of position %d: %w", ErrStep, it.Request, it.Len-1, err)
		}
	}
	// Every write that began before here is in the log; one that begins later is found by the next step.
	m.known.catchUp()
	for i := range items {
		it := &items[i]
		sum, err := m.read(it)
		if err != nil {
			return fmt.Errorf("%w: request %d, %w", ErrStep, it.Request, err)
		}
		partial[i] = sum
	}
	m.known.sweep(len(items))
	return nil
}

// write puts the KV of the newest token into its page.
func (m *Shard) write(it *Item) error {
	position := it.Len - 1
	page, slot := position/m.shape.PageSize, position%m.shape.PageSize
	ref := it.Row[page]
	if m.shape.Stamp {
		putStamp(m.scratch, it.Prefix, page, slot+1)
		return m.dev.Write(ref, 0, m.scratch)
	}
	w := m.shape.width()
	for layer := range m.shape.Layers {
		putKV(m.scratch[:w], it.Prefix, position, layer, m.shard*w)
		if err := m.dev.Write(ref, (layer*m.shape.PageSize+slot)*w, m.scratch[:w]); err != nil {
			return err
		}
	}
	return nil
}

// read sums the digests of the request's pages, each times the weight of its place.
func (m *Shard) read(it *Item) (uint64, error) {
	pages := m.shape.Pages(it.Len)
	for len(m.weights) < pages {
		m.weights = append(m.weights, pageWeight(len(m.weights)))
	}
	k := m.known.sequence(it)
	full := it.Len / m.shape.PageSize
	var sum uint64
	from := 0
	if k != nil {
		sum, from = k.sum, len(k.refs)
	}
	for p := from; p < pages; p++ {
		d, err := m.page(it.Row[p], min(m.shape.PageSize, it.Len-p*m.shape.PageSize))
		if err != nil {
			return 0, fmt.Errorf("page %d of %d: %w", p, pages, err)
		}
		sum = add(sum, mul(d, m.weights[p]))
		if k != nil && p < full {
			m.known.extend(k, it.Row[p], sum)
		}
	}
	return sum, nil
}

// page is the digest of one page that holds tokens tokens.
func (m *Shard) page(ref gpu.Ref, tokens int) (uint64, error) {
	if ref.Arena != m.arena {
		return 0, fmt.Errorf("%v is not in the model's arena %d", ref, m.arena)
	}
	if err := m.dev.Read(ref, 0, m.scratch); err != nil {
		return 0, err
	}
	return m.digest.page(m.scratch, tokens), nil
}
