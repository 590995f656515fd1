//go:build unix

package toolchain

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// writable describes which other user can write to a directory or rename a parent of it. It
// accepts root, the user of this process and, for a configured directory, the owner of the
// directory.
func writable(dir string, asked bool) string {
	trusted := map[int]bool{0: true, os.Geteuid(): true}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "cannot be checked"
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "cannot be checked"
		}
		owner := int(st.Uid)
		if at == dir && asked {
			trusted[owner] = true
		}
		mode, group := info.Mode(), int(st.Gid)
		// A user's private group, with the same number, has no other members.
		shared := mode&0o002 != 0 || mode&0o020 != 0 && !(trusted[owner] && group == owner)
		switch {
		case !trusted[owner]:
			return fmt.Sprintf("can be changed by another user: %s belongs to uid %d", at, owner)
		case shared && (at == dir || mode&os.ModeSticky == 0):
			return fmt.Sprintf("can be changed by other users: %s has the mode %v", at, mode.Perm())
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// operatorHome returns the home directory of the person who runs this process; "" for root and
// for service users, regardless of their environment.
func operatorHome() string {
	people := 1000
	if runtime.GOOS == "darwin" {
		people = 500
	}
	home := os.Getenv("HOME")
	if os.Geteuid() < people || !filepath.IsAbs(home) {
		return ""
	}
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		return ""
	}
	info, err := os.Stat(home)
	if err != nil || !info.IsDir() {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return ""
	}
	return home
}
