package jail

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// private are mounts that let a run use Unix sockets and terminals of its own.
type private struct {
	// layered are the directories of the host that the run sees through an overlay. In a mount
	// namespace of the thread, the daemon finds them at the paths from.
	layered, from []string
	// terminals is true if the thread mounts the run's terminals.
	terminals bool
}

// Layered is like Shown, but mounts the directory as an overlay without a writable layer. A program
// cannot connect to a socket in it: the kernel looks up sockets by their files, and the files of an
// overlay are others than those below it.
func (s *Stage) Layered(path string) (string, error) {
	p := &s.plan.private
	if s.machine.Root() {
		from, err := s.Shown(path)
		if err != nil {
			return "", err
		}
		p.from = append(p.from, from)
	} else {
		dir, err := OpenDirectory(path)
		if err != nil {
			return "", err
		}
		defer dir.File.Close()
		s.outer.Layered = append(s.outer.Layered, dir.Source())
	}
	p.layered = append(p.layered, path)
	return inside.LayeredAt(len(p.layered) - 1), nil
}

// Terminals mounts pseudo terminals of the run's own, and returns their path.
func (s *Stage) Terminals() string {
	if s.machine.Root() {
		s.plan.private.terminals = true
	} else {
		s.outer.Terminals = true
	}
	return inside.TerminalDir
}

// mount makes the mounts on the calling thread of a daemon that is root, like palyra-init's outer
// stage.
func (p *private) mount() error {
	if len(p.from) > 0 {
		if err := unix.Mkdir(inside.EmptyLayer, 0o755); err != nil {
			return fmt.Errorf("creating an empty layer: %w", err)
		}
	}
	for i, from := range p.from {
		if err := mountNew("overlay", inside.LayeredAt(i), unix.MS_RDONLY|unix.MS_NODEV, inside.LayeredOptions(from)); err != nil {
			return fmt.Errorf("mounting the toolchain %s: %w", strconv.Quote(p.layered[i]), err)
		}
	}
	if !p.terminals {
		return nil
	}
	if err := mountNew("devpts", inside.TerminalDir, unix.MS_NOEXEC, inside.TerminalOptions); err != nil {
		return fmt.Errorf("mounting the run's terminals: %w", err)
	}
	return nil
}

// mountNew mounts a file system at a new directory.
func mountNew(kind, at string, flags uintptr, options string) error {
	if err := unix.Mkdir(at, 0o755); err != nil {
		return err
	}
	return unix.Mount(kind, at, kind, flags|unix.MS_NOSUID, options)
}

// holds reports whether a path is below a layered directory.
func (p *private) holds(path string) bool {
	return slices.ContainsFunc(p.layered, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}
