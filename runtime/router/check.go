package router

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/abi"
	"sluice/internal/config"
	"sluice/plugins"
)

// Check is what a start checks beyond the configuration's own validation: whether the scheduler and the model can
// be built as configured, and whether every policy's module loads and answers. It lists everything wrong at once and
// leaves nothing running; what host compiles stays compiled. where is the source of a key's value, as config.Where tells
// it; nil where nobody knows.
func Check(ctx context.Context, c *config.Config, host *plugins.Host, where func(key string) string) error {
	sched := scheduleOf(c)
	var errs []error
	if err := sched.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := shapeOf(c).Check(); err != nil {
		errs = append(errs, fmt.Errorf("model.layers, model.bytes_per_token_layer, decode.page_size, decode.ranks: %w", err))
	}
	info := hostInfo(c)
	for _, hook := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit, abi.Score} {
		spec, err := specOf(&c.Policy, hook)
		if err != nil {
			errs = append(errs, placed(err, hook, HookOf(&c.Policy, hook), where))
			continue
		}
		set, err := host.NewSet(ctx, []plugins.Spec{spec}, info)
		if err == nil {
			err = set.Close(ctx)
		}
		if err != nil {
			errs = append(errs, placed(err, hook, HookOf(&c.Policy, hook), where))
		}
	}
	return errors.Join(errs...)
}

// placed says of a policy that cannot be used which key names it or what it breaks, and where that was written. The key
// names hook and policy already, so that of a fault the rest is told.
func placed(err error, hook abi.Hook, h *config.Hook, where func(key string) string) error {
	section := "policy." + hook.String() + "."
	key, text := section+"builtin", err.Error()
	if h.Path != "" {
		key = section + "path"
	}
	var fault *plugins.Fault
	if errors.As(err, &fault) {
		switch fault.Kind {
		case "sha256", "key", "config":
			key = section + fault.Kind
		}
		bare := *fault
		bare.Hook, bare.Policy = 0, ""
		text = strings.TrimPrefix(bare.Error(), `policy "": `)
		if h.Path != "" {
			text = h.Path + ": " + text
		}
	}
	text = strings.TrimPrefix(text, key+": ")
	p := config.Problem{Key: key, Text: key + ": " + text}
	if where != nil {
		p.Source = where(key)
	}
	return &misplaced{p, err}
}

// misplaced is a problem with a key, one of config.Problems, and the error that it came from.
type misplaced struct {
	problem config.Problem
	cause   error
}

func (m *misplaced) Error() string { return m.problem.String() }
func (m *misplaced) Unwrap() []error {
	return []error{config.Problems{m.problem}, m.cause}
}
