package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func asReason(err error, target **reason.Error) bool { return errors.As(err, target) }

func TestReadFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "a", "f.txt"), "0123456789")
	tests := []struct {
		offset, limit int64
		want          string
	}{{0, -1, "0123456789"}, {0, 3, "012"}, {4, 3, "456"}, {8, 9, "89"}, {10, 5, ""}, {99, 5, ""}, {3, 0, ""}}
	for _, test := range tests {
		c := must.Get(w.root.ReadFile(context.Background(), "a/f.txt", test.offset, test.limit))(t)
		if string(c.Data) != test.want || c.SHA256 != canonical.Digest([]byte("0123456789")) || c.Info.Size != 10 || c.Info.Path != "a/f.txt" {
			t.Errorf("%d, %d: %+v", test.offset, test.limit, c)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.root.ReadFile(ctx, "a/f.txt", 0, -1); reason.Of(err) != reason.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestReadRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "f"), "x")
	tests := map[string]reason.Code{
		"none": reason.FileNotFound, "none/below": reason.FileNotFound, "f/below": reason.FileNotFound, ".": reason.ToolFailed,
		"../outside/secret": reason.WorkspaceScope, "a/../../outside/secret": reason.FileNotFound, "..": reason.WorkspaceScope,
		"/etc/passwd": reason.WorkspaceScope, "f\x00": reason.InvalidUTF8, "\xff": reason.InvalidUTF8,
		strings.Repeat("a", 5000): reason.InvalidInput, strings.Repeat("a", 300): reason.InvalidInput,
	}
	for name, want := range tests {
		if _, err := w.root.ReadFile(context.Background(), name, 0, -1); reason.Of(err) != want {
			t.Errorf("%.40q: got %v (%v), want %s", name, reason.Of(err), err, want)
		} else if strings.Contains(err.Error(), w.inside) {
			t.Errorf("the error shows the absolute path: %v", err)
		}
	}
}

func TestHugeFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := filepath.Join(w.inside, "huge")
	write(t, name, "")
	must.Do(t, os.Truncate(name, MaxFile+1))
	if _, err := w.root.ReadFile(context.Background(), "huge", 0, 10); reason.Of(err) != reason.InputTooLarge {
		t.Errorf("got %v", err)
	}
}

func TestWalkIsOrderedAndDoesNotFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"b/2", "b/1", "a", "c/d/e", ".x"} {
		write(t, filepath.Join(w.inside, name), "")
	}
	must.Do(t, os.Symlink("..", filepath.Join(w.inside, "b", "up")))
	var got []string
	err := w.root.Walk(context.Background(), ".", func(i Info) error {
		got = append(got, i.Path+" "+string(i.Kind))
		if i.Path == "c/d" {
			return ErrSkipDir
		}
		return nil
	})
	want := []string{".x file", "a file", "b dir", "b/1 file", "b/2 file", "b/up symlink", "c dir", "c/d dir"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	n := 0
	err = w.root.Walk(context.Background(), "", func(Info) error { n++; return ErrStop })
	if err != nil || n != 1 {
		t.Errorf("stop: %d, %v", n, err)
	}
}

// A link that replaced a checked directory is not followed.
func TestWalkGoesThroughNoLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "judged", "a"), "")
	write(t, filepath.Join(w.inside, "other", "b"), "")
	names := func(dir string) (list []string, err error) {
		err = w.root.Walk(context.Background(), dir, func(i Info) error { list = append(list, i.Path); return nil })
		return list, err
	}
	if got, err := names("judged"); err != nil || !slices.Equal(got, []string{"judged/a"}) { // control
		t.Errorf("got %v, %v", got, err)
	}
	must.Do(t, os.Rename(filepath.Join(w.inside, "judged"), filepath.Join(w.inside, "away")))
	must.Do(t, os.Symlink("other", filepath.Join(w.inside, "judged")))
	if got, err := names("judged"); reason.Of(err) != reason.WorkspaceScope || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

// apply makes changes after it has resolved their paths, like a caller does for the check.
func apply(w world, changes ...Change) ([]Applied, error) {
	for i, c := range changes {
		real, err := w.root.Target(c.Path)
		if err != nil {
			return nil, err
		}
		changes[i].Path = real
	}
	return w.root.Apply(context.Background(), changes)
}

func digest(s string) string { return canonical.Digest([]byte(s)) }

func TestApplyWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "old"), "old")
	must.Do(t, os.Chmod(filepath.Join(w.inside, "old"), 0o750))
	write(t, filepath.Join(w.inside, "gone"), "gone")
	yes := true
	got := must.Get(apply(w,
		Change{Path: "new/deep/file", Content: []byte("new")},
		Change{Path: "old", Was: digest("old"), Content: []byte("changed")},
		Change{Path: "gone", Was: digest("gone"), Delete: true},
		Change{Path: "run.sh", Content: []byte("#!/bin/sh\n"), Executable: &yes},
	))(t)
	want := []Applied{
		{Path: "new/deep/file", Is: digest("new")}, {Path: "old", Was: digest("old"), Is: digest("changed")},
		{Path: "gone", Was: digest("gone")}, {Path: "run.sh", Is: digest("#!/bin/sh\n")},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	if read(t, filepath.Join(w.inside, "new/deep/file")) != "new" || read(t, filepath.Join(w.inside, "old")) != "changed" {
		t.Error("the content is not there")
	}
	modes := map[string]os.FileMode{"old": 0o750, "new/deep/file": 0o644, "run.sh": 0o755}
	for name, want := range modes {
		info, err := os.Stat(filepath.Join(w.inside, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.inside, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the deleted file is there")
	}
	noLeftovers(t, w.inside)
}

func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(p), TemporaryPrefix) {
			t.Errorf("left behind: %s", p)
		}
		return err
	})
	must.Check(t, err)
}

func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "a"), "a")
	write(t, filepath.Join(w.inside, "c"), "c")
	_, err := apply(w,
		Change{Path: "a", Was: digest("a"), Content: []byte("A")},
		Change{Path: "made/b", Content: []byte("b")},
		Change{Path: "c", Was: digest("not c"), Content: []byte("C")},
	)
	if reason.Of(err) != reason.PatchConflict {
		t.Errorf("got %v", err)
	}
	if read(t, filepath.Join(w.inside, "a")) != "a" || read(t, filepath.Join(w.inside, "c")) != "c" {
		t.Error("something was written")
	}
	if _, err := os.Stat(filepath.Join(w.inside, "made")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory that was made is still there")
	}
	noLeftovers(t, w.inside)
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.inside, "f"), "f")
	write(t, filepath.Join(w.inside, "dir", "x"), "x")
	tests := []struct {
		name   string
		change Change
		want   reason.Code
	}{
		{"exists", Change{Path: "f"}, reason.PatchConflict},
		{"other content", Change{Path: "f", Was: digest("g")}, reason.PatchConflict},
		{"is gone", Change{Path: "g", Was: digest("g")}, reason.PatchConflict},
		{"delete nothing", Change{Path: "g", Delete: true}, reason.FileNotFound},
		{"a directory", Change{Path: "dir"}, reason.ToolFailed},
		{"below a file", Change{Path: "f/x"}, reason.FileNotFound},
		{"outside", Change{Path: "../outside/new"}, reason.WorkspaceScope},
		{"absolute", Change{Path: "/tmp/x"}, reason.WorkspaceScope},
		{"protected", Change{Path: ".git/hooks/pre-commit"}, reason.ProtectedPath},
		{"protected in other case", Change{Path: ".GIT/config"}, reason.ProtectedPath},
		{"newline", Change{Path: "a\nb"}, reason.InvalidInput},
		{"escape", Change{Path: "a\x1b[2Jb"}, reason.InvalidInput},
		{"bidi", Change{Path: "a\u202eb"}, reason.InvalidInput},
		{"zero width", Change{Path: "a\u200bb"}, reason.InvalidInput},
		{"line separator", Change{Path: "a\u2028b"}, reason.InvalidInput},
		{"NUL", Change{Path: "a\x00b"}, reason.InvalidUTF8},
		{"invalid UTF-8", Change{Path: "a\xffb"}, reason.InvalidUTF8},
		{"the workspace", Change{Path: "."}, reason.InvalidInput},
		{"no name", Change{Path: ""}, reason.InvalidInput},
		{"slash at the end", Change{Path: "new/"}, reason.InvalidInput},
		{"our own names", Change{Path: TemporaryPrefix + "x"}, reason.InvalidInput},
		{"too large", Change{Path: "big", Content: make([]byte, MaxFile+1)}, reason.InputTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := apply(w, test.change); reason.Of(err) != test.want {
				t.Errorf("got %v (%v), want %s", reason.Of(err), err, test.want)
			}
		})
	}
	if _, err := apply(w, Change{Path: "n"}, Change{Path: "dir/../n"}); reason.Of(err) != reason.InvalidInput {
		t.Errorf("twice: %v", err)
	}
	noLeftovers(t, w.inside)
	ro := *w.root
	ro.declaration.ReadOnly = true
	if _, err := ro.Apply(context.Background(), []Change{{Path: "n"}}); reason.Of(err) != reason.WorkspaceScope {
		t.Errorf("read-only: %v", err)
	}
}
