package main

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// writes are attacks that change a file outside. Each receives every name that may reach the file,
// and succeeds if one works.
func writes() map[string]attack {
	all := map[string]attack{"put": put, "wait": wait}
	for name, change := range map[string]func(string) error{
		"overwrite": func(name string) error { return writeTo(name, os.O_WRONLY) },
		"append":    func(name string) error { return writeTo(name, os.O_WRONLY|os.O_APPEND) },
		"truncate":  func(name string) error { return os.Truncate(name, 0) },
		"unlink":    os.Remove,
		"rename":    renameOver,
		"chmod":     func(name string) error { return os.Chmod(name, 0o640) },
		"utimes":    func(name string) error { return unix.UtimesNano(name, nil) },
		"setxattr":  func(name string) error { return unix.Setxattr(name, "user.palyra", []byte("x"), 0) },
		"mmap":      mapShared,
		"create": func(name string) error {
			return writeTo(filepath.Join(filepath.Dir(name), "made"), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		},
	} {
		all[name] = anyOf(change)
	}
	return all
}

// anyOf tries every name until one works.
func anyOf(try func(string) error) attack {
	return func(names []string) (string, error) {
		var failed error
		for _, name := range names {
			err := try(name)
			if err == nil {
				return name, nil
			}
			failed = errors.Join(failed, err)
		}
		return "", failed
	}
}

func writeTo(name string, flags int) error {
	f, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString("attacked\n")
	return errors.Join(err, f.Close())
}

func renameOver(name string) error {
	mine := filepath.Join(filepath.Dir(name), "mine")
	if err := writeTo(mine, os.O_WRONLY|os.O_CREATE); err != nil {
		return err
	}
	return os.Rename(mine, name)
}

// mapShared writes through a shared mapping instead of write(2).
func mapShared(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b, err := unix.Mmap(fd, 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(b, "attacked")
	return errors.Join(unix.Msync(b, unix.MS_SYNC), unix.Munmap(b))
}

// put writes files of the workspace: pairs of a name and a content.
func put(pairs []string) (string, error) {
	for ; len(pairs) > 1; pairs = pairs[2:] {
		if err := os.MkdirAll(filepath.Dir(pairs[0]), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(pairs[0], []byte(pairs[1]), 0o755); err != nil {
			return "", err
		}
	}
	return "", nil
}

// wait reports that it runs, and waits to be killed.
func wait([]string) (string, error) {
	_, _ = os.Stdout.WriteString("waiting\n")
	awaitKill()
	return "", nil
}
