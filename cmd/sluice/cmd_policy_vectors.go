package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/text"
	"sluice/plugins"
	"sluice/plugins/kit"
)

func newPolicyTestCommand(env *environment) *cobra.Command {
	var f policyFile
	var rewrite bool
	cmd := &cobra.Command{
		Use:   "test FILE.wasm VECTORS.txt",
		Short: "Run golden vectors and show what differs, field by field",
		Long: "Run golden vectors and show what differs, field by field. Exit status 0: all are answered as expected; 1: some are not;\n" +
			"2: wrong input, a module that is refused included.\n\n" + kit.VectorHelp,
		Args: wantArgs(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(args[0]); err != nil {
				return err
			}
			text, err := readText(args[1])
			if err != nil {
				return usage(fmt.Errorf("read the vectors: %w", err))
			}
			vectors, err := f.layout.ParseVectors(string(text))
			if err != nil {
				return usage(fmt.Errorf("%s: %w", args[1], err))
			}
			return f.withPolicy(c.Context(), env, func(_ *plugins.Host, p *kit.Policy) error {
				if rewrite {
					return rewriteVectors(c.Context(), env, vectors, p, args[1])
				}
				return runVectors(c.Context(), env, vectors, p, args[1])
			})
		},
	}
	f.addFlags(cmd, false)
	cmd.Flags().BoolVar(&rewrite, "rewrite", false, "write the policy's answers into the file as the expected ones")
	return cmd
}

// withPolicy loads the module and opens it.
func (f *policyFile) withPolicy(ctx context.Context, env *environment, do func(*plugins.Host, *kit.Policy) error) error {
	return withHost(ctx, env, func(host *plugins.Host) (err error) {
		m, err := host.Compile(ctx, f.wasm)
		if err != nil {
			return f.refused(err)
		}
		p, err := kit.Open(ctx, kit.Compiled(m), f.options())
		if err != nil {
			return f.refused(err)
		}
		defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
		return do(host, p)
	})
}

func rewriteVectors(ctx context.Context, env *environment, vectors *kit.File, p *kit.Policy, path string) error {
	text, err := vectors.Rewrite(ctx, p)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", path, err))
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("rewrite the vectors: %w", err)
	}
	return say(env, fmt.Sprintf("%s: %d vectors rewritten with the answers of %s; read the difference before you keep it\n", path, len(vectors.Vectors), p.Name()))
}

func runVectors(ctx context.Context, env *environment, vectors *kit.File, p *kit.Policy, path string) error {
	failed, err := vectors.Run(ctx, p)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", path, err))
	}
	if len(failed) == 0 {
		return say(env, fmt.Sprintf("ok: %d vectors\n", len(vectors.Vectors)))
	}
	var b strings.Builder
	for _, x := range failed {
		fmt.Fprintf(&b, "%s:%d: %s\n", path, x.Line, text.Line(x.Vector, maxSymbol))
		for _, line := range x.Lines {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	if err := say(env, b.String()); err != nil {
		return err
	}
	return fmt.Errorf("%d of %d vectors are answered otherwise; mend the policy, or take its answers over with --rewrite", len(failed), len(vectors.Vectors))
}
