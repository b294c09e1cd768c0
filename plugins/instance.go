package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"

	"sluice/abi"
	"sluice/internal/text"
)

// Caller is one instance of a policy, in WebAssembly or native. One belongs to one rank and one class, answers the
// class's hooks, and is used by one goroutine.
//
// A call is Begin, then writing the inputs, then Call, then Answer. What Begin and Answer return is good until the next
// method is called.
type Caller interface {
	// Begin lays a batch out in the instance's memory. n is the number of input records, nOut that of output records
	// (abi.Outs). An error is a *Fault, or wraps abi.ErrBatchSize for counts that no batch can have.
	Begin(hook abi.Hook, tick, epoch uint64, n, nOut int) (abi.Batch, error)
	// Call runs the hook over the batch that Begin laid out. The status is abi.StatusOK, abi.StatusDeclined, or 1 to 255;
	// anything else is an error, which is a *Fault.
	Call(hook abi.Hook) (abi.Status, error)
	// Answer looks at the batch again: the instance's memory may have moved.
	Answer() (abi.Batch, error)
	// Close frees the instance.
	Close(ctx context.Context) error
}

// firstRecords is how many records of the largest kind the IN arena holds before it is first asked to grow, where
// HostInfo does not say.
const firstRecords = 256

// minGrowthPages is how far any instance's memory may grow, whatever its limit.
const minGrowthPages = 16

// Instance is a Caller in WebAssembly. Its arenas lie in the guest and are asked for once; the IN arena is asked for
// again only when a batch outgrows it (Reserve does that off the tick).
type Instance struct {
	module  *Module
	machine machine
	class   abi.Class
	in      uint32 // address of the IN arena
	size    uint32 // its bytes
	most    uint32 // memory pages beyond which the instance is discarded
	fuel    [abi.Score + 1]Fuel
	spent   int64 // fuel of the Call of the batch begun last
	calls   uint64
	least   uint32 // memory pages after configure
	arenas  arenas // LOG and COUNTERS
	closed  bool

	hook    abi.Hook // of the batch begun last
	n, nOut int
	bytes   uint32 // its size
}

// Instantiate makes an instance: start function, _initialize, arenas, configure. info's Class and ConfigBytes are set
// here. config is the policy's configuration, canonical JSON. Errors are *Fault of class load_rejected. The module is in
// use until the instance is closed.
func (m *Module) Instantiate(ctx context.Context, class abi.Class, info abi.HostInfo, config []byte) (_ *Instance, err error) {
	if err := m.hold(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.release()
		}
	}()
	mc, err := m.start(ctx)
	if err != nil {
		var t *trap
		if errors.As(err, &t) {
			return nil, reject("start", "the module stopped while it started: %s", t)
		}
		return nil, reject("start", "the module cannot be started: %v", err)
	}
	i := &Instance{module: m, machine: mc, class: class}
	for _, h := range hooks() {
		i.fuel[h] = m.fuel
	}
	if err := i.configure(info, config); err != nil {
		return nil, errors.Join(err, mc.close(ctx))
	}
	return i, nil
}

// start holds the module's lock: a program is instantiated by one goroutine at a time.
func (m *Module) start(ctx context.Context) (machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.program.instantiate(ctx)
}

func (i *Instance) configure(info abi.HostInfo, config []byte) error {
	if len(config) > math.MaxInt32/2 {
		return reject("config", "the configuration has %d bytes, which no arena holds", len(config))
	}
	info.Major, info.Minor, info.Class, info.ConfigBytes = abi.Major, abi.Minor, i.class, uint32(len(config))
	at, err := i.arena(abi.ArenaConfig, uint32(len(config)), loadFuel)
	if err != nil {
		return reject("arena", "%v", err)
	}
	if text := i.machine.view(at, uint32(len(config))); len(config) > 0 {
		if text == nil {
			return reject("arena", "the CONFIG arena at %#x is not %d bytes of memory", at, len(config))
		}
		copy(text, config)
	}
	host, err := i.arena(abi.ArenaHostInfo, abi.HostInfoSize, loadFuel)
	if err != nil {
		return reject("arena", "%v", err)
	}
	records := max(int(info.MaxRecords), firstRecords)
	if err := i.growTo(abi.BatchSize(abi.Admit, min(records, abi.MaxRecords), min(records, abi.MaxRecords)), loadFuel); err != nil {
		return reject("arena", "%v", err)
	}
	if i.arenas.log, err = i.optionalArena(abi.ArenaLog, ringBytes); err != nil {
		return reject("arena", "%v", err)
	}
	if i.arenas.counters, err = i.optionalArena(abi.ArenaCounters, counterBytes); err != nil {
		return reject("arena", "%v", err)
	}
	record := i.machine.view(host, abi.HostInfoSize)
	if record == nil {
		return reject("arena", "the HOSTINFO arena at %#x is not %d bytes of memory", host, abi.HostInfoSize)
	}
	abi.PutHostInfo(record, &info)
	got, err := i.machine.invoke(entryConfigure, host, 0, loadFuel)
	i.arenas.keep(i.machine)
	switch status := abi.Status(int32(uint32(got))); {
	case err != nil:
		return reject("configure", "sluice_configure stopped: %v%s", err, i.logged())
	case status == abi.StatusBadConfig:
		return reject("config", "the policy refuses its configuration %s%s", outline(config), i.said())
	case status < 0:
		return reject("configure", "sluice_configure says %q%s", status, i.said())
	}
	i.least = i.machine.pages()
	i.most = i.least + max(minGrowthPages, (i.module.key.pages-min(i.module.key.pages, i.least))/2)
	return nil
}

// said is what the guest printed, or else logged last, for the end of an error.
func (i *Instance) said() string {
	if s := strings.TrimSpace(string(i.machine.printed())); s != "" {
		return ": it says \"" + text.Line(s, maxPrinted) + "\""
	}
	return i.logged()
}

// logged is the last line of the guest's log, for the end of an error.
func (i *Instance) logged() string {
	if s := i.lastLine(); s != "" {
		return fmt.Sprintf(": its last line of log is \"%s\"", s)
	}
	return ""
}

func (i *Instance) arena(kind abi.Arena, size uint32, fuel int64) (uint32, error) {
	got, err := i.machine.invoke(entryArena, uint32(kind), size, fuel)
	at := uint32(got)
	switch {
	case err != nil:
		return 0, fmt.Errorf("sluice_arena stopped: %w", err)
	case at == 0:
		return 0, fmt.Errorf("the module refuses an arena of kind %s with %d bytes", kind, size)
	case at%abi.Align != 0:
		return 0, fmt.Errorf("the arena of kind %s at %#x is not %d-byte aligned", kind, at, abi.Align)
	}
	return at, nil
}

// optionalArena asks for an arena that a policy may do without. 0 says that it does.
func (i *Instance) optionalArena(kind abi.Arena, size uint32) (uint32, error) {
	got, err := i.machine.invoke(entryArena, uint32(kind), size, loadFuel)
	at := uint32(got)
	switch {
	case err != nil:
		return 0, fmt.Errorf("sluice_arena stopped at the kind %s, where it may return 0: %w", kind, err)
	case at == 0:
		return 0, nil
	case at%abi.Align != 0:
		return 0, fmt.Errorf("the arena of kind %s at %#x is not %d-byte aligned", kind, at, abi.Align)
	case i.machine.view(at, size) == nil:
		return 0, fmt.Errorf("the %s arena at %#x is not %d bytes of memory", kind, at, size)
	}
	return at, nil
}

// growTo asks for an IN arena of at least size bytes.
func (i *Instance) growTo(size int, fuel int64) error {
	if uint64(size) <= uint64(i.size) {
		return nil
	}
	at, err := i.arena(abi.ArenaIn, uint32(size), fuel)
	if err != nil {
		return err
	}
	if i.machine.view(at, uint32(size)) == nil {
		return fmt.Errorf("the IN arena at %#x is not %d bytes of memory", at, size)
	}
	i.in, i.size = at, uint32(size)
	return nil
}

// Reserve makes room for batches of n records of every hook, off the tick.
func (i *Instance) Reserve(n int) error {
	size := abi.BatchSize(abi.Admit, n, n)
	if size == 0 {
		return fmt.Errorf("room for %d records: %w", n, abi.ErrBatchSize)
	}
	return i.growTo(size, loadFuel)
}

// SetFuel sets what each later call of a hook may spend; Instantiate sets the host's default. Hooks of no other class run.
func (i *Instance) SetFuel(hook abi.Hook, f Fuel) {
	if int(hook) < len(i.fuel) {
		i.fuel[hook] = f
	}
}

// Spent is the fuel that Call spent on the batch begun last; 0 before it is called.
func (i *Instance) Spent() uint64 { return uint64(i.spent) }

// Begin implements Caller. A batch that outgrows the arena makes it grow to twice what is needed.
func (i *Instance) Begin(hook abi.Hook, tick, epoch uint64, n, nOut int) (abi.Batch, error) {
	size := abi.BatchSize(hook, n, nOut)
	if size == 0 {
		return abi.Batch{}, fmt.Errorf("%s batch of %d records: %w", hook, n, abi.ErrBatchSize)
	}
	i.machine.setTick(tick)
	i.spent = 0
	if uint64(size) > uint64(i.size) {
		if err := i.growTo(2*size, i.fuel[hook].budget(n)); err != nil {
			f := &Fault{Class: FaultTrap, Hook: hook, Kind: "arena", Detail: err.Error()}
			var t *trap
			if errors.As(err, &t) {
				f.Class = t.class
				if t.kind == "" { // the class says it
					f.Detail = "sluice_arena stopped: " + t.detail
				}
			}
			return abi.Batch{}, f
		}
	}
	buf := i.machine.view(i.in, uint32(size))
	if buf == nil {
		return abi.Batch{}, i.lost(hook)
	}
	i.hook, i.n, i.nOut, i.bytes = hook, n, nOut, uint32(size)
	return abi.Begin(buf, hook, tick, epoch, n, nOut)
}

func (i *Instance) lost(hook abi.Hook) error {
	return &Fault{Class: FaultTrap, Hook: hook, Kind: "arena", Detail: "the IN arena is no longer in memory"}
}

// Call implements Caller.
func (i *Instance) Call(hook abi.Hook) (abi.Status, error) {
	e, ok := entryOf(hook)
	if !ok || !i.module.Has(hook) {
		return 0, &Fault{Class: FaultTrap, Hook: hook, Kind: "missing export", Detail: "the module does not export " + hook.Export()}
	}
	i.calls++
	fuel := i.fuel[hook].budget(i.n)
	got, err := i.machine.invoke(e, i.in, 0, fuel)
	i.spent = fuel - i.machine.fuel()
	if err != nil {
		return 0, i.fault(hook, err)
	}
	if p := i.machine.pages(); p > i.most {
		return 0, &Fault{
			Class: FaultMemoryGrowth, Hook: hook,
			Detail: fmt.Sprintf("memory grew to %d pages, %d are allowed, %s; keep the hot path free of allocation", p, i.most, i.growth(p)),
		}
	}
	status := abi.Status(int32(uint32(got)))
	if !valid(status) {
		return 0, badStatus(hook, status)
	}
	return status, nil
}

// growth is how fast the memory has grown to p pages.
func (i *Instance) growth(p uint32) string {
	const page = 64 << 10
	if i.calls == 1 {
		return fmt.Sprintf("from %d in its first call", i.least)
	}
	return fmt.Sprintf("from %d in %d calls, by %d bytes a call", i.least, i.calls, uint64(p-i.least)*page/i.calls)
}

// valid says whether a status is an answer or a decline, and no fault.
func valid(s abi.Status) bool { return s == abi.StatusDeclined || (s >= abi.StatusOK && s <= 255) }

func badStatus(hook abi.Hook, s abi.Status) *Fault {
	return &Fault{Class: FaultBadStatus, Hook: hook, Kind: fmt.Sprint(int32(s)), Detail: s.String()}
}

func entryOf(hook abi.Hook) (entry, bool) {
	switch hook {
	case abi.Gate:
		return entryGate, true
	case abi.Reserve:
		return entryReserve, true
	case abi.Admit:
		return entryAdmit, true
	case abi.Score:
		return entryScore, true
	}
	return 0, false
}

// fault turns a trap into a fault. A guest that stops at its memory limit is one that leaks.
func (i *Instance) fault(hook abi.Hook, err error) *Fault {
	f := faultOf(hook, err)
	switch {
	case f.Class == FaultOutOfFuel:
		f.Detail = fmt.Sprintf("it spent the %d units of fuel that a call with %d records has; do less in a call, or raise fuel", i.spent, i.n)
	case f.Class == FaultTrap && i.machine.pages() > i.most:
		f.Class = FaultMemoryGrowth
		f.Detail += "; memory grew " + i.growth(i.machine.pages())
	}
	return f
}

// faultOf is the fault that an error of a machine is.
func faultOf(hook abi.Hook, err error) *Fault {
	f := &Fault{Class: FaultTrap, Hook: hook, Kind: "error", Detail: err.Error()}
	var t *trap
	if errors.As(err, &t) {
		f.Class, f.Kind, f.Detail = t.class, t.kind, t.detail
	}
	return f
}

// Answer implements Caller. The layout is this host's own: a guest that wrote over its header moves nothing.
func (i *Instance) Answer() (abi.Batch, error) {
	buf := i.machine.view(i.in, i.bytes)
	if buf == nil {
		return abi.Batch{}, i.lost(i.hook)
	}
	return abi.View(buf, i.hook, i.n, i.nOut)
}

// memoryHash is the hash of the whole memory.
func (i *Instance) memoryHash() [sha256.Size]byte {
	size := min(uint64(i.machine.pages())<<16, math.MaxUint32)
	return sha256.Sum256(i.machine.view(0, uint32(size)))
}

// Close implements Caller.
func (i *Instance) Close(ctx context.Context) error {
	err := i.machine.close(ctx)
	if !i.closed {
		i.closed = true
		i.module.release()
	}
	return err
}
