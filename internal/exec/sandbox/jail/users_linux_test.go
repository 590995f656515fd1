package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func realPath(t testing.TB, dir string) string {
	t.Helper()
	dir = must.Get(filepath.EvalSymlinks(dir))(t)
	return dir
}

// lowest is the first user of these tests, which no account has.
const lowest = 1_900_005_000

func TestUsers(t *testing.T) {
	t.Parallel()
	u := newUsers(Config{FirstUser: lowest, Users: 2})
	a, errA := u.take()
	b, errB := u.take()
	if errA != nil || errB != nil || a != (User{lowest, lowest}) || b != (User{lowest + 1, lowest + 1}) {
		t.Fatalf("%v %v, %v %v", a, b, errA, errB)
	}
	if _, err := u.take(); reason.Of(err) != reason.SandboxUnavailable {
		t.Errorf("a third user of two: %v", err)
	}
	u.give(a)
	if c, err := u.take(); err != nil || c != a {
		t.Errorf("given back %v, taken %v, %v", a, c, err)
	}
	if d, err := u.take(); reason.Of(err) != reason.SandboxUnavailable {
		t.Errorf("one who was given back once was taken twice: %v, %v", d, err)
	}
	one := &users{one: &User{77, 77}}
	for range 3 {
		if got, err := one.take(); err != nil || got != (User{77, 77}) {
			t.Errorf("the one user: %v, %v", got, err)
		}
	}
	var none *users
	if got, err := none.take(); err != nil || got.UID != os.Geteuid() {
		t.Errorf("an ordinary user's daemon: %v, %v", got, err)
	}
}

// No two concurrent sandboxes have the same user.
func TestUsersAtOnce(t *testing.T) {
	t.Parallel()
	const most = 8
	u := newUsers(Config{FirstUser: lowest, Users: most})
	var taken [most]atomic.Int32
	var workers sync.WaitGroup
	for range most {
		workers.Go(func() {
			for range 200 {
				user, err := u.take()
				if err != nil {
					t.Errorf("as many as there are: %v", err)
					return
				}
				if n := taken[user.UID-lowest].Add(1); n != 1 {
					t.Errorf("%d sandboxes have user %d", n, user.UID)
				}
				taken[user.UID-lowest].Add(-1)
				u.give(user)
			}
		})
	}
	workers.Wait()
}

// A failed sandbox returns its user.
func TestDiscardedPlanHasNoUser(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	m.users = newUsers(Config{FirstUser: lowest, Users: 1})
	for range 2 {
		p := must.Get(m.NewPlan())(t)
		if _, err := m.NewPlan(); reason.Of(err) != reason.SandboxUnavailable { // control
			t.Errorf("the one user twice: %v", err)
		}
		must.Check(t, m.Discard(p))
	}
}

// The number of cached namespaces is limited, and a dropped one is created again.
func TestViewNamespacesAreBounded(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a daemon that is root makes views")
	}
	m := newTestMachine(t, Config{})
	dir := must.Get(OpenDirectory(realPath(t, t.TempDir())))(t)
	defer dir.File.Close()
	const first = 1_900_000_000
	for i := range mostNamespaces + 3 {
		view := must.Get(m.views.view(dir, User{first + i, first + i}, true))(t)
		view.Close()
	}
	if len(m.views.pairs) != mostNamespaces || len(m.views.order) != mostNamespaces {
		t.Errorf("%d namespaces are kept", len(m.views.pairs))
	}
	view := must.Get(m.views.view(dir, User{first, first}, false))(t)
	view.Close()
}

// TestNamespaceOfAView: a stopped helper holds the same kind of namespace as a running one, which
// is the fallback where tracing is forbidden, and both are ended. Control: this process' own
// namespace has another mapping.
func TestNamespaceOfAView(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a daemon that is root makes views")
	}
	m := newTestMachine(t, Config{})
	const mapped = "7 8 1"
	mapping := func(pid int) string {
		text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid)))(t)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	if got := mapping(os.Getpid()); got == mapped {
		t.Fatalf("the control is mapped as %s", got)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, stopped := range []bool{true, false} {
		in, hold, err := os.Pipe()
		must.Do(t, err)
		p := must.Get(m.views.hold(pair{User{7, 7}, User{8, 8}}, in, stopped))(t)
		if got := mapping(p.Pid); got != mapped {
			t.Errorf("stopped %t: the mapping is %s", stopped, got)
		}
		must.Do(t, end(p))
		hold.Close()
		in.Close()
		if _, err = os.Stat(fmt.Sprintf("/proc/%d/ns/user", p.Pid)); err == nil {
			t.Errorf("stopped %t: the helper is left", stopped)
		}
	}
}
