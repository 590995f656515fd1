package disk

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openDir opens a directory below another one by one name. It refuses links and mount points.
func openDir(parent int, name string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV,
	}
	return retry(func() (int, error) { return unix.Openat2(parent, name, &how) })
}

// names calls each for batches of names in a directory, from its start. each may remove them.
// Entries that are created while it reads may be missed.
func names(dir int, each func([]string) error) error {
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		return err
	}
	buffer := make([]byte, 32<<10)
	var list []string
	for {
		n, err := retry(func() (int, error) { return unix.Getdents(dir, buffer) })
		if err != nil || n == 0 {
			return err
		}
		_, _, list = unix.ParseDirent(buffer[:n], -1, list[:0])
		if err := each(list); err != nil {
			return err
		}
	}
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
}
