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

// MaxFile is the maximum size of a file that is read or written: 64 MiB.
const MaxFile = 64 << 20

// maxEntries is the maximum number of names read from one directory.
const maxEntries = 100_000

// Root is one open workspace. It is safe for concurrent use.
type Root struct {
	declaration Declaration
	dir         directory
}

func openRoot(d Declaration) (*Root, error) {
	dir, err := openDirectory(d)
	if err != nil {
		return nil, err
	}
	return &Root{declaration: d, dir: dir}, nil
}

// Close releases the workspace.
func (r *Root) Close() error { return r.dir.Close() }

// Kind is the kind of a directory entry.
type Kind string

// The kinds.
const (
	File    Kind = "file"
	Dir     Kind = "dir"
	Symlink Kind = "symlink"
	// Other is a device, FIFO or socket; no tool accesses it.
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
	// Links is the number of hard links of a file, 0 on platforms that do not report it.
	Links uint64
	// Identity is zero on platforms that do not report it.
	Identity Identity
}

// Name returns the last element of the path.
func (i Info) Name() string { return path.Base(i.Path) }

// Stat describes the file that name leads to.
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

// ReadOnly reports whether the workspace is read-only.
func (r *Root) ReadOnly() bool { return r.declaration.ReadOnly }

// Content is the result of ReadFile.
type Content struct {
	Info Info
	// Data is the requested part.
	Data []byte
	// SHA256 is "sha256:<hex>" over the whole file.
	SHA256 string
}

// ReadFile reads at most limit bytes from offset and computes the digest of the whole file. A
// negative limit means no limit. Only regular files of at most MaxFile bytes can be read; others
// are refused before they are opened, so a FIFO does not block.
func (r *Root) ReadFile(ctx context.Context, name string, offset, limit int64) (Content, error) {
	h, err := r.Open(name)
	if err != nil {
		return Content{}, err
	}
	defer h.Close()
	return h.Read(ctx, offset, limit)
}

// readPart reads a stream to its end in one pass, keeps the part and digests everything.
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

// appendPart appends the bytes of chunk that are in [offset, offset+limit); chunk begins at byte
// at.
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
	return reason.Errorf(reason.InputTooLarge, "file has %d bytes or more, but at most %d are allowed", size, int64(MaxFile)).
		WithRemedy("Read it in parts with a program such as head, tail or sed.")
}

// ErrSkipDir makes Walk skip a directory.
var ErrSkipDir = errors.New("skip this directory")

// ErrStop makes Walk end without an error.
var ErrStop = errors.New("stop walking")

// Walk visits everything below name, sorted by name, parents before children, and does not
// follow symbolic links. A directory that cannot be read is visited, and its entries are
// skipped. name must be resolved, like Info.Path. If the path now contains a link, Walk fails,
// because it no longer leads to the checked directory.
func (r *Root) Walk(ctx context.Context, name string, visit func(Info) error) error {
	real, err := r.Resolve(name)
	if err != nil {
		return err
	}
	if real != path.Clean(name) {
		return reason.Errorf(reason.WorkspaceScope, "%s became a symbolic link during the call", quote(name)).
			WithRemedy("Name the target directory, and call again.")
	}
	err = r.walk(ctx, real, 0, visit)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// maxWalkDepth limits the recursion; deeper entries are skipped.
const maxWalkDepth = 128

func (r *Root) walk(ctx context.Context, dir string, depth int, visit func(Info) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := r.dir.list(dir)
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

// ReadDir lists a directory, sorted by name.
func (r *Root) ReadDir(name string) ([]Info, error) {
	real, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	return r.dir.list(real)
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

// failure maps an error of the file system to a reason and removes the absolute path from the
// message.
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
		WithRemedy("Check the permissions of the file and the disk.")
}
