package workspace

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Held is a file or directory of a workspace that is held open: what is judged
// of it and what is read of it are of one and the same, whatever becomes of its
// name. It is safe for concurrent use.
type Held struct {
	// place is an O_PATH descriptor: it reads nothing, and opens no device.
	place *os.File
	info  Info
}

// Hold opens what name leads to, following links that stay inside.
func (r *Root) Hold(name string) (*Held, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	place, err := r.openDescriptor(orDot(strings.TrimRight(name, "/")), unix.O_PATH, beneath)
	if err != nil {
		return nil, failure("looking at", name, err)
	}
	info, err := r.infoOfPlace(place, name)
	if err != nil {
		place.Close()
		return nil, err
	}
	return &Held{place: place, info: info}, nil
}

func (r *Root) infoOfPlace(place *os.File, name string) (Info, error) {
	st, err := fstat(place)
	if err != nil {
		return Info{}, failure("looking at", name, err)
	}
	real, err := r.realPath(place, st)
	if err != nil {
		return Info{}, err
	}
	return infoOf(real, &st), nil
}

// Close lets go of it.
func (h *Held) Close() error { return h.place.Close() }

// open opens the very file for reading, not what has its name now.
func (h *Held) open() (*os.File, Info, error) {
	if err := h.info.readable(); err != nil {
		return nil, Info{}, err
	}
	fd := -1
	err := control(h.place, func(place int) error {
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
