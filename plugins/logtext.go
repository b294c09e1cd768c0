package plugins

import (
	"bytes"
	"log/slog"
	"strconv"
	"unicode"
	"unicode/utf8"

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

// logText is a guest's text as one printable line: what is no UTF-8 and what does not print is escaped as Go would. It is
// at most four times as long as the text.
func logText(text []byte) string {
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\x`...)
			out = append(out, "0123456789abcdef"[text[0]>>4], "0123456789abcdef"[text[0]&15])
		case unicode.IsPrint(r):
			out = append(out, text[:size]...)
		default:
			quoted := strconv.AppendQuoteRune(nil, r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		text = text[size:]
	}
	return string(out)
}

// nextLine takes the first line with text in it off what a guest printed; it has no bytes where there is none left.
func nextLine(text []byte) (line, rest []byte) {
	for len(text) > 0 && len(line) == 0 {
		line, text, _ = bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSpace(line)
	}
	return line[:min(len(line), maxPrinted)], text
}
