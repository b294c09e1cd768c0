package kvcache

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
)

func TestStorages(t *testing.T) {
	memory, err := NewMemoryStorage(4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		s     Storage
		holds bool
	}{{"none", NoStorage{}, false}, {"memory", memory, true}} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			key, page, got := Key{1}, []byte("sixteen bytes ok"), make([]byte, 16)
			if ok, err := c.s.Exists(ctx, key); ok || err != nil {
				t.Errorf("Exists of nothing: %v, %v", ok, err)
			}
			if err := c.s.Get(ctx, key, got); !errors.Is(err, ErrMiss) {
				t.Errorf("Get of nothing: %v, want ErrMiss", err)
			}
			put := bytes.Clone(page)
			if err := c.s.Put(ctx, key, put); err != nil {
				t.Errorf("Put: %v", err)
			}
			clear(put) // the storage has its own copy
			if ok, err := c.s.Exists(ctx, key); ok != c.holds || err != nil {
				t.Errorf("Exists after Put: %v, %v", ok, err)
			}
			err := c.s.Get(ctx, key, got)
			if c.holds && (err != nil || !bytes.Equal(got, page)) || !c.holds && !errors.Is(err, ErrMiss) {
				t.Errorf("Get after Put: %q, %v", got, err)
			}
			if err := c.s.Get(ctx, Key{1, 1}, got); !errors.Is(err, ErrMiss) {
				t.Errorf("Get of a key that differs in a later byte: %v", err)
			}
			gone, cancel := context.WithCancel(ctx)
			cancel()
			_, existsErr := c.s.Exists(gone, key)
			for call, err := range map[string]error{"Exists": existsErr, "Get": c.s.Get(gone, key, got), "Put": c.s.Put(gone, key, page)} {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s with an ended context: %v", call, err)
				}
			}
		})
	}
}

func TestMemoryStorageBounds(t *testing.T) {
	if _, err := NewMemoryStorage(0); !errors.Is(err, ErrOptions) {
		t.Errorf("no pages: %v", err)
	}
	m, err := NewMemoryStorage(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []byte{1, 2, 1, 3, 4} { // the second 1 replaces and takes no place
		if err := m.Put(t.Context(), Key{k}, []byte{k}); err != nil {
			t.Fatal(err)
		}
	}
	held := ""
	for _, k := range []byte{1, 2, 3, 4} {
		if ok, _ := m.Exists(t.Context(), Key{k}); ok {
			held += string('0' + rune(k))
		}
	}
	if held != "34" || len(m.pages) != 2 || len(m.order) != 2 {
		t.Errorf("holds %s in %d pages and %d places, want 34 in 2", held, len(m.pages), len(m.order))
	}
}

func TestMemoryStorageRefusesBadPages(t *testing.T) {
	m, err := NewMemoryStorage(2)
	if err != nil {
		t.Fatal(err)
	}
	key := Key{7}
	if err := m.Put(t.Context(), key, []byte("page")); err != nil {
		t.Fatal(err)
	}
	if err := m.Get(t.Context(), key, make([]byte, 5)); err == nil || errors.Is(err, ErrMiss) {
		t.Errorf("another length: %v", err)
	}
	m.pages[key].bytes[2] ^= 1
	if err := m.Get(t.Context(), key, make([]byte, 4)); !errors.Is(err, ErrBadBytes) {
		t.Errorf("changed bytes: %v, want ErrBadBytes", err)
	}
}

func TestMemoryStorageFromManyGoroutines(t *testing.T) {
	m, err := NewMemoryStorage(3)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range byte(4) {
		wg.Go(func() {
			got := make([]byte, 64)
			for i := range byte(100) {
				key := Key{i % 5}
				if err := m.Put(t.Context(), key, bytes.Repeat([]byte{g}, 64)); err != nil {
					t.Error(err)
				}
				if err := m.Get(t.Context(), key, got); err != nil && !errors.Is(err, ErrMiss) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
