package reasontest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// fewFilesVariable marks the child process of FewFiles.
const fewFilesVariable = "TEST_PALYRA_OUT_OF_FILES"

// FewFiles runs the calling test in a child process, which may lower its limit of open files.
// It returns true in the child and false in the parent, which MUST return then.
func FewFiles(t *testing.T) bool {
	t.Helper()
	if os.Getenv(fewFilesVariable) != "" {
		return true
	}
	program, err := os.Executable()
	must.Do(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), fewFilesVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v:\n%s", err, out)
	}
	return false
}

// SweepFiles calls do with no free file descriptor, then with one, two and so on, until it
// succeeds, which MUST happen before there are most. Each failure must return the remedy for
// the limit.
func SweepFiles(t *testing.T, name string, limit uint64, most int, do func() (next string, ok bool)) {
	t.Helper()
	for free := range most {
		restore := leaveFiles(t, limit, free)
		next, ok := do()
		restore()
		switch {
		case ok && free == 0:
			t.Errorf("%s needs no file: the limit is not in force", name)
			return
		case ok:
			return
		case !strings.Contains(next, "LimitNOFILE"):
			t.Errorf("%s with %d files left says next: %q", name, free, next)
		}
	}
	t.Errorf("%s does not succeed with %d files left", name, most)
}

// leaveFiles lowers the limit and opens files until only free descriptors are left.
func leaveFiles(t *testing.T, limit uint64, free int) (restore func()) {
	t.Helper()
	do := func(err error) {
		must.Do(t, err)
	}
	var old unix.Rlimit
	do(unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	do(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}))
	var taken []int
	for {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		do(err)
		taken = append(taken, fd)
	}
	for range min(free, len(taken)) {
		do(unix.Close(taken[0]))
		taken = taken[1:]
	}
	return func() {
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		do(unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	}
}
