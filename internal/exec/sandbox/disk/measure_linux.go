package disk

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// blockSize is the unit of st_blocks (stat(2)) on every file system.
const blockSize = 512

// errHidden reports that a part of the tree is not readable.
var errHidden = errors.New("a part of the tree is not readable")

// usage is the size of a tree.
type usage struct{ bytes, files int64 }

func (u usage) over(limit usage) bool { return u.bytes > limit.bytes || u.files > limit.files }

// identity identifies a directory.
type identity struct{ dev, ino uint64 }

// waiting holds the pending subdirectories of a directory.
type waiting struct {
	below identity
	names []string
}

// walker measures a tree that other processes may write to. It keeps one directory open at a
// time and goes up by "..", because trees may be deeper than the limit of descriptors.
type walker struct {
	dir    int
	path   []waiting
	seen   map[uint64]bool // inodes with several names
	used   usage
	hidden bool
}

// measure returns the size of the tree below root, and stops early when the size exceeds limit.
// Files count by blocks, so holes do not count, and a file with several names counts once. If
// parts of the tree are not readable, measure returns errHidden and the size of the other
// parts.
func measure(ctx context.Context, root int, limit usage) (usage, error) {
	dir, err := openDir(root, ".")
	if err != nil {
		return usage{}, err
	}
	w := &walker{dir: dir, seen: map[uint64]bool{}}
	defer func() { unix.Close(w.dir) }()
	for {
		if err := w.look(ctx, limit); err != nil || w.used.over(limit) {
			return w.used, err
		}
		more, err := w.advance()
		if err != nil {
			return w.used, err
		}
		if !more {
			break
		}
	}
	if w.hidden {
		return w.used, errHidden
	}
	return w.used, nil
}

// look adds up the entries of the directory and lists its directories.
func (w *walker) look(ctx context.Context, limit usage) error {
	self, err := identify(w.dir)
	if err != nil {
		return err
	}
	list := waiting{below: self}
	err = names(w.dir, func(batch []string) error {
		for _, name := range batch {
			if w.count(name) {
				list.names = append(list.names, name)
			}
		}
		if w.used.over(limit) {
			return errEnough
		}
		return ctx.Err()
	})
	w.path = append(w.path, list)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("the limit is exceeded")

// count adds an entry and reports whether it is a directory.
func (w *walker) count(name string) bool {
	var st unix.Stat_t
	if err := unix.Fstatat(w.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.hidden = w.hidden || !errors.Is(err, unix.ENOENT)
		return false
	}
	w.used.files++
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !dir && st.Nlink > 1 {
		if w.seen[st.Ino] {
			return false
		}
		w.seen[st.Ino] = true
	}
	w.used.bytes += st.Blocks * blockSize
	return dir
}

// advance moves to the next directory. It returns false if no directory is left.
func (w *walker) advance() (bool, error) {
	for len(w.path) > 0 {
		top := &w.path[len(w.path)-1]
		if len(top.names) == 0 {
			w.path = w.path[:len(w.path)-1]
			if len(w.path) == 0 {
				return false, nil
			}
			if err := w.up(w.path[len(w.path)-1].below); err != nil {
				return false, err
			}
			continue
		}
		name := top.names[len(top.names)-1]
		top.names = top.names[:len(top.names)-1]
		child, err := openDir(w.dir, name)
		if err == nil {
			unix.Close(w.dir)
			w.dir = child
			return true, nil
		}
		w.hidden = w.hidden || !errors.Is(err, unix.ENOENT)
	}
	return false, nil
}

// up moves to the parent. It returns errHidden if the directory was moved to another parent.
func (w *walker) up(parent identity) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(w.dir, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return errHidden
	}
	if got, err := identify(fd); err != nil || got != parent {
		unix.Close(fd)
		return errHidden
	}
	unix.Close(w.dir)
	w.dir = fd
	return nil
}

func identify(fd int) (identity, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return identity{uint64(st.Dev), st.Ino}, err
}
