package overlay

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// beneath follows no link of any kind and crosses no mount.
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	// readDir opens a directory for reading its names.
	readDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	// readFile opens a regular file; a FIFO in its place does not block.
	readFile = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	// raceRetries is how often a look-up is retried after a concurrent rename (openat2 returns
	// EAGAIN).
	raceRetries = 64
	// permissions are the mode bits that a commit carries over.
	permissions = 0o777
	// extraBits are the set-user-ID, set-group-ID and sticky bits.
	extraBits = unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX
)

// open opens a path below the directory dir and returns a raw descriptor.
func open(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: uint64(mode), Resolve: beneath}
	for i := 0; ; i++ {
		fd, err := unix.Openat2(dir, name, &how)
		if i < raceRetries && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) {
			continue
		}
		return fd, err
	}
}

// control runs do with the descriptor of a file.
func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// statAt returns the state of one name in dir and follows no link.
func statAt(dir int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

func fstat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st, err
}

// names reads up to about most further names of an open directory; an empty result is the end.
func names(dir int, most int) ([]string, error) {
	buffer := make([]byte, 32<<10)
	var all []string
	for len(all) < most {
		n, err := unix.ReadDirent(dir, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			break
		}
		_, _, all = unix.ParseDirent(buffer[:n], -1, all)
	}
	return all, nil
}

// magicLink returns the /proc path of an open file.
func magicLink(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

func fileMode(mode uint32) fs.FileMode { return fs.FileMode(mode & permissions) }
