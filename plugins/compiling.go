package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// compilation is a module that one goroutine compiles and others wait for.
type compilation struct {
	done chan struct{} // closed when it is over
	err  error         // why there is no module; read after done
}

var errCompile = errors.New("the module was not compiled: its compiler stopped")

// module is the module with these bytes, compiled for an engine and a limit of memory; one module with two limits is
// compiled twice, since the limit is part of what the verifier and the engine hold it to. use makes the caller a user of it
// before anybody can free it. Where another goroutine compiles the module, the caller waits for it until ctx ends; who
// compiles it does so to the end, for those that wait.
func (h *Host) module(ctx context.Context, wasm []byte, e Engine, pages uint32, use func(*Module) error) (*Module, error) {
	key := moduleKey{sha256.Sum256(wasm), e, pages}
	for {
		m, c, mine, err := h.find(key, use)
		switch {
		case m != nil || err != nil:
			return m, err
		case mine:
			return h.lead(context.WithoutCancel(ctx), c, wasm, key, use)
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("the module %x is being compiled: %w", key.sha[:6], ctx.Err())
		}
		if c.err != nil {
			return nil, ownError(c.err)
		}
		// It is there, unless it has gone out of use already.
	}
}

// find is the module of a key, or its compilation, which is the caller's to do where mine is true.
func (h *Host) find(key moduleKey, use func(*Module) error) (m *Module, c *compilation, mine bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.modules == nil {
		return nil, nil, false, errClosed
	}
	if m, ok := h.modules[key]; ok {
		return m, nil, false, use(m)
	}
	if c, ok := h.compiling[key]; ok {
		return nil, c, false, nil
	}
	c = &compilation{done: make(chan struct{})}
	h.compiling[key] = c
	return nil, c, true, nil
}

// lead compiles the module that c stands for, and lets those go on who wait for it: after a panic too.
func (h *Host) lead(ctx context.Context, c *compilation, wasm []byte, key moduleKey, use func(*Module) error) (m *Module, err error) {
	err = errCompile
	defer func() {
		h.mu.Lock()
		delete(h.compiling, key)
		closed := h.modules == nil
		if err == nil && !closed {
			h.modules[key] = m
			err = use(m)
		}
		h.mu.Unlock()
		if err == nil && closed {
			err = errors.Join(errClosed, m.program.close(ctx))
		}
		c.err = ownError(err)
		close(c.done)
	}()
	return h.compile(ctx, wasm, key)
}

// ownError is an error that several callers get, for one of them: who gets a *Fault writes to it.
func ownError(err error) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	own := *f
	return &own
}
