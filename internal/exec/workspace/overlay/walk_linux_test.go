package overlay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestRemoveTree removes hostile trees: deeper than PATH_MAX, directories without permissions,
// names of any bytes, whiteouts, links out, many files.
func TestRemoveTree(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	canary := filepath.Join(top, "canary")
	must.Do(t, os.WriteFile(canary, []byte("x"), 0o644))
	tree := filepath.Join(top, "tree")
	must.Do(t, os.MkdirAll(filepath.Join(tree, "closed", "in"), 0o755))
	at := must.Get(unix.Open(tree, unix.O_DIRECTORY, 0))(t)
	name := strings.Repeat("d", 200)
	for range 60 { // 12,000 bytes of path
		must.Do(t, errors.Join(unix.Mkdirat(at, name, 0o755), unix.Symlinkat(top, at, "out"), unix.Mknodat(at, "w", unix.S_IFCHR, 0), unix.Mkfifoat(at, "p", 0)))
		next := must.Get(unix.Openat(at, name, unix.O_DIRECTORY, 0))(t)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	for i := range 10_000 {
		must.Do(t, os.WriteFile(filepath.Join(tree, fmt.Sprintf("\xff\n%d", i)), nil, 0))
	}
	for _, closed := range []string{"closed/in", "closed"} {
		must.Do(t, os.Chmod(filepath.Join(tree, closed), 0))
	}
	dir := must.Get(os.Open(top))(t)
	defer dir.Close()
	for range 2 { // the second call finds no tree
		must.Do(t, RemoveTree(dir, "tree"))
	}
	left, err := os.ReadDir(top)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v (%v)", left, err)
	}
	if got := read(t, canary); got != "x" {
		t.Errorf("the canary is %q", got)
	}
	must.Do(t, os.Symlink(top, filepath.Join(top, "link")))
	if err := RemoveTree(dir, "link"); err != nil || read(t, canary) != "x" {
		t.Errorf("a link was followed (%v)", err)
	}
}

// TestBounds verifies that change sets which are too large, too deep or endless are refused.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		set    func(*Config)
	}{
		"files":        {`for i in $(seq 20); do : >f$i; done`, func(c *Config) { c.MaxFiles = 10 }},
		"deleted":      {`rm -r old`, func(c *Config) { c.MaxFiles = 10 }},
		"bytes":        {`head -c 2000 /dev/zero >f`, func(c *Config) { c.MaxBytes = 1000 }},
		"sparse giant": {`truncate -s 1T f`, func(*Config) {}},
		"depth":        {`for i in $(seq 140); do mkdir d; cd d; done`, func(*Config) {}},
		"path":         {`n=$(printf '%0200d' 0); top=$PWD; mkdir x; cd x; for i in $(seq 12); do mkdir $n; cd $n; done; cd $top; for i in $(seq 12); do mkdir $n; cd $n; done; mv $top/x .`, func(*Config) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, `mkdir old; for i in $(seq 20); do : >old/f$i; done`)
			w.renew(test.set)
			w.inside("quiet", test.script)
			if _, err := w.layer.Changes(t.Context()); reason.Of(err) != reason.QuotaExceeded {
				t.Errorf("got %v", err)
			}
		})
	}
	w := newWorld(t, `:`)
	w.inside("sh", `echo 1 >f`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.layer.Changes(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestNoChange verifies that unchanged files are ignored: operands that were put into the layer
// before the run, and files that differ only in their times.
func TestNoChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo 1 >f; mkdir d; echo 2 >d/g; ln -s f l`)
	up := w.layer.Upper().Name()
	must.Do(t, os.WriteFile(filepath.Join(up, "f"), []byte("1\n"), 0o644))
	w.inside("sh", `touch d/g d; echo x >new; rm new; chmod 600 d/g; chmod 644 d/g; touch -h l; cat f`)
	if set := w.changes(); len(set.Changes) != 0 {
		t.Errorf("changes: %q", classesOf(set))
	}
}

// TestClosedFiles verifies that files which a program made unreadable are committed with their
// modes.
func TestClosedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `:`)
	w.inside("quiet", `mkdir -p d/e; echo 1 >d/e/f; echo 2 >g; chmod 0 d/e/f g; chmod 0 d/e; chmod 0 d`)
	set := w.changes()
	if again := w.changes(); again.Root() != set.Root() {
		t.Error("looking twice gives two change sets")
	}
	w.commit(set)
	for name, want := range map[string]os.FileMode{"g": 0, "d": os.ModeDir} {
		info, err := os.Stat(filepath.Join(w.root, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, want %v (%v)", name, info.Mode(), want, err)
		}
	}
	w.outside(`chmod 700 d; chmod 700 d/e; chmod 600 d/e/f g`)
	if read(t, w.root, "d/e/f") != "1\n" || read(t, w.root, "g") != "2\n" {
		t.Error("the content is another")
	}
}

// TestRootIsRecomputable computes the digest according to docs/format/changeset.md.
func TestRootIsRecomputable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo old >f; echo 1 >gone`)
	w.inside("sh", "echo new >f; rm gone; ln -s f l; mkdir d; printf x >\"$(printf 'n\\377')\"")
	text := `[{"kind":"added","mode":"0755","path":"d","type":"dir"},` +
		`{"is":"` + sum("new\n") + `","kind":"modified","mode":"0644","path":"f","size":4,"type":"file","was":"` + sum("old\n") + `","was_mode":"0644","was_size":4,"was_type":"file"},` +
		`{"kind":"deleted","path":"gone","was":"` + sum("1\n") + `","was_mode":"0644","was_size":2,"was_type":"file"},` +
		`{"is":"` + sum("f") + `","kind":"added","path":"l","target":"f","type":"symlink"},` +
		`{"class":["name"],"is":"` + sum("x") + `","kind":"added","mode":"0644","path_hex":"6eff","size":1,"type":"file"}]`
	set := w.changes()
	if got := set.Root(); got != sum(text) {
		t.Errorf("the root is not the digest of %s: %+v", text, set.Changes)
	}
	f := set.Facts()
	if f.Added != 3 || f.Modified != 1 || f.Deleted != 1 || f.Bytes != 5 || len(f.Protected) != 1 || f.Protected[0] != `"n\xff"` || f.Classes[0] != "name" {
		t.Errorf("facts: %+v", f)
	}
}

// TestDiff verifies that a diff has protected changes first, in git's form, and states the
// omitted part.
func TestDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo a >a; echo 'all: b' >Makefile; echo x >s; ln -s a l; mkdir gone`)
	w.inside("sh", `echo b >a; echo 'all: evil' >Makefile; head -c 10 /dev/zero >bin; ln -sf "$CANARY" l; chmod 755 s; rm -r gone; echo new >n; head -c 2000000 /dev/urandom >big`)
	set := w.changes()
	diff := set.Diff(64 << 10)
	for _, want := range []string{
		"# protected: Makefile (runner)\ndiff --git a/Makefile b/Makefile\n--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-all: b\n+all: evil\n", "Binary files /dev/null and b/bin differ",
		"-a\n\\ No newline at end of file\n+" + w.canary + "\n", "old mode 100644\nnew mode 100755\n", "# directory gone is removed\n", "new file mode 100644\n--- /dev/null\n+++ b/n\n",
		"# big: 0 bytes, then 2000000 bytes; not shown\n",
	} {
		if !strings.Contains(diff, want) {
			t.Errorf("no %q in\n%s", want, diff)
		}
	}
	if strings.Index(diff, "evil") > strings.Index(diff, "a/a") || strings.Index(diff, w.canary) > strings.Index(diff, "a/a") {
		t.Errorf("protected changes are not first:\n%s", diff)
	}
	short := set.Diff(100)
	if len(short) > 250 || !strings.Contains(short, "more changes are not shown") {
		t.Errorf("%d bytes: %s", len(short), short)
	}
}

// TestOrdinaryUser runs this package's tests again as an ordinary user if they run as root,
// because permissions differ.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	dir := must.Get(os.MkdirTemp("", "overlay"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	binary := filepath.Join(dir, "test")
	content := must.Get(os.ReadFile(os.Args[0]))(t)
	// A concurrently forked process would inherit the open file, and the binary could not be
	// started (ETXTBSY, execve(2)).
	syscall.ForkLock.RLock()
	err := os.WriteFile(binary, content, 0o755)
	syscall.ForkLock.RUnlock()
	if err = errors.Join(err, os.Mkdir(filepath.Join(dir, "tmp"), 0o755), os.Chmod(dir, 0o755), os.Chown(filepath.Join(dir, "tmp"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.short", "-test.run", "TestGit|TestCommitIs|TestClosed|TestMarks|TestRemoveTree|TestUndo|TestHardLink|TestNoChange")
	cmd.Env, cmd.Dir = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp")), dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
