package plugins

import (
	"bytes"
	"log/slog"

	"sluice/abi"
)

// maxPrinted is how many bytes of a line that a guest prints are shown.
const maxPrinted = 256

// logLevel is the level of a line as slog has it. What is no level counts as an error.
func logLevel(l abi.LogLevel) slog.Level {
	switch l {
	case abi.LogDebug:
		return slog.LevelDebug
	case abi.LogInfo:
		return slog.LevelInfo
	case abi.LogWarn:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// nextLine takes the first line with text in it off what a guest printed; it has no bytes where there is none left.
func nextLine(text []byte) (line, rest []byte) {
	for len(text) > 0 && len(line) == 0 {
		line, text, _ = bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSpace(line)
	}
	return line[:min(len(line), maxPrinted)], text
}
