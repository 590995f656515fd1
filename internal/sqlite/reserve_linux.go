package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// diskSpace returns what this process may still write on the disk of a file,
// and how large that disk is, in bytes. What a file system keeps for root is
// free for root alone.
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

// allocated is how much of the disk the file has, from its beginning.
func allocated(f *os.File) (int64, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return 0, fmt.Errorf("fstat: %w", err)
	}
	return min(s.Size, s.Blocks*512), nil
}

// allocate gives the file the blocks from an offset on.
func allocate(f *os.File, from, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fillByWriting(f, from, n)
	}
	return err
}

// preallocate gives the file that is at path room to grow by n, and changes
// nothing of it. SQLite holds no locks on a WAL that a second descriptor could
// lose when it is closed.
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

// fillByWriting is for file systems that cannot set blocks aside otherwise.
func fillByWriting(f *os.File, from, n int64) error {
	block := make([]byte, 64<<10)
	for at := from; at < from+n; at += int64(len(block)) {
		part := block[:min(int64(len(block)), from+n-at)]
		_, _ = rand.Read(part) // so that nothing compresses it away
		if _, err := f.WriteAt(part, at); err != nil {
			return fmt.Errorf("filling the reserve: %w", err)
		}
	}
	return f.Sync()
}
