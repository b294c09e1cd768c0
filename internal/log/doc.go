// Package log makes the one logger of a process from the configuration.
//
// It may import the standard library only; a logger is handed to whoever logs, never reached through a global.
//
//	logger, err := log.New(os.Stderr, "info", "text")
//	logger.Info("listening", "addr", addr)
//	quiet := log.Discard() // for tests
package log
