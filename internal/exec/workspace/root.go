package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/reason"
)

// MaxFile is the largest file in bytes that is read or written: 64 MiB.
const MaxFile = 64 << 20

// maxEntries is the most names that are read of one directory.
const maxEntries = 100_000

// Kind is the sort of a directory entry.
type Kind string

// The kinds.
const (
	File    Kind = "file"
	Dir     Kind = "dir"
	Symlink Kind = "symlink"
	// Other is a device, FIFO or socket; no tool touches it.
	Other Kind = "other"
)

// Info describes one entry.
type Info struct {
	// Path is relative to the workspace, with forward slashes.
	Path    string
	Kind    Kind
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
	// Links is the number of hard links of a file, 0 where the platform does
	// not say.
	Links uint64
	// Identity is zero where the platform does not say.
	Identity Identity
}

// Name returns the last element of the path.
func (i Info) Name() string { return path.Base(i.Path) }

// Stat describes what name leads to.
func (r *Root) Stat(name string) (Info, error) {
	h, err := r.Open(name)
	if err != nil {
		return Info{}, err
	}
	return h.Info(), h.Close()
}

// Name returns the declared name of the workspace.
func (r *Root) Name() string { return r.declaration.Name }

// Path returns the canonical absolute path of the workspace.
func (r *Root) Path() string { return r.declaration.Path }

// ReadOnly reports whether the workspace may not be written.
func (r *Root) ReadOnly() bool { return r.declaration.ReadOnly }

// Content is what ReadFile returns.
type Content struct {
	Info Info
	// Data is the requested part.
	Data []byte
	// SHA256 is "sha256:<hex>" over the whole file.
	SHA256 string
}

// ReadFile reads at most limit bytes from offset and digests the whole file.
// A negative limit means all. It reads regular files of at most MaxFile bytes;
// others are refused before they are opened, so a FIFO does not block.
func (r *Root) ReadFile(ctx context.Context, name string, offset, limit int64) (Content, error) {
	h, err := r.Open(name)
	if err != nil {
		return Content{}, err
	}
	defer h.Close()
	return h.Read(ctx, offset, limit)
}

// readPart reads a stream to its end in one pass, keeps the part and digests
// everything.
func readPart(ctx context.Context, file io.Reader, offset, limit int64) ([]byte, string, error) {
	if limit < 0 {
		limit = MaxFile
	}
	digest := sha256.New()
	var kept []byte
	var at int64
	buffer := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		n, err := file.Read(buffer)
		digest.Write(buffer[:n])
		kept = appendPart(kept, buffer[:n], at, offset, limit)
		at += int64(n)
		if at > MaxFile {
			return nil, "", tooLarge(at)
		}
		if errors.Is(err, io.EOF) {
			return kept, "sha256:" + hex.EncodeToString(digest.Sum(nil)), nil
		}
		if err != nil {
			return nil, "", err
		}
	}
}

// appendPart adds to kept what of chunk, which begins at byte at, lies in
// [offset, offset+limit).
func appendPart(kept, chunk []byte, at, offset, limit int64) []byte {
	from := max(offset-at, 0)
	if from >= int64(len(chunk)) {
		return kept
	}
	part := chunk[from:]
	if left := limit - int64(len(kept)); int64(len(part)) > left {
		part = part[:max(left, 0)]
	}
	return append(kept, part...)
}

func tooLarge(size int64) error {
	return reason.Errorf(reason.InputTooLarge, "file has %d bytes or more, at most %d are allowed", size, int64(MaxFile)).
		WithRemedy("Read it in parts with a program such as head, tail or sed.")
}

// ErrSkipDir tells Walk to leave a directory out.
var ErrSkipDir = errors.New("skip this directory")

// ErrStop tells Walk to end without an error.
var ErrStop = errors.New("stop walking")

// Walk visits everything below name in the order of names, parents before children,
// and does not follow symbolic links. A directory that cannot be read is visited,
// and its entries are left out. name must be resolved, as Info.Path is: if there is
// a link in it by now, Walk fails, since that is not the directory that was judged.
func (r *Root) Walk(ctx context.Context, name string, visit func(Info) error) error {
	real, err := r.Resolve(name)
	if err != nil {
		return err
	}
	if real != path.Clean(name) {
		return reason.Errorf(reason.WorkspaceScope, "%s became a link while it was looked at", quote(name)).
			WithRemedy("Name the directory that you mean, and call again.")
	}
	err = r.walk(ctx, real, 0, visit)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// maxWalkDepth bounds the recursion, not the tree: what is deeper is left out.
const maxWalkDepth = 128

func (r *Root) walk(ctx context.Context, dir string, depth int, visit func(Info) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := r.readDir(dir)
	if err != nil && depth == 0 {
		return err
	}
	for _, entry := range entries {
		err := visit(entry)
		if errors.Is(err, ErrSkipDir) {
			continue
		}
		if err != nil {
			return err
		}
		if entry.Kind == Dir && depth < maxWalkDepth {
			if err := r.walk(ctx, entry.Path, depth+1, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadDir lists a directory in the order of names.
func (r *Root) ReadDir(name string) ([]Info, error) {
	real, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	return r.readDir(real)
}

func sortEntries(entries []Info) {
	slices.SortFunc(entries, func(a, b Info) int { return strings.Compare(a.Path, b.Path) })
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

func notRegular(name string, kind Kind) error {
	e := reason.Errorf(reason.ToolFailed, "%s is not a regular file (%s)", quote(name), kind)
	if kind == Dir {
		return e.WithRemedy("List the directory with fs.list.")
	}
	return e.WithRemedy("Name a regular file.")
}

// failure gives an error of the file system its reason and leaves the absolute
// path out of the message.
func failure(doing, name string, err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return err
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return reason.Errorf(reason.TimedOut, "%s %s: %w", doing, quote(name), err)
	case errors.Is(err, context.Canceled):
		return reason.Errorf(reason.Cancelled, "%s %s: %w", doing, quote(name), err)
	case escapes(err):
		return reason.Errorf(reason.WorkspaceScope, "%s leaves the workspace", quote(name))
	case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		return reason.Errorf(reason.FileNotFound, "%s does not exist", quote(name))
	}
	return reason.Errorf(reason.ToolFailed, "%s %s: %w", doing, quote(name), err).
		WithRemedy("Look at the file's permissions and the disk.")
}
