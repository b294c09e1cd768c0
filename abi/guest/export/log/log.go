package log

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
)

var lines, _ = guest.OpenLog(export.Offer(abi.ArenaLog, guest.LogBytes))

// Write writes one line, cut after abi.LogTextBytes bytes.
func Write(level abi.LogLevel, text string) { lines.Write(level, text) }

// Debug writes a line of use to the policy's author.
func Debug(text string) { lines.Write(abi.LogDebug, text) }

// Info writes a line of use to the operator.
func Info(text string) { lines.Write(abi.LogInfo, text) }

// Warn writes a line that says that something is not as it should be.
func Warn(text string) { lines.Write(abi.LogWarn, text) }

// Error writes a line that says that the policy could not do what it is for.
func Error(text string) { lines.Write(abi.LogError, text) }

// Line begins a line that is put together of texts and numbers; End writes it. It is ended before another one begins.
func Line(level abi.LogLevel) guest.Line { return lines.Line(level) }

// Written is how many lines were ever written.
func Written() uint32 { return lines.Written() }

// Entry reads line number k, counted from 0, of which the last abi.LogEntries are there. It is for tests.
func Entry(k uint32) (abi.LogLevel, string) { return lines.Entry(k) }
