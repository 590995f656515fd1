package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// only is a program with the given processes.
func only(pids ...int) Program {
	return Program{Processes: func() []int { return pids }, Dir: "/workspace"}
}

// TestWritten: what processes write counts, and a process that has ended counts nothing. Unknown
// figures count as unlimited.
func TestWritten(t *testing.T) {
	t.Parallel()
	const none = 1 << 30 // above every pid
	before := written(only(os.Getpid(), none))
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	defer f.Close()
	must.Get(f.Write(make([]byte, mib)))(t)
	if after := written(only(os.Getpid(), none)); before < 0 || after < before+mib || after == unlimited {
		t.Errorf("%d bytes before a MiB, %d after it", before, after)
	}
	if got := written(only(none)); got != 0 { // control
		t.Errorf("no process has written %d bytes", got)
	}
	for text, want := range map[string]int64{"rchar: 1\nwchar: 25\n": 25, "rchar: 1\n": -1, "wchar: x\n": -1, "": -1} {
		if got := field([]byte(text), "wchar"); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestUnlinkedElsewhere: removed files of other file systems than a copy of a workspace do not
// count, and neither do files with a name. The tests of package bubblewrap have the others.
func TestUnlinkedElsewhere(t *testing.T) {
	t.Parallel()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	defer f.Close()
	write(t, f.Name(), mib)
	must.Do(t, os.Remove(f.Name()))
	used, err := unlinked(t.Context(), only(os.Getpid()), noLimit)
	if used != (usage{}) || err != nil && !errors.Is(err, errHidden) { // other tests of this process may use sockets
		t.Errorf("%+v, %v", used, err)
	}
}

// TestCarries: a socket holds descriptors until they are received.
func TestCarries(t *testing.T) {
	t.Parallel()
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer func() { unix.Close(pair[0]); unix.Close(pair[1]) }()
	info := func() bool { return carries(filepath.Join("/proc/self/fdinfo", strconv.Itoa(pair[1]))) }
	if info() { // control
		t.Error("an empty socket carries descriptors")
	}
	must.Do(t, unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(0), nil, 0))
	if !info() {
		t.Error("a socket with a descriptor carries none")
	}
}
