package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// directory is an O_PATH descriptor of a workspace, below which paths are opened with openat2(2).
type directory struct{ *os.File }

const (
	// beneath permits symbolic links that stay below the directory, but no magic links of /proc.
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	// exact follows no link: it is for paths that are already resolved.
	exact = beneath | unix.RESOLVE_NO_SYMLINKS
	// raceRetries is how often a look-up is retried after a concurrent rename (openat2 returns
	// EAGAIN).
	raceRetries = 64
)

func openDirectory(d Declaration) (directory, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, d.Path, &how)
	if err != nil {
		return directory{}, reason.Errorf(reason.WorkspaceScope, "opening workspace %q: %w", d.Name, err).
			WithRemedy("Check that its directory exists and that no part of the path is now a symbolic link; openat2 needs Linux 5.6.")
	}
	return directory{os.NewFile(uintptr(fd), d.Path)}, nil
}

// openat2 opens a path below the workspace and returns a raw descriptor.
func (d directory) openat2(name string, flags, mode, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: resolve}
	conn, err := d.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, failed := -1, error(nil)
	err = conn.Control(func(dir uintptr) {
		for range raceRetries {
			fd, failed = unix.Openat2(int(dir), name, &how)
			if !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return -1, err
	}
	return fd, failed
}

func (d directory) open(name string, flags, resolve uint64) (*os.File, error) {
	fd, err := d.openat2(name, flags, 0, resolve)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// has reports whether an entry of that name exists, including a dangling symbolic link. If that
// is unknown, it returns true.
func (d directory) has(name string) bool {
	file, err := d.open(name, unix.O_PATH|unix.O_NOFOLLOW, beneath)
	if err == nil {
		file.Close()
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
}

// Resolve returns the target of name after all symbolic links, relative to the workspace. Missing
// elements at the end are kept unchanged.
func (r *Root) Resolve(name string) (string, error) {
	if err := checkPath(name); err != nil {
		return "", err
	}
	rest := ""
	for at := orDot(strings.TrimRight(name, "/")); ; {
		info, err := r.Stat(at)
		if err == nil {
			return path.Join(info.Path, rest), nil
		}
		if reason.Of(err) != reason.FileNotFound || at == "." {
			return "", err
		}
		dir, base := path.Split(at)
		if err := r.dir.refuseDangling(at, base); err != nil {
			return "", err
		}
		rest = path.Join(base, rest)
		at = orDot(strings.TrimRight(dir, "/"))
	}
}

// refuseDangling refuses the missing end of a path if it is "..", which has no meaning below a
// missing directory, or a dangling link.
func (d directory) refuseDangling(at, base string) error {
	if base == ".." || base == "." {
		return reason.Errorf(reason.FileNotFound, "%s does not exist", quote(at))
	}
	fd, err := d.openat2(at, unix.O_PATH|unix.O_NOFOLLOW, 0, beneath)
	if err == nil {
		unix.Close(fd)
		return reason.Errorf(reason.WorkspaceScope, "%s is a symbolic link to a file that does not exist", quote(at)).
			WithRemedy("Name the file itself.")
	}
	return nil
}

// realPath obtains the name of an open file from the kernel and verifies it: the name must lead,
// without any link, to the same file.
func (d directory) realPath(file *os.File, st unix.Stat_t) (string, error) {
	whole, err := descriptorPath(file)
	if err != nil {
		return "", failure("resolving", file.Name(), err)
	}
	top, err := descriptorPath(d.File)
	if err != nil {
		return "", failure("resolving", file.Name(), err)
	}
	if whole == top {
		return ".", nil
	}
	rel, ok := strings.CutPrefix(whole, strings.TrimSuffix(top, "/")+"/")
	if !ok {
		return "", reason.Errorf(reason.WorkspaceScope, "%s leaves the workspace", quote(file.Name()))
	}
	proof, err := d.open(rel, unix.O_PATH|unix.O_NOFOLLOW, exact)
	if err != nil {
		return "", failure("resolving", file.Name(), err)
	}
	defer proof.Close()
	again, err := fstat(proof)
	if err != nil || !sameFile(&st, &again) {
		return "", reason.Errorf(reason.WorkspaceScope, "%s changed while it was resolved", quote(file.Name()))
	}
	return rel, nil
}

func descriptorPath(file *os.File) (string, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return "", err
	}
	var name string
	var failed error
	err = conn.Control(func(fd uintptr) {
		name, failed = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd)))
	})
	return name, errors.Join(err, failed)
}

func (d directory) list(real string) ([]Info, error) {
	dir, err := d.open(real, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, exact)
	if err != nil {
		return nil, failure("listing", real, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxEntries + 1)
	if err != nil && len(names) == 0 && !errors.Is(err, io.EOF) {
		return nil, failure("listing", real, err)
	}
	if len(names) > maxEntries {
		return nil, reason.Errorf(reason.QuotaExceeded, "%s has more than %d entries", quote(real), maxEntries).
			WithRemedy("Name a directory below it.")
	}
	entries := make([]Info, 0, len(names))
	for _, name := range names {
		var st unix.Stat_t
		if err := statAt(dir, name, &st); err == nil {
			entries = append(entries, infoOf(join(real, name), &st))
		}
	}
	sortEntries(entries)
	return entries, nil
}

func statAt(dir *os.File, name string, st *unix.Stat_t) error {
	conn, err := dir.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.Fstatat(int(fd), name, st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return errors.Join(err, failed)
}

func fstat(file *os.File) (unix.Stat_t, error) {
	var st unix.Stat_t
	conn, err := file.SyscallConn()
	if err != nil {
		return st, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.Fstat(int(fd), &st) })
	return st, errors.Join(err, failed)
}

func sameFile(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

func kindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Symlink
	}
	return Other
}

func infoOf(name string, st *unix.Stat_t) Info {
	return Info{
		Path: name, Kind: kindOf(st.Mode), Size: st.Size, Mode: fs.FileMode(st.Mode & 0o777),
		ModTime: time.Unix(st.Mtim.Unix()).UTC(), Links: uint64(st.Nlink),
		Identity: Identity{Device: uint64(st.Dev), Inode: st.Ino, ChangedAt: st.Ctim.Nano()},
	}
}

func orDot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// escapes reports whether an error of openat2(2) means that a path leads out of the directory
// (EXDEV), has links that must not be followed or form a loop (ELOOP), or could not be checked
// because of concurrent renames (EAGAIN).
func escapes(err error) bool {
	return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EAGAIN)
}

func isNotDir(err error) bool { return errors.Is(err, unix.ENOTDIR) }
