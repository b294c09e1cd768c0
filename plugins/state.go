package plugins

import (
	"errors"
	"fmt"

	"sluice/abi"
)

// stateFuel is what each of the calls that save and load a state may spend. They run between two ticks, once a change of
// policies, so it is some tens of milliseconds at most.
const stateFuel int64 = 50_000_000

// errStateRefused is a status with which a policy has refused to save or to load, in good order.
var errStateRefused = errors.New("refused")

// SaveState asks the instance for its state: at most abi.MaxStateBytes, the caller's. The instance goes on as before. An
// error that does not wrap errStateRefused leaves an instance that is not to be used again.
func (i *Instance) SaveState() ([]byte, error) {
	got, err := i.machine.invoke(entrySave, abi.MaxStateBytes, 0, stateFuel)
	if err != nil {
		return nil, i.stateFault("sluice_state_save", err)
	}
	status, size := abi.Status(int32(got>>32)), uint32(got)
	switch {
	case status < abi.StatusOK || status > 255:
		return nil, fmt.Errorf("sluice_state_save says %q: %w", status, errStateRefused)
	case size > abi.MaxStateBytes:
		return nil, fmt.Errorf("sluice_state_save says that the state has %d bytes, %d are allowed", size, abi.MaxStateBytes)
	case size == 0:
		return nil, nil
	}
	at, err := i.arena(abi.ArenaState, size, stateFuel)
	if err != nil {
		return nil, err
	}
	b := i.machine.view(at, size)
	if b == nil {
		return nil, fmt.Errorf("the STATE arena at %#x is not %d bytes of memory", at, size)
	}
	return append([]byte(nil), b...), nil
}

// LoadState gives the instance a state that a policy of that schema has saved. It is called before the first batch, once.
// An error that does not wrap errStateRefused leaves an instance that is not to be used; a policy that declines begins
// without the state.
func (i *Instance) LoadState(state []byte, schema uint32) error {
	if len(state) > abi.MaxStateBytes {
		return fmt.Errorf("the state has %d bytes, %d are allowed", len(state), abi.MaxStateBytes)
	}
	if len(state) > 0 {
		at, err := i.arena(abi.ArenaState, uint32(len(state)), stateFuel)
		if err != nil {
			return err
		}
		b := i.machine.view(at, uint32(len(state)))
		if b == nil {
			return fmt.Errorf("the STATE arena at %#x is not %d bytes of memory", at, len(state))
		}
		copy(b, state)
	}
	got, err := i.machine.invoke(entryLoad, uint32(len(state)), schema, stateFuel)
	if err != nil {
		return i.stateFault("sluice_state_load", err)
	}
	if status := abi.Status(int32(uint32(got))); status == abi.StatusDeclined {
		return fmt.Errorf("sluice_state_load says %q of a state of schema %d with %d bytes: %w", status, schema, len(state), errStateRefused)
	}
	if status := abi.Status(int32(uint32(got))); status < abi.StatusOK || status > 255 {
		return fmt.Errorf("sluice_state_load says %q of a state of schema %d with %d bytes", status, schema, len(state))
	}
	return nil
}

func (i *Instance) stateFault(export string, err error) *Fault {
	f := faultOf(0, err)
	f.Detail = export + ": " + f.Detail
	return f
}

// HandsOn says whether the module can save a state and load one.
func (m *Module) HandsOn() bool { return m.handsOn }
