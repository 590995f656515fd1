package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// daemonMark makes this binary act as a daemon with a run in progress.
const daemonMark = "TEST_PALYRA_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(daemonMark) != "" {
		os.Exit(daemonMain())
	}
	if controller := os.Getenv(leafMark); controller != "" {
		os.Exit(leafMain(controller))
	}
	if view := os.Getenv(viewMark); view != "" {
		os.Exit(viewMain(view))
	}
	if os.Getenv(firstMark) != "" {
		os.Exit(onFirstThread(firstMain))
	}
	code := m.Run()
	tree := Find()
	if left := remains(tree, prefix+tree.mark); len(left) > 0 {
		fmt.Println("left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// daemonMain starts a run with a group below its own, prints the name of the group, and lives
// until its input ends.
func daemonMain() int {
	t := Find()
	g, err := t.Start(sandbox.Limits{})
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	for _, dir := range g.distinct() {
		if err := os.MkdirAll(filepath.Join(dir, "below", "further"), 0o755); err != nil {
			fmt.Println("error:", err)
			return 1
		}
	}
	p, err := launch(g, "sleep 3600 & setsid sleep 3600 & wait")
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(g.Name(), p.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// aDaemon starts another process with a run in progress.
func aDaemon(t *testing.T) (cmd *exec.Cmd, group string, pid int) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = []string{daemonMark + "=1", "PATH=" + os.Getenv("PATH")}
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	if _, err := fmt.Sscanf(line, "%s %d", &group, &pid); err != nil {
		t.Fatalf("the daemon said %q", line)
	}
	return cmd, group, pid
}

// newTree skips the test if no group can be created. TestRlimit then covers the level Rlimit.
func newTree(t testing.TB) *Tree {
	t.Helper()
	tree := Find()
	if tree.Level() == Rlimit {
		t.Skip("this machine lets nobody make control groups with memory and pids; run as root, or in a systemd unit with Delegate=yes")
	}
	tree.endWait = 2 * must.Patience // a busy machine may be slow, but the wait is limited
	t.Cleanup(func() { must.Check(t, tree.Close()) })
	return tree
}

// remains returns the directories with this name prefix, in every hierarchy.
func remains(tree *Tree, name string) []string {
	var list []string
	for _, p := range tree.sweepDirs {
		found, _ := filepath.Glob(filepath.Join(p.dir, name+"*"))
		list = append(list, found...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// newGroup returns a group, and verifies at the end of the test that the group is removed.
func newGroup(t testing.TB, tree *Tree, limits sandbox.Limits) *Group {
	t.Helper()
	g := must.Get(tree.Start(limits))(t)
	t.Cleanup(func() {
		must.Check(t, g.End())
		must.Check(t, g.Close())
	})
	return g
}

// launch starts a shell in the groups.
func launch(g *Group, script string) (*os.Process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.Enter(); err != nil {
		return nil, err
	}
	sys := &syscall.SysProcAttr{}
	if g.Dir() != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, int(g.Dir().Fd())
	}
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}, Sys: sys})
	if err := g.Leave(); err != nil {
		return nil, err
	}
	return p, err
}

// mustLaunch starts a shell in the groups, and kills and reaps it at the end of the test.
func mustLaunch(t testing.TB, g *Group, script string) *os.Process {
	t.Helper()
	p := must.Get(launch(g, script))(t)
	t.Cleanup(func() {
		g.Kill()
		_, _ = p.Wait()
	})
	return p
}

// threadGroups returns the groups of the calling thread, as the kernel reports them.
func threadGroups() string { return readFile("/proc/thread-self/cgroup") }

func inside(name string) bool { return strings.Contains(threadGroups(), name) }
