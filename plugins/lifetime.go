package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// keptModules is how many modules that nothing uses any more are kept compiled, the last used ones: a policy that is put
// back soon starts without being compiled, and a server that is given new ones all day does not grow.
const keptModules = 4

// users counts what uses a module: sets, instances, and whoever has it from Host.Compile, for ever. A module is freed by
// Host.sweep alone, and a freed one gets no new user.
type users struct {
	mu     sync.Mutex
	n      int
	freed  bool
	pinned bool   // given out by Compile: it stays until the host is closed
	unused uint64 // Host.releases when the last user went
}

// hold adds a user. It is refused where the module has been freed, which only a set that was closed meanwhile can meet.
func (m *Module) hold() error {
	m.users.mu.Lock()
	defer m.users.mu.Unlock()
	if m.users.freed {
		return fmt.Errorf("the module %.12s is in use no more: the policies that it was compiled for are closed", m.SHA256())
	}
	m.users.n++
	return nil
}

// release takes a user away. It frees nothing and waits for nobody, so the tick may call it.
func (m *Module) release() {
	m.users.mu.Lock()
	defer m.users.mu.Unlock()
	m.users.n--
	if m.users.n == 0 {
		m.users.unused = m.releases.Add(1)
	}
}

// pin keeps the module until the host is closed.
func (m *Module) pin() {
	m.users.mu.Lock()
	defer m.users.mu.Unlock()
	m.users.pinned = true
}

// idle says whether nothing uses the module, and since which release.
func (m *Module) idle() (since uint64, ok bool) {
	m.users.mu.Lock()
	defer m.users.mu.Unlock()
	return m.users.unused, m.users.n == 0 && !m.users.pinned
}

// free marks an idle module as freed, so that it gets no user from here on.
func (m *Module) free() bool {
	m.users.mu.Lock()
	defer m.users.mu.Unlock()
	if m.users.n > 0 || m.users.pinned {
		return false
	}
	m.users.freed = true
	return true
}

// held is a module for a user that releases it.
func (h *Host) held(ctx context.Context, wasm []byte, e Engine, pages uint32) (*Module, error) {
	return h.module(ctx, wasm, e, pages, (*Module).hold)
}

// kept is a module for a user that never says when it is done.
func (h *Host) kept(ctx context.Context, wasm []byte, e Engine, pages uint32) (*Module, error) {
	return h.module(ctx, wasm, e, pages, func(m *Module) error { m.pin(); return nil })
}

// sweep frees the modules that nothing uses, but for the keptModules last used. It is called where a set is closed or
// could not be made, off the tick.
func (h *Host) sweep(ctx context.Context) error {
	var errs []error
	for _, m := range h.unused() {
		errs = append(errs, m.program.close(ctx))
	}
	return errors.Join(errs...)
}

// unused takes the modules that sweep frees out of the host.
func (h *Host) unused() []*Module {
	h.mu.Lock()
	defer h.mu.Unlock()
	type candidate struct {
		m     *Module
		since uint64
	}
	var idle []candidate
	for _, m := range h.modules {
		if since, ok := m.idle(); ok {
			idle = append(idle, candidate{m, since})
		}
	}
	if len(idle) <= keptModules {
		return nil
	}
	slices.SortFunc(idle, func(a, b candidate) int {
		if a.since < b.since {
			return -1
		}
		return 1 // no two releases have one number
	})
	var freed []*Module
	for _, c := range idle[:len(idle)-keptModules] {
		if c.m.free() {
			delete(h.modules, c.m.key)
			freed = append(freed, c.m)
		}
	}
	return freed
}
