package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

// Directory is an open directory and its owner.
type Directory struct {
	File     *os.File // opened with O_PATH
	Identity inside.Identity
	UID, GID int
}

// Close closes the descriptor.
func (d *Directory) Close() error { return d.File.Close() }

// Source returns the directory's path and identity for the outer stage.
func (d *Directory) Source() inside.Source {
	return inside.Source{Path: d.File.Name(), Identity: d.Identity}
}

const directoryFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// OpenDirectory opens a directory without following any link.
func OpenDirectory(path string) (*Directory, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: directoryFlags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	return lookAt(os.NewFile(uintptr(fd), path))
}

// OpenBelow opens a directory beneath another without following any link.
func OpenBelow(dir *os.File, name string) (*Directory, error) {
	how := unix.OpenHow{Flags: directoryFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(int(dir.Fd()), name, &how)
	if err != nil {
		return nil, err
	}
	return lookAt(os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)))
}

// lookAt takes ownership of f.
func lookAt(f *os.File) (*Directory, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, fmt.Errorf("reading a directory: %w", err)
	}
	return &Directory{f, inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}, int(st.Uid), int(st.Gid)}, nil
}

// OpenWorkspace opens the root of a workspace without following any link.
func OpenWorkspace(root string) (*Directory, error) {
	if !filepath.IsAbs(root) || filepath.Clean(root) != root || root == "/" {
		return nil, reason.Errorf(reason.WorkspaceScope, "the root of the workspace is not a clean absolute path")
	}
	d, err := OpenDirectory(root)
	if sandbox.Passing(err) {
		return nil, fmt.Errorf("opening the root of the workspace: %w", err)
	}
	if err != nil {
		return nil, reason.Errorf(reason.WorkspaceScope, "the root of the workspace is missing, not a directory, or reached through a symbolic link").
			WithRemedy("Declare the workspace by its real path.")
	}
	return d, nil
}

// CheckCwd returns the cleaned working directory if it is a directory below the workspace that
// is reached without a link. The plan of the call has resolved all links, so a link in the path
// was created later.
func (d *Directory) CheckCwd(cwd string) (string, error) {
	cwd, err := command.CheckCwd(cwd)
	if err != nil {
		return "", err
	}
	how := unix.OpenHow{Flags: directoryFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(int(d.File.Fd()), cwd, &how)
	if errors.Is(err, unix.EACCES) {
		return "", reason.Errorf(reason.WorkspaceScope, "the working directory %q of the workspace cannot be opened: %w", cwd, err).
			WithRemedy("Give the user who runs the sandbox permission to read and enter it.")
	}
	if err != nil {
		return "", reason.Errorf(reason.WorkspaceScope, "the working directory %q is not a directory inside the workspace", cwd)
	}
	return cwd, unix.Close(fd)
}
