//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// execution is one `palyrad sandbox exec` that is killed.
type execution struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

// sandboxExec returns a command of palyrad with its temporary files in dir. The user is an ordinary
// one, or the test's own.
func sandboxExec(dir string, user *syscall.SysProcAttr, args ...string) *execution {
	e := &execution{cmd: exec.Command(filepath.Join(programs, "palyrad"), append([]string{"sandbox", "exec"}, args...)...)}
	e.cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir}
	e.cmd.Dir, e.cmd.Stdout, e.cmd.Stderr, e.cmd.SysProcAttr = dir, &e.out, &e.out, user
	return e
}

// killRunning starts the command and kills it when its program has printed a line.
func (e *execution) killRunning(t *testing.T) (pid int) {
	t.Helper()
	e.cmd.Stdout = nil
	says := must.Get(e.cmd.StdoutPipe())(t)
	must.Do(t, e.cmd.Start())
	line, err := bufio.NewReader(says).ReadString('\n')
	if must.Do(t, e.cmd.Process.Kill()); err != nil {
		t.Fatalf("the program printed %q, %v: %s", line, err, &e.out)
	}
	_ = e.cmd.Wait()
	return e.cmd.Process.Pid
}

// kill starts the command and kills it after some time.
func (e *execution) kill(t *testing.T, after time.Duration) (pid int) {
	t.Helper()
	must.Do(t, e.cmd.Start())
	timer := time.AfterFunc(after, func() { _ = e.cmd.Process.Kill() })
	defer timer.Stop()
	_ = e.cmd.Wait()
	return e.cmd.Process.Pid
}

// runGroups lists the control groups of runs on the machine.
func runGroups() (groups []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "palyra-") {
			groups = append(groups, path)
		}
		return nil // groups of other runs come and go
	})
	return groups
}

// leftOf lists what killed processes left: directories in dir, control groups by process that are
// not among the earlier ones (an earlier process may have had the same pid), mounts in dir, and
// processes with the token.
func leftOf(t *testing.T, dir, token string, pids []int, earlier []string) (left []string) {
	t.Helper()
	for _, entry := range must.Get(os.ReadDir(dir))(t) {
		if entry.Name() != "workspace" {
			left = append(left, "the directory "+entry.Name())
		}
	}
	for _, group := range runGroups() {
		of := func(pid int) bool { return strings.HasPrefix(filepath.Base(group), fmt.Sprintf("palyra-%d-", pid)) }
		if slices.ContainsFunc(pids, of) && !slices.Contains(earlier, group) {
			left = append(left, "the group "+group)
		}
	}
	if strings.Contains(string(must.Get(os.ReadFile("/proc/self/mounts"))(t)), dir) {
		left = append(left, "a mount in "+dir)
	}
	lines := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, line := range lines {
		if text, err := os.ReadFile(line); err == nil && strings.Contains(string(text), token) {
			left = append(left, fmt.Sprintf("the process %s: %q", filepath.Base(filepath.Dir(line)), text))
		}
	}
	return left
}

// TestKilledExecLeavesNothing kills `palyrad sandbox exec` at many moments, from its start until
// after the end of its program. After the next one, or after the next start of a gateway, nothing
// of it is left.
func TestKilledExecLeavesNothing(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	must.Do(t, os.Chmod(programs, 0o755))
	const moments, apart = 12, 15 * time.Millisecond
	for name, next := range map[string]func(t *testing.T, dir string, user *syscall.SysProcAttr){
		"the next exec": func(t *testing.T, dir string, user *syscall.SysProcAttr) {
			e := sandboxExec(dir, user, "--", "true")
			if err := e.cmd.Run(); err != nil {
				t.Fatalf("%v: %s", err, &e.out)
			}
		},
		"the next gateway": func(t *testing.T, dir string, _ *syscall.SysProcAttr) {
			g := newGateway(t)
			g.Env = []string{"TMPDIR=" + dir}
			g.Start()
			g.Stop()
		},
	} {
		for _, user := range []*syscall.SysProcAttr{nil, {Credential: &syscall.Credential{Uid: 31337, Gid: 31337}}} {
			if user != nil && (os.Geteuid() != 0 || name == "the next gateway") {
				continue // only root starts processes of another user, and a gateway sweeps for its own user
			}
			t.Run(fmt.Sprintf("%s, another user %t", name, user != nil), func(t *testing.T) {
				t.Parallel()
				dir := must.Get(os.MkdirTemp("/tmp", "palyra-e2e-killed-"))(t)
				t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
				workspace := filepath.Join(dir, "workspace")
				must.Do(t, os.Mkdir(workspace, 0o755))
				if user != nil {
					must.Do(t, os.Chown(dir, 31337, 31337))
					must.Do(t, os.Chown(workspace, 31337, 31337))
				}
				token := "killed-" + filepath.Base(dir)
				var pids []int
				earlier := runGroups()
				start := func(program string) *execution {
					return sandboxExec(dir, user, "--workspace", workspace, "--cow", "--", "sh", "-c", "echo text >file; "+program+" # "+token)
				}
				for n := range moments {
					pids = append(pids, start("exec sleep 0.05").kill(t, time.Duration(n+1)*apart))
				}
				pids = append(pids, start("echo running; exec sleep 60").killRunning(t))
				// Control: before the next start, something is left.
				if left := leftOf(t, dir, token, pids, earlier); len(left) == 0 {
					t.Error("nothing was left to remove")
				}
				next(t, dir, user)
				must.Eventually(t, "nothing is left", func() (bool, string) {
					left := leftOf(t, dir, token, pids, earlier)
					return len(left) == 0, strings.Join(left, "\n")
				})
			})
		}
	}
}
