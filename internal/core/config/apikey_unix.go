//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// notPrivate returns the reason why a file is accessible to others, and the remedy; "" if the file
// is private.
func notPrivate(path string, info fs.FileInfo) (problem, remedy string) {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Sprintf("has mode %04o: others than its owner may use it", mode),
			fmt.Sprintf("Run `chmod 600 %s`; if others may have read it, replace its secret.", path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int64(st.Uid) != int64(os.Geteuid()) {
		return fmt.Sprintf("belongs to uid %d, this process runs as uid %d", st.Uid, os.Geteuid()),
			fmt.Sprintf("Run `chown %d %s`, or run as its owner.", os.Geteuid(), path)
	}
	return "", ""
}
