package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"sluice/abi"
)

// Answer is what a hook answered in one tick. It is always usable.
type Answer struct {
	// Batch holds the output records in Out, and nothing else. They lie in memory of the runner and are good until its
	// next Run.
	Batch abi.Batch
	// Native says that the native policy gave the answer and not the policy itself.
	Native bool
	// Held says that nobody gave the answer: the policy has failed, and by its OnFault nothing is decided in its place.
	Held bool
	// Status is what the policy returned: StatusOK, StatusDeclined, or 1 to 255 of its own.
	Status abi.Status
	// Fault is how the policy failed this tick, nil if it did not. The answer is then the native policy's, or held.
	Fault *Fault
	// Fuel is what the policy's own call spent; 0 where it was not called or is not metered.
	Fuel uint64
}

// metered is a Caller that knows what its last call spent.
type metered interface{ Spent() uint64 }

// Stats counts what a runner did since it was made.
type Stats struct {
	Calls    uint64               // ticks in which an answer was asked for
	Native   uint64               // of those, answered by the native policy instead of the policy
	Held     uint64               // of those, answered by nobody: see OnFaultHold
	Declined uint64               // of those answered by the native policy, because the policy declined
	Custom   uint64               // answers with a status of 1 to 255
	Faults   [faultClasses]uint64 // by class, in the order of FaultClasses
	Replaced uint64               // instances that were discarded for a fault, this rank's or another's

	SlowCalls uint64 // that Slow has booked

	Lines        uint64               // of the policy's log that were passed on, or whose level the logger does not show
	LinesLimited uint64               // that LogLimit kept back
	LinesLost    uint64               // that the policy overwrote within one call
	Counters     [abi.Counters]uint64 // sums of all instances; each saturates
}

// FaultTotal is the number of faults of all classes.
func (s Stats) FaultTotal() uint64 {
	var n uint64
	for _, f := range s.Faults {
		n += f
	}
	return n
}

// Runner answers one hook on one rank, every tick, whatever the policy does. It belongs to the rank's tick loop; Refresh
// and Ready alone may be called beside it.
type Runner struct {
	hook     abi.Hook
	policy   string
	slot     *Slot // nil: the native policy is the policy
	fallback Caller
	hold     Caller // nil: fallback answers after a fault too
	disabled bool
	stats    Stats
	out      []byte   // the policy's output records, copied out of its memory before they are judged
	seen     []uint64 // scratch of the permutation check
}

// NewRunner makes a runner. policy names it in faults and reports. slot holds the policy's instances and may be shared
// by runners of the same class, whose hooks then share one instance; fallback answers whenever they do not. A nil slot
// means that fallback is the policy.
func NewRunner(hook abi.Hook, policy string, slot *Slot, fallback Caller) (*Runner, error) {
	if abi.BatchSize(hook, 0, 0) == 0 {
		return nil, fmt.Errorf("policy %q: %s is not called by this host", policy, hook)
	}
	if fallback == nil {
		return nil, fmt.Errorf("policy %q: %s has no native policy to fall back to", policy, hook)
	}
	return &Runner{hook: hook, policy: policy, slot: slot, fallback: fallback}, nil
}

// Hook is the hook that the runner answers.
func (r *Runner) Hook() abi.Hook { return r.hook }

// Policy is the policy's name.
func (r *Runner) Policy() string { return r.policy }

// Stats is the counters so far.
func (r *Runner) Stats() Stats { return r.stats }

// SetOnFault says who answers while the policy has failed and has no successor in use; OnFaultNative until it is called. A
// score policy's fault changes no key either way.
func (r *Runner) SetOnFault(o OnFault) {
	r.hold = nil
	if o == OnFaultHold && r.hook != abi.Score {
		r.hold = NewNative(holdPolicy())
	}
}

// Disable makes the native policy answer from the next Run on: the quarantine that the ranks agreed on.
func (r *Runner) Disable() { r.disabled = true }

// Enable ends Disable.
func (r *Runner) Enable() { r.disabled = false }

// Disabled says whether the policy is disabled.
func (r *Runner) Disabled() bool { return r.disabled }

// Ready says whether the policy itself can answer, now or after Install.
func (r *Runner) Ready() bool { return r.slot == nil || r.slot.Ready() }

// Active says whether the policy itself answers the next Run, Disable aside. A local successor that is ready counts.
func (r *Runner) Active() bool { return r.slot == nil || r.slot.caller() != nil }

// Wanted says whether a call of Refresh would make an instance.
func (r *Runner) Wanted() bool { return r.slot != nil && r.slot.Wanted() }

// Refresh makes a successor or the spare; see Slot.Refresh.
func (r *Runner) Refresh(ctx context.Context) error {
	if r.slot == nil {
		return nil
	}
	if err := r.slot.Refresh(ctx); err != nil {
		return fmt.Errorf("policy %q: %w", r.policy, err)
	}
	return nil
}

// Install puts a fresh replicated instance in use; see Slot. It says whether the policy itself answers from now on.
func (r *Runner) Install() bool { return r.slot == nil || r.slot.Install() }

// Discard drops the instance, as when another rank's instance of the same policy failed. The native policy answers until
// a fresh one is in use.
func (r *Runner) Discard(ctx context.Context) error {
	if r.slot == nil {
		return nil
	}
	if r.slot.Active() {
		r.stats.Replaced++
	}
	return r.slot.Discard(ctx)
}

// LogTo has what the policy logs passed on to log, within the slot's limit. It is set before the first Run; without it
// lines are counted only. Runners of one slot share the last one set.
func (r *Runner) LogTo(log *slog.Logger) {
	if r.slot != nil {
		r.slot.journal.log = log
	}
}

// Diverged books what the ranks have found together: this policy's valid answer of the tick was not that of the others.
func (r *Runner) Diverged() { r.stats.Faults[FaultDivergence]++ }

// Slow books that the last Run took long on the caller's clock. It changes no answer, then or later.
func (r *Runner) Slow() { r.stats.SlowCalls++ }

// Run asks for this tick's answer. n is the number of input records, nOut that of output records (abi.Outs); encode
// writes globals and inputs and must write the same for the same tick, since it is called a second time when the policy
// fails. It allocates nothing unless the policy fails or a batch is larger than every one before.
//
// The only error is one of the caller: counts that no batch can have.
func (r *Runner) Run(tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (Answer, error) {
	if abi.BatchSize(r.hook, n, nOut) == 0 {
		return Answer{}, fmt.Errorf("%s batch of %d input and %d output records: %w", r.hook, n, nOut, abi.ErrBatchSize)
	}
	r.stats.Calls++
	var a Answer
	held := r.hold != nil && r.slot != nil && !r.disabled
	if c := r.caller(); c != nil {
		status, err := r.ask(c, tick, epoch, n, nOut, encode)
		a.Status = status
		if m, ok := c.(metered); ok {
			a.Fuel = m.Spent()
		}
		said, _ := c.(talker)
		if said != nil {
			said.drain(&r.stats, &r.slot.journal, source{r.policy, r.hook.String(), r.slot.class, tick})
		}
		switch {
		case err != nil:
			a.Fault = r.failed(err, said)
		case status != abi.StatusDeclined:
			if status != abi.StatusOK {
				r.stats.Custom++
			}
			a.Batch.Out = r.out
			return a, nil
		default:
			r.stats.Declined++
			held = false
		}
	}
	if held {
		if _, err := r.ask(r.hold, tick, epoch, n, nOut, encode); err != nil {
			return Answer{}, fmt.Errorf("hold of %s: %w", r.hook, err)
		}
		a.Batch.Out, a.Held = r.out, true
		r.stats.Held++
		return a, nil
	}
	if _, err := r.ask(r.fallback, tick, epoch, n, nOut, encode); err != nil {
		return Answer{}, fmt.Errorf("native %s policy: %w", r.hook, err)
	}
	a.Batch.Out = r.out
	a.Native = r.slot != nil
	if a.Native {
		r.stats.Native++
	}
	return a, nil
}

func (r *Runner) caller() Caller {
	if r.slot == nil || r.disabled {
		return nil
	}
	return r.slot.use()
}

// ask runs one call and leaves the checked output records in r.out.
func (r *Runner) ask(c Caller, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (abi.Status, error) {
	b, err := c.Begin(r.hook, tick, epoch, n, nOut)
	if err != nil {
		return 0, err
	}
	encode(b)
	status, err := c.Call(r.hook)
	if err != nil || status == abi.StatusDeclined {
		return status, err
	}
	b, err = c.Answer()
	if err != nil {
		return 0, err
	}
	r.out = append(r.out[:0], b.Out...)
	return status, r.check(nOut)
}

// check judges the copied output records.
func (r *Runner) check(nOut int) error {
	b := abi.Batch{Out: r.out}
	switch r.hook {
	case abi.Gate:
		return abi.CheckGateOut(b, nOut)
	case abi.Reserve:
		return abi.CheckReserveOut(b, nOut)
	case abi.Score:
		return abi.CheckScoreOut(b, nOut)
	}
	if w := abi.SeenWords(nOut); len(r.seen) < w {
		r.seen = make([]uint64, 2*w)
	}
	return abi.CheckAdmitOut(b, nOut, r.seen)
}

// failed books a fault and drops the instance. said is the instance where it logs, else nil.
func (r *Runner) failed(err error, said talker) *Fault {
	f := asFault(err, r.hook)
	f.Policy = r.policy
	r.stats.Faults[f.Class]++
	r.stats.Replaced++
	if n := r.stats.Faults[f.Class]; f.Class == FaultMemoryGrowth && n > 1 {
		f.Detail += fmt.Sprintf("; %d instances of the policy have ended so", n)
	}
	if said != nil {
		// The limit may keep the line out of the log, and it is the one that matters.
		if line := said.lastLine(); line != "" {
			f.Detail += fmt.Sprintf("; its last line of log is \"%s\"", line)
		}
	}
	if err := r.slot.Discard(context.Background()); err != nil {
		f.Detail += fmt.Sprintf(" (and closing the instance: %v)", err)
	}
	return f
}

func asFault(err error, hook abi.Hook) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	class := FaultTrap
	if errors.Is(err, abi.ErrIllegalAnswer) {
		class = FaultIllegalAnswer
	}
	return &Fault{Class: class, Hook: hook, Detail: err.Error()}
}
