//go:build !linux

package command

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// nonblock prevents an open from waiting on a FIFO.
const nonblock = syscall.O_NONBLOCK

// identify returns no identity, so every digest is computed again.
func identify(fs.FileInfo) (identity, bool) { return identity{}, false }

// exeBySuffix replaces the execute bit, which Windows does not have.
func exeBySuffix(name string) bool {
	return runtime.GOOS == "windows" && strings.EqualFold(filepath.Ext(name), ".exe")
}
