package disk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// only is a program with the given processes.
func only(pids ...int) Program {
	return Program{Processes: func() []int { return pids }, Dir: "/workspace"}
}

// TestWritten: the writes to files count, and a process that has ended counts nothing. Writes to
// pipes count only if the file system does not account its writes.
func TestWritten(t *testing.T) {
	t.Parallel()
	const none = 1 << 30 // above every pid
	dir := storage(t)
	// The shell waits for both programs, and accounts for them.
	cmd := exec.Command("sh", "-c", "head -c 4194304 /dev/zero | cat >/dev/null; head -c 1048576 /dev/zero >file; echo; read end")
	cmd.Dir = dir
	end, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer func() { end.Close(); _ = cmd.Wait() }()
	must.Get(out.Read(make([]byte, 1)))(t)
	program := only(cmd.Process.Pid, none)
	if got := written(program, true); got < mib || got > 2*mib {
		t.Errorf("%d bytes for a file of a MiB", got)
	}
	if got := written(program, false); got < 9*mib || got == unlimited { // control
		t.Errorf("%d bytes with those to the pipes", got)
	}
	if got := written(only(none), true); got != 0 { // control
		t.Errorf("no process has written %d bytes", got)
	}
	for text, want := range map[string]int64{"rchar: 1\nwchar: 25\n": 25, "rchar: 1\n": -1, "wchar: x\n": -1, "": -1} {
		if got := field([]byte(text), "wchar"); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// storage is a directory of a file system whose writes the kernel accounts.
func storage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if !accounts(int(openTest(t, dir).Fd())) {
		t.Skip("the file system of temporary files does not account writes")
	}
	return dir
}

// TestAccounts: the writes to a tmpfs are not accounted.
func TestAccounts(t *testing.T) {
	t.Parallel()
	memory := must.Get(unix.MemfdCreate("memory", unix.MFD_CLOEXEC))(t)
	defer unix.Close(memory)
	if accounts(memory) || accounts(-1) {
		t.Error("writes to memory, or to an unknown file system, are accounted")
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

// TestRemovedProgram: a run whose program was removed is not charged with the space that others use.
// It is charged with what it has written, and with all missing space if that is unknown or the
// reserve is in use.
func TestRemovedProgram(t *testing.T) {
	t.Parallel()
	cat := must.Get(exec.LookPath("cat"))(t)
	for _, c := range []struct {
		name  string
		write int // in MiB
		disks func(*Meter, *disks)
		want  bool
	}{
		{name: "others write", write: 1},
		{name: "the run writes", write: 80, want: true},
		{name: "unknown", disks: func(m *Meter, _ *disks) { m.accounted = false }, want: true},
		{name: "the reserve is in use", disks: func(_ *Meter, d *disks) { d.state.bytes = mostReserve / 2 }, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := storage(t)
			program := filepath.Join(dir, "program")
			// Another test that forks while this process writes the program would make it busy.
			must.Do(t, exec.Command("cp", cat, program).Run())
			out := must.Get(os.Create(filepath.Join(dir, "out")))(t)
			defer out.Close()
			cmd := exec.Command(program)
			cmd.Args[0], cmd.Stdout = "cat", out
			in := must.Get(cmd.StdinPipe())(t)
			must.Do(t, cmd.Start())
			defer func() { in.Close(); _ = cmd.Wait() }()
			must.Do(t, os.Remove(program))
			must.Get(in.Write(make([]byte, c.write*mib)))(t) // all but the content of the pipe is read

			m, d, _ := fakeMeter(t, sandbox.Limits{Disk: 64 * mib})
			m.program, m.accounted = Program{Processes: only(cmd.Process.Pid).Processes, Dir: dir}, true
			if c.disks != nil {
				c.disks(m, d)
			}
			for range leastHidden - 1 {
				d.layer.bytes -= gib
				if m.Over(t.Context()) {
					t.Fatal("the run is over its limit before the file has been hidden for long")
				}
			}
			d.layer.bytes -= gib
			if got := m.Over(t.Context()); got != c.want {
				t.Errorf("over: %t; known %+v", got, m.known)
			}
		})
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
