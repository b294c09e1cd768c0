// Package config reads, checks and prints the configuration.
//
// One table (see Keys) states every key: its kind, unit, range, default and what it means. The file, the environment and
// the flags of a command all go through that table, so that a value is judged the same wherever it comes from, and every
// mistake is listed at once with the place it was made: config.toml:12, SLUICE_HTTP_PORT or --http.port. The order of
// precedence is default < file < environment < flag.
//
// It may import the standard library and BurntSushi/toml, and knows no other folder. A Config is a plain value, owned by
// whoever loaded it; nothing here keeps state.
//
//	cfg, warnings, err := config.Load(config.Sources{
//		FileName: "config.toml",
//		File:     data,
//		Environ:  os.Environ(),
//		Flags:    map[string]string{"http.port": "30001"},
//	})
//	// err lists every problem, one a line; cfg.HTTP.Port is 30001.
package config
