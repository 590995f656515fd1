//go:build linux

package checks

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a system of its own: a copy of a minimal Debian, whose processes have their own
// namespaces. Its process 1 is this program (see runInit). All its processes and mounts end with
// the case.
type machine struct {
	t *testing.T
	// root is the root directory, as the tests see it.
	root string
	pid  int
}

// newMachine starts a machine on a copy of a root directory. The copy is an overlay, except for
// /var/lib: palyrad's own overlays, which are in its state directory, cannot be on another one.
func newMachine(t *testing.T, from string) *machine {
	t.Helper()
	dir := must(os.MkdirTemp(runDir, "machine-"))(t)
	do(t, os.Chmod(dir, 0o755))
	m := &machine{t: t, root: filepath.Join(dir, "root")}
	t.Cleanup(func() { do(t, os.RemoveAll(dir)) })
	for _, name := range []string{"root", "upper", "work"} {
		do(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	run(t, "cp", "-a", filepath.Join(from, "var/lib"), dir).succeeds(t)
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", from, filepath.Join(dir, "upper"), filepath.Join(dir, "work"))
	m.mount("overlay", m.root, "overlay", 0, options)
	m.mount(filepath.Join(dir, "lib"), m.path("/var/lib"), "", syscall.MS_BIND, "")
	m.start()
	return m
}

// mount mounts a file system until the case ends.
func (m *machine) mount(source, target, kind string, flags uintptr, options string) {
	m.t.Helper()
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		m.t.Fatalf("mounting %s: %v", target, err)
	}
	m.t.Cleanup(func() { do(m.t, syscall.Unmount(target, syscall.MNT_DETACH)) })
}

func (m *machine) start() {
	m.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"machine-init", m.root}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL, Setpgid: true,
	}
	stdout := must(cmd.StdoutPipe())(m.t)
	do(m.t, cmd.Start())
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // by the kill
	})
	m.pid = cmd.Process.Pid
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		m.t.Fatalf("starting a machine: %q, %v", line, err)
	}
	run(m.t, "nsenter", "--target", strconv.Itoa(m.pid), "--net", "ip", "link", "set", "lo", "up").succeeds(m.t)
}

// command returns a command in the machine, as root, in a process group of its own.
func (m *machine) command(args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--ipc", "--uts", "--root", "--wd=/", "--", "/usr/bin/env", "-i",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	cmd := exec.CommandContext(m.t.Context(), "nsenter", append(enter, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a command in the machine as root.
func (m *machine) run(args ...string) result {
	m.t.Helper()
	return outcome(m.t, m.command(args...))
}

// as returns the words that run a command as a user.
func as(user string, args ...string) []string {
	home := "/home/" + user
	if user == "palyra" {
		home = "/var/lib/palyra"
	}
	return append([]string{"setpriv", "--reuid", user, "--regid", user, "--init-groups", "env", "HOME=" + home}, args...)
}

// dpkg installs files of this system with dpkg. Without syncing each file, a case is faster.
func (m *machine) dpkg(action string, names ...string) result {
	m.t.Helper()
	args := []string{"dpkg", "--force-unsafe-io", action}
	for _, name := range names {
		if filepath.IsAbs(name) {
			name = m.lend(name)
			defer os.Remove(m.path(name))
		}
		args = append(args, name)
	}
	return m.run(args...)
}

// lend copies a file into the machine's /tmp and returns its name there.
func (m *machine) lend(name string) string {
	m.t.Helper()
	inside := filepath.Join("/tmp", filepath.Base(name))
	in := must(os.Open(name))(m.t)
	defer in.Close()
	out := must(os.Create(filepath.Join(m.root, inside)))(m.t)
	must(io.Copy(out, in))(m.t)
	do(m.t, out.Close())
	do(m.t, os.Chmod(out.Name(), 0o644))
	return inside
}

// path returns the name of a machine's file for the tests.
func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// write creates a file of root in the machine.
func (m *machine) write(name, text string, mode os.FileMode) {
	m.t.Helper()
	do(m.t, os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
	writeFile(m.t, m.path(name), text, mode)
}

func (m *machine) read(name string) string {
	m.t.Helper()
	return string(must(os.ReadFile(m.path(name)))(m.t))
}

func (m *machine) exists(name string) bool {
	_, err := os.Lstat(m.path(name))
	return err == nil
}

// programs returns the command lines of palyra's processes in the machine.
func (m *machine) programs() []string {
	m.t.Helper()
	var found []string
	names := must(filepath.Glob(fmt.Sprintf("/proc/%d/root/proc/[0-9]*/cmdline", m.pid)))(m.t)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it ended
		}
		line := strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
		if strings.HasPrefix(filepath.Base(strings.Split(line, " ")[0]), "palyra") {
			found = append(found, line)
		}
	}
	return found
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what func() string, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("after 30 s: not %s", what())
		case <-tick.C:
		}
	}
}

// lendLibraries copies the shared libraries of a program of this system into the machine.
func (m *machine) lendLibraries(program string) {
	m.t.Helper()
	path := must(exec.LookPath(program))(m.t)
	for line := range strings.Lines(run(m.t, "ldd", path).succeeds(m.t).out) {
		if _, rest, ok := strings.Cut(line, "=> /"); ok {
			name := "/" + strings.Fields(rest)[0]
			run(m.t, "cp", "-L", name, m.path("/usr/lib/"+filepath.Base(name))).succeeds(m.t)
		}
	}
}
