package main

import (
	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// placeSecrets writes the secrets that the tool receives as files. It refuses any file system
// other than memory, because others would keep the secrets.
func placeSecrets(order inside.Order, values int) error {
	if err := unix.Mkdir(order.SecretDir, 0o700); err != nil {
		return err
	}
	dir, err := unix.Open(order.SecretDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err != nil {
		return err
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return unix.EROFS
	}
	at := int64(0)
	for _, f := range order.SecretFiles {
		if err := placeSecret(dir, f, values, at); err != nil {
			return err
		}
		at += int64(f.Size)
	}
	return nil
}

func placeSecret(dir int, f inside.SecretFile, values int, at int64) error {
	value := make([]byte, f.Size)
	defer clear(value)
	if err := readAt(values, value, at); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, f.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o400)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for left := value; len(left) > 0; {
		n, err := unix.Write(fd, left)
		if err != nil && err != unix.EINTR {
			return err
		}
		left = left[max(n, 0):]
	}
	return nil
}
