package sqlitetest

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	// memoryDir is a file system in memory on most systems.
	memoryDir = "/dev/shm"
	// memoryRoom is the free space that memoryDir must have, in bytes: containers often have 64
	// MiB.
	memoryRoom = 1 << 30
)

// newMemoryDir creates a directory in memory, or returns "".
func newMemoryDir() string {
	var s unix.Statfs_t
	if unix.Statfs(memoryDir, &s) != nil || s.Type != unix.TMPFS_MAGIC || s.Bavail*uint64(s.Bsize) < memoryRoom {
		return ""
	}
	dir, err := os.MkdirTemp(memoryDir, "palyra-test-")
	if err != nil {
		return ""
	}
	return dir
}
