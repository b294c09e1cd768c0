// Package plugins is the host side of policies: it loads modules, makes instances of them, calls them once a tick, checks
// what they answer, and answers natively whenever they do not.
//
// A Host compiles each module once a process and keeps it by its hash. A Set is one rank's policies: a Runner a hook, over
// instances that the set owns. A rank runs a module as two instances, one for the local hooks (gate, reserve) and one for
// the replicated ones (admit, score), which share no memory.
//
//	host := plugins.NewHost(plugins.Options{Log: log, CacheDir: dir})
//	defer host.Close(ctx)
//	set, err := host.NewSet(ctx, []plugins.Spec{{Hook: abi.Gate, Builtin: "restore-gated"}}, info)
//	...
//	a := set.Gate.Run(tick, epoch, n, n, encode) // every tick; never fails, never blocks on anything but the policy
//	vote := a.Batch.GateOut(0).Vote
//	if a.Fault != nil { ... }                    // already answered natively; counts towards quarantine
//	...
//	err = set.Gate.Refresh(ctx)                  // off the tick, where Wanted says so: the spare that steps in after a fault
//
// No module runs as it was given: package wasmbin verifies it against fixed limits and rewrites it so that it counts what it
// does. Each call has a budget of fuel, a function of the number of records alone, and the call depth has a limit; both are
// the same on every rank, engine and machine, and the fuel is the only bound on a call's time. The memory of an instance is
// address space reserved once.
//
// A fault (a trap, fuel that is spent, calls that nest too deep, a bad status, a malformed answer, memory that grows without
// end) never reaches the caller as an error of the tick: the native policy answers the same inputs, encoded again because a
// guest may have scribbled on the first ones, and the instance is discarded. Quarantine is agreed by the ranks and applied
// with Disable and Enable.
//
// After every call of a hook the host reads what the policy has logged and counted in its LOG and COUNTERS arenas, and
// what it printed. Reading changes nothing for the guest. Lines go to the logger of Runner.LogTo, within a LogLimit that
// counts ticks; counters and the numbers of lines are in Stats, which outlive the instances.
//
// A Pin holds a hook to the module of one hash, or to modules that one key has signed. It is checked on the very bytes that
// are then compiled, each time a set is made of them.
//
// The package imports abi, abi/guest, plugins/standard, plugins/wasmbin, plugins/kit/signature and wazero, which lies behind the interface engine;
// nothing of it is reachable from the pure set. It keeps no package state. A Runner and its instances belong to one rank's
// tick loop; Refresh alone may run beside it.
package plugins
