package log

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

func TestLevels(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		t.Run(level, func(t *testing.T) {
			var b bytes.Buffer
			logger, err := New(&b, level, "text")
			if err != nil {
				t.Fatal(err)
			}
			logger.Debug("a")
			logger.Info("b")
			logger.Warn("c")
			logger.Error("d")
			if got := strings.Count(b.String(), "\n"); got != want {
				t.Errorf("got %d records, want %d:\n%s", got, want, b.String())
			}
		})
	}
}

func TestFormats(t *testing.T) {
	var b bytes.Buffer
	logger, err := New(&b, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("listening", "port", 30000)
	var record map[string]any
	if err := json.Unmarshal(b.Bytes(), &record); err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	if record["msg"] != "listening" || record["port"] != 30000.0 {
		t.Errorf("got %v", record)
	}
	b.Reset()
	if logger, err = New(&b, "info", "text"); err != nil {
		t.Fatal(err)
	}
	logger.Info("listening", "port", 30000)
	if !strings.Contains(b.String(), "msg=listening port=30000\n") {
		t.Errorf("got %q", b.String())
	}
}

func TestWrongNames(t *testing.T) {
	cases := []struct{ name, level, format, want string }{
		{"level", "loud", "text", `log level "loud"`},
		{"format", "info", "xml", `log format "xml"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(&bytes.Buffer{}, c.level, c.format); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want an error that begins with %s", err, c.want)
			}
		})
	}
}

func TestDiscardFormatsNothing(t *testing.T) {
	if Discard().Enabled(context.Background(), slog.LevelError) {
		t.Error("the discard logger is enabled for errors")
	}
}
