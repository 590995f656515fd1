package workspace

import (
	"context"
	"os"

	"palyra/internal/core/reason"
)

// Identity identifies a file and its state.
type Identity struct {
	Device, Inode uint64
	// ChangedAt is st_ctim in nanoseconds, the time of the last change of content, names, owner
	// or mode. It is 0 on platforms that do not report it.
	ChangedAt int64
}

// Info returns the state of the file when it was opened.
func (h *Handle) Info() Info { return h.info }

// Read reads at most limit bytes from offset and computes the digest of the whole file. A
// negative limit means no limit. Only regular files of at most MaxFile bytes can be read.
func (h *Handle) Read(ctx context.Context, offset, limit int64) (Content, error) {
	file, info, err := h.open()
	if err != nil {
		return Content{}, err
	}
	defer file.Close()
	c := Content{Info: info}
	c.Data, c.SHA256, err = readPart(ctx, file, offset, limit)
	if err == nil {
		err = h.stood(file)
	}
	if err != nil {
		return Content{}, failure("reading", info.Path, err)
	}
	return c, nil
}

// stood refuses content that was never at the checked path: the file was moved away and then
// written. Example: a.txt is opened, is renamed to private/a.txt, gets a secret, and is read. A
// file that was only renamed or deleted is accepted, because its content is unchanged, and so is
// a file that was written at its path.
func (h *Handle) stood(file *os.File) error {
	now, err := file.Stat()
	if err != nil || now.Size() == h.info.Size && now.ModTime().Equal(h.info.ModTime) || h.stands(now) {
		return err
	}
	return reason.Errorf(reason.BindingMismatch, "%s was moved and changed while it was read", quote(h.info.Path)).
		WithRemedy("Propose the call again.")
}

// readable refuses entries that are not regular files of at most MaxFile bytes.
func (i Info) readable() error {
	switch {
	case i.Kind != File:
		return notRegular(i.Path, i.Kind)
	case i.Size > MaxFile:
		return tooLarge(i.Size)
	}
	return nil
}
