package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/abi"
	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/plugins"
	"sluice/plugins/kit/signature"
	"sluice/runtime/router"
	"sluice/runtime/server"
)

// pollModules is the time between two looks at the modules' files.
const pollModules = time.Second

// configured are the hooks that the configuration has sections for.
func configured() []abi.Hook { return []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} }

// follower keeps a running server's policies as the configuration says: on a hangup it reads the configuration again,
// and it watches the files of the modules that the configuration names. All changes of one occasion are made in one
// tick, or none. One goroutine owns it, and goes on while a change is in its shadow run; a newer change takes its place.
type follower struct {
	local  *router.Local
	clock  clock.Clock
	log    *slog.Logger
	hooks  serveHooks
	now    *config.Config // what was applied last
	before *config.Policy // whose shadow_ticks hold again if the change under way is refused; nil: they stay
	files  map[abi.Hook]*moduleFile
	change *changeUnderWay // nil: none
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// changeUnderWay is a change whose policies run in the shadow. It is made beside the follower's loop, which may take it
// back for a newer one.
type changeUnderWay struct {
	policy config.Policy // as it is to be
	hooks  []abi.Hook    // that change
	looked bool          // for a file that was written
	cancel context.CancelCauseFunc
	done   chan error // of the change; holds one
}

// errSuperseded is why a change is given up for a newer one.
var errSuperseded = errors.New("superseded by a newer change of the configuration")

// moduleFile is a module's file as it was last seen and used.
type moduleFile struct {
	seen, looked stamp
	sha256       string // of the bytes in use, in hex
}

// stamp tells whether a module's file, or the signature beside it, was written since. The two are written one after the
// other, so a module that was refused for the old signature is looked at again when the new one is there.
type stamp struct {
	at, signedAt time.Time
	size         int64
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	s := stamp{at: info.ModTime(), size: info.Size()}
	if sig, err := os.Stat(path + signature.Extension); err == nil {
		s.signedAt = sig.ModTime()
	}
	return s, nil
}

func newFollower(local *router.Local, cfg *config.Config, clk clock.Clock, logger *slog.Logger, hooks serveHooks) *follower {
	if hooks.poll <= 0 {
		hooks.poll = pollModules
	}
	now := *cfg
	f := &follower{local: local, clock: clk, log: logger, hooks: hooks, now: &now, files: map[abi.Hook]*moduleFile{}}
	f.remember(configured())
	return f
}

// start follows until end, or until ctx ends.
func (f *follower) start(ctx context.Context) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.done.Go(func() { f.run(ctx) })
}

func (f *follower) end() {
	f.cancel()
	f.done.Wait()
}

func (f *follower) run(ctx context.Context) {
	timer := f.clock.NewTimer(f.hooks.poll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			f.giveUp(context.Cause(ctx))
			return
		case err := <-f.shadowed():
			f.settle(ctx, err)
		case <-f.hooks.hangup:
			f.reload(ctx)
		case <-timer.C():
			f.look(ctx)
			timer.Reset(f.hooks.poll)
		}
	}
}

// reload reads the configuration again and applies what changed in the policies' sections.
func (f *follower) reload(ctx context.Context) {
	if f.hooks.reload == nil {
		return
	}
	next, err := f.hooks.reload()
	if err != nil {
		f.log.Error("the configuration was not read again; what runs keeps running", "error", err)
		return
	}
	keys := restartKeys(f.now, next)
	if len(keys) > 0 {
		f.log.Warn("these keys changed and need a restart", "keys", strings.Join(keys, ", "))
	}
	keepFixed(&f.now.Policy, &next.Policy)
	changing := len(keys) > 0 || f.change != nil
	f.giveUp(errSuperseded)
	// What only says how changes are made holds at once, for this one too, and no longer where it is refused.
	before, ticks := f.now.Policy, []any{}
	for _, h := range configured() {
		from, to := router.HookOf(&f.now.Policy, h), router.HookOf(&next.Policy, h)
		if from.ShadowTicks != to.ShadowTicks {
			ticks = append(ticks, h.String(), to.ShadowTicks)
		}
		from.ShadowTicks = to.ShadowTicks
	}
	f.local.SetShadowTicks(&f.now.Policy)
	changed := f.withStrayed(f.differing(&next.Policy, configured()))
	f.before = nil
	switch {
	case len(changed) > 0:
		f.before = &before
	case len(ticks) > 0:
		f.log.Info("the configured shadow_ticks hold for what comes next", ticks...)
	case !changing:
		f.log.Info("the configuration was read again; nothing changed")
	}
	_ = f.apply(ctx, &next.Policy, changed, false) // it has logged what is wrong
}

// withStrayed adds to the hooks that are to be changed those for which something else is in use than was applied last: a
// client has pushed it or rolled back to it since.
func (f *follower) withStrayed(changed []abi.Hook) []abi.Hook {
	strayed := slices.DeleteFunc(f.local.Strayed(), func(h abi.Hook) bool { return slices.Contains(changed, h) })
	if len(strayed) == 0 {
		return changed
	}
	f.log.Info("other policies are in use than were configured, after a push or a rollback; the configured ones are applied again", "hooks", hookNames(strayed))
	return slices.DeleteFunc(configured(), func(h abi.Hook) bool { return !slices.Contains(changed, h) && !slices.Contains(strayed, h) })
}

// differing lists those of the hooks for which something other than p says is in use.
func (f *follower) differing(p *config.Policy, hooks []abi.Hook) []abi.Hook {
	var out []abi.Hook
	for _, h := range hooks {
		if section := router.HookOf(p, h); !reflect.DeepEqual(section, router.HookOf(&f.now.Policy, h)) || f.rewritten(h, section.Path) {
			out = append(out, h)
		}
	}
	return out
}

// look applies the modules whose files were written since. A file that is still being written is left for the next
// look: it must have been the same twice.
func (f *follower) look(ctx context.Context) {
	var written []abi.Hook
	for _, h := range configured() {
		m, path := f.files[h], router.HookOf(&f.now.Policy, h).Path
		if m == nil {
			continue
		}
		s, err := stampOf(path)
		if err != nil {
			continue // a module may be replaced by removing it first
		}
		settled := s == m.looked
		m.looked = s
		if s == m.seen || !settled {
			continue
		}
		m.seen = s
		written = append(written, h)
	}
	p, hooks := &f.now.Policy, written
	if c := f.change; c != nil {
		// The change under way goes on unless a file of its own was written, or one more is to be made with it.
		if len(f.differing(&c.policy, written)) == 0 && !slices.ContainsFunc(written, func(h abi.Hook) bool { return slices.Contains(c.hooks, h) }) {
			return
		}
		p = &c.policy
		hooks = slices.DeleteFunc(configured(), func(h abi.Hook) bool { return !slices.Contains(written, h) && !slices.Contains(c.hooks, h) })
		f.giveUp(errSuperseded)
	}
	changed := f.differing(p, hooks)
	if len(changed) > 0 {
		f.before = nil
	}
	f.retry(changed, f.apply(ctx, p, changed, true))
}

// retry has the next look try again what nothing is wrong with.
func (f *follower) retry(changed []abi.Hook, err error) {
	if !errors.Is(err, server.ErrPolicyConflict) {
		return
	}
	for _, h := range changed {
		if m := f.files[h]; m != nil {
			m.seen = stamp{}
		}
	}
}

// rewritten says whether a module's file holds other bytes than are in use.
func (f *follower) rewritten(h abi.Hook, path string) bool {
	m := f.files[h]
	if m == nil || path == "" {
		return false
	}
	b, err := plugins.ReadModule(path)
	return err == nil && fmt.Sprintf("%x", sha256.Sum256(b)) != m.sha256
}

// apply has the ranks switch to the policies of some hooks. Where these run in the shadow first, it begins that alone;
// looked says whether the change is for a file that was written.
func (f *follower) apply(ctx context.Context, p *config.Policy, changed []abi.Hook, looked bool) error {
	if len(changed) == 0 {
		return nil
	}
	if slices.ContainsFunc(changed, func(h abi.Hook) bool { return router.HookOf(&f.now.Policy, h).ShadowTicks > 0 }) {
		ctx, cancel := context.WithCancelCause(ctx)
		c := &changeUnderWay{policy: *p, hooks: changed, looked: looked, cancel: cancel, done: make(chan error, 1)}
		f.change = c
		f.log.Info("the configured policies run in the shadow first", "hooks", hookNames(changed))
		f.done.Go(func() { c.done <- f.local.SetPolicies(ctx, &c.policy, changed) })
		return nil
	}
	return f.took(ctx, p, changed, f.local.SetPolicies(ctx, p, changed))
}

// shadowed tells the outcome of the change under way.
func (f *follower) shadowed() <-chan error {
	if f.change == nil {
		return nil
	}
	return f.change.done
}

// settle ends the change under way, whose outcome is err.
func (f *follower) settle(ctx context.Context, err error) {
	c := f.change
	f.change = nil
	c.cancel(nil)
	err = f.took(ctx, &c.policy, c.hooks, err)
	if c.looked {
		f.retry(c.hooks, err)
	}
}

// giveUp takes the change under way back, and waits until it is: where the ranks have switched already, it has been made.
func (f *follower) giveUp(why error) {
	c := f.change
	if c == nil {
		return
	}
	f.change = nil
	c.cancel(why)
	switch err := <-c.done; {
	case err == nil:
		_ = f.took(context.Background(), &c.policy, c.hooks, nil)
	case errors.Is(why, errSuperseded):
		f.log.Info("the configured policies were not taken: there is a newer change", "hooks", hookNames(c.hooks))
	}
}

// took notes what has come of a change.
func (f *follower) took(ctx context.Context, p *config.Policy, changed []abi.Hook, err error) error {
	names := hookNames(changed)
	if err != nil {
		if ctx.Err() == nil {
			f.log.Error("the configured policies were not taken; what runs keeps running", "hooks", names, "error", err)
			f.takeBack()
		}
		return err
	}
	for _, h := range changed {
		*router.HookOf(&f.now.Policy, h) = *router.HookOf(p, h)
	}
	f.before = nil
	f.remember(changed)
	f.log.Info("the configured policies are in use", "hooks", names)
	return nil
}

// takeBack has the shadow_ticks hold again that held before the configuration was read whose policies were refused.
func (f *follower) takeBack() {
	if f.before == nil {
		return
	}
	for _, h := range configured() {
		router.HookOf(&f.now.Policy, h).ShadowTicks = router.HookOf(f.before, h).ShadowTicks
	}
	f.before = nil
	f.local.SetShadowTicks(&f.now.Policy)
}

func hookNames(hooks []abi.Hook) []string {
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = h.String()
	}
	return names
}

// remember notes which bytes of the hooks' modules are in use.
func (f *follower) remember(hooks []abi.Hook) {
	infos := f.local.Policies()
	for _, h := range hooks {
		delete(f.files, h)
		if router.HookOf(&f.now.Policy, h).Path == "" {
			continue
		}
		// The first look finds the file written since, and its hash then tells.
		m := &moduleFile{}
		if i := slices.IndexFunc(infos, func(i plugins.Info) bool { return i.Hook == h }); i >= 0 {
			m.sha256 = infos[i].SHA256
		}
		f.files[h] = m
	}
}

// keepFixed puts what only a restart changes of the policies' sections back to what is in force.
func keepFixed(now, next *config.Policy) {
	for _, h := range configured() {
		from, to := router.HookOf(now, h), router.HookOf(next, h)
		to.OnFault, to.Quarantine = from.OnFault, from.Quarantine
	}
}

// fixedKeys lists the keys of the policies' sections that were fixed when the group formed and differ. A quarantine that
// changed only by what [policy] says is that key's to report.
func fixedKeys(a, b *config.Policy) []string {
	var out []string
	for _, h := range configured() {
		x, y := router.HookOf(a, h), router.HookOf(b, h)
		if x.OnFault != y.OnFault {
			out = append(out, "policy."+h.String()+".on_fault")
		}
		if x.Quarantine != y.Quarantine && a.QuarantineOf(x) != b.QuarantineOf(y) {
			out = append(out, "policy."+h.String()+".quarantine")
		}
	}
	return out
}

// restartKeys lists the keys that a restart alone applies and whose values differ: those outside the policies' sections,
// and those of the sections that the ranks compared when the group formed.
func restartKeys(a, b *config.Config) []string {
	x, y := values(a), values(b)
	out := fixedKeys(&a.Policy, &b.Policy)
	for key, v := range x {
		if y[key] != v {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// values is every key's value as text, the policies' sections aside.
func values(c *config.Config) map[string]string {
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		return nil
	}
	out := map[string]string{}
	section := ""
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		key, value, ok := strings.Cut(line, " = ")
		if ok && !strings.HasPrefix(section, "policy.") {
			out[section+"."+key] = value
		}
	}
	return out
}

// policyDirs are the folders from which clients may name a module: the configuration file's, and those of the modules
// that it names.
func policyDirs(cfg *config.Config, file string, logger *slog.Logger) []string {
	var out []string
	add := func(path string) {
		if path == "" {
			return
		}
		dir, err := filepath.Abs(filepath.Dir(path))
		if err != nil {
			logger.Warn("clients cannot name modules of this folder", "path", path, "error", err)
			return
		}
		if !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	add(file)
	for _, h := range configured() {
		add(router.HookOf(&cfg.Policy, h).Path)
	}
	return out
}
