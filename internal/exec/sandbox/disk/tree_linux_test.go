package disk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// childDir makes this binary run a scene in a directory, as another user or in a separate mount
// namespace.
const (
	childDir   = "TEST_PALYRA_DIR"
	childScene = "TEST_PALYRA_SCENE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := scenes[os.Getenv(childScene)](dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// scenes run in a separate process.
var scenes = map[string]func(dir string) error{
	"hostile": func(dir string) error {
		if err := plant(dir); err != nil {
			return err
		}
		return sweepTree(dir)
	},
	"hidden": hiddenScene,
	"mount":  mountScene,
}

// ordinary runs a scene as an ordinary user.
func ordinary(t *testing.T, scene string) {
	t.Helper()
	sys := &syscall.SysProcAttr{}
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		const user = 31337
		sys.Credential = &syscall.Credential{Uid: user, Gid: user}
		for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
			must.Do(t, os.Chmod(parent, 0o755))
		}
		must.Do(t, os.Chown(dir, user, user))
	}
	play(t, scene, dir, sys)
}

func play(t *testing.T, scene, dir string, sys *syscall.SysProcAttr) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "disk.test")
	content := must.Get(os.ReadFile("/proc/self/exe"))(t)
	must.Do(t, os.WriteFile(program, content, 0o755))
	for parent := filepath.Dir(program); parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		must.Do(t, os.Chmod(parent, 0o755))
	}
	cmd := exec.Command(program)
	cmd.Dir = "/"
	cmd.Env = []string{childDir + "=" + dir, childScene + "=" + scene}
	cmd.SysProcAttr = sys
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// canary is the content of the files outside the tree to which its links point.
const canary = "untouched"

// depth exceeds the longest path: each level has ten letters.
const depth = 1000

// swept is the name of a tree whose daemon is dead, because no process has that ID.
const swept = "4194305-1-layer"

// plant creates a tree in dir like a hostile program might leave it, and canaries outside it.
func plant(dir string) error {
	tree := filepath.Join(dir, swept)
	outside := filepath.Join(dir, "outside")
	for _, name := range []string{tree, outside} {
		if err := os.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(outside, canary), []byte(canary), 0o600); err != nil {
		return err
	}
	steps := []error{
		os.Symlink(outside, filepath.Join(tree, "out")),
		os.Symlink(filepath.Join(outside, canary), filepath.Join(tree, "file")),
		os.Symlink("..", filepath.Join(tree, "up")),
		os.Link(filepath.Join(outside, canary), filepath.Join(tree, "hard")),
		unix.Mkfifo(filepath.Join(tree, "fifo"), 0),
		unix.Mknod(filepath.Join(tree, "whiteout"), unix.S_IFCHR, 0),
	}
	for n, name := range []string{"new\nline", "\x1b[2J", "\xff\xfe", "-rf", " ", strings.Repeat("x", 255), "1", "2", "palyra-1-1"} {
		sub := filepath.Join(tree, name)
		steps = append(steps, os.Mkdir(sub, 0o700))
		for i := range 3 {
			steps = append(steps, os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), nil, 0))
		}
		// Directories without permissions for their owner, with content.
		shut := filepath.Join(sub, "shut")
		steps = append(steps, os.MkdirAll(filepath.Join(shut, "in", "further"), 0o700), os.Symlink(outside, filepath.Join(shut, "out")),
			os.Chmod(filepath.Join(shut, "in"), 0), os.Chmod(shut, []os.FileMode{0, 0o100, 0o400, 0o500, 0o600}[n%5]))
	}
	for _, err := range steps {
		if err != nil {
			return err
		}
	}
	if err := digDown(tree, depth); err != nil {
		return err
	}
	return os.Chmod(tree, 0)
}

// digDown creates a chain of directories.
func digDown(dir string, levels int) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for range levels {
		if err := unix.Mkdirat(fd, "ten.letter", 0o700); err != nil {
			return err
		}
		next, err := unix.Openat(fd, "ten.letter", unix.O_PATH|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			return err
		}
		fd = next
	}
	return unix.Close(fd)
}

func openTest(t *testing.T, name string) *os.File {
	t.Helper()
	f := must.Get(os.Open(name))(t)
	t.Cleanup(func() { f.Close() })
	return f
}
