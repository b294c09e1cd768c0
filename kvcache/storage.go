package kvcache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sluice/gpu"
)

// ErrMiss says that a storage does not hold a page. It is no fault.
var ErrMiss = errors.New("kvcache: page is not in storage")

// ErrBadBytes says that a storage holds a page whose bytes are not those that were put.
var ErrBadBytes = errors.New("kvcache: stored page has changed")

// Key names a page in storage. It is a digest that the caller makes of everything the page's bytes
// follow from: the model and its weights, the layout and rank, the tenant's namespace, and all tokens
// up to the page's end. A storage compares keys whole and reads nothing from them.
type Key [32]byte

// Storage is tier L3: pages by key. Its methods may block and are never called from inside a tick;
// they end when ctx does. Several goroutines may call them. Every error is a miss to the caller: a
// page that cannot be had, for whatever reason, is computed or fails its request, and never hangs it.
type Storage interface {
	// Exists reports whether Get would probably find key.
	Exists(ctx context.Context, key Key) (bool, error)
	// Get fills dst with the page. ErrMiss where it is not held, ErrBadBytes where it is and has
	// changed; dst is then worth nothing. A page of another length than dst is an error.
	Get(ctx context.Context, key Key, dst []byte) error
	// Put stores a copy of b, replacing what was there.
	Put(ctx context.Context, key Key, b []byte) error
}

// NoStorage is the Storage of a system without one: it holds nothing, every Get is a miss, and a
// Put is accepted and forgotten, so that callers need no second path.
type NoStorage struct{}

var _ Storage = NoStorage{}

// Exists reports false.
func (NoStorage) Exists(ctx context.Context, _ Key) (bool, error) { return false, ctx.Err() }

// Get misses.
func (NoStorage) Get(ctx context.Context, _ Key, _ []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return ErrMiss
}

// Put forgets the page.
func (NoStorage) Put(ctx context.Context, _ Key, _ []byte) error { return ctx.Err() }

// MemoryStorage is a Storage in this process's memory, bounded, oldest page out first. It keeps a
// checksum with each page and checks it on Get.
type MemoryStorage struct {
	mu    sync.Mutex
	limit int
	pages map[Key]stored
	order []Key // ring of the keys held, in the order of their first Put
	next  int   // where in the ring the next new key goes, once it is full
}

type stored struct {
	bytes []byte
	sum   uint64
}

var _ Storage = (*MemoryStorage)(nil)

// NewMemoryStorage makes a storage that holds up to pages pages, 1 or more.
func NewMemoryStorage(pages int) (*MemoryStorage, error) {
	if pages < 1 {
		return nil, fmt.Errorf("%w: a storage of %d pages; it must hold 1 or more", ErrOptions, pages)
	}
	return &MemoryStorage{limit: pages, pages: make(map[Key]stored)}, nil
}

// Exists reports whether key is held.
func (m *MemoryStorage) Exists(ctx context.Context, key Key) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.pages[key]
	return ok, nil
}

// Get copies the page out. See Storage.
func (m *MemoryStorage) Get(ctx context.Context, key Key, dst []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	p, ok := m.pages[key]
	m.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("%w: key %x", ErrMiss, key[:8])
	case len(p.bytes) != len(dst):
		return fmt.Errorf("kvcache: stored page %x has %d bytes, %d were asked for: the key was used for another layout", key[:8], len(p.bytes), len(dst))
	case gpu.CopySum(dst, p.bytes) != p.sum:
		return fmt.Errorf("%w: key %x", ErrBadBytes, key[:8])
	}
	return nil
}

// Put stores a copy of b. See Storage.
func (m *MemoryStorage) Put(ctx context.Context, key Key, b []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := stored{bytes: make([]byte, len(b))}
	p.sum = gpu.CopySum(p.bytes, b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, held := m.pages[key]; !held {
		if len(m.order) < m.limit {
			m.order = append(m.order, key)
		} else {
			delete(m.pages, m.order[m.next])
			m.order[m.next] = key
			m.next = (m.next + 1) % m.limit
		}
	}
	m.pages[key] = p
	return nil
}
