//go:build unix

package keyfile

import (
	"io/fs"
	"os"
	"syscall"

	"palyra/internal/core/reason"
)

func private(path string, info fs.FileInfo, want string) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return reason.Errorf(reason.ConfigInvalid, "%s has mode %04o: others than its owner may use it", path, mode).
			WithRemedy("Run `chmod %s %s`; if others may have read it, create new keys.", want, path)
	}
	return nil
}

func owned(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && int64(st.Uid) != int64(os.Geteuid()) {
		return reason.Errorf(reason.ConfigInvalid, "%s belongs to uid %d, this process runs as uid %d", path, st.Uid, os.Geteuid()).
			WithRemedy("Run as the owner, or use another directory.")
	}
	return nil
}

// SyncDir makes renames and removals in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// KeepOwner gives a new file the owner and group of the file that it replaces.
func KeepOwner(f *os.File, like fs.FileInfo) error {
	st, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if now, ok := info.Sys().(*syscall.Stat_t); ok && now.Uid == st.Uid && now.Gid == st.Gid {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
