package jail

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/reason"
)

func realPath(t testing.TB, dir string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestUsers(t *testing.T) {
	u := newUsers(Config{FirstUser: 5000, Users: 2})
	a, errA := u.take()
	b, errB := u.take()
	if errA != nil || errB != nil || a != (User{5000, 5000}) || b != (User{5001, 5001}) {
		t.Fatalf("%v %v, %v %v", a, b, errA, errB)
	}
	if _, err := u.take(); reason.Of(err) != reason.SandboxUnavailable {
		t.Errorf("a third user of two: %v", err)
	}
	u.give(a)
	if c, err := u.take(); err != nil || c != a {
		t.Errorf("given back %v, taken %v, %v", a, c, err)
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

// The number of namespaces that are kept is bounded, and one that was let go
// is made again.
func TestViewNamespacesAreBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon that is root makes views")
	}
	m := newTestMachine(t, Config{})
	dir, err := OpenDirectory(realPath(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.File.Close()
	for i := range mostNamespaces + 3 {
		view, err := m.View(dir, User{DefaultFirstUser + i, DefaultFirstUser + i}, true)
		if err != nil {
			t.Fatal(err)
		}
		view.Close()
	}
	if len(m.views.pairs) != mostNamespaces || len(m.views.order) != mostNamespaces {
		t.Errorf("%d namespaces are kept", len(m.views.pairs))
	}
	view, err := m.View(dir, User{DefaultFirstUser, DefaultFirstUser}, false)
	if err != nil {
		t.Fatal(err)
	}
	view.Close()
}

// A mark that is sealed cannot be changed by who reads it.
func TestMemoryFilesAreSealed(t *testing.T) {
	f, err := DataFile("spec", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("a sealed file was written to")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("a sealed file was cut")
	}
	open, err := newMemory("open", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := open.Write([]byte("x")); err != nil { // control
		t.Error(err)
	}
}
