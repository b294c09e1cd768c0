package log

import (
	"fmt"
	"io"
	"log/slog"
)

// New returns a logger that writes records of at least level (debug, info, warn or error) to w, one a line, in the given
// format (text or json).
func New(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	switch level {
	case "debug":
		least = slog.LevelDebug
	case "info":
		least = slog.LevelInfo
	case "warn":
		least = slog.LevelWarn
	case "error":
		least = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q: must be one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: must be text or json", format)
}

// Discard returns a logger that drops every record before it is formatted.
func Discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
