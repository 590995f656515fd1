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

// identity contains the time of the last change of content, because the name of the other field
// differs between systems.
func identity(info fs.FileInfo) Identity {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return Identity{Device: uint64(st.Dev), Inode: st.Ino, ChangedAt: info.ModTime().UnixNano()}
	}
	return Identity{}
}

func chmod(file *os.File, mode fs.FileMode) error { return file.Chmod(mode) }
