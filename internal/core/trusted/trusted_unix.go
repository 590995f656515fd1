//go:build unix

package trusted

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The files that define group membership.
const (
	groupFile  = "/etc/group"
	passwdFile = "/etc/passwd"
)

// check refuses an untrusted step of a path. above is true for a directory above the checked
// file. The mode of a link is ignored.
func check(s step, above bool) error {
	path, info := s.path, s.info
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return refused(path, "has an unknown owner", "Put it on another file system.")
	}
	mode, own := info.Mode().Perm(), os.Geteuid()
	switch foreign := stat.Uid != 0 && int(stat.Uid) != own; {
	case foreign && s.isLink():
		return refused(path, fmt.Sprintf("is a symbolic link of the user %d, who can point it elsewhere", stat.Uid), fmt.Sprintf("Run `chown -h %d %s` as root.", own, path))
	case foreign:
		return refused(path, fmt.Sprintf("belongs to the user %d (mode %04o)", stat.Uid, mode), fmt.Sprintf("Run `chown %d %s` as root.", own, path))
	case s.isLink():
		return nil
	}
	if mode&0o022 == 0 || sticky(info, above) || readOnly(path) {
		return nil
	}
	if mode&0o002 != 0 {
		return refused(path, fmt.Sprintf("has mode %04o: everybody may write to it", mode), fmt.Sprintf("Run `chmod go-w %s`.", path))
	}
	if sharedByList(path) {
		return refused(path, "has an access control list by which others may write to it", fmt.Sprintf("Run `setfacl -b %s && chmod go-w %s`.", path, path))
	}
	if alone(stat.Gid, os.Geteuid(), groupFile, passwdFile) {
		return nil
	}
	return refused(path, fmt.Sprintf("has mode %04o: the members of the group %d may write to it", mode, stat.Gid), fmt.Sprintf("Run `chmod g-w %s`.", path))
}

func mine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// alone reports whether a group is private to a user: its primary group, with no other member
// except root according to the files. Groups that are not in the files, such as groups of a
// directory service, are not private; on macOS the files do not list users.
func alone(gid uint32, uid int, groups, users string) bool {
	names := map[string]bool{"root": true}
	own, known, others := false, false, false
	lines(users, func(f []string) {
		if len(f) < 4 {
			return
		}
		id, primary := number(f[2]), number(f[3]) == int(gid)
		own = own || id == uid && primary
		if id == uid || id == 0 {
			names[f[0]] = true
		} else if primary {
			others = true
		}
	})
	lines(groups, func(f []string) {
		if len(f) < 4 || number(f[2]) != int(gid) {
			return
		}
		known = true
		for name := range strings.SplitSeq(f[3], ",") {
			others = others || name != "" && !names[name]
		}
	})
	return own && known && !others
}

// number parses an id, or returns -1.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// lines calls each with the fields of each line of a file. It ignores a file that cannot be
// read.
func lines(path string, each func(fields []string)) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		each(strings.Split(in.Text(), ":"))
	}
}
