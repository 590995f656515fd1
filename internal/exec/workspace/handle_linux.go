package workspace

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Handle is an open file or directory of a workspace. The checked file and the read file are the
// same, even if another file gets its name in between. It is safe for concurrent use.
type Handle struct {
	// descriptor is an O_PATH descriptor: it permits no reads and opens no device.
	descriptor *os.File
	root       *Root
	info       Info
}

// Open opens the file that name leads to, following links that stay inside the workspace.
func (r *Root) Open(name string) (*Handle, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	descriptor, err := r.dir.open(orDot(strings.TrimRight(name, "/")), unix.O_PATH, beneath)
	if err != nil {
		return nil, failure("inspecting", name, err)
	}
	info, err := r.dir.info(descriptor, name)
	if err != nil {
		descriptor.Close()
		return nil, err
	}
	return &Handle{descriptor, r, info}, nil
}

// info describes the file of a descriptor by its real path.
func (d directory) info(descriptor *os.File, name string) (Info, error) {
	st, err := fstat(descriptor)
	if err != nil {
		return Info{}, failure("inspecting", name, err)
	}
	real, err := d.realPath(descriptor, st)
	if err != nil {
		return Info{}, err
	}
	return infoOf(real, &st), nil
}

// stands reports whether the path still leads to this file.
func (h *Handle) stands(file os.FileInfo) bool {
	there, err := h.root.dir.open(h.info.Path, unix.O_PATH|unix.O_NOFOLLOW, beneath)
	if err != nil {
		return false
	}
	defer there.Close()
	now, err := there.Stat()
	return err == nil && os.SameFile(now, file)
}

// Close releases the file.
func (h *Handle) Close() error { return h.descriptor.Close() }

// open opens this file for reading, not the file that currently has its name.
func (h *Handle) open() (*os.File, Info, error) {
	if err := h.info.readable(); err != nil {
		return nil, Info{}, err
	}
	fd := -1
	err := control(h.descriptor, func(place int) error {
		var err error
		fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(place), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, Info{}, failure("opening", h.info.Path, err)
	}
	file := os.NewFile(uintptr(fd), h.info.Path)
	st, err := fstat(file)
	if err != nil {
		file.Close()
		return nil, Info{}, failure("opening", h.info.Path, err)
	}
	return file, infoOf(h.info.Path, &st), nil
}
