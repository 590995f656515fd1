package overlay

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// layerPrefix is the name prefix of the directories of layers.
const layerPrefix = "layer-"

// Layer is the upper layer of one run on one workspace. It must not be used concurrently.
type Layer struct {
	config Config
	// holder is Config.Dir, and name is the name of the layer's directory in it.
	holder *os.File
	name   string
	lower  *os.File
	upper  *os.File
	work   *os.File
	// since is the earliest time at which the program can have read the workspace.
	since unix.Timespec
}

// New creates the empty layer of a run: a directory for the program's writes, with the mode of
// the workspace directory, and the overlay's work directory. The caller closes the layer.
func New(c Config) (*Layer, error) {
	l := &Layer{config: c.orDefault(), name: layerPrefix + rand.Text()}
	if err := l.make(); err != nil {
		return nil, errors.Join(failure("making the layer of workspace", c.Name, err), l.Close())
	}
	return l, nil
}

func (l *Layer) make() error {
	var err error
	if l.lower, err = openRoot(l.config.Root); err != nil {
		return err
	}
	if l.holder, err = openRoot(l.config.Dir); err != nil {
		return err
	}
	var mode uint32
	err = control(l.lower, func(fd int) error {
		st, err := fstat(fd)
		mode = st.Mode & (permissions | extraBits)
		return err
	})
	if err != nil {
		return err
	}
	if err := control(l.holder, func(fd int) error { return unix.Mkdirat(fd, l.name, 0o700) }); err != nil {
		return err
	}
	if l.upper, err = l.makeDir("upper", mode); err != nil {
		return err
	}
	if l.work, err = l.makeDir("work", 0o700); err != nil {
		return err
	}
	return l.Begin()
}

// Begin records that the program starts now. Changes of the workspace before this time are
// visible to the program; a file changed later and by the program as well is a conflict. The
// kernel takes ctime from a coarse clock that may be a tick (4 ms) late, so a change within the
// first 4 ms can look older. If files were compared only at the time of the commit, a second
// run could overwrite the changes that a first run committed meanwhile.
func (l *Layer) Begin() error { return unix.ClockGettime(unix.CLOCK_REALTIME, &l.since) }

// Touched reports whether anything was written. It may be called while the program runs.
func (l *Layer) Touched() (touched bool, err error) {
	err = control(l.upper, func(fd int) error {
		dir, err := open(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(dir), "upper")
		defer f.Close()
		names, err := f.Readdirnames(1)
		touched = len(names) > 0
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	return touched, err
}

// openRoot opens a directory by its canonical path for look-ups only.
func openRoot(name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
	if err != nil {
		return nil, reason.Errorf(reason.WorkspaceScope, "opening a directory of the run: %w", err).
			WithRemedy("Check that the directory of the workspace exists and that no part of its path is now a symbolic link; openat2 needs Linux 5.6.")
	}
	return os.NewFile(uintptr(fd), name), nil
}

// makeDir creates a directory of the layer. Setting the mode by name is safe, because no other
// process can write to the layer yet.
func (l *Layer) makeDir(name string, mode uint32) (*os.File, error) {
	at := filepath.Join(l.name, name)
	fd := -1
	err := control(l.holder, func(holder int) error {
		err := unix.Mkdirat(holder, at, 0o700)
		if err == nil && (l.config.UID >= 0 || l.config.GID >= 0) {
			err = unix.Fchownat(holder, at, l.config.UID, l.config.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err == nil {
			err = unix.Fchmodat(holder, at, mode, 0)
		}
		if err == nil {
			fd, err = open(holder, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(l.config.Dir, at)), nil
}

// Upper returns the directory that the overlay writes to, opened with O_PATH; its Name is the
// absolute path. The layer closes it.
func (l *Layer) Upper() *os.File { return l.upper }

// Work returns the overlay's work directory, on the file system of Upper.
func (l *Layer) Work() *os.File { return l.work }

// Close removes all uncommitted writes of the program. It does nothing for a nil Layer.
func (l *Layer) Close() error {
	if l == nil {
		return nil
	}
	var err error
	if l.holder != nil {
		err = RemoveTree(l.holder, l.name)
	}
	for _, f := range []*os.File{l.upper, l.work, l.lower, l.holder} {
		if f != nil {
			f.Close()
		}
	}
	return err
}

// Sweep removes the layers that an earlier daemon left in dir.
func Sweep(dir string) error {
	holder, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer holder.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return failure("sweeping", dir, err)
	}
	var failed []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), layerPrefix) {
			failed = append(failed, RemoveTree(holder, e.Name()))
		}
	}
	return errors.Join(failed...)
}
