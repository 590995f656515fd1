package workspace

import (
	"context"
	"os"

	"palyra/internal/core/reason"
)

// Identity says which file an entry is, and in which state.
type Identity struct {
	Device, Inode uint64
	// ChangedAt is st_ctim in nanoseconds: content, names, owner or mode changed
	// then. 0 where the platform does not say.
	ChangedAt int64
}

// Info describes it as it was when it was opened.
func (h *Handle) Info() Info { return h.info }

// Read reads at most limit bytes from offset and digests the whole file. A
// negative limit means all. It reads regular files of at most MaxFile bytes.
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

// stood refuses content that was never at the path that was judged: somebody moved
// the file away, and then wrote to it. Example: a.txt is opened, is renamed to
// private/a.txt, gets a secret, and is read. A file that was only renamed or
// deleted is fine, since its content is what it was, and so is one that was written
// to at its path.
func (h *Handle) stood(file *os.File) error {
	now, err := file.Stat()
	if err != nil || now.Size() == h.info.Size && now.ModTime().Equal(h.info.ModTime) || h.stands(now) {
		return err
	}
	return reason.Errorf(reason.BindingMismatch, "%s was moved away and changed while it was read", quote(h.info.Path)).
		WithRemedy("Propose the call again.")
}

// readable refuses what is not a regular file of at most MaxFile bytes.
func (i Info) readable() error {
	switch {
	case i.Kind != File:
		return notRegular(i.Path, i.Kind)
	case i.Size > MaxFile:
		return tooLarge(i.Size)
	}
	return nil
}
