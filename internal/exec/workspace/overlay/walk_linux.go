package overlay

import (
	"context"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// Limits of the walk. They bound the number of open descriptors and keep every path within the
// length that programs can use.
const (
	maxDepth = 128
	maxPath  = 4095
	// maxText is the maximum total size of the paths and link targets of all changes, in bytes:
	// the daemon holds and records several escaped copies of them.
	maxText = 32 << 20
)

// Changes returns the differences between the layer and the workspace. A file with the same bytes
// and mode is unchanged, regardless of its times, owners and attributes. A new socket is no
// difference. Changes fails on unknown
// attributes of the overlay and if the limits of the layer are exceeded. The program must have
// ended.
func (l *Layer) Changes(ctx context.Context) (Set, error) {
	w := walker{config: l.config, since: l.since}
	err := control(l.lower, func(lower int) error {
		return control(l.upper, func(upper int) error { return w.run(ctx, lower, upper) })
	})
	if err != nil {
		return Set{}, failure("inspecting the changes in", l.config.Name, err)
	}
	slices.SortFunc(w.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	if len(w.changes) > 0 { // the git settings are read only if needed
		if err := l.classify(w.changes); err != nil {
			return Set{}, err
		}
	}
	set, err := NewSet(l.config.Name, w.changes)
	set.layer = l
	return set, err
}

// walker compares an upper layer with the workspace below it. Descriptors of the current
// directory are arguments; -1 means a missing directory.
type walker struct {
	config  Config
	since   unix.Timespec
	changes []Change
	entries int64
	bytes   int64
	text    int
	buffer  []byte
}

// dirPair is a directory on both sides.
type dirPair struct {
	path         string // "" is the workspace
	upper, lower int
	// merged is true if the overlay shows lower names that upper lacks.
	merged bool
	// whiteouts is true if the overlay marks deleted names of this directory by attributes of
	// empty files.
	whiteouts bool
	depth     int
	mode      uint32 // of the upper directory
}

func (w *walker) run(ctx context.Context, lower, upper int) error {
	low, err := open(lower, ".", readDir, 0)
	if err != nil {
		return err
	}
	defer unix.Close(low)
	up, restore, err := openUpper(upper, ".", readDir)
	if err != nil {
		return err
	}
	defer restore()
	was, err := fstat(low)
	if err != nil {
		return err
	}
	is, err := fstat(up)
	if err != nil {
		return err
	}
	if was.Mode&permissions != is.Mode&permissions {
		w.changes = append(w.changes, Change{Path: ".", Was: State{Type: Dir, Mode: fileMode(was.Mode)}, Is: State{Type: Dir, Mode: fileMode(is.Mode)}})
	}
	return w.dir(ctx, dirPair{upper: up, lower: low, merged: true, mode: is.Mode})
}

// dir compares the entries of one directory.
func (w *walker) dir(ctx context.Context, p dirPair) error {
	if p.depth > maxDepth {
		return tooMuch("%s is more than %d directories deep", quote(p.path), maxDepth)
	}
	opaque, err := dirMark(p.upper)
	if err != nil {
		return failure("reading", p.path, err)
	}
	// An opaque directory hides the lower entries.
	p.merged, p.whiteouts = p.merged && opaque != "y", opaque == "x"
	found, err := names(p.upper, int(w.config.MaxFiles)+1)
	if err != nil {
		return failure("listing", p.path, err)
	}
	for _, name := range found {
		if err := w.entry(ctx, p, name); err != nil {
			return err
		}
	}
	if p.merged || p.lower < 0 {
		return nil
	}
	return w.hidden(ctx, p, found)
}

// hidden reports entries of a workspace directory as deleted if the overlay does not show them.
func (w *walker) hidden(ctx context.Context, p dirPair, names []string) error {
	slices.Sort(names)
	below, err := listed(p.lower)
	if err != nil {
		return failure("listing", p.path, err)
	}
	for _, name := range below {
		if _, ok := slices.BinarySearch(names, name); ok {
			continue
		}
		if err := w.gone(ctx, p, name); err != nil {
			return err
		}
	}
	return nil
}

// entry compares one name of the upper layer.
func (w *walker) entry(ctx context.Context, p dirPair, name string) error {
	if err := w.count(ctx, p, name); err != nil {
		return err
	}
	c := Change{Path: join(p.path, name)}
	st, err := statAt(p.upper, name)
	if err != nil {
		return failure("inspecting", c.Path, err)
	}
	if ported, err := w.portGitLink(p, name, st); err != nil {
		return failure("porting", c.Path, err)
	} else if ported {
		if st, err = statAt(p.upper, name); err != nil {
			return failure("inspecting", c.Path, err)
		}
	}
	white, err := w.upper(ctx, p, name, st, &c.Is)
	if err != nil {
		return failure("reading", c.Path, err)
	}
	if white {
		return w.gone(ctx, p, name)
	}
	w.text += len(c.Is.Target)
	var was unix.Stat_t
	if c.Was, was, err = w.lower(ctx, p, name); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK && c.Was.Type == None {
		return nil // nothing listens on a new socket after the run
	}
	c.Classes = oddBits(st.Mode, p.mode, was.Mode)
	if c.Is != c.Was && shared(c.Path, was) {
		c.Classes = append(c.Classes, ClassHardLink)
	}
	if c.Is != c.Was || len(c.Classes) > 0 {
		w.changes = append(w.changes, c)
	}
	if c.Was.Type == Dir && c.Is.Type != Dir {
		return w.goneBelow(ctx, p, name)
	}
	if c.Is.Type == Dir {
		return w.descend(ctx, p, name, c.Was.Type == Dir)
	}
	return nil
}

// descend compares the content of a directory of the upper layer.
func (w *walker) descend(ctx context.Context, p dirPair, name string, both bool) error {
	next := dirPair{path: join(p.path, name), lower: -1, depth: p.depth + 1}
	up, restore, err := openUpper(p.upper, name, readDir)
	if err != nil {
		return failure("opening", next.path, err)
	}
	defer restore()
	st, err := fstat(up)
	if err != nil {
		return failure("opening", next.path, err)
	}
	next.upper, next.mode = up, st.Mode
	if both {
		low, err := open(p.lower, name, readDir, 0)
		if err != nil {
			return failure("opening", next.path, err)
		}
		defer unix.Close(low)
		next.lower, next.merged = low, p.merged
	}
	return w.dir(ctx, next)
}

// gone reports a name of the workspace and everything below it as deleted.
func (w *walker) gone(ctx context.Context, p dirPair, name string) error {
	was, _, err := w.lower(ctx, p, name)
	if err != nil || was.Type == None {
		return err
	}
	if err := w.count(ctx, p, name); err != nil {
		return err
	}
	c := Change{Path: join(p.path, name), Was: was}
	if was.Type == Special {
		c.Classes = []Class{ClassSpecial}
	}
	w.changes = append(w.changes, c)
	if was.Type == Dir {
		return w.goneBelow(ctx, p, name)
	}
	return nil
}

func (w *walker) goneBelow(ctx context.Context, p dirPair, name string) error {
	low, err := open(p.lower, name, readDir, 0)
	if err != nil {
		return failure("opening", join(p.path, name), err)
	}
	defer unix.Close(low)
	next := dirPair{path: join(p.path, name), upper: -1, lower: low, depth: p.depth + 1}
	if next.depth > maxDepth {
		return tooMuch("%s is more than %d directories deep", quote(next.path), maxDepth)
	}
	return w.hidden(ctx, next, nil)
}

// shared reports whether a file has other hard links. A commit replaces the file under this name
// only, which separates it from the others; the owner may not expect that. Git objects do not
// count: local clones share them, and git never changes them.
func shared(name string, st unix.Stat_t) bool {
	return typeOf(st.Mode) == File && st.Nlink > 1 && !strings.Contains("/"+name, "/.git/objects/")
}

// lower returns the state of a name in the workspace; the zero State means that it does not
// exist.
func (w *walker) lower(ctx context.Context, p dirPair, name string) (State, unix.Stat_t, error) {
	if p.lower < 0 {
		return State{}, unix.Stat_t{}, nil
	}
	st, err := statAt(p.lower, name)
	if missing(err) {
		return State{}, unix.Stat_t{}, nil
	}
	if err == nil && typeOf(st.Mode) != Dir && after(st.Ctim, w.since) {
		return State{}, st, reason.Errorf(reason.CommitConflict, "%s was changed in the workspace while the program ran", quote(join(p.path, name))).
			WithField("path", Display(join(p.path, name)))
	}
	var state State
	if err == nil {
		state, err = w.look(ctx, p.lower, name, st)
	}
	return state, st, failure("reading", join(p.path, name), err)
}

// after reports whether a is later than b. Directories are not compared, because they change with
// every name in them.
func after(a, b unix.Timespec) bool {
	return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec
}

// upper returns the state of a name in the layer. It reports a whiteout, which marks a deleted
// name.
func (w *walker) upper(ctx context.Context, p dirPair, name string, st unix.Stat_t, state *State) (white bool, err error) {
	if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 {
		return true, nil
	}
	if typeOf(st.Mode) != File {
		*state, err = w.look(ctx, p.upper, name, st)
		return false, err
	}
	if w.bytes += st.Size; w.bytes > w.config.MaxBytes {
		return false, tooMuch("their files have more than %d bytes", w.config.MaxBytes)
	}
	fd, restore, err := openUpper(p.upper, name, readFile)
	if err != nil {
		return false, err
	}
	defer restore()
	if white, err = fileMarks(fd); err != nil || white {
		if err == nil && (st.Size != 0 || !p.whiteouts) {
			err = unknownMark("user.overlay.whiteout")
		}
		return white, err
	}
	*state, err = w.file(ctx, fd, st)
	return false, err
}

// look returns the state of one name in an open directory.
func (w *walker) look(ctx context.Context, dir int, name string, st unix.Stat_t) (State, error) {
	switch typeOf(st.Mode) {
	case File:
		fd, err := open(dir, name, readFile, 0)
		if err != nil {
			return State{}, err
		}
		defer unix.Close(fd)
		return w.file(ctx, fd, st)
	case Symlink:
		return link(dir, name)
	case Special:
		return State{Type: Special, Mode: fileMode(st.Mode)}, nil
	}
	return State{Type: Dir, Mode: fileMode(st.Mode)}, nil
}

// file digests an open file, and verifies that it is the file of st and was not written in the
// meantime. The mode is copied from st, because the file's own mode may be widened while it is
// open.
func (w *walker) file(ctx context.Context, fd int, st unix.Stat_t) (State, error) {
	before, err := fstat(fd)
	if err != nil {
		return State{}, err
	}
	if w.buffer == nil {
		w.buffer = make([]byte, bufferSize)
	}
	sum, size, err := digest(ctx, reader(fd), w.buffer, io.Discard)
	if err != nil {
		return State{}, err
	}
	after, err := fstat(fd)
	if err != nil {
		return State{}, err
	}
	if before.Ino != st.Ino || before.Dev != st.Dev || !unchanged(before, after) || size != st.Size {
		return State{}, reason.Errorf(reason.CommitConflict, "it changed while it was read")
	}
	return State{Type: File, Mode: fileMode(st.Mode), Size: size, SHA256: sum}, nil
}

// count limits the number of entries and the length of paths.
func (w *walker) count(ctx context.Context, p dirPair, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.entries++; w.entries > w.config.MaxFiles {
		return tooMuch("they include more than %d files and directories", w.config.MaxFiles)
	}
	if len(p.path)+1+len(name) > maxPath {
		return tooMuch("a path has more than %d bytes", maxPath)
	}
	if w.text += len(p.path) + 1 + len(name); w.text > maxText {
		return tooMuch("their paths have more than %d bytes in all", maxText)
	}
	return nil
}

func tooMuch(format string, args ...any) error {
	return reason.Errorf(reason.QuotaExceeded, "the changes of the program cannot be committed: "+format, args...).
		WithRemedy("Make the program write less, or to /tmp.")
}

// oddBits returns ClassSpecial for special files, and ClassMode for set-ID and sticky bits. A
// directory may keep its previous bits, and the set-group-ID bit that it inherits from its parent.
func oddBits(mode, parent, was uint32) []Class {
	if typeOf(was) == Special {
		return []Class{ClassSpecial}
	}
	had := uint32(0)
	switch typeOf(mode) {
	case Special:
		return []Class{ClassSpecial}
	case Dir:
		had = parent & unix.S_ISGID
		if typeOf(was) == Dir {
			had |= was
		}
	}
	if mode&extraBits&^had == 0 {
		return nil
	}
	return []Class{ClassMode}
}

// listed reads all names of a directory, sorted.
func listed(dir int) ([]string, error) {
	found, err := names(dir, int(^uint(0)>>1))
	slices.Sort(found)
	return found, err
}
