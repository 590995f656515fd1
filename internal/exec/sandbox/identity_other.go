//go:build !linux

package sandbox

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// nonblock keeps an open from waiting on a FIFO.
const nonblock = syscall.O_NONBLOCK

// identify knows nothing here, so every digest is computed afresh.
func identify(fs.FileInfo) (identity, bool) { return identity{}, false }

// exeBySuffix stands in for the mode bit that Windows does not have.
func exeBySuffix(name string) bool {
	return runtime.GOOS == "windows" && strings.EqualFold(filepath.Ext(name), ".exe")
}
