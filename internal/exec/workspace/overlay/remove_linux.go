package overlay

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// removeBatch is the number of names that are read at a time while a tree is removed.
const removeBatch = 4096

// RemoveTree removes name in dir and everything below it, in any state that a program can create:
// unreadable directories, names of any bytes, any depth, any number of entries. It follows no
// link and enters no mount. A missing name is not an error.
func RemoveTree(dir *os.File, name string) error {
	return control(dir, func(fd int) error { return failure("removing", name, removeTree(fd, name)) })
}

// attempts is the maximum number of attempts to remove a tree while other processes remove parts of it.
const attempts = 1000

func removeTree(parent int, name string) (err error) {
	for range attempts {
		if err = removeOnce(parent, name); !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return err
}

// removeOnce returns unix.ENOENT if another process has removed a part of the tree meanwhile.
func removeOnce(parent int, name string) error {
	err := unix.Unlinkat(parent, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR):
		return err
	}
	top, err := openAnyway(parent, name)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	r := remover{top: top}
	if err := r.empty(); err != nil {
		return err
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}

// remover empties a directory. It moves subdirectories to the top before it empties them, so that
// two descriptors are sufficient at any depth.
type remover struct {
	top   int
	moved uint64
}

func (r *remover) empty() error {
	for {
		found, err := rewound(r.top)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, name := range found {
			if err := r.remove(r.top, name, r.flatten); err != nil {
				return err
			}
		}
	}
}

// remove deletes a name; a directory that is not empty is passed to busy.
func (r *remover) remove(dir int, name string, busy func(dir int, name string) error) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return busy(dir, name)
	}
	return err
}

// flatten empties one directory at the top: it deletes entries and moves directories that are not
// empty to the top.
func (r *remover) flatten(dir int, name string) error {
	sub, err := openAnyway(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(sub)
	for {
		found, err := rewound(sub)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		for _, n := range found {
			if err := r.remove(sub, n, r.lift); err != nil {
				return err
			}
		}
	}
}

// lift moves a directory to the top. Its owner needs write permission for it, because its ".."
// changes.
func (r *remover) lift(dir int, name string) error {
	for {
		r.moved++
		err := unix.Renameat2(dir, name, r.top, ".palyra-removed-"+strconv.FormatUint(r.moved, 10), unix.RENAME_NOREPLACE)
		switch {
		case errors.Is(err, unix.EEXIST):
			continue
		case !errors.Is(err, unix.EACCES):
			return err
		}
		fd, err := openAnyway(dir, name)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
}

// rewound reads names from the beginning of a directory.
func rewound(dir int) ([]string, error) {
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	return names(dir, removeBatch)
}

// openAnyway opens a directory for reading and first grants its owner missing permissions.
func openAnyway(dir int, name string) (int, error) {
	at, err := open(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	st, err := fstat(at)
	if err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IRWXU != unix.S_IRWXU {
		if err := unix.Chmod(magicLink(at), unix.S_IRWXU); err != nil {
			return -1, err
		}
	}
	return open(at, ".", readDir, 0)
}
