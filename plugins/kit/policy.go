package kit

import (
	"context"
	"errors"
	"fmt"

	"sluice/abi"
	"sluice/plugins"
	"sluice/plugins/manifest"
)

// Options say how a policy is opened.
type Options struct {
	Name   string       // in faults and reports; a file name, say
	Config []byte       // the policy's own configuration, canonical JSON
	Info   abi.HostInfo // zero: everything unknown
}

// Policy is one module as one rank would run it: an instance for the local hooks, one for the replicated ones, each made
// when it is first needed and again after a fault. The answers are the policy's own: nothing is answered natively.
type Policy struct {
	build     Build
	o         Options
	slots     map[abi.Class]*plugins.Slot
	instances map[abi.Class]plugins.Caller // made last
	runners   map[abi.Hook]*plugins.Runner
}

// Answer is what a policy said.
type Answer struct {
	Out    []byte // output records, good until the next Ask of the hook; nil where the policy declined or failed
	Status abi.Status
	Fault  *plugins.Fault // how the policy failed, nil if it did not
}

// Declined says whether the policy left the answer to the native one.
func (a Answer) Declined() bool { return a.Fault == nil && a.Status == abi.StatusDeclined }

// Open readies a module. The build belongs to its maker, the instances to the policy. A refusal of the configuration
// shows here, since every class that has a hook is instantiated.
func Open(ctx context.Context, b Build, o Options) (*Policy, error) {
	p := &Policy{build: b, o: o, slots: map[abi.Class]*plugins.Slot{}, instances: map[abi.Class]plugins.Caller{}, runners: map[abi.Hook]*plugins.Runner{}}
	for _, h := range Hooks(b) {
		if err := p.open(ctx, h); err != nil {
			return nil, errors.Join(err, p.Close(ctx))
		}
	}
	return p, nil
}

func (p *Policy) open(ctx context.Context, h abi.Hook) error {
	class := plugins.ClassOf(h)
	slot := p.slots[class]
	if slot == nil {
		var err error
		slot, err = plugins.NewSlot(ctx, class, func(ctx context.Context) (plugins.Caller, error) {
			c, err := p.build.Instance(ctx, class, p.o.Info, p.o.Config)
			if err != nil {
				return nil, err
			}
			p.instances[class] = c
			return c, nil
		})
		if err != nil {
			var f *plugins.Fault
			if errors.As(err, &f) && f.Policy == "" {
				f.Policy, f.Hook = p.o.Name, h
			}
			return err
		}
		p.slots[class] = slot
	}
	// Native functions that are absent decline: a failure stays a failure here.
	r, err := plugins.NewRunner(h, p.o.Name, slot, plugins.NewNative(plugins.NativePolicy{}))
	p.runners[h] = r
	return err
}

// Hooks lists the hooks that a build answers, of those that this host calls, by number.
func Hooks(b interface{ Has(abi.Hook) bool }) []abi.Hook {
	var hs []abi.Hook
	for h := abi.Hook(1); h < 16; h++ {
		if abi.BatchSize(h, 0, 0) > 0 && b.Has(h) {
			hs = append(hs, h)
		}
	}
	return hs
}

// Hooks lists the hooks that the policy answers.
func (p *Policy) Hooks() []abi.Hook { return Hooks(p.build) }

// Name is the policy's name.
func (p *Policy) Name() string { return p.o.Name }

// manifest is what the policy's module says about itself, nil where that is nothing or the build does not tell.
func (p *Policy) manifest() *manifest.Manifest {
	if b, ok := p.build.(interface{ Manifest() *manifest.Manifest }); ok {
		return b.Manifest()
	}
	return nil
}

// Ask has the policy answer one batch; see plugins.Runner.Run for the arguments. It allocates nothing unless the policy
// fails or a batch is larger than every one before. The only errors are a hook that the policy does not answer, counts
// that no batch can have, and an instance that cannot be made again after a fault.
func (p *Policy) Ask(hook abi.Hook, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (Answer, error) {
	r := p.runners[hook]
	if r == nil {
		return Answer{}, fmt.Errorf("%s does not answer %s", p.o.Name, hook)
	}
	// No spare is made: what Spent and Pages show is the one instance there is.
	if !r.Ready() {
		if err := r.Refresh(context.Background()); err != nil {
			return Answer{}, err
		}
	}
	r.Install()
	got, err := r.Run(tick, epoch, n, nOut, encode)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: got.Status, Fault: got.Fault}
	if !got.Native {
		a.Out = got.Batch.Out
	}
	return a, nil
}

// Spent is the fuel of the hook's last call that was answered by the instance in use.
func (p *Policy) Spent(hook abi.Hook) uint64 {
	if i, ok := p.instances[plugins.ClassOf(hook)].(interface{ Spent() uint64 }); ok {
		return i.Spent()
	}
	return 0
}

// Pages is the memory of the instance that answers the hook, in pages of 64 KiB; 0 where the build does not show it, as
// that of a host does not.
func (p *Policy) Pages(hook abi.Hook) uint32 {
	if i, ok := p.instances[plugins.ClassOf(hook)].(interface{ Pages() uint32 }); ok {
		return i.Pages()
	}
	return 0
}

// Fresh drops every instance, so that the next Ask meets one that has seen nothing.
func (p *Policy) Fresh(ctx context.Context) error {
	var errs []error
	for _, s := range p.slots {
		errs = append(errs, s.Discard(ctx))
	}
	return errors.Join(errs...)
}

// Close frees the instances.
func (p *Policy) Close(ctx context.Context) error {
	var errs []error
	for _, s := range p.slots {
		errs = append(errs, s.Close(ctx))
	}
	return errors.Join(errs...)
}
