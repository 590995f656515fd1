//go:build !linux

package workspace

import (
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// Handle is a file or directory of a workspace: what is judged and what is read are
// the same file, even when another one gets its name in between. It is safe for
// concurrent use.
type Handle struct {
	root  *Root
	found os.FileInfo
	info  Info
}

// Open looks at what name leads to, following links that stay inside. There is no
// O_PATH here, so the file is opened only when it is read, and reading fails unless
// it is still the same file.
func (r *Root) Open(name string) (*Handle, error) {
	real, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	found, err := r.dir.Lstat(filepath.FromSlash(real))
	if err != nil {
		return nil, failure("looking at", name, err)
	}
	return &Handle{root: r, found: found, info: infoOf(real, found)}, nil
}

// stands reports whether a file is the one that has the path.
func (h *Handle) stands(file os.FileInfo) bool {
	there, err := h.root.dir.Lstat(filepath.FromSlash(h.info.Path))
	return err == nil && os.SameFile(there, file)
}

// Close lets go of it.
func (*Handle) Close() error { return nil }

// open opens the file for reading when it is still the same.
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
		err = reason.Errorf(reason.BindingMismatch, "%s was replaced while the call began", quote(h.info.Path))
	}
	if err != nil {
		file.Close()
		return nil, Info{}, failure("opening", h.info.Path, err)
	}
	return file, infoOf(h.info.Path, now), nil
}
