//go:build unix

package trusted

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// place returns a directory that only this user can write, with a file below two directories.
func place(t *testing.T) (dir, file string) {
	t.Helper()
	dir = must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	file = filepath.Join(dir, "a", "b", "p.cedar")
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Do(t, os.WriteFile(file, []byte("x"), 0o644))
	return dir, file
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// change prepares the case, and returns the path to check.
		change func(t *testing.T, dir, file string) string
		// wants are the texts that the error must contain; none means no error.
		wants []string
	}{
		"as it should be": {func(_ *testing.T, _, file string) string { return file }, nil},
		"a directory":     {func(_ *testing.T, _, file string) string { return filepath.Dir(file) }, nil},
		"a file that everybody writes": {func(t *testing.T, _, file string) string {
			must.Do(t, os.Chmod(file, 0o666))
			return file
		}, []string{"p.cedar has mode 0666", "everybody"}},
		"a directory above that everybody writes": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Chmod(filepath.Join(dir, "a"), 0o777))
			return file
		}, []string{"/a has mode 0777"}},
		"a parent directory with the sticky bit": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Chmod(filepath.Join(dir, "a"), 0o777|os.ModeSticky))
			return file
		}, nil},
		"a directory to which everybody adds files": {func(t *testing.T, _, file string) string {
			must.Do(t, os.Chmod(filepath.Dir(file), 0o777|os.ModeSticky))
			return filepath.Dir(file)
		}, []string{"/b has mode 0777"}},
		"a file of another user": {func(t *testing.T, _, file string) string {
			asRoot(t)
			must.Do(t, os.Chown(file, 54321, -1))
			return file
		}, []string{"belongs to the user 54321"}},
		"a parent directory of another user": {func(t *testing.T, dir, file string) string {
			asRoot(t)
			must.Do(t, os.Chown(filepath.Join(dir, "a"), 54321, -1))
			return file
		}, []string{"/a belongs to the user 54321"}},
		"an unknown group": {func(t *testing.T, _, file string) string {
			asRoot(t)
			must.Do(t, os.Chown(file, -1, 54321))
			must.Do(t, os.Chmod(file, 0o660))
			return file
		}, []string{"the group 54321 may write"}},
		"a link to it": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Symlink(file, filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, nil},
		"a link to what everybody writes": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Chmod(filepath.Join(dir, "a"), 0o777))
			must.Do(t, os.Symlink(file, filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, []string{"/a has mode 0777"}},
		"a link in a directory to which everybody writes": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Mkdir(filepath.Join(dir, "open"), 0o700))
			must.Do(t, os.Chmod(filepath.Join(dir, "open"), 0o777))
			must.Do(t, os.Symlink(file, filepath.Join(dir, "open", "link")))
			return filepath.Join(dir, "open", "link")
		}, []string{"/open has mode 0777"}},
		"a directory behind a link in such a directory": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Mkdir(filepath.Join(dir, "open"), 0o700))
			must.Do(t, os.Chmod(filepath.Join(dir, "open"), 0o777))
			must.Do(t, os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "open", "link")))
			return filepath.Join(dir, "open", "link", "b", "p.cedar")
		}, []string{"/open has mode 0777"}},
		"a link of another user in a directory with the sticky bit": {func(t *testing.T, dir, file string) string {
			return stickyLink(t, dir, file, 54321)
		}, []string{"/open/link is a symbolic link of the user 54321", "chown -h"}},
		"a directory behind a link of another user": {func(t *testing.T, dir, file string) string {
			return filepath.Join(stickyLink(t, dir, filepath.Dir(file), 54321), "p.cedar")
		}, []string{"/open/link is a symbolic link of the user 54321", "chown -h"}},
		"a link of another user behind a link": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Symlink(stickyLink(t, dir, file, 54321), filepath.Join(dir, "first")))
			return filepath.Join(dir, "first")
		}, []string{"/open/link is a symbolic link of the user 54321", "chown -h"}},
		"a link past a directory of another user": {func(t *testing.T, dir, file string) string {
			asRoot(t)
			must.Do(t, os.Mkdir(filepath.Join(dir, "theirs"), 0o755))
			must.Do(t, os.Chown(filepath.Join(dir, "theirs"), 54321, -1))
			must.Do(t, os.Symlink("theirs/../a/b/p.cedar", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, []string{"/theirs belongs to the user 54321"}},
		"a link of this user in a directory with the sticky bit": {func(t *testing.T, dir, file string) string {
			return stickyLink(t, dir, file, os.Geteuid())
		}, nil},
		"a link in a workspace": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
			must.Do(t, os.Symlink(file, filepath.Join(dir, "work", "link")))
			return filepath.Join(dir, "work", "link")
		}, []string{"lies in the workspace"}},
		"a link to itself": {func(t *testing.T, dir, _ string) string {
			must.Do(t, os.Symlink("loop", filepath.Join(dir, "loop")))
			return filepath.Join(dir, "loop")
		}, nil},
		"links of links, as Kubernetes makes them": {func(t *testing.T, dir, _ string) string {
			must.Do(t, os.MkdirAll(filepath.Join(dir, "..2026_11_28"), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(dir, "..2026_11_28", "p.cedar"), nil, 0o644))
			must.Do(t, os.Symlink("..2026_11_28", filepath.Join(dir, "..data")))
			must.Do(t, os.Symlink("..data/p.cedar", filepath.Join(dir, "p.cedar")))
			return filepath.Join(dir, "p.cedar")
		}, nil},
		"a workspace": {func(t *testing.T, dir, _ string) string {
			inside := filepath.Join(dir, "work", "p")
			must.Do(t, os.MkdirAll(filepath.Dir(inside), 0o755))
			must.Do(t, os.WriteFile(inside, nil, 0o644))
			return inside
		}, []string{"lies in the workspace"}},
		"a link into a workspace": {func(t *testing.T, dir, _ string) string {
			inside := filepath.Join(dir, "work", "p")
			must.Do(t, os.MkdirAll(filepath.Dir(inside), 0o755))
			must.Do(t, os.WriteFile(inside, nil, 0o644))
			must.Do(t, os.Symlink(inside, filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, []string{"lies in the workspace"}},
		"a workspace behind a link": {func(t *testing.T, dir, file string) string {
			must.Do(t, os.Symlink(filepath.Dir(file), filepath.Join(dir, "work")))
			return file
		}, []string{"lies in the workspace"}},
		"next to a workspace with a longer name": {func(t *testing.T, dir, _ string) string {
			beside := filepath.Join(dir, "work-of-others")
			must.Do(t, os.WriteFile(beside, nil, 0o644))
			return beside
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, file := place(t)
			path := c.change(t, dir, file)
			resolved, err := Check(path, []string{filepath.Join(dir, "work")})
			if name == "a link to itself" {
				if err == nil || errors.Is(err, ErrUntrusted) {
					t.Errorf("%v", err)
				}
				return
			}
			if len(c.wants) == 0 {
				if want := must.Get(filepath.EvalSymlinks(path))(t); err != nil || resolved != want {
					t.Errorf("%q, %v", resolved, err)
				}
				return
			}
			if !errors.Is(err, ErrUntrusted) || reason.Of(err) != reason.ConfigInvalid {
				t.Fatalf("%v", err)
			}
			var known *reason.Error
			errors.As(err, &known)
			for _, want := range append(c.wants, dir) {
				if !strings.Contains(err.Error()+known.Remedy, want) {
					t.Errorf("%v (%s) lacks %q", err, known.Remedy, want)
				}
			}
			if known.Remedy == "" {
				t.Error("it does not say what to do")
			}
		})
	}
	if _, err := Check(filepath.Join(t.TempDir(), "none"), nil); err == nil || errors.Is(err, ErrUntrusted) {
		t.Errorf("what is not there: %v", err)
	}
}

// stickyLink returns a user's link in a directory that everybody can write, such as /tmp.
func stickyLink(t *testing.T, dir, target string, uid int) (link string) {
	t.Helper()
	if uid != os.Geteuid() {
		asRoot(t)
	}
	open := filepath.Join(dir, "open")
	must.Do(t, os.Mkdir(open, 0o700))
	must.Do(t, os.Chmod(open, 0o777|os.ModeSticky))
	link = filepath.Join(open, "link")
	must.Do(t, os.Symlink(target, link))
	must.Do(t, os.Lchown(link, uid, -1))
	return link
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
}

func TestPrivateGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, groups := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	must.Do(t, os.WriteFile(users, []byte("root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\ncyd:x:1002:50::/:\nbroken\n"), 0o600))
	must.Do(t, os.WriteFile(groups, []byte("root:x:0:\nann:x:1000:\nours:x:1001:\nstaff:x:50:ann\nteam:x:60:ann,bob\nmine:x:70:ann,root\nempty:x:80:\nbroken\n"), 0o600))
	for gid, want := range map[uint32]bool{
		1000: true,
		0:    false, 70: false, 80: false, 1001: false, 50: false, 60: false, 90: false,
	} {
		if got := alone(gid, 1000, groups, users); got != want {
			t.Errorf("ann is alone in the group %d: %v", gid, got)
		}
	}
	if !alone(0, 0, groups, users) || alone(20, 501, groups, users) {
		t.Error("root's own group is not, or one of a user that the file does not have is")
	}
	if alone(1000, 1000, groups+".none", users) {
		t.Error("without the file of groups, nobody is known to be alone")
	}
}
