package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the binary",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, ok := debug.ReadBuildInfo()
			return say(env, versionLine(info, ok))
		},
	}
}

// versionLine is "sluice VERSION (COMMIT, GO OS/ARCH)"; the parts that the build did not record are left out.
func versionLine(info *debug.BuildInfo, ok bool) string {
	version, commit := "(devel)", ""
	if ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = s.Value[:12] + ", "
			case s.Key == "vcs.modified" && s.Value == "true":
				version += " modified"
			}
		}
	}
	return fmt.Sprintf("sluice %s (%s%s %s/%s)\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
