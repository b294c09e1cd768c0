package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/clock"
	"sluice/internal/config"
	"sluice/internal/text"
)

// environment is everything a command may use of the world outside. A test makes its own.
type environment struct {
	args    []string // without the program's name
	environ []string // NAME=VALUE
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	clock   clock.Clock
}

// The exit statuses.
const (
	exitOK     = 0
	exitBroken = 1
	exitUsage  = 2
)

// usageError marks an error as the caller's: wrong usage or a wrong input.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usage wraps err so that run exits with 2. A command returns its input errors through it; other errors exit with 1.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// errInterrupted is what a command ends with that was stopped before it was done.
var errInterrupted = errors.New("interrupted")

// run executes the command line of env and returns the exit status. It writes the reason of a failure to stderr.
func run(ctx context.Context, env *environment) int {
	started := false
	root := newRootCommand(env)
	markStart(root, &started)
	root.SetArgs(append([]string{}, env.args...))
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = errInterrupted // where it was does not help who has stopped it
	}
	return exitStatus(err, started, env.stderr)
}

// exitStatus tells err on stderr and returns its status. started says whether a command's own code had begun.
func exitStatus(err error, started bool, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	prefix := "sluice: "
	var problems config.Problems
	if errors.As(err, &problems) {
		prefix = "" // each line already begins with its place
	}
	fmt.Fprintln(stderr, prefix+text.Lines(strings.TrimRight(err.Error(), "\n")))
	var wrongUsage usageError
	if !started || errors.As(err, &wrongUsage) {
		return exitUsage
	}
	return exitBroken
}

// markStart notes when a command's own code begins: an error before that is one of usage.
func markStart(cmd *cobra.Command, started *bool) {
	if inner := cmd.RunE; inner != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return inner(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStart(sub, started)
	}
}

func newRootCommand(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "The decode side of a prefill/decode-disaggregated LLM server, whose decisions are plugins",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          rootArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return explainFlag(c, err) })
	root.AddCommand(commands(env)...)
	return root
}

// rootArgs refuses a command that there is none of, with the nearest one that there is.
func rootArgs(c *cobra.Command, args []string) error {
	err := cobra.NoArgs(c, args)
	if err == nil {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	if best, close := config.Nearest(args[0], names); close {
		return fmt.Errorf("%w; did you mean %s?", err, best)
	}
	return err
}

// explainFlag adds the nearest flag of the command to an error about an unknown one, and to that of a section's name the
// flags of its keys.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	}
	name := unknown.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	var inside []string
	for _, key := range config.SectionKeys(name) {
		if cmd.Flags().Lookup(key) != nil {
			inside = append(inside, "--"+key)
		}
	}
	if len(inside) > 0 {
		return fmt.Errorf("%w; it is a section, with the keys %s", err, strings.Join(inside, ", "))
	}
	if best, close := config.Nearest(name, names); close {
		return fmt.Errorf("%w; did you mean --%s?", err, best)
	}
	if best, close := config.NearestKey(name); close && cmd.Flags().Lookup(best) != nil {
		return fmt.Errorf("%w; did you mean --%s?", err, best)
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}
