package overlay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// insideEnv makes the test binary the first process of a user namespace that mounts a layer and
// works in it. Its value is "lower\nupper\nwork\nmountpoint".
const insideEnv = "TEST_PALYRA_OVERLAY"

func TestMain(m *testing.M) {
	if dirs := os.Getenv(insideEnv); dirs != "" {
		if err := inside(strings.Split(dirs, "\n"), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if args := os.Getenv(committerEnv); args != "" {
		if err := committer(strings.Split(args, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inside mounts the overlay, performs the actions in args, and prints the resulting tree.
func inside(dirs, args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", dirs[0], dirs[1], dirs[2])
	if err := unix.Mount("overlay", dirs[3], "overlay", 0, data); err != nil {
		return fmt.Errorf("mounting the overlay: %w; it needs user namespaces and Linux 5.11", err)
	}
	if err := os.Chdir(dirs[3]); err != nil {
		return err
	}
	switch args[0] {
	case "sh", "quiet":
		cmd := exec.Command("sh", "-euc", args[1])
		cmd.Stderr = os.Stderr
		cmd.Env = gitEnv()
		if out, err := cmd.Output(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	case "random":
		if err := scramble(".", args[1], args[2]); err != nil {
			return err
		}
	}
	if args[0] == "quiet" {
		_, err := fmt.Println("{}") // the tree is not readable
		return err
	}
	tree, err := treeOf(".")
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(tree)
}

func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), canaryEnv + "=" + os.Getenv(canaryEnv), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "LC_ALL=C",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}
}

// tree maps paths, in hexadecimal, to entries.
type tree map[string]string

func treeOf(root string) (tree, error) {
	all := tree{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			what, err = os.Readlink(name)
		case info.Mode().IsRegular():
			var content []byte
			content, err = os.ReadFile(name)
			what += " " + canonical.Digest(content)
		}
		rel, _ := filepath.Rel(root, name)
		all[fmt.Sprintf("%x", rel)] = what
		return err
	})
	return all, err
}

func mustTree(t *testing.T, root string) tree {
	t.Helper()
	return must.Get(treeOf(root))(t)
}

// differences describes the differences between two trees.
func differences(want, got tree) string {
	var b strings.Builder
	for name, what := range want {
		if got[name] != what {
			fmt.Fprintf(&b, "%s: want %q, got %q\n", unhex(name), what, got[name])
		}
	}
	for name, what := range got {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&b, "%s: want nothing, got %q\n", unhex(name), what)
		}
	}
	return b.String()
}

func unhex(name string) string {
	raw, _ := bytesOf("", name)
	return fmt.Sprintf("%q", raw)
}

// world is a workspace with a layer and a history.
type world struct {
	t       *testing.T
	root    string
	canary  string // outside the workspace; the target of test links that lead out
	layer   *Layer
	history History
	ids     int
}

// newWorld returns a world whose workspace a shell script has filled.
func newWorld(t *testing.T, script string) *world {
	t.Helper()
	w := &world{t: t, root: filepath.Join(t.TempDir(), "workspace")}
	must.Do(t, os.Mkdir(w.root, 0o755))
	w.canary = newCanary(t, filepath.Dir(w.root))
	w.outside(script)
	w.history = History{Dir: filepath.Join(t.TempDir(), "undo")}
	w.renew()
	return w
}

// canaryEnv is the variable with the path of the world's canary for scripts.
const canaryEnv = "CANARY"

// newCanary creates a file outside the test's directories, and fails the test if the file was
// changed. Links that lead outside point to a canary, never to a file of the machine, because
// these tests run as root and provoke writes that follow links.
func newCanary(t testing.TB, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "canary")
	must.Do(t, os.WriteFile(name, []byte("canary\n"), 0o600))
	before := must.Get(os.Lstat(name))(t)
	t.Cleanup(func() {
		content, err := os.ReadFile(name)
		if err != nil || string(content) != "canary\n" {
			t.Errorf("the canary outside has %q (%v)", content, err)
			return
		}
		if after, err := os.Lstat(name); err != nil || after.Mode() != before.Mode() || !os.SameFile(before, after) {
			t.Errorf("the canary outside was replaced: %v (%v)", after, err)
		}
	})
	return name
}

// outside runs a shell script in the workspace, without the overlay.
func (w *world) outside(script string) {
	w.t.Helper()
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir, cmd.Env = w.root, append(gitEnv(), canaryEnv+"="+w.canary)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// renew replaces the layer of the workspace with an empty one.
func (w *world) renew(more ...func(*Config)) {
	w.t.Helper()
	c := Config{Root: w.root, Name: "ws", Dir: w.t.TempDir(), UID: -1, GID: -1}
	for _, m := range more {
		m(&c)
	}
	l := must.Get(New(c))(w.t)
	w.t.Cleanup(func() { must.Check(w.t, l.Close()) })
	w.layer = l
}

// inside performs actions in the overlay and returns the tree that the kernel showed.
func (w *world) inside(args ...string) tree {
	w.t.Helper()
	needs.Programs(w.t) // the process mounts
	must.Do(w.t, w.layer.Begin())
	cmd := exec.Command(os.Args[0], args...)
	// A binary with the race detector sleeps a second before it ends.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", canaryEnv+"="+w.canary, insideEnv+"="+strings.Join([]string{w.root, w.layer.Upper().Name(), w.layer.Work().Name(), w.t.TempDir()}, "\n"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("working in the overlay (enable unprivileged user namespaces): %v: %s", err, stderr.String())
	}
	var shown tree
	must.Do(w.t, json.Unmarshal(out, &shown))
	return shown
}

func (w *world) changes() Set {
	w.t.Helper()
	return must.Get(w.layer.Changes(w.t.Context()))(w.t)
}

func (w *world) options() Options {
	w.ids++
	return Options{History: w.history, ID: fmt.Sprintf("set-%d", w.ids), CallID: "call-1", Principal: "agent:a", At: time.Unix(1_700_000_000+int64(w.ids), 0)}
}

func (w *world) commit(set Set) Applied {
	w.t.Helper()
	applied := must.Get(w.layer.Commit(w.t.Context(), set, w.options()))(w.t)
	if applied.Left != nil {
		w.t.Fatal(applied.Left)
	}
	return applied
}

// classesOf maps paths to classes.
func classesOf(set Set) map[string]string {
	all := map[string]string{}
	for _, c := range set.Changes {
		all[c.Path] = joinClasses(c.Classes)
	}
	return all
}

// whiteoutAt marks a name as deleted, like the overlay does.
func whiteoutAt(t testing.TB, name string) {
	t.Helper()
	must.Do(t, unix.Mknod(name, unix.S_IFCHR, 0))
}

func sum(text string) string { return canonical.Digest([]byte(text)) }

// write creates a file and its directories.
func (w *world) write(top, name, content string) {
	w.t.Helper()
	full := filepath.Join(top, name)
	must.Do(w.t, os.MkdirAll(filepath.Dir(full), 0o755))
	must.Do(w.t, os.WriteFile(full, []byte(content), 0o644))
}
