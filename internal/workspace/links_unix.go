//go:build unix && !linux

package workspace

import (
	"io/fs"
	"os"
	"syscall"
)

func hardLinks(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 0
}

func chmod(file *os.File, mode fs.FileMode) error { return file.Chmod(mode) }
