package disk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/workspace/overlay"
)

var noLimit = usage{math.MaxInt64, math.MaxInt64}

func measured(t *testing.T, dir string, limit usage) usage {
	t.Helper()
	return must.Get(measure(t.Context(), int(openTest(t, dir).Fd()), limit))(t)
}

func write(t *testing.T, name string, size int) {
	t.Helper()
	must.Do(t, os.WriteFile(name, make([]byte, size), 0o600))
	// Some file systems count blocks only after they are written.
	f := must.Get(os.Open(name))(t)
	defer f.Close()
	must.Do(t, f.Sync())
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	dir, large := t.TempDir(), t.TempDir()
	write(t, filepath.Join(large, "file"), 3*mib)
	for _, c := range []struct {
		name  string
		make  func(path string) error
		bytes int64 // lower limit; the upper one is 2 MiB higher
		files int64
	}{
		{"file", func(p string) error { write(t, p, 3*mib); return nil }, 3 * mib, 1},
		{"sparse", func(p string) error { write(t, p, 0); return os.Truncate(p, 1<<40) }, 0, 1},
		{"second name", func(p string) error { return os.Link(filepath.Join(dir, "file"), p) }, 0, 1},
		{"link to a large tree", func(p string) error { return os.Symlink(large, p) }, 0, 1},
		{"whiteout", func(p string) error { return unix.Mknod(p, unix.S_IFCHR, 0) }, 0, 1},
		{"fifo", func(p string) error { return unix.Mkfifo(p, 0o600) }, 0, 1},
		{"wide", func(p string) error {
			for i := range 300 {
				if err := os.MkdirAll(filepath.Join(p, fmt.Sprint(i%30), fmt.Sprint(i)), 0o700); err != nil {
					return err
				}
			}
			return nil
		}, 0, 331},
	} {
		before := measured(t, dir, noLimit)
		if err := c.make(filepath.Join(dir, c.name)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		after := measured(t, dir, noLimit)
		if files := after.files - before.files; files != c.files {
			t.Errorf("%s: %d files, want %d", c.name, files, c.files)
		}
		// Each directory may take a block or more.
		if bytes := after.bytes - before.bytes; bytes < c.bytes || bytes > c.bytes+2*mib {
			t.Errorf("%s: %d bytes, want %d", c.name, bytes, c.bytes)
		}
	}
}

func TestMeasureDeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, digDown(dir, depth))
	if used := measured(t, dir, noLimit); used.files != depth {
		t.Errorf("%d files in a tree %d deep", used.files, depth)
	}
	if used := measured(t, dir, usage{math.MaxInt64, 100}); used.files < 101 || used.files > 200 {
		t.Errorf("it went on to %d files with a limit of 100", used.files)
	}
	// os.RemoveAll at the end of the test has too few file descriptors for so many levels.
	must.Do(t, overlay.RemoveTree(openTest(t, filepath.Dir(dir)), filepath.Base(dir)))
}

func TestMeasureStops(t *testing.T) {
	t.Parallel()
	wide := t.TempDir()
	for i := range 3000 {
		must.Do(t, os.WriteFile(filepath.Join(wide, strconv.Itoa(i)), nil, 0o600))
	}
	if used := measured(t, wide, usage{math.MaxInt64, 10}); used.files < 11 || used.files > 2500 {
		t.Errorf("it went on to %d files with a limit of 10", used.files)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), 1)
	if _, err := measure(ctx, int(openTest(t, dir).Fd()), noLimit); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled walk: %v", err)
	}
}

// A directory that is moved during the walk has another parent, and the walk must not continue
// there.
func TestMoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	w := &walker{seen: map[uint64]bool{}}
	w.dir = must.Get(openDir(int(openTest(t, dir).Fd()), "a"))(t)
	defer func() { unix.Close(w.dir) }()
	parent := must.Get(identify(int(openTest(t, dir).Fd())))(t)
	must.Do(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(outside, "a")))
	if err := w.up(parent); !errors.Is(err, errHidden) {
		t.Errorf("going up from a directory that was moved: %v", err)
	}
}

// hiddenScene has a directory that its owner cannot read.
func hiddenScene(dir string) error {
	shut := filepath.Join(dir, "shut")
	if err := errors.Join(os.Mkdir(shut, 0o700), os.WriteFile(filepath.Join(shut, "in"), make([]byte, 1<<20), 0o600), os.Chmod(shut, 0)); err != nil {
		return err
	}
	defer func() { _ = os.Chmod(shut, 0o700) }()
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if used, err := measure(context.Background(), int(f.Fd()), noLimit); !errors.Is(err, errHidden) || used.files != 1 {
		return fmt.Errorf("%+v, %w", used, err)
	}
	return nil
}

func TestMeasureHidden(t *testing.T) {
	t.Parallel()
	ordinary(t, "hidden")
}
