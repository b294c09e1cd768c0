// Command sluice is the one binary: the server, the experiments and the tools.
//
// Each command lives in its own file, cmd_<name>.go, as func new<Name>Command(env *environment) *cobra.Command, and is
// listed in commands.go. A command reaches the world only through its environment, so that tests run it in-process.
// Exit status 0 means that the command did its work and what it shows holds, 1 that something is broken, 2 that the
// usage or an input is wrong; the reason is on stderr.
//
// This package may import every folder of the module, and nothing imports it. What needs cgo is reached only from
// backend_<tag>.go.
//
//	sluice config check --config config.toml --http.port 30001
package main
