//go:build unix

package plugins

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs says whether the file belongs to the user that this process runs as.
func ownedByUs(st fs.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
