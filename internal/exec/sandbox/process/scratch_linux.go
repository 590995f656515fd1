package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"palyra/internal/exec/sandbox/origin"
	"palyra/internal/exec/workspace/overlay"
)

// scratchPrefix is the name prefix of a run's directory; an origin.Mark, "-" and a unique part
// follow.
const scratchPrefix = "palyra-run-"

// makeScratch creates the directories of a run without separate mounts. They are in the
// directory for temporary files, because other users cannot enter the daemon's own directories.
func (d *draft) makeScratch() error {
	root, err := os.MkdirTemp("", scratchPrefix+origin.Mark()+"-")
	if err != nil {
		return fmt.Errorf("creating the directory of a run: %w", err)
	}
	d.scratch = root
	d.home, d.tmp = filepath.Join(root, "home"), filepath.Join(root, "tmp")
	for _, dir := range []string{d.home, d.tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("creating the directory of a run: %w", err)
		}
	}
	if !d.runner.machine.Root() {
		return nil
	}
	for _, dir := range []string{root, d.home, d.tmp} {
		if err := os.Chown(dir, d.plan.User.UID, d.plan.User.GID); err != nil {
			return fmt.Errorf("creating the directory of a run: %w", err)
		}
	}
	return nil
}

// makeGitConfig writes git's configuration next to the directories of the program, which may read
// it.
func (d *draft) makeGitConfig() error {
	content := d.spec.GitConfig()
	if content == "" {
		return nil
	}
	d.gitConfig = filepath.Join(d.scratch, "gitconfig")
	if err := os.WriteFile(d.gitConfig, []byte(content), 0o444); err != nil { //nolint:gosec // another user reads it
		return fmt.Errorf("writing git's configuration of a run: %w", err)
	}
	return nil
}

// clean removes the directories of the run.
func (d *draft) clean() error {
	if d.scratch == "" {
		return nil
	}
	return removeScratch(filepath.Dir(d.scratch), filepath.Base(d.scratch))
}

func removeScratch(parent, name string) error {
	dir, err := os.Open(parent)
	if err != nil {
		return fmt.Errorf("removing the directory of a run: %w", err)
	}
	defer dir.Close()
	return overlay.RemoveTree(dir, name)
}

// sweepScratch removes the directories of killed daemons; those of other users only if palyrad is
// root.
func sweepScratch() error {
	parent := os.TempDir()
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("sweeping the directories of runs: %w", err)
	}
	var failed error
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), scratchPrefix)
		end := strings.LastIndexByte(rest, '-')
		if ok && end > 0 && e.IsDir() && origin.Orphaned(rest[:end]) && mayRemove(e, os.Geteuid()) {
			failed = errors.Join(failed, removeScratch(parent, e.Name()))
		}
	}
	return failed
}

// mayRemove reports whether palyrad with that effective user id removes a directory.
func mayRemove(e os.DirEntry, user int) bool {
	info, err := e.Info()
	if err != nil {
		return false // it was removed meanwhile
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (user == 0 || int(st.Uid) == user)
}
