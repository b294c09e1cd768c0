package plugins

import (
	"context"
	"fmt"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/internal/text"
	"sluice/plugins/standard"
)

// NativePolicy is a policy as plain functions over the guest SDK's views. A nil function declines its hook.
type NativePolicy struct {
	Gate    guest.GateFunc
	Reserve guest.ReserveFunc
	Admit   guest.AdmitFunc
	Score   guest.ScoreFunc
}

// native is a Caller over functions of this process, in a buffer that the host owns.
type native struct {
	policy NativePolicy
	buf    []byte

	hook    abi.Hook
	n, nOut int
}

// NewNative makes a Caller of plain functions: the reference for a module built from the same source, and the fallback
// of every hook. A panic of a function is a fault, as a trap of a module is.
func NewNative(p NativePolicy) Caller { return &native{policy: p} }

// builtinNative is the native build of one shipped policy.
func builtinNative(hook abi.Hook, name string) (NativePolicy, error) {
	var p NativePolicy
	var ok bool
	switch hook {
	case abi.Gate:
		p.Gate, ok = standard.Gate(name)
	case abi.Reserve:
		p.Reserve, ok = standard.Reserve(name)
	case abi.Admit:
		p.Admit, ok = standard.Admit(name)
	case abi.Score:
		p.Score, ok = standard.Score(name)
	}
	if !ok {
		return p, reject("builtin", "no %s policy is named %s; the shipped ones are %q", hook, text.Quote(name), standard.Names(hook))
	}
	return p, nil
}

// Begin implements Caller; the buffer grows to twice the largest batch.
func (c *native) Begin(hook abi.Hook, tick, epoch uint64, n, nOut int) (abi.Batch, error) {
	size := abi.BatchSize(hook, n, nOut)
	if size > len(c.buf) {
		c.buf = make([]byte, 2*size)
	}
	c.hook, c.n, c.nOut = hook, n, nOut
	return abi.Begin(c.buf, hook, tick, epoch, n, nOut)
}

// Call implements Caller.
func (c *native) Call(hook abi.Hook) (status abi.Status, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Fault{Class: FaultTrap, Hook: hook, Kind: "panic", Detail: text.Line(firstLine(fmt.Sprint(r)), maxPrinted)}
		}
	}()
	status = abi.StatusDeclined
	switch {
	case hook == abi.Gate && c.policy.Gate != nil:
		status = abi.Status(guest.RunGate(c.policy.Gate, c.buf))
	case hook == abi.Reserve && c.policy.Reserve != nil:
		status = abi.Status(guest.RunReserve(c.policy.Reserve, c.buf))
	case hook == abi.Admit && c.policy.Admit != nil:
		status = abi.Status(guest.RunAdmit(c.policy.Admit, c.buf))
	case hook == abi.Score && c.policy.Score != nil:
		status = abi.Status(guest.RunScore(c.policy.Score, c.buf))
	}
	if !valid(status) {
		return 0, badStatus(hook, status)
	}
	return status, nil
}

// Answer implements Caller.
func (c *native) Answer() (abi.Batch, error) { return abi.View(c.buf, c.hook, c.n, c.nOut) }

// Close implements Caller; there is nothing to free.
func (c *native) Close(context.Context) error { return nil }
