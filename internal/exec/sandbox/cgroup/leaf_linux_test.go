package cgroup

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// leafMark makes this binary move into a leaf of its group, which delegates the controller that
// the variable names. It prints the result, and lives until its input ends.
const leafMark = "TEST_PALYRA_LEAF"

func leafMain(controller string) int {
	err := moveToLeaf(ownGroups()[""], controller)
	for name, known := range map[string]error{"shared": errShared, "foreign": errForeign} {
		if errors.Is(err, known) {
			err = errors.New(name)
		}
	}
	if err == nil {
		err = errors.New("moved")
	}
	_, _ = os.Stdout.WriteString(err.Error() + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

// unified creates a group of the unified hierarchy that has a controller.
func unified(t *testing.T, name string) (dir, controller string) {
	t.Helper()
	top := ownGroups()[""]
	offered := strings.Fields(readFile(filepath.Join(top, "cgroup.controllers")))
	if top == "" || len(offered) == 0 {
		t.Skip("there is no unified hierarchy with a controller")
	}
	controller = offered[0]
	if !handsDown(top, controller) {
		if err := writeFile(filepath.Join(top, "cgroup.subtree_control"), "+"+controller); err != nil {
			t.Skipf("the own group hands down no controller: %v", err)
		}
		t.Cleanup(func() { must.Check(t, writeFile(filepath.Join(top, "cgroup.subtree_control"), "-"+controller)) })
	}
	dir = filepath.Join(top, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no group can be made: %v", err)
	}
	t.Cleanup(func() { must.Check(t, removeDir(dir)) })
	return dir, controller
}

// bornIn starts a process in a group and returns the first line of its output.
func bornIn(t *testing.T, dir string, cmd *exec.Cmd) (said string) {
	t.Helper()
	group := must.Get(os.Open(dir))(t)
	defer group.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return strings.TrimSpace(must.Get(bufio.NewReader(out).ReadString('\n'))(t))
}

func leafCommand(controller string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{leafMark + "=" + controller}
	return cmd
}

// A group with processes cannot delegate controllers. The daemon makes room for its runs by
// moving into a leaf of its own group.
//
// Not parallel: it changes the controllers that the process's group delegates.
func TestMoveToLeaf(t *testing.T) {
	dir, controller := unified(t, "palyra-test-leaf")
	t.Cleanup(func() { must.Check(t, removeDir(filepath.Join(dir, leafName))) })
	daemon := leafCommand(controller)
	if said := bornIn(t, dir, daemon); said != "moved" {
		t.Fatalf("the daemon says %q", said)
	}
	if got := pids(readFile(filepath.Join(dir, leafName, "cgroup.procs"))); !slices.Equal(got, []int{daemon.Process.Pid}) {
		t.Errorf("in the leaf are %v", got)
	}
	if !handsDown(dir, controller) {
		t.Error("the group hands down nothing")
	}
	run := filepath.Join(dir, "run")
	must.Do(t, os.Mkdir(run, 0o755))
	if !offers(run, controller) {
		t.Error("a run beside the daemon has no controller")
	}
	must.Do(t, removeDir(run))
	if got := unifiedCandidates(filepath.Join(dir, leafName)); !slices.Contains(got, dir) {
		t.Errorf("from the leaf groups are made in %v", got)
	}
}

// A daemon with other processes in its group stays, and the attempt leaves no changes.
//
// Not parallel: it changes the controllers that the process's group delegates.
func TestSharedGroupIsKept(t *testing.T) {
	dir, controller := unified(t, "palyra-test-shared")
	other := exec.Command("sh", "-c", "echo up; read x")
	bornIn(t, dir, other)
	daemon := leafCommand(controller)
	if said := bornIn(t, dir, daemon); said != "shared" {
		t.Errorf("the daemon says %q", said)
	}
	if got := pids(readFile(filepath.Join(dir, "cgroup.procs"))); !slices.Contains(got, daemon.Process.Pid) || exists(filepath.Join(dir, leafName)) {
		t.Errorf("in the group are %v; there is a leaf: %t", got, exists(filepath.Join(dir, leafName)))
	}
}

// Root could write to a unit that systemd has not delegated, but must not.
//
// Not parallel: it changes the controllers that the process's group delegates.
func TestForeignUnit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user can write to no such unit")
	}
	dir, controller := unified(t, "palyra-test.service")
	if said := bornIn(t, dir, leafCommand(controller)); said != "foreign" || exists(filepath.Join(dir, leafName)) {
		t.Errorf("the daemon says %q", said)
	}
}

// The daemon may leave a group that systemd did not delegate if the group belongs to a login
// session. It may not leave a service, or a group with a limit that would not apply elsewhere.
func TestMayLeave(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	group := func(dir, limit string) string {
		for at := filepath.Join(top, dir); at != top; at = filepath.Dir(at) {
			must.Do(t, os.MkdirAll(at, 0o755))
			must.Do(t, os.WriteFile(filepath.Join(at, "cgroup.procs"), nil, 0o600))
		}
		if file, value, ok := strings.Cut(limit, "="); ok {
			must.Do(t, os.WriteFile(filepath.Join(top, file), []byte(value+"\n"), 0o600))
		}
		return filepath.Join(top, dir)
	}
	for _, c := range []struct {
		dir, limit string
		want       error
	}{
		{"user.slice/user-0.slice/session-3.scope", "", nil},
		{"user.slice/user-1.slice/user@1.service/app.slice/term.scope", "", nil},
		{"user.slice/user-2.slice/session-4.scope", "user.slice/user-2.slice/memory.max=1000", nil}, // applies in the scope as well
		{"user.slice/user-3.slice/session-5.scope", "user.slice/user-3.slice/session-5.scope/memory.max=max", nil},
		{"user.slice/user-4.slice/session-6.scope", "user.slice/user-4.slice/session-6.scope/memory.max=1000", errLimited},
		{"user.slice/user-5.slice/session-7.scope", "user.slice/user-5.slice/session-7.scope/memory.high=1000", errLimited},
		{"user.slice/user-6.slice/user@6.service/small.scope/below", "user.slice/user-6.slice/user@6.service/small.scope/memory.max=1000", errLimited},
		{"system.slice/palyrad.service", "", errForeign},
		{"system.slice/other.service/below", "", errForeign},
		{"user.slice/user-7.slice/user@7.service/app.slice/mine.service", "", errForeign},
	} {
		if got := mayLeave(group(c.dir, c.limit)); !errors.Is(got, c.want) {
			t.Errorf("%s with %q: %v, want %v", c.dir, c.limit, got, c.want)
		}
	}
}

func TestSliceOf(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		"/c/user.slice/user-0.slice/session-3.scope": "user-0.slice", "/c/system.slice/palyrad.service": "system.slice", "/c/docker/abc": "",
	} {
		if got := sliceOf(dir); got != want {
			t.Errorf("%s lies in %q, want %q", dir, got, want)
		}
	}
}
