package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	good, empty, pipe := filepath.Join(dir, "good"), filepath.Join(dir, "empty"), filepath.Join(dir, "pipe")
	for path, text := range map[string]string{good: "12345678", empty: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(good, 8); err != nil || string(b) != "12345678" {
		t.Errorf("%q, %v", b, err)
	}
	for path, want := range map[string]string{empty: "is empty", pipe: "no regular file", dir: "is a folder", "/dev/zero": "no regular file",
		filepath.Join(dir, "none"): "no such file"} {
		if _, err := Read(path, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := Read(good, 7); err == nil || !strings.Contains(err.Error(), "has 8 bytes, it may have 7") {
		t.Errorf("a byte too long: %v", err)
	}
}
