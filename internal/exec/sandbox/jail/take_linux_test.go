package jail

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/inside"
)

// TestDescriptorsOfTheHelper: the notifier of a filter reaches the daemon in both ways, and only
// the daemon's way depends on a permission.
func TestDescriptorsOfTheHelper(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	for _, pass := range []bool{false, true} {
		i := inside.Inner{Dir: "/", NoNewPrivs: true, Pass: pass}
		h := startHelper(t, m, inside.StageInner, specFile(t, inside.Spec{Inner: i}))
		h.order(inside.Order{Self: true, Argv: []string{helperName}, Cwd: "/", Filter: true})
		report, fds, err := receive(h.control, 1)
		if err != nil || len(fds) != 1 || !report.Watched || len(report.Files) == 0 != pass {
			t.Fatalf("sent %t: %+v, %d descriptors, %v", pass, report, len(fds), err)
		}
		link := must.Get(os.Readlink(SelfPath(fds[0])))(t)
		flags := must.Get(unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0))(t)
		if link != "anon_inode:seccomp notify" || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("sent %t: the descriptor is %s with the flags %#x", pass, link, flags)
		}
		closeDescriptors(fds)
		h.end()
	}
}

// TestTakeRefuses: descriptors are taken only from a process that still holds the control socket,
// and all of them or none.
//
// Not parallel: it counts the open file descriptors of the process.
func TestTakeRefuses(t *testing.T) {
	mine, theirs, err := controlPair()
	must.Do(t, err)
	defer mine.Close()
	before, self := count(t), os.Getpid()
	taken := must.Get(take(mine, self, []int{0, 1}, 2))(t) // control
	if closeDescriptors(taken); len(taken) != 2 {
		t.Errorf("%d of 2 descriptors", len(taken))
	}
	const missing = 1 << 20
	for name, numbers := range map[string][]int{"one missing": {0, missing}, "too many": {0, 1, 2}} {
		if fds, err := take(mine, self, numbers, 2); err == nil || fds != nil {
			t.Errorf("%s: %v, %v", name, fds, err)
		}
	}
	theirs.Close()
	if fds, err := take(mine, self, []int{0}, 2); err == nil || fds != nil {
		t.Errorf("from a process that may be another one: %v, %v", fds, err)
	}
	if after := count(t); after != before-1 {
		t.Errorf("%d descriptors stay open", after-before+1)
	}
	if refused := takeError(unix.EPERM); reason.Of(refused) != reason.SandboxUnavailable || reason.Known(refused, reason.Internal).NextStep() == "" {
		t.Errorf("a refusal by a security module: %v", refused)
	}
}

// TestTracing: the rule for each combination of ptrace(2) and Yama.
func TestTracing(t *testing.T) {
	t.Parallel()
	alone, namespace := &Plan{}, &Plan{Attr: syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}}
	bubblewrap := &Plan{Arguments: []string{"--unshare-user"}}
	for _, row := range []struct {
		t    tracing
		p    *Plan
		root bool
		want bool
	}{
		{tracing{takes: true}, alone, false, true},
		{tracing{takes: true, yama: 1}, alone, false, true},
		{tracing{takes: true, yama: 2}, alone, false, false},
		{tracing{takes: true, yama: 2}, namespace, false, true},
		{tracing{takes: true, yama: 2}, bubblewrap, false, true},
		{tracing{takes: true, yama: 3}, namespace, false, false},
		{tracing{takes: true, yama: 3, capable: true}, namespace, true, false},
		{tracing{takes: true, yama: 2, capable: true}, alone, true, true},
		{tracing{takes: true}, namespace, true, false},
		{tracing{capable: true}, namespace, true, false},
	} {
		if got := row.t.permits(row.p, row.root); got != row.want {
			t.Errorf("%+v, namespaces %#x, root %t: %t", row.t, row.p.Attr.Cloneflags, row.root, got)
		}
	}
}
