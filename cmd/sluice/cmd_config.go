package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice"
	"sluice/internal/config"
	"sluice/internal/log"
	"sluice/internal/text"
	"sluice/plugins"
	"sluice/runtime/router"
)

func newConfigCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("config has no command %q; use check, print or default", args[0]))
			}
			return usage(errors.New("config needs a command: check, print or default"))
		},
	}
	cmd.AddCommand(newConfigCheckCommand(env), newConfigPrintCommand(env), newConfigDefaultCommand(env))
	return cmd
}

func newConfigCheckCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List everything that is wrong with the configuration, as a start would",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, src, err := loadConfigFrom(c, env)
			if err != nil {
				return err
			}
			logger, err := log.New(env.stderr, "warn", "text")
			if err != nil {
				return err
			}
			host := plugins.NewHost(plugins.Options{Log: logger, CacheDir: cacheDir(cfg, env, logger)})
			err = router.Check(c.Context(), cfg, host, func(key string) string { return config.Where(src, key) })
			if err := errors.Join(usage(err), host.Close(c.Context())); err != nil {
				return err
			}
			return say(env, "config ok\n")
		},
	}
	addConfigFlags(cmd)
	return cmd
}

func newConfigPrintCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration that file, environment and flags make together",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c, env)
			if err != nil {
				return err
			}
			return cfg.Print(env.stdout)
		},
	}
	addConfigFlags(cmd)
	return cmd
}

func newConfigDefaultCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "default",
		Short: "Print the built-in configuration with the meaning of every key",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return say(env, string(sluice.DefaultConfig)) },
	}
}

// say writes text to stdout. What a terminal should not be shown is escaped, whoever wrote it; line breaks and tabs stay.
func say(env *environment, words string) error {
	if _, err := fmt.Fprint(env.stdout, text.Lines(words)); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
