package overlay

import (
	"errors"
	"io"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mostGitLink is the maximum size of the files by which git links a worktree and its repository.
const mostGitLink = 4 << 10

// portGitLink rewrites a file of the layer in which git names a workspace directory by its
// sandbox path, so that git finds the directory outside of the sandbox as well. Such files are
// the .git of a linked worktree (git-worktree(1)) or of a separate git directory, and the
// gitdir of a worktree in its repository. The change set is computed from the new bytes, so
// approvals, policy and attestations refer to the committed content. A file with any other
// content, or with additional hard links, is not changed.
func (w *walker) portGitLink(p dirPair, name string, st unix.Stat_t) (changed bool, err error) {
	if w.config.Mount == "" || name != ".git" && name != "gitdir" || typeOf(st.Mode) != File || st.Nlink != 1 || st.Size > mostGitLink {
		return false, nil
	}
	fd, err := open(p.upper, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	text, err := io.ReadAll(reader(fd))
	if err != nil {
		return false, err
	}
	ported, is := w.config.ported(join(p.path, name), string(text))
	if !is {
		return false, nil
	}
	if err := unix.Ftruncate(fd, 0); err != nil {
		return false, err
	}
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return false, err
	}
	_, err = writer(fd).Write([]byte(ported))
	return true, err
}

// ported returns the content of a git file that names a path below Mount, for use outside of the
// sandbox. A .git gets a relative path, which git follows in every version and in the sandbox as
// well. A gitdir gets the path on the machine, because git reads relative paths there only since
// version 2.48.
func (c Config) ported(name, text string) (string, bool) {
	line, whole := strings.CutSuffix(text, "\n")
	line, link := strings.CutPrefix(line, "gitdir: ")
	within, below := strings.CutPrefix(line, c.Mount+"/")
	if !whole || !below || !filepath.IsLocal(within) || path.Clean(within) != within || strings.ContainsAny(within, "\n\x00") {
		return "", false
	}
	dir, base := split(name)
	switch {
	case base == ".git" && link:
		relative, err := filepath.Rel("/"+dir, "/"+within)
		return "gitdir: " + relative + "\n", err == nil
	case base == "gitdir" && !link && path.Base(path.Dir(dir)) == "worktrees" && path.Base(within) == ".git":
		return filepath.Join(c.Root, within) + "\n", true
	}
	return "", false
}
