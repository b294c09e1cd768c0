package main

import "github.com/spf13/cobra"

// commands lists every command of the binary, one line each.
func commands(env *environment) []*cobra.Command {
	return []*cobra.Command{
		newConfigCommand(env),
		newPolicyCommand(env),
		newReplayCommand(env),
		newReproCommand(env),
		newServeCommand(env),
		newVersionCommand(env),
	}
}
