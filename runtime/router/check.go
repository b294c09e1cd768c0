package router

import (
	"context"
	"errors"
	"fmt"

	"sluice/abi"
	"sluice/internal/config"
	"sluice/plugins"
)

// Check is what a start checks beyond the configuration's own validation: whether the scheduler and the model can
// be built as configured, and whether every policy's module loads and answers. It lists everything wrong at once and
// leaves nothing running; what host compiles stays compiled.
func Check(ctx context.Context, c *config.Config, host *plugins.Host) error {
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
			errs = append(errs, err)
			continue
		}
		set, err := host.NewSet(ctx, []plugins.Spec{spec}, info)
		if err == nil {
			err = set.Close(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("policy.%s: %w", hook, err))
		}
	}
	return errors.Join(errs...)
}
