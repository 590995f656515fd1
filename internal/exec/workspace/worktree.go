package workspace

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// mostGitFile is the maximum size of the files in which git writes the path of a directory.
const mostGitFile = 4 << 10

// Worktree maps an absolute path without links inside a linked worktree (git-worktree(1)) to
// the main repository. It returns the workspace that contains the corresponding path there, and
// that path relative to the workspace; "" for none. The worktree and its repository must name
// each other: a one-sided reference does not count.
func (s *Set) Worktree(real string) (workspace, rel string) {
	for dir := real; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		dotGit := filepath.Join(dir, ".git")
		info, err := os.Lstat(dotGit)
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() {
			return "", ""
		}
		project := projectOf(dotGit)
		if project == "" {
			return "", ""
		}
		inside, err := filepath.Rel(dir, real)
		if err != nil {
			return "", ""
		}
		workspace, rel, _, err = s.Containing(filepath.Join(project, inside))
		if err != nil || workspace == "" {
			return "", ""
		}
		return workspace, rel
	}
	return "", ""
}

// Repository returns the git directory of the main repository if the workspace at root is a
// linked worktree. workspace contains this directory, and rel is its path there. All results
// are "" if root is not a linked worktree, or if no other workspace contains the git directory.
func (s *Set) Repository(root string) (dir, workspace, rel string) {
	project := projectOf(filepath.Join(root, ".git"))
	if project == "" {
		return "", "", ""
	}
	dir = filepath.Join(project, ".git")
	workspace, rel, _, err := s.Containing(dir)
	if err != nil || workspace == "" || s.byName[workspace].Path == root {
		return "", "", ""
	}
	return dir, workspace, rel
}

// HasWorktrees reports whether git, started in a directory below root, works in a linked
// worktree or in a repository with linked worktrees. Git files there contain absolute paths of
// this machine.
func HasWorktrees(root, cwd string) bool {
	for dir := filepath.Join(root, cwd); ; dir = filepath.Dir(dir) {
		dotGit := filepath.Join(dir, ".git")
		info, err := os.Lstat(dotGit)
		switch {
		case err == nil && info.Mode().IsRegular():
			named, is := strings.CutPrefix(oneLine(dotGit), "gitdir: ")
			return is && filepath.Base(filepath.Dir(named)) == "worktrees"
		case err == nil:
			info, err = os.Lstat(filepath.Join(dotGit, "worktrees"))
			return err == nil && info.IsDir()
		case dir == root || len(dir) < len(root):
			return false
		}
	}
}

// projectOf returns the directory of the repository that a worktree's .git file names, if the
// repository names this file in turn; "" for none.
func projectOf(dotGit string) string {
	named, is := strings.CutPrefix(oneLine(dotGit), "gitdir: ")
	if !is {
		return ""
	}
	if !filepath.IsAbs(named) {
		named = filepath.Join(filepath.Dir(dotGit), named)
	}
	admin, err := filepath.EvalSymlinks(named)
	if err != nil {
		return ""
	}
	back := oneLine(filepath.Join(admin, "gitdir"))
	if !filepath.IsAbs(back) {
		back = filepath.Join(admin, back)
	}
	if real, err := filepath.EvalSymlinks(back); err != nil || real != dotGit {
		return ""
	}
	worktrees := filepath.Dir(admin)
	if git := filepath.Dir(worktrees); filepath.Base(worktrees) == "worktrees" && filepath.Base(git) == ".git" {
		return filepath.Dir(git)
	}
	return ""
}

// oneLine returns the content of a small regular file, "" for anything else.
func oneLine(name string) string {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > mostGitFile {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(file, mostGitFile))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\r\n")
}
