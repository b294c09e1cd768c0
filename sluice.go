// Package sluice carries what the binary needs when it runs with no file beside it: the annotated default
// configuration, and the sources that sluice policy new writes into a new policy's folder. It holds nothing else and
// imports nothing of the module.
//
//	cfg, _, err := config.Load(config.Sources{FileName: "config.toml", File: sluice.DefaultConfig})
package sluice

import _ "embed"

// DefaultConfig is config.toml, the configuration with every key at its default and its meaning beside it. Treat it as
// read-only: all users share the one array.
//
//go:embed config.toml
var DefaultConfig []byte
