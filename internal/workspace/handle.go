package workspace

import "context"

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
	if err != nil {
		return Content{}, failure("reading", info.Path, err)
	}
	return c, nil
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
