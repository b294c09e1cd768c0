package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice"
	"sluice/internal/config"
	"sluice/internal/files"
)

// embeddedName is how messages name the configuration that the binary carries.
const embeddedName = "built-in config.toml"

// addConfigFlags gives cmd --config and one flag for each key of the configuration. The texts of the key flags are
// judged by loadConfig, together with the file and the environment, and not one by one.
func addConfigFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("config", "", "configuration `FILE`; without it the built-in one")
	for _, k := range config.Keys() {
		f := flags.VarPF(&keyFlag{key: k.Name, text: k.Default}, k.Name, "", firstSentence(k.Doc))
		if k.Kind == config.KindBool {
			f.NoOptDefVal = "true"
		}
	}
}

// firstSentence is what a line of help has room for; config default prints all of it.
func firstSentence(doc string) string {
	first, _, _ := strings.Cut(doc, ". ")
	return strings.TrimSuffix(first, ".")
}

// keyFlag holds the text given for one key.
type keyFlag struct{ key, text string }

var _ pflag.Value = (*keyFlag)(nil)

func (f *keyFlag) String() string     { return f.text }
func (f *keyFlag) Set(s string) error { f.text = s; return nil }
func (f *keyFlag) Type() string       { return "value" }

// loadConfig reads the configuration of a command that has addConfigFlags: the file of --config or the built-in one, the
// environment, the flags. Warnings are printed to stderr. An error is one of usage and lists every problem.
func loadConfig(cmd *cobra.Command, env *environment) (*config.Config, error) {
	cfg, _, err := loadConfigFrom(cmd, env)
	return cfg, err
}

// loadConfigFrom is loadConfig, and says what the configuration was made of.
func loadConfigFrom(cmd *cobra.Command, env *environment) (*config.Config, config.Sources, error) {
	src := config.Sources{
		FileName: embeddedName, File: sluice.DefaultConfig,
		Environ: env.environ, Flags: map[string]string{},
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if k, ok := f.Value.(*keyFlag); ok {
			src.Flags[k.key] = k.text
		}
	})
	name, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, src, fmt.Errorf("read --config: %w", err)
	}
	if cmd.Flags().Changed("config") {
		src.FileName = name
		if src.File, err = readConfigFile(name); err != nil {
			return nil, src, usage(err)
		}
	}
	cfg, warnings, err := config.Load(src)
	for _, w := range warnings {
		fmt.Fprintf(env.stderr, "warning: %s\n", w)
	}
	return cfg, src, usage(err)
}

// readConfigFile reads a little more than the loader accepts, so that a device file ends with its error and not never.
func readConfigFile(name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w; name a readable TOML file with --config", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, config.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w; name a readable TOML file with --config", err)
	}
	return data, nil
}
