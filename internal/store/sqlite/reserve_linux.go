package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// diskSpace returns the number of bytes that this process may still write to the disk of a
// file, and the size of that disk. Blocks that a file system reserves for root count as free
// only for root.
func diskSpace(path string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("statfs: %w", err)
	}
	blocks := s.Bavail
	if os.Geteuid() == 0 {
		blocks = s.Bfree
	}
	return int64(blocks) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

// allocated returns the number of bytes that are allocated to the file on disk, from its
// beginning.
func allocated(f *os.File) (int64, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return 0, fmt.Errorf("fstat: %w", err)
	}
	return min(s.Size, s.Blocks*512), nil
}

// allocate allocates blocks for n bytes of the file from an offset on.
func allocate(f *os.File, from, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fillByWriting(f, from, n)
	}
	return err
}

// preallocate reserves n bytes of disk space beyond the end of the file at path,
// without changing its size. Opening the WAL a second time is safe: closing a
// descriptor drops all POSIX locks of the process on the file, but SQLite has none
// on a WAL.
func preallocate(path string, n int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, info.Size(), n)
	}
}

// fillByWriting implements allocate for file systems that cannot preallocate blocks.
func fillByWriting(f *os.File, from, n int64) error {
	block := make([]byte, 64<<10)
	for at := from; at < from+n; at += int64(len(block)) {
		part := block[:min(int64(len(block)), from+n-at)]
		_, _ = rand.Read(part) // random, so that the file system cannot compress it
		if _, err := f.WriteAt(part, at); err != nil {
			return fmt.Errorf("filling the reserve: %w", err)
		}
	}
	return f.Sync()
}
