//go:build !linux

package workspace

import (
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// Handle is a file or directory of a workspace. The checked file and the read file are the same,
// even if another file gets its name in between. It is safe for concurrent use.
type Handle struct {
	root  *Root
	found os.FileInfo
	info  Info
}

// Open resolves name, following links that stay inside the workspace. Without O_PATH the file is
// opened only for reading, and reading fails if it is not the same file by then.
func (r *Root) Open(name string) (*Handle, error) {
	real, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	found, err := r.dir.Lstat(filepath.FromSlash(real))
	if err != nil {
		return nil, failure("inspecting", name, err)
	}
	return &Handle{root: r, found: found, info: infoOf(real, found)}, nil
}

// stands reports whether the path still leads to this file.
func (h *Handle) stands(file os.FileInfo) bool {
	there, err := h.root.dir.Lstat(filepath.FromSlash(h.info.Path))
	return err == nil && os.SameFile(there, file)
}

// Close releases the file.
func (*Handle) Close() error { return nil }

// open opens the file for reading if it is still the same file.
func (h *Handle) open() (*os.File, Info, error) {
	if err := h.info.readable(); err != nil {
		return nil, Info{}, err
	}
	file, err := h.root.dir.Open(filepath.FromSlash(h.info.Path))
	if err != nil {
		return nil, Info{}, failure("opening", h.info.Path, err)
	}
	now, err := file.Stat()
	if err == nil && !os.SameFile(now, h.found) {
		err = reason.Errorf(reason.BindingMismatch, "%s was replaced after the call began", quote(h.info.Path))
	}
	if err != nil {
		file.Close()
		return nil, Info{}, failure("opening", h.info.Path, err)
	}
	return file, infoOf(h.info.Path, now), nil
}
