//go:build linux

package attack

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/test/process"
)

// canary is the content of the attacked files.
const canary = "palyra-canary"

// scene is the part of the machine that one run uses, and the files that it must not touch.
type scene struct {
	t         *testing.T
	dir       string
	workspace string
	// outside is a directory that an attack must not change; canary is a file in it.
	outside, canary string
	// args follow the row's own arguments for the probe.
	args []string
	spec sandbox.Spec
	// attacks is the path of the attacking program on the command line.
	attacks string
	// token is among the arguments of processes that must not survive.
	token string

	// site is the scene's part of the world, or nil for a scene without network. A direct scene
	// reaches its servers at their real addresses.
	world  *world
	site   *site
	direct bool
	// words are further words that fill expands.
	words map[string]string
	// shown is the output that was reported while a program with a secret ran.
	shown []byte
}

// newScene creates a workspace with the probe in it, and a canary that every user can write:
// only the sandbox protects it.
func newScene(t *testing.T) *scene {
	t.Helper()
	dir := must.Get(os.MkdirTemp(places.scenes, "scene-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &scene{t: t, dir: dir, workspace: filepath.Join(dir, "work"), outside: filepath.Join(dir, "outside"), token: filepath.Base(dir)}
	c.must(errors.Join(os.Chmod(dir, 0o755), os.Mkdir(c.workspace, 0o755), os.Mkdir(c.outside, 0o755), os.Chmod(c.outside, 0o777)))
	c.canary = c.plant("canary", 0o666)
	c.spec = sandbox.Spec{
		WorkspaceRoot: c.workspace, WorkspaceName: "default", Workspace: sandbox.CopyOnWrite, Owner: "attacker",
		Limits: sandbox.Limits{Wall: patience},
	}
	c.attacker(places.probe)
	return c
}

// attacker puts a program into the workspace and makes it the program that runs.
func (c *scene) attacker(p program) {
	c.attacks = "./" + p.name
	c.spec.Executable = tool.Executable{Path: filepath.Join(c.workspace, p.name), SHA256: p.sha256}
	c.must(os.WriteFile(c.spec.Executable.Path, p.content, 0o755))
}

func (c *scene) must(err error) {
	c.t.Helper()
	must.Do(c.t, err)
}

// plant writes a file with the canary outside of the workspace.
func (c *scene) plant(name string, mode os.FileMode) string {
	c.t.Helper()
	path := filepath.Join(c.outside, name)
	c.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(canary+"\n"), mode), os.Chmod(path, mode)))
	return path
}

func (c *scene) aim() { c.aimAt(c.canary) }

// aimAt adds every name by which a program could reach a path of the host. Without the minimal
// root, the host's root is at /host.
func (c *scene) aimAt(path string) {
	c.args = append(c.args, path, "/host"+path, "/oldroot"+path, "/proc/1/root"+path, "../../../../../../.."+path)
}

// files creates the plain files that some probes change.
func (c *scene) files() {
	c.must(errors.Join(os.WriteFile(filepath.Join(c.workspace, "file"), []byte("text\n"), 0o644), os.Mkdir(filepath.Join(c.workspace, "dir"), 0o755)))
}

// repository makes the workspace a git repository with one commit.
func (c *scene) repository() {
	c.t.Helper()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		cmd := exec.CommandContext(c.t.Context(), "git", append([]string{"-C", c.workspace}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "GIT_CONFIG_NOSYSTEM=1"}
		if text, err := cmd.CombinedOutput(); err != nil {
			c.t.Fatalf("git %v: %v\n%s", args, err, text)
		}
	}
}

// program runs a program of the machine instead of the probe.
func (c *scene) program(argv ...string) {
	c.t.Helper()
	p, err := command.ResolveExecutable(argv[0], command.SearchPath())
	if err != nil {
		c.t.Fatalf("%v; install %s", err, argv[0])
	}
	c.spec.Executable, c.spec.Argv = p.Executable, argv
}

// signalTarget starts a process of palyrad's user that waits for a signal.
func (c *scene) signalTarget() {
	cmd := exec.CommandContext(c.t.Context(), "sleep", "3600")
	c.must(cmd.Start())
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c.args = append(c.args, strconv.Itoa(cmd.Process.Pid))
}

// stray leaves the canary open in palyrad without close-on-exec.
func (c *scene) stray() {
	f, err := os.Open(c.canary)
	c.must(err)
	defer f.Close()
	// The number is above the descriptors that a sandbox starts with, which would replace it.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 128)
	c.must(err)
	c.t.Cleanup(func() { unix.Close(fd) })
}

// service listens on a socket outside, to which every user may connect.
func (c *scene) service(name string) {
	path := filepath.Join(c.outside, name)
	c.must(os.MkdirAll(filepath.Dir(path), 0o755))
	c.listen(path)
	c.aimAt(path)
}

// serviceInside listens on a socket in the workspace itself.
func (c *scene) serviceInside(name string, mode sandbox.WorkspaceMode) {
	path := filepath.Join(c.workspace, name)
	c.must(os.MkdirAll(filepath.Dir(path), 0o755))
	c.listen(path)
	c.spec.Workspace, c.args = mode, []string{"/workspace/" + name}
}

// terminal opens a terminal of the host, which every user may use.
func (c *scene) terminal() {
	master, name := process.OpenTerminal(c.t)
	c.t.Cleanup(func() { _ = master.Close() })
	c.must(os.Chmod(name, 0o666))
	c.args = []string{name, "/host" + name}
}

func (c *scene) listen(path string) *net.UnixListener {
	c.t.Helper()
	// An address holds at most 107 bytes; a path may be longer.
	near := filepath.Join(places.scenes, c.token+".s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: near, Net: "unix"})
	c.must(err)
	l.SetUnlinkOnClose(false)
	c.must(errors.Join(os.Chmod(near, 0o777), os.Rename(near, path)))
	c.t.Cleanup(func() { _ = l.Close() })
	return l
}

// abstract listens on an abstract socket name, which is in no directory.
func (c *scene) abstract() {
	l, err := net.Listen("unix", "@"+c.token)
	c.must(err)
	c.t.Cleanup(func() { _ = l.Close() })
	c.args = []string{c.token}
}

// datagrams receives datagrams at an abstract socket name.
func (c *scene) datagrams() {
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@" + c.token, Net: "unixgram"})
	c.must(err)
	c.t.Cleanup(func() { _ = l.Close() })
	c.args = []string{c.token}
}

// handOut sends a descriptor of the canary to every client.
func (c *scene) handOut() {
	l := c.listen(filepath.Join(c.workspace, "s"))
	c.spec.Workspace = sandbox.ReadOnly
	c.args = []string{"/workspace/s"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			if f, err := os.Open(c.canary); err == nil {
				_, _, _ = conn.WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil)
				f.Close()
			}
			conn.Close()
		}
	}()
	c.t.Cleanup(func() { _ = l.Close(); <-done })
}

// shareFile prepares the names of a file that one run leaves for the next.
func (c *scene) shareFile(dir string) {
	name := filepath.Join(dir, c.token)
	c.t.Cleanup(func() { os.Remove(name) })
	c.args = []string{"/host" + name, name}
}

// sharedMemory removes, at the end, the segment that a run without its own IPC namespace leaves
// on the host.
func (c *scene) sharedMemory() {
	const key = 0x70616c79 // the probe's shmKey
	c.t.Cleanup(func() {
		if id, err := unix.SysvShmGet(key, 0, 0); err == nil {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	})
}

// hijack puts a program into the workspace directory that is in the daemon's PATH, as TestMain
// sets it.
func (c *scene) hijack() {
	name := filepath.Join(c.workspace, "node_modules/.bin/hijacked")
	c.must(errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755)))
}

// snapshot returns all visible state of the files below a directory.
func snapshot(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%o %d:%d %d links %d bytes %d", st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim.Nano())
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " to " + target
		case unix.S_IFREG:
			content, err := fileState(path, st)
			if err != nil {
				return err
			}
			line += " " + content
		}
		all[path] = line
		return nil
	})
	return all, err
}

// fileState returns a file's content, attributes and flags. For a large file, which is the
// probe, it returns only the change time.
func fileState(path string, st unix.Stat_t) (string, error) {
	if st.Size > 1<<20 {
		return fmt.Sprint(st.Ctim.Nano()), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(path, names)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		flags = 0 // the file system has no flags
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x %q %x", sum, names[:max(n, 0)], flags), nil
}

// differences lists the differences between two snapshots.
func differences(was, is map[string]string) string {
	var list []string
	for path, line := range was {
		if is[path] != line {
			list = append(list, fmt.Sprintf("%s was %s, is %s", path, line, is[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[path]; !ok {
			list = append(list, path+" is new: "+is[path])
		}
	}
	return strings.Join(list, "; ")
}
