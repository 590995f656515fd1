package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/origin"
)

// sweepTree removes the tree of plant and checks the remaining files.
func sweepTree(dir string) error {
	if err := Sweep(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, swept)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the tree is still there: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "outside", canary))
	if err != nil || string(text) != canary {
		return fmt.Errorf("what the tree linked to is %q, %w", text, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		return fmt.Errorf("beside the tree there is %v, %w", entries, err)
	}
	return nil
}

func TestSweepHostileTree(t *testing.T) {
	t.Parallel()
	t.Run("as this user", func(t *testing.T) {
		dir := t.TempDir()
		must.Do(t, plant(dir))
		must.Check(t, sweepTree(dir))
	})
	t.Run("as an ordinary user", func(t *testing.T) { ordinary(t, "hostile") })
}

// mountScene has a mount in the tree. The mount and the files below it must stay.
func mountScene(dir string) error {
	point := filepath.Join(dir, swept, "a", "point")
	if err := os.MkdirAll(point, 0o700); err != nil {
		return err
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", point, "tmpfs", 0, ""),
		os.WriteFile(filepath.Join(point, canary), nil, 0o600)); err != nil {
		return err
	}
	if err := seesNoMount(dir); err != nil {
		return err
	}
	if err := Sweep(dir); err == nil {
		return errors.New("a tree with a mount in it is taken to be removed")
	}
	if _, err := os.Stat(filepath.Join(point, canary)); err != nil {
		return fmt.Errorf("the sweep went into another file system: %w", err)
	}
	return unix.Unmount(point, unix.MNT_DETACH)
}

// seesNoMount verifies that a tree with a mount is reported as hidden, and measured without it.
func seesNoMount(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	used, err := measure(context.Background(), int(f.Fd()), noLimit)
	if !errors.Is(err, errHidden) || used.files != 3 { // the tree, a and point
		return fmt.Errorf("the walk saw %+v, %w", used, err)
	}
	return nil
}

func TestSweepStaysOnItsFileSystem(t *testing.T) {
	t.Parallel()
	sys := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		sys.Cloneflags |= syscall.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	play(t, "mount", t.TempDir(), sys)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stay := []string{origin.Mark(), origin.Mark() + "-12", "other", "1-x", "palyra-4194305-1", "4194305"}
	for _, name := range append([]string{"4194305-1", "4194306-77-x-y", strconv.Itoa(os.Getpid()) + "-1"}, stay...) {
		must.Do(t, os.MkdirAll(filepath.Join(dir, name, "layer", "upper"), 0o700))
	}
	must.Do(t, os.Symlink(filepath.Join(dir, "other"), filepath.Join(dir, "4194305-2")))
	must.Do(t, Sweep(dir))
	entries := must.Get(os.ReadDir(dir))(t)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(stay)
	if !slices.Equal(left, stay) {
		t.Errorf("left: %v, want %v", left, stay)
	}
	if _, err := os.Stat(filepath.Join(dir, "other", "layer", "upper")); err != nil {
		t.Error(err)
	}
	if Sweep(filepath.Join(dir, "none")) == nil {
		t.Error("a directory that is not there is swept")
	}
}

// TestSweepUnheld: in a shared directory only the directories of dead processes of this user are
// removed, and none that a process holds, which may be in another PID namespace. Directories of
// people, with any name, stay.
func TestSweepUnheld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const dead = sharedPrefix + "999999999-1"
	in := func(name string) string { return filepath.Join(dir, name) }
	kept := []string{
		"other", "999999999-1", "999999999-1-2", "20261130-104500", "20261130-104500-backup", "2026-11-30", "palyra-tmp-backup",
		dead, dead + "-", dead + "-2-3", dead + "-2-backup", dead + "-backup", "x" + dead + "-2",
	}
	alive := sharedPrefix + origin.Mark() + "-1"
	for _, name := range append(kept, dead+"-1", dead+"-2", dead+"-3", alive) {
		must.Do(t, os.Mkdir(in(name), 0o700))
	}
	must.Do(t, os.WriteFile(in(dead+"-4"), nil, 0o600))
	must.Do(t, os.Symlink("other", in(dead+"-5")))
	kept = append(kept, dead+"-2", dead+"-4", dead+"-5", alive)
	held := must.Get(Hold(in(dead + "-2")))(t)
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(in(dead+"-3"), 31337, 31337))
		kept = append(kept, dead+"-3")
	}
	left := func() []string {
		t.Helper()
		must.Check(t, SweepUnheld(dir))
		var names []string
		for _, entry := range must.Get(os.ReadDir(dir))(t) {
			names = append(names, entry.Name())
		}
		return names
	}
	slices.Sort(kept)
	if got := left(); !slices.Equal(got, kept) {
		t.Errorf("left %q, want %q", got, kept)
	}
	must.Do(t, held.Close()) // control
	if slices.Contains(left(), dead+"-2") {
		t.Error("a directory that is not held any more was kept")
	}
}
