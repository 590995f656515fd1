//go:build unix

package toolchain

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// writable says who else can write to a directory or rename one above it. Root, the
// user of this process and, for a directory that the configuration names, its owner
// may.
func writable(dir string, asked bool) string {
	trusted := map[int]bool{0: true, os.Geteuid(): true}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "cannot be looked at"
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "cannot be looked at"
		}
		owner := int(st.Uid)
		if at == dir && asked {
			trusted[owner] = true
		}
		mode, group := info.Mode(), int(st.Gid)
		// Of a user whose group has the same number, that group has no other member.
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

// operatorHome is the home directory of the person who runs this process; "" for
// root and for the users of services, whatever their environment says.
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
