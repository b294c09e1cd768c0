package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sluice"
	"sluice/abi"
	"sluice/internal/config"
	"sluice/internal/files"
	"sluice/internal/log"
	"sluice/internal/text"
	"sluice/plugins"
	"sluice/plugins/kit"
)

func newPolicyCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write, check, measure, sign and replay policies",
	}
	cmd.AddCommand(newPolicyABICommand(env), newPolicyNewCommand(env), newPolicyBuildCommand(env), newPolicyCheckCommand(env),
		newPolicyTestCommand(env), newPolicyBenchCommand(env), newPolicyFuzzCommand(env), newPolicyInspectCommand(env), newPolicyManifestCommand(env),
		newPolicyKeygenCommand(env), newPolicySignCommand(env), newPolicyVerifyCommand(env), newPolicyReplayCommand(env))
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	list := strings.Join(names, ", ")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(fmt.Errorf("policy has no command %q; use %s", args[0], list))
		}
		return usage(fmt.Errorf("policy needs a command: %s", list))
	}
	return cmd
}

// wantArgs refuses a number of arguments outside lo to hi, and says which ones the command takes.
func wantArgs(lo, hi int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= lo && len(args) <= hi {
			return nil
		}
		return fmt.Errorf("%d arguments for %q; write %s %s, or see %s --help", len(args), c.Name(), c.Parent().CommandPath(), c.Use, c.CommandPath())
	}
}

// abiLayout is the description of the ABI that this binary was built with.
func abiLayout() (*kit.Layout, error) {
	text, err := sluice.SDK.ReadFile("abi/abi.json")
	if err != nil {
		return nil, err
	}
	return kit.ParseLayout(text)
}

// policyFile is what the commands about one module share: the file and the flags that say how it is opened.
type policyFile struct {
	path   string
	label  string // what messages call it; empty is the path's base name
	hook   string
	config string

	wasm   []byte
	layout *kit.Layout
	json   []byte // canonical configuration
}

func (f *policyFile) addFlags(cmd *cobra.Command, hook bool) {
	cmd.Flags().StringVar(&f.config, "policy-config", "", "the policy's own configuration, a JSON object")
	if hook {
		cmd.Flags().StringVar(&f.hook, "hook", "", "only this hook; empty is every hook that the module answers")
	}
}

// read reads the file and the flags. Its errors are the caller's input.
func (f *policyFile) read(path string) error {
	var err error
	if f.layout, err = abiLayout(); err != nil {
		return err
	}
	if f.hook != "" {
		if _, err := f.layout.HookNamed(f.hook); err != nil {
			return usage(fmt.Errorf("--hook: %w", err))
		}
	}
	if f.json, err = canonicalConfig(f.config); err != nil {
		return usage(err)
	}
	f.path = path
	f.wasm, err = readModule(path)
	return err
}

// mostModule bounds what is read of a policy's file, far above what any policy has.
const mostModule = 1 << 27

// readModule reads a module file.
func readModule(path string) ([]byte, error) {
	wasm, err := files.Read(path, mostModule)
	if err != nil {
		return nil, usage(fmt.Errorf("read the policy: %w; name a .wasm file, which sluice policy build makes", err))
	}
	return wasm, nil
}

// canonicalConfig is the table of a --policy-config as a server would hand it to the policy.
func canonicalConfig(table string) ([]byte, error) {
	if table == "" {
		return nil, nil
	}
	out, err := config.PolicyTable(table)
	if err != nil {
		return nil, fmt.Errorf("--policy-config %w", err)
	}
	return out, nil
}

func (f *policyFile) name() string {
	if f.label != "" {
		return f.label
	}
	return filepath.Base(f.path)
}

// options are how the policy is opened outside a group.
func (f *policyFile) options() kit.Options {
	return kit.Options{Name: f.name(), Config: f.json, Info: f.info(2, 16, 1<<16)}
}

func (f *policyFile) info(ranks, page int, tokens uint64) abi.HostInfo {
	return abi.HostInfo{PageSize: uint32(page), TotalTokens: tokens, Ranks: uint32(ranks)}
}

// hooks are those to look at.
func (f *policyFile) hooks(m *plugins.Module) ([]abi.Hook, error) {
	all := kit.Hooks(m)
	if f.hook == "" {
		return all, nil
	}
	h, err := f.layout.HookNamed(f.hook)
	if err != nil {
		return nil, usage(err)
	}
	if !m.Has(h.Hook) {
		return nil, usage(fmt.Errorf("%s does not export %s, so it cannot answer %s; leave --hook out to see what it answers", f.path, h.Export, h.Name))
	}
	return []abi.Hook{h.Hook}, nil
}

// specs install the policy for some hooks.
func (f *policyFile) specs(hooks []abi.Hook) []plugins.Spec {
	var specs []plugins.Spec
	for _, h := range hooks {
		specs = append(specs, plugins.Spec{Hook: h, Module: f.wasm, Name: f.name(), Config: f.json})
	}
	return specs
}

// withHost runs do with a plugin host and closes it.
func withHost(ctx context.Context, env *environment, do func(*plugins.Host) error) (err error) {
	logger, err := log.New(env.stderr, "warn", "text")
	if err != nil {
		return err
	}
	host := plugins.NewHost(plugins.Options{CacheDir: cacheDir(config.Default(), env, logger), Log: logger})
	defer func() { err = errors.Join(err, host.Close(context.WithoutCancel(ctx))) }()
	return do(host)
}

// refused puts the file into a refusal, which is the caller's input.
func (f *policyFile) refused(err error) error {
	var fault *plugins.Fault
	if errors.As(err, &fault) && fault.Policy == "" {
		fault.Policy = f.name()
	}
	if errors.Is(err, plugins.ErrRejected) {
		return usage(err)
	}
	return err
}

// asJSON writes v, indented, with what a terminal should not be shown escaped.
func asJSON(env *environment, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return say(env, string(text.JSON(b))+"\n")
}
